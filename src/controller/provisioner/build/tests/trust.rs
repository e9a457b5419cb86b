//! How daemons trust a control plane that serves HTTPS.

use super::super::fixtures::Provisioner;
use crate::controller::attached::attachment::ControlPlaneFacts;
use serde_json::{Value, from_value, json};

#[test]
fn certificates_are_mounted_and_private_keys_are_not() {
    let given = Provisioner::test().of_tls_control_plane(&["coder-tls", "my.tls"]);
    let source = |secret: &str| {
        let item = |key: &str| json!({"key": key, "path": format!("{secret}-{key}")});
        json!({"secret": {"name": secret, "items": [item("ca.crt"), item("tls.crt")], "optional": true}})
    };
    let projected = json!({"sources": [source("coder-tls"), source("my.tls")]});
    let volume = json!({"name": "control-plane-certificates", "projected": projected});
    assert_eq!(given.pod()["volumes"], json!([volume]));
    let folder = "/etc/ssl/certs/control-plane";
    let mount = json!({"name": "control-plane-certificates", "mountPath": folder, "readOnly": true});
    assert_eq!(given.container()["volumeMounts"], json!([mount]));
    let folders = json!({"name": "SSL_CERT_DIR", "value": format!("/etc/ssl/certs:{folder}")});
    assert!(given.container()["env"].as_array().unwrap().contains(&folders));
    assert!(!given.deployment().to_string().contains("tls.key"));
}

#[test]
fn another_ca_changes_the_pods_and_without_tls_there_is_nothing_to_change() {
    let template = |given: Provisioner| given.template();
    let tls = || Provisioner::test().of_tls_control_plane(&["a"]);
    let before = template(tls().with_certificates(Some("one")));
    assert_eq!(before["metadata"]["annotations"]["coder.com/trust-checksum"], "one");
    assert_ne!(template(tls().with_certificates(Some("two"))), before);
    for without in [Provisioner::test(), tls().with_certificates(None)] {
        assert_eq!(template(without)["metadata"]["annotations"]["coder.com/trust-checksum"], Value::Null);
    }
}

#[test]
fn what_the_spec_trusts_besides_is_beside_it() {
    let certs = json!({"secrets": [{"name": "company", "key": "ca.crt"}]});
    let container = Provisioner::test().of_tls_control_plane(&["a"]).with("certs", certs).container();
    let paths: Vec<&Value> =
        container["volumeMounts"].as_array().unwrap().iter().map(|mount| &mount["mountPath"]).collect();
    assert_eq!(paths, ["/etc/ssl/certs/company.crt", "/etc/ssl/certs/control-plane"]);
}

#[test]
fn the_facts_of_a_control_plane_follow_its_spec() {
    let facts = |spec: Value| {
        let object = json!({"apiVersion": "coder.com/v1alpha1", "kind": "CoderControlPlane",
            "metadata": {"name": "coder", "namespace": "ns"}, "spec": spec});
        ControlPlaneFacts::of(&from_value(object).unwrap(), "coder:v1", "corp.example").unwrap()
    };
    let plain = facts(json!({"service": {"port": 8080}}));
    assert_eq!(plain.address.unwrap().url, "http://coder.ns.svc.corp.example:8080");
    assert!(plain.tls.is_empty() && plain.image == "coder:v1");
    let secure = facts(json!({"tls": {"secretNames": ["a", " a ", "", "b"]}}));
    assert_eq!(secure.address.unwrap().url, "https://coder.ns.svc.corp.example:443");
    assert_eq!(secure.tls, ["a", "b"]);
}

#[test]
fn a_name_of_the_certificate_is_led_to_the_service_in_the_pods_alone() {
    let tls =
        || Provisioner::test().of_tls_control_plane(&["a"]).through_alias("coder.example.com", "10.0.0.7");
    let url = |given: &Provisioner| given.container()["env"][0].clone();
    assert_eq!(url(&tls()), json!({"name": "CODER_URL", "value": "https://coder.example.com:443"}));
    let entry = |ip: &str, names: &[&str]| json!({"ip": ip, "hostnames": names});
    assert_eq!(tls().pod()["hostAliases"], json!([entry("10.0.0.7", &["coder.example.com"])]));
    let besides = tls().with("hostAliases", json!([entry("10.0.0.7", &["git"]), entry("10.0.0.8", &["x"])]));
    let both = json!([entry("10.0.0.7", &["git", "coder.example.com"]), entry("10.0.0.8", &["x"])]);
    assert_eq!(besides.pod()["hostAliases"], both, "an address is there once");
    let own = json!([entry("10.0.0.9", &["coder.example.com"])]);
    assert_eq!(
        tls().with("hostAliases", own.clone()).pod()["hostAliases"],
        own,
        "the spec leads the name elsewhere"
    );
    let given = json!([{"name": "CODER_URL", "value": "https://coder.example.com"}]);
    assert_eq!(tls().with("extraEnv", given).pod()["hostAliases"], Value::Null, "the spec has an address");
}
