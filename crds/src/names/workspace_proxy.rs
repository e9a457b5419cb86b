//! Decides what the children of a CoderWorkspaceProxy and its registration in coderd are called.
//! Never asks whether they exist.

use super::shorten::{Rule, Trim};
use super::{DerivedKind, DerivedName, INSTANCE_LABEL, LABEL_LIMIT, SUBDOMAIN_LIMIT};
use crate::CoderWorkspaceProxySpec;

const WORKLOAD: Rule = Rule { prefix: "wsproxy-", suffix: "", limit: LABEL_LIMIT, trim: Trim::Dot };
const SERVICE_ACCOUNT: Rule = Rule { prefix: "", suffix: "-wsproxy", limit: LABEL_LIMIT, trim: Trim::Dot };
const TOKEN_SECRET: Rule =
    Rule { prefix: "", suffix: "-proxy-token", limit: SUBDOMAIN_LIMIT, trim: Trim::Dot };
const REGISTRATION: Rule = Rule { prefix: "", suffix: "", limit: SUBDOMAIN_LIMIT, trim: Trim::Nothing };

/// Deployment, Service, Ingress, HTTPRoute, PodDisruptionBudget and ServiceMonitor.
pub fn workload(name: &str) -> String {
    WORKLOAD.apply(name)
}

/// ServiceAccount: the one the spec names, else derived from the name of the object.
pub fn service_account(name: &str, spec: &CoderWorkspaceProxySpec) -> String {
    match chosen_service_account(spec) {
        Some(account) => account.to_owned(),
        None => SERVICE_ACCOUNT.apply(name),
    }
}

fn chosen_service_account(spec: &CoderWorkspaceProxySpec) -> Option<&str> {
    spec.service_account.as_ref()?.name.as_deref().filter(|name| !name.is_empty())
}

/// Secret the operator keeps the token of a registration in.
pub fn token_secret(name: &str, spec: &CoderWorkspaceProxySpec) -> String {
    match chosen(spec).token_secret {
        Some(secret) => secret.to_owned(),
        None => TOKEN_SECRET.apply(name),
    }
}

/// Name of the registration in coderd.
pub fn registration<'a>(name: &'a str, spec: &'a CoderWorkspaceProxySpec) -> &'a str {
    chosen(spec).proxy.unwrap_or(name)
}

/// Whether the operator registers the proxy, and so has a name and a Secret for it.
pub fn is_registered(spec: &CoderWorkspaceProxySpec) -> bool {
    spec.control_plane_ref.is_some() || spec.bootstrap.is_some()
}

/// Names that the spec gives for a registration.
struct Chosen<'a> {
    proxy: Option<&'a str>,
    token_secret: Option<&'a str>,
}

/// Those of `registration` with a control plane, those of `bootstrap` without; an empty one counts as not given.
fn chosen(spec: &CoderWorkspaceProxySpec) -> Chosen<'_> {
    let (proxy, token_secret) = if spec.control_plane_ref.is_some() {
        let given = spec.registration.as_ref();
        (given.map(|given| &given.proxy_name), given.map(|given| &given.token_secret_name))
    } else {
        let given = spec.bootstrap.as_ref();
        (given.map(|given| &given.proxy_name), given.map(|given| &given.generated_token_secret_name))
    };
    fn text(field: Option<&Option<String>>) -> Option<&str> {
        field?.as_deref().filter(|name| !name.is_empty())
    }
    Chosen { proxy: text(proxy), token_secret: text(token_secret) }
}

/// Every name derived from a proxy; those of a registration only where the operator makes it.
pub fn derived(name: &str, spec: &CoderWorkspaceProxySpec) -> Vec<DerivedName> {
    let account = chosen_service_account(spec).map(str::to_owned);
    let mut names = vec![
        DerivedName::by_rule(DerivedKind::Deployment, &WORKLOAD, name),
        DerivedName::by_rule(DerivedKind::Service, &WORKLOAD, name),
        DerivedName::by_rule(DerivedKind::Ingress, &WORKLOAD, name),
        DerivedName::by_rule(DerivedKind::HttpRoute, &WORKLOAD, name),
        DerivedName::chosen_or(DerivedKind::ServiceAccount, account, &SERVICE_ACCOUNT, name),
        DerivedName::by_rule(DerivedKind::InstanceLabel, &INSTANCE_LABEL, name),
    ];
    if is_registered(spec) {
        let Chosen { proxy, token_secret } = chosen(spec);
        let (proxy, secret) = (proxy.map(str::to_owned), token_secret.map(str::to_owned));
        names.push(DerivedName::chosen_or(DerivedKind::ProxyRegistration, proxy, &REGISTRATION, name));
        names.push(DerivedName::chosen_or(DerivedKind::Secret, secret, &TOKEN_SECRET, name));
    }
    names
}
