//! Decides what the children of a CoderProvisioner and its keys in coderd are called.
//! Never asks whether they exist.

use std::collections::BTreeMap;

use super::hash::hex32;
use super::shorten::{Rule, Trim, shortened};
use super::{DerivedKind, DerivedName, INSTANCE_LABEL, KEY_LIMIT, LABEL_LIMIT, SUBDOMAIN_LIMIT};
use crate::CoderProvisionerSpec;
use crate::provisioner::ProvisionerKeySpec;
use crate::well_known::secret_key;

const WORKLOAD: Rule = Rule { prefix: "provisioner-", suffix: "", limit: LABEL_LIMIT, trim: Trim::Dot };
const SERVICE_ACCOUNT: Rule =
    Rule { prefix: "", suffix: "-provisioner", limit: LABEL_LIMIT, trim: Trim::Dot };
const KEY: Rule = Rule { prefix: "", suffix: "", limit: KEY_LIMIT, trim: Trim::Nothing };
const KEY_SECRET: Rule =
    Rule { prefix: "", suffix: "-provisioner-key", limit: SUBDOMAIN_LIMIT, trim: Trim::Dot };

/// Deployment, Role, RoleBinding, PodDisruptionBudget and PodMonitor.
pub fn workload(name: &str) -> String {
    WORKLOAD.apply(name)
}

/// ServiceAccount: the one the spec names, else derived from the name of the object.
pub fn service_account(name: &str, spec: &CoderProvisionerSpec) -> String {
    match chosen_service_account(spec) {
        Some(account) => account.to_owned(),
        None => SERVICE_ACCOUNT.apply(name),
    }
}

fn chosen_service_account(spec: &CoderProvisionerSpec) -> Option<&str> {
    spec.service_account.as_ref()?.name.as_deref().filter(|name| !name.is_empty())
}

/// First key in coderd: the name the spec gives, else the name of the object, cut at what coderd accepts.
pub fn key(name: &str, spec: &CoderProvisionerSpec) -> String {
    numbered_key(key_base(name, spec), 1)
}

/// The `number`-th key in coderd, made by a rotation.
pub fn rotated_key(name: &str, spec: &CoderProvisionerSpec, number: u64) -> String {
    numbered_key(key_base(name, spec), number)
}

/// The `number`-th key of this base: the first has its name, later ones the number behind it.
pub fn numbered_key(base: &str, number: u64) -> String {
    if number <= 1 {
        return KEY.apply(base);
    }
    let whole = format!("{base}-{number}");
    if whole.len() <= KEY_LIMIT {
        return whole;
    }
    shortened("", base, &format!("-{number}"), KEY_LIMIT, Trim::Nothing)
}

/// What the names of all keys begin with: what the spec gives, else the name of the object.
pub fn key_base<'a>(name: &'a str, spec: &'a CoderProvisionerSpec) -> &'a str {
    chosen(spec, |key| &key.name).unwrap_or(name)
}

/// Secret the key is kept in.
pub fn key_secret(name: &str, spec: &CoderProvisionerSpec) -> String {
    match chosen(spec, |key| &key.secret_name) {
        Some(secret) => secret.to_owned(),
        None => KEY_SECRET.apply(name),
    }
}

/// Key inside that Secret.
pub fn key_secret_key(spec: &CoderProvisionerSpec) -> &str {
    chosen(spec, |key| &key.secret_key).unwrap_or(secret_key::PROVISIONER_KEY)
}

/// A name the spec gives; an empty one counts as not given.
fn chosen(
    spec: &CoderProvisionerSpec,
    field: impl Fn(&ProvisionerKeySpec) -> &Option<String>,
) -> Option<&str> {
    spec.key.as_ref().and_then(|key| field(key).as_deref()).filter(|name| !name.is_empty())
}

/// Tells whether the tags changed since the key was made.
pub fn tags_hash(tags: &BTreeMap<String, String>) -> String {
    let mut bytes = Vec::new();
    for text in tags.iter().flat_map(|(key, value)| [key, value]) {
        bytes.extend_from_slice(text.as_bytes());
        bytes.push(0);
    }
    hex32(&bytes)
}

/// Annotation of the pod template that rolls the Deployment when the key changes.
pub fn key_checksum(key: &[u8]) -> String {
    hex32(key)
}

/// Annotation of the pod template that rolls the Deployment when its control plane serves with another CA.
pub fn certificates_checksum(certificates: &[u8]) -> String {
    hex32(certificates)
}

/// Every name derived from a provisioner, in the order the reconciler makes the objects.
pub fn derived(name: &str, spec: &CoderProvisionerSpec) -> Vec<DerivedName> {
    let chosen_key = chosen(spec, |key| &key.name).map(|key| KEY.apply(key));
    let chosen_account = chosen_service_account(spec).map(str::to_owned);
    let chosen_secret = chosen(spec, |key| &key.secret_name).map(str::to_owned);
    vec![
        DerivedName::chosen_or(DerivedKind::ProvisionerKey, chosen_key, &KEY, name),
        DerivedName::chosen_or(DerivedKind::Secret, chosen_secret, &KEY_SECRET, name),
        DerivedName::chosen_or(DerivedKind::ServiceAccount, chosen_account, &SERVICE_ACCOUNT, name),
        DerivedName::by_rule(DerivedKind::Role, &WORKLOAD, name),
        DerivedName::by_rule(DerivedKind::RoleBinding, &WORKLOAD, name),
        DerivedName::by_rule(DerivedKind::Deployment, &WORKLOAD, name),
        DerivedName::by_rule(DerivedKind::InstanceLabel, &INSTANCE_LABEL, name),
    ]
}
