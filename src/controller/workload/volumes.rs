//! Decides which volumes pods have and where they are mounted: certificates they serve with, CAs they trust, then what the
//! spec adds. Never mounts a Secret twice: an entry that is repeated is taken once.

use std::collections::{BTreeMap, BTreeSet};

use super::environment::variable;
use super::ports;
use crate::controller::children::last_by_key;
use crds::names::control_plane::{SecretVolume, secret_volume};
use crds::workload::CertSecretSelector;
use k8s_openapi::api::core::v1::{EnvVar, SecretVolumeSource, Volume, VolumeMount};

/// Where certificates of CAs are trusted from.
const TRUSTED: &str = "/etc/ssl/certs";

/// The certificates of a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Certificates {
    /// The Secrets it serves HTTPS with, each once.
    pub tls: Vec<String>,
    /// The CAs it trusts, each once.
    pub authorities: Vec<Authority>,
}

/// A CA that a pod trusts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Authority {
    /// Its Secret.
    pub secret: String,
    /// The key in it.
    pub key: String,
    /// The name of the file.
    pub file: String,
}

/// The certificates that a spec names.
pub(crate) fn resolve(tls: &[String], trusted: &[CertSecretSelector]) -> Certificates {
    let mut seen = BTreeSet::new();
    let names = tls.iter().map(|name| name.trim());
    let tls = names.filter(|name| !name.is_empty() && seen.insert(*name)).map(str::to_owned).collect();
    Certificates { tls, authorities: authorities(trusted) }
}

/// The file of each CA is named after its Secret, after Secret and key where the Secret is listed more than once, and
/// numbered where that name is taken.
fn authorities(listed: &[CertSecretSelector]) -> Vec<Authority> {
    let mut count: BTreeMap<&str, usize> = BTreeMap::new();
    for entry in listed {
        *count.entry(entry.name.trim()).or_default() += 1;
    }
    let (mut seen, mut taken) = (BTreeSet::new(), BTreeSet::new());
    let pairs = listed.iter().map(|entry| (entry.name.trim(), entry.key.trim()));
    let pairs = pairs.filter(|(name, key)| !name.is_empty() && !key.is_empty() && seen.insert((*name, *key)));
    let authority = |(secret, key): (&str, &str)| {
        let repeated = count.get(secret).is_some_and(|count| *count > 1);
        let base = if repeated { format!("{secret}-{key}") } else { secret.to_owned() };
        let base = base.strip_suffix(".crt").unwrap_or(&base).to_owned();
        let mut file = format!("{base}.crt");
        let mut number = 2;
        while !taken.insert(file.clone()) {
            file = format!("{base}-{number}.crt");
            number += 1;
        }
        Authority { secret: secret.to_owned(), key: key.to_owned(), file }
    };
    pairs.map(authority).collect()
}

impl Certificates {
    /// Whether the pod serves HTTPS itself.
    pub fn serve_tls(&self) -> bool {
        !self.tls.is_empty()
    }

    /// The files of this name in the folders of the certificates it serves with, as one list.
    pub fn tls_files(&self, name: &str) -> String {
        self.tls.iter().map(|secret| format!("{}/{name}", tls_folder(secret))).collect::<Vec<_>>().join(",")
    }

    /// What makes the pod serve HTTPS; nothing if it does not.
    pub(crate) fn environment(&self) -> Vec<EnvVar> {
        if !self.serve_tls() {
            return Vec::new();
        }
        vec![
            variable("CODER_TLS_ENABLE", "true"),
            variable("CODER_TLS_ADDRESS", &format!("0.0.0.0:{}", ports::HTTPS)),
            variable("CODER_TLS_CERT_FILE", &self.tls_files("tls.crt")),
            variable("CODER_TLS_KEY_FILE", &self.tls_files("tls.key")),
        ]
    }

    /// The volumes of the pod, with those that the spec adds.
    pub fn volumes(&self, more: &[Volume]) -> Vec<Volume> {
        let tls = self.tls.iter().map(|secret| of_secret(SecretVolume::Tls, secret));
        let trusted = self.authorities.iter().map(|one| of_secret(SecretVolume::CaCert, &one.secret));
        let mut known = BTreeSet::new();
        let mut volumes: Vec<Volume> =
            tls.chain(trusted).filter(|volume| known.insert(volume.name.clone())).collect();
        volumes.extend(more.iter().cloned());
        last_by_key(volumes, |volume| &volume.name)
    }

    /// What its container mounts, with what the spec adds.
    pub fn mounts(&self, more: &[VolumeMount]) -> Vec<VolumeMount> {
        let read_only = |name: String, mount_path: String, sub_path: Option<&str>| VolumeMount {
            name,
            mount_path,
            sub_path: sub_path.map(str::to_owned),
            read_only: Some(true),
            ..Default::default()
        };
        let tls = self
            .tls
            .iter()
            .map(|secret| read_only(secret_volume(SecretVolume::Tls, secret), tls_folder(secret), None));
        let trusted = self.authorities.iter().map(|Authority { secret, key, file }| {
            let volume = secret_volume(SecretVolume::CaCert, secret);
            read_only(volume, format!("{TRUSTED}/{file}"), Some(key))
        });
        last_by_key(tls.chain(trusted).chain(more.iter().cloned()).collect(), |mount| &mount.mount_path)
    }
}

/// The folder a certificate is mounted at.
fn tls_folder(secret: &str) -> String {
    format!("{TRUSTED}/coder/{secret}")
}

fn of_secret(volume: SecretVolume, secret: &str) -> Volume {
    let source = SecretVolumeSource { secret_name: Some(secret.to_owned()), ..Default::default() };
    Volume { name: secret_volume(volume, secret), secret: Some(source), ..Default::default() }
}
