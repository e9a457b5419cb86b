//! Decides which volumes the pods have and where coderd mounts them: certificates it serves with, authorities it
//! trusts, then what the spec adds. Never mounts a Secret twice: an entry that is repeated is taken once.

use std::collections::{BTreeMap, BTreeSet};

use crds::CoderControlPlaneSpec;
use crds::control_plane::CertSecretSelector;
use crds::names::control_plane::{SecretVolume, secret_volume};
use k8s_openapi::api::core::v1::{SecretVolumeSource, Volume, VolumeMount};

use super::one_each;
use super::origin::Origin;

/// Where authorities are trusted from.
const TRUSTED: &str = "/etc/ssl/certs";

/// The Secrets coderd serves HTTPS with, each once.
pub(super) fn tls_secrets(spec: &CoderControlPlaneSpec) -> Vec<&str> {
    let given = spec.tls.as_ref().map_or(&[][..], |tls| &tls.secret_names);
    let mut seen = BTreeSet::new();
    given.iter().map(|name| name.trim()).filter(|name| !name.is_empty() && seen.insert(*name)).collect()
}

/// The folder a certificate is mounted at.
pub(super) fn tls_folder(secret: &str) -> String {
    format!("{TRUSTED}/coder/{secret}")
}

/// Name and key of each authority, each pair once.
pub(super) fn authorities(spec: &CoderControlPlaneSpec) -> Vec<(&str, &str)> {
    let mut seen = BTreeSet::new();
    let pairs = listed(spec).iter().map(|entry| (entry.name.trim(), entry.key.trim()));
    pairs.filter(|(name, key)| !name.is_empty() && !key.is_empty() && seen.insert((*name, *key))).collect()
}

fn listed(spec: &CoderControlPlaneSpec) -> &[CertSecretSelector] {
    spec.certs.as_ref().map_or(&[][..], |certs| &certs.secrets)
}

/// The volumes of the pod.
pub(super) fn volumes(origin: &Origin<'_>) -> Vec<Volume> {
    let tls = tls_secrets(origin.spec).into_iter().map(|secret| of_secret(SecretVolume::Tls, secret));
    let trusted =
        authorities(origin.spec).into_iter().map(|(secret, _)| of_secret(SecretVolume::CaCert, secret));
    let mut known = BTreeSet::new();
    let mut volumes: Vec<Volume> =
        tls.chain(trusted).filter(|volume| known.insert(volume.name.clone())).collect();
    volumes.extend(origin.spec.volumes.iter().cloned());
    one_each(volumes, |volume| &volume.name)
}

fn of_secret(volume: SecretVolume, secret: &str) -> Volume {
    let source = SecretVolumeSource { secret_name: Some(secret.to_owned()), ..Default::default() };
    Volume { name: secret_volume(volume, secret), secret: Some(source), ..Default::default() }
}

/// What the container of coderd mounts.
pub(super) fn mounts(origin: &Origin<'_>) -> Vec<VolumeMount> {
    let read_only = |name: String, mount_path: String, sub_path: Option<&str>| VolumeMount {
        name,
        mount_path,
        sub_path: sub_path.map(str::to_owned),
        read_only: Some(true),
        ..Default::default()
    };
    let mut mounts: Vec<VolumeMount> = tls_secrets(origin.spec)
        .into_iter()
        .map(|secret| read_only(secret_volume(SecretVolume::Tls, secret), tls_folder(secret), None))
        .collect();
    let pairs = authorities(origin.spec);
    for ((secret, key), file) in pairs.iter().zip(authority_files(origin.spec, &pairs)) {
        let volume = secret_volume(SecretVolume::CaCert, secret);
        mounts.push(read_only(volume, format!("{TRUSTED}/{file}"), Some(key)));
    }
    mounts.extend(origin.spec.volume_mounts.iter().cloned());
    one_each(mounts, |mount| &mount.mount_path)
}

/// The file of each authority: named after its Secret, after Secret and key where the Secret is listed more than once,
/// and numbered where that name is taken.
fn authority_files(spec: &CoderControlPlaneSpec, pairs: &[(&str, &str)]) -> Vec<String> {
    let mut count: BTreeMap<&str, usize> = BTreeMap::new();
    for entry in listed(spec) {
        *count.entry(entry.name.trim()).or_default() += 1;
    }
    let mut taken = BTreeSet::new();
    let file = |(secret, key): &(&str, &str)| {
        let repeated = count.get(secret).is_some_and(|count| *count > 1);
        let base = if repeated { format!("{secret}-{key}") } else { (*secret).to_owned() };
        let base = base.strip_suffix(".crt").unwrap_or(&base).to_owned();
        let mut file = format!("{base}.crt");
        let mut number = 2;
        while !taken.insert(file.clone()) {
            file = format!("{base}-{number}.crt");
            number += 1;
        }
        file
    };
    pairs.iter().map(file).collect()
}

#[cfg(test)]
mod tests {
    use super::super::given::ControlPlane;
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
        let mounts = json!([
            mount("tls-my-tls-secret-6a72c9df", "my.tls.secret"),
            mount("tls-coder-tls", "coder-tls")
        ]);
        assert_eq!(given.container()["volumeMounts"], mounts);
    }

    #[test]
    fn every_authority_is_a_file_among_those_coderd_trusts() {
        let given = with_certs(&[("company-ca", "ca.crt"), ("other.crt", "x.pem")]);
        let volumes = json!([
            secret_volume("ca-cert-company-ca", "company-ca"),
            secret_volume(
                &crds::names::control_plane::secret_volume(super::SecretVolume::CaCert, "other.crt"),
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
            mounted(&with_certs(certs))
                .into_iter()
                .map(|(path, _)| path.replace("/etc/ssl/certs/", ""))
                .collect()
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
}
