//! Decides the environment of a workspace proxy: what we set, in a fixed order, then what the spec gives, which wins.
//! Never holds the token: the kubelet reads it from its Secret.

use super::super::resolve::{ProxyPods, ResolvedProxy, gives_access_url};
use super::ACCESS_URL;
use crate::controller::children::last_by_key;
use crate::controller::workload::environment::{of_secret, variable};
use crate::controller::workload::{monitoring, ports, relay, scratch, trust};
use k8s_openapi::api::core::v1::EnvVar;

/// Where the control plane is.
pub(crate) const PRIMARY_URL: &str = "CODER_PRIMARY_ACCESS_URL";
/// The token of the registration.
pub(crate) const TOKEN: &str = "CODER_PROXY_SESSION_TOKEN";
/// The wildcard for workspace applications.
const WILDCARD: &str = "CODER_WILDCARD_ACCESS_URL";

/// The environment of the proxy.
pub(super) fn environment(resolved: &ResolvedProxy, proxy: &ProxyPods) -> Vec<EnvVar> {
    let given = &resolved.spec.extra_env;
    let address = proxy.attachment.address.iter();
    let mut environment: Vec<EnvVar> = address.map(|address| variable(PRIMARY_URL, &address.url)).collect();
    environment.push(of_secret(TOKEN, &proxy.token.secret, &proxy.token.key));
    if !gives_access_url(&resolved.spec) {
        environment.push(variable(ACCESS_URL, &resolved.access_url));
    }
    environment.extend(resolved.wildcard.iter().map(|wildcard| variable(WILDCARD, wildcard)));
    environment.extend(relay::environment(given, ports::PROXY));
    environment.extend(resolved.pods.certificates.environment());
    environment.extend(trust::variable(&proxy.attachment.trusted));
    environment.extend(scratch::variable(&resolved.pods, resolved.names_image()));
    environment.extend(resolved.pods.metrics.iter().flat_map(|_| monitoring::environment()));
    environment.extend(relay::others(given));
    last_by_key(environment, |variable| &variable.name)
}
