//! Decides how pods come to trust a control plane that serves HTTPS itself: by the certificates in the Secrets it serves
//! with. Never mounts a private key, and waits for no Secret or key that is not there: a certificate of a public CA needs none.

use super::environment;
use k8s_openapi::api::core::v1::{
    EnvVar, KeyToPath, ProjectedVolumeSource, SecretProjection, Volume, VolumeMount, VolumeProjection,
};

/// The volume with the certificates.
pub(crate) const VOLUME: &str = "control-plane-certificates";
/// Where it is mounted: beside what the image trusts.
const FOLDER: &str = "/etc/ssl/certs/control-plane";
/// Keys of a Secret of type `kubernetes.io/tls` that may be public: the CA, and for one that signed itself the certificate.
const PUBLIC: [&str; 2] = ["ca.crt", "tls.crt"];

/// The volume and its mount, if there is a Secret to trust.
pub(crate) fn volume(secrets: &[String]) -> Option<(Volume, VolumeMount)> {
    if secrets.is_empty() {
        return None;
    }
    let items = |secret: &str| {
        let path = |key: &str| format!("{secret}-{key}");
        PUBLIC.map(|key| KeyToPath { key: key.to_owned(), path: path(key), ..Default::default() }).to_vec()
    };
    let source = |secret: &String| VolumeProjection {
        secret: Some(SecretProjection {
            name: secret.clone(),
            items: Some(items(secret)),
            optional: Some(true),
        }),
        ..Default::default()
    };
    let sources = Some(secrets.iter().map(source).collect());
    let volume = Volume {
        name: VOLUME.to_owned(),
        projected: Some(ProjectedVolumeSource { sources, ..Default::default() }),
        ..Default::default()
    };
    let mount = VolumeMount {
        name: VOLUME.to_owned(),
        mount_path: FOLDER.to_owned(),
        read_only: Some(true),
        ..Default::default()
    };
    Some((volume, mount))
}

/// What makes Go, and so a daemon or proxy, Terraform and its providers, look there as well.
pub(crate) fn variable(secrets: &[String]) -> Option<EnvVar> {
    let folders = format!("/etc/ssl/certs:{FOLDER}");
    (!secrets.is_empty()).then(|| environment::variable("SSL_CERT_DIR", &folders))
}
