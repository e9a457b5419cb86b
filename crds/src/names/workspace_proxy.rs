//! Decides what the children of a CoderWorkspaceProxy and its registration in coderd are called.
//! Never asks whether they exist.

use super::shorten::{Rule, Trim};
use super::{DerivedKind, DerivedName, INSTANCE_LABEL, LABEL_LIMIT, SUBDOMAIN_LIMIT};
use crate::CoderWorkspaceProxySpec;
use crate::workspace_proxy::ProxyBootstrapSpec;

const WORKLOAD: Rule = Rule { prefix: "wsproxy-", suffix: "", limit: LABEL_LIMIT, trim: Trim::Dot };
const TOKEN_SECRET: Rule =
    Rule { prefix: "", suffix: "-proxy-token", limit: SUBDOMAIN_LIMIT, trim: Trim::Dot };
const REGISTRATION: Rule = Rule { prefix: "", suffix: "", limit: SUBDOMAIN_LIMIT, trim: Trim::Nothing };

/// Deployment and Service.
pub fn workload(name: &str) -> String {
    WORKLOAD.apply(name)
}

/// Secret the operator keeps the token of a registration in.
pub fn token_secret(name: &str, spec: &CoderWorkspaceProxySpec) -> String {
    match chosen(spec, |bootstrap| &bootstrap.generated_token_secret_name) {
        Some(secret) => secret.to_owned(),
        None => TOKEN_SECRET.apply(name),
    }
}

/// Name of the registration in coderd.
pub fn registration<'a>(name: &'a str, spec: &'a CoderWorkspaceProxySpec) -> &'a str {
    chosen(spec, |bootstrap| &bootstrap.proxy_name).unwrap_or(name)
}

/// A name the spec gives; an empty one counts as not given.
fn chosen(
    spec: &CoderWorkspaceProxySpec,
    field: impl Fn(&ProxyBootstrapSpec) -> &Option<String>,
) -> Option<&str> {
    spec.bootstrap.as_ref().and_then(|bootstrap| field(bootstrap).as_deref()).filter(|name| !name.is_empty())
}

/// Every name derived from a proxy; those of a registration only where the operator makes it.
pub fn derived(name: &str, spec: &CoderWorkspaceProxySpec) -> Vec<DerivedName> {
    let mut names = vec![
        DerivedName::by_rule(DerivedKind::Deployment, &WORKLOAD, name),
        DerivedName::by_rule(DerivedKind::Service, &WORKLOAD, name),
        DerivedName::by_rule(DerivedKind::InstanceLabel, &INSTANCE_LABEL, name),
    ];
    if spec.bootstrap.is_some() {
        let proxy = chosen(spec, |bootstrap| &bootstrap.proxy_name).map(str::to_owned);
        let secret = chosen(spec, |bootstrap| &bootstrap.generated_token_secret_name).map(str::to_owned);
        names.push(DerivedName::chosen_or(DerivedKind::ProxyRegistration, proxy, &REGISTRATION, name));
        names.push(DerivedName::chosen_or(DerivedKind::Secret, secret, &TOKEN_SECRET, name));
    }
    names
}
