//! Decides what the children of a CoderControlPlane are called.
//! Never asks whether they exist.

use super::hash::{hex32, hex64, joined};
use super::shorten::{Rule, Trim, cut};
use super::{DerivedKind, DerivedName, INSTANCE_LABEL, LABEL_LIMIT, SUBDOMAIN_LIMIT};
use crate::CoderControlPlaneSpec;

const WORKSPACE_ROLE_SUFFIX: &str = "-workspace-perms";
const OPERATOR_TOKEN_SUFFIX: &str = ".operator-token";
const FORMER_OPERATOR_TOKEN: Rule =
    Rule { prefix: "", suffix: "-operator-token", limit: LABEL_LIMIT, trim: Trim::Dot };

/// Deployment, Service, Ingress, HTTPRoute, PodDisruptionBudget and ServiceMonitor: the name of the object.
pub fn workload(name: &str) -> &str {
    name
}

/// ServiceAccount: the one the spec names, else the name of the object.
pub fn service_account<'a>(name: &'a str, spec: &'a CoderControlPlaneSpec) -> &'a str {
    chosen_service_account(spec).unwrap_or(name)
}

fn chosen_service_account(spec: &CoderControlPlaneSpec) -> Option<&str> {
    spec.service_account.as_ref()?.name.as_deref().filter(|name| !name.is_empty())
}

/// Role in each workspace namespace.
pub fn workspace_role(namespace: &str, name: &str, service_account: &str) -> String {
    workspace_rbac(namespace, name, service_account, WORKSPACE_ROLE_SUFFIX)
}

/// RoleBinding in each workspace namespace.
pub fn workspace_role_binding(namespace: &str, name: &str, service_account: &str) -> String {
    workspace_rbac(namespace, name, service_account, "")
}

/// Carries a hash of where it comes from, because control planes of several namespaces meet in one.
fn workspace_rbac(namespace: &str, name: &str, service_account: &str, suffix: &str) -> String {
    let origin = hex32(&joined(namespace, name));
    if service_account.len() <= workspace_rbac_room(suffix) {
        return format!("{service_account}-{origin}{suffix}");
    }
    let base = cut(service_account, workspace_rbac_room(suffix)).trim_matches(['-', '.']);
    let base = if base.is_empty() { "workspace" } else { base };
    format!("{base}-{origin}{suffix}")
}

/// Bytes that are left for the ServiceAccount.
const fn workspace_rbac_room(suffix: &str) -> usize {
    SUBDOMAIN_LIMIT - "-12345678".len() - suffix.len()
}

/// Secret with the operator's token, in the operator's own namespace.
/// A namespace holds no dot, so the first dot ends it and two control planes never meet.
pub fn operator_token_secret(namespace: &str, name: &str) -> String {
    let origin = format!("{namespace}.{name}");
    if operator_token_secret_fits(namespace, name) {
        return format!("{origin}{OPERATOR_TOKEN_SUFFIX}");
    }
    let hash = hex64(&joined(namespace, name));
    let room = SUBDOMAIN_LIMIT - OPERATOR_TOKEN_SUFFIX.len() - hash.len() - 1;
    format!("{}-{hash}{OPERATOR_TOKEN_SUFFIX}", cut(&origin, room).trim_end_matches('.'))
}

fn operator_token_secret_fits(namespace: &str, name: &str) -> bool {
    namespace.len() + 1 + name.len() + OPERATOR_TOKEN_SUFFIX.len() <= SUBDOMAIN_LIMIT
}

/// Secret that held the operator's token next to the control plane; looked for only to be removed.
pub fn former_operator_token_secret(name: &str, spec: &CoderControlPlaneSpec) -> String {
    let chosen =
        spec.operator_access.as_ref().and_then(|access| access.generated_token_secret_name.as_deref());
    match chosen.map(str::trim) {
        Some(chosen) if !chosen.is_empty() => chosen.to_owned(),
        _ => FORMER_OPERATOR_TOKEN.apply(name),
    }
}

/// Name of the operator's user for a control plane inside coderd, and beginning of its tokens' names.
pub fn operator_user(uid: &str) -> String {
    format!("coder-k8s-operator-{uid}")
}

/// Name of the token that the older operator, written in Go, made inside coderd.
pub fn operator_token(namespace: &str, name: &str) -> String {
    format!("coder-k8s-operator-{}", hex64(&joined(namespace, name)))
}

/// Why a pod mounts a Secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SecretVolume {
    /// A certificate coderd serves with.
    Tls,
    /// An authority coderd trusts.
    CaCert,
}

impl SecretVolume {
    fn prefix(self) -> &'static str {
        match self {
            Self::Tls => "tls",
            Self::CaCert => "ca-cert",
        }
    }
}

/// Volume for a Secret: `<prefix>-<secret>` where that is a volume name, else sanitized and hashed.
pub fn secret_volume(volume: SecretVolume, secret: &str) -> String {
    let prefix = volume.prefix();
    let plain = secret.trim().to_lowercase();
    let sanitized = sanitized(&plain);
    let whole = format!("{prefix}-{sanitized}");
    if whole.len() <= LABEL_LIMIT && sanitized == plain {
        return whole;
    }
    let hash = hex32(&joined(prefix, secret));
    let room = LABEL_LIMIT - prefix.len() - hash.len() - 2;
    let base = cut(&sanitized, room).trim_matches('-');
    format!("{prefix}-{base}-{hash}")
}

/// Letters and digits, with one dash for each run of anything else; never empty.
fn sanitized(text: &str) -> String {
    let words: Vec<&str> = text
        .split(|c: char| !(c.is_ascii_lowercase() || c.is_ascii_digit()))
        .filter(|word| !word.is_empty())
        .collect();
    if words.is_empty() { "x".to_owned() } else { words.join("-") }
}

/// Every name derived from a control plane, in the order the reconciler makes the objects.
pub fn derived(namespace: &str, name: &str, spec: &CoderControlPlaneSpec) -> Vec<DerivedName> {
    let account = service_account(name, spec);
    let chosen = chosen_service_account(spec).is_some();
    let of_account = |kind, derived, suffix| DerivedName {
        kind,
        name: derived,
        chosen,
        shortened: account.len() > workspace_rbac_room(suffix),
    };
    vec![
        DerivedName { kind: DerivedKind::ServiceAccount, name: account.to_owned(), chosen, shortened: false },
        of_account(DerivedKind::Role, workspace_role(namespace, name, account), WORKSPACE_ROLE_SUFFIX),
        of_account(DerivedKind::RoleBinding, workspace_role_binding(namespace, name, account), ""),
        DerivedName::same(DerivedKind::Deployment, name),
        DerivedName::same(DerivedKind::Service, name),
        DerivedName::same(DerivedKind::Ingress, name),
        DerivedName::same(DerivedKind::HttpRoute, name),
        DerivedName {
            kind: DerivedKind::Secret,
            name: operator_token_secret(namespace, name),
            chosen: false,
            shortened: !operator_token_secret_fits(namespace, name),
        },
        DerivedName::by_rule(DerivedKind::InstanceLabel, &INSTANCE_LABEL, name),
    ]
}
