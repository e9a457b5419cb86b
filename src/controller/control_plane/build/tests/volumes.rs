//! The volumes of coderd.

use super::super::fixtures::ControlPlane;
use serde_json::{Value, json};

fn secret_volume(name: &str, secret: &str) -> Value {
    json!({"name": name, "secret": {"secretName": secret}})
}

/// Path and key of every mount.
fn mounted(given: &ControlPlane) -> Vec<(String, String)> {
    let container = given.container();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let mounts = container["volumeMounts"].as_array().unwrap();
    mounts.iter().map(|mount| (text(&mount["mountPath"]), text(&mount["subPath"]))).collect()
}

fn with_certs(certs: &[(&str, &str)]) -> ControlPlane {
    let secrets: Vec<Value> = certs.iter().map(|(name, key)| json!({"name": name, "key": key})).collect();
    ControlPlane::test().with("certs", json!({ "secrets": secrets }))
}

#[test]
fn a_pod_that_mounts_nothing_says_nothing_about_it() {
    assert!(ControlPlane::test().pod().get("volumes").is_none());
    assert!(ControlPlane::test().container().get("volumeMounts").is_none());
}

#[test]
fn every_certificate_is_mounted_once_at_its_folder() {
    let given = ControlPlane::test().with_tls(&["my.tls.secret", " coder-tls ", "coder-tls", ""]);
    let volumes = json!([
        secret_volume("tls-my-tls-secret-6a72c9df", "my.tls.secret"),
        secret_volume("tls-coder-tls", "coder-tls"),
    ]);
    assert_eq!(given.pod()["volumes"], volumes);
    let mount = |name: &str, secret: &str| json!({"name": name, "mountPath": format!("/etc/ssl/certs/coder/{secret}"), "readOnly": true});
    let mounts =
        json!([mount("tls-my-tls-secret-6a72c9df", "my.tls.secret"), mount("tls-coder-tls", "coder-tls")]);
    assert_eq!(given.container()["volumeMounts"], mounts);
}

#[test]
fn every_authority_is_a_file_among_those_coderd_trusts() {
    let given = with_certs(&[("company-ca", "ca.crt"), ("other.crt", "x.pem")]);
    let volumes = json!([
        secret_volume("ca-cert-company-ca", "company-ca"),
        secret_volume(
            &crds::names::control_plane::secret_volume(
                crds::names::control_plane::SecretVolume::CaCert,
                "other.crt"
            ),
            "other.crt"
        ),
    ]);
    assert_eq!(given.pod()["volumes"], volumes);
    let mount = json!({
        "name": "ca-cert-company-ca", "mountPath": "/etc/ssl/certs/company-ca.crt", "subPath": "ca.crt", "readOnly": true,
    });
    assert_eq!(given.container()["volumeMounts"][0], mount);
    assert_eq!(mounted(&given)[1], ("/etc/ssl/certs/other.crt".to_owned(), "x.pem".to_owned()));
}

#[test]
fn files_of_authorities_are_told_apart() {
    let paths = |certs: &[(&str, &str)]| -> Vec<String> {
        mounted(&with_certs(certs)).into_iter().map(|(path, _)| path.replace("/etc/ssl/certs/", "")).collect()
    };
    assert_eq!(paths(&[("a", "x"), ("a", "y.crt")]), ["a-x.crt", "a-y.crt"]);
    assert_eq!(paths(&[("a", "x"), ("a", "x"), (" a ", " x ")]), ["a-x.crt"], "listed twice, taken once");
    assert_eq!(paths(&[("a", "k"), ("a.crt", "k")]), ["a.crt", "a-2.crt"]);
    assert_eq!(paths(&[("a-2", "k"), ("a", "k"), ("a.crt", "k")]), ["a-2.crt", "a.crt", "a-3.crt"]);
    let one_volume = with_certs(&[("a", "x"), ("a", "y")]).pod();
    assert_eq!(one_volume["volumes"], json!([secret_volume("ca-cert-a", "a")]));
}

#[test]
fn what_the_spec_adds_comes_last_and_stands_where_names_meet() {
    let volumes = json!([{"name": "cache", "emptyDir": {}}, {"name": "tls-a", "emptyDir": {}}]);
    let mounts = json!([{"name": "cache", "mountPath": "/cache"}, {"name": "cache", "mountPath": "/etc/ssl/certs/coder/a"}]);
    let given = ControlPlane::test()
        .with_tls(&["a", "b"])
        .with("volumes", volumes.clone())
        .with("volumeMounts", mounts.clone());
    let pod = given.pod();
    assert_eq!(pod["volumes"], json!([secret_volume("tls-b", "b"), volumes[0], volumes[1]]));
    let own = json!({"name": "tls-b", "mountPath": "/etc/ssl/certs/coder/b", "readOnly": true});
    assert_eq!(pod["containers"][0]["volumeMounts"], json!([own, mounts[0], mounts[1]]));
}
