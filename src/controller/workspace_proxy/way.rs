//! Decides how a workspace proxy comes to its token: by a control plane, by an address and credentials of its author, or by a token
//! that its author brings. Pure: it reads the spec.

use crate::coderd::{Endpoint, Scheme};
use crate::controller::attached::secret::SecretPlace;
use crds::names::workspace_proxy::token_secret;
use crds::shared::SecretKeySelector;
use crds::well_known::secret_key;
use crds::workspace_proxy::ProxyBootstrapSpec;
use crds::{CoderControlPlane, CoderWorkspaceProxy, CoderWorkspaceProxySpec};
use kube::core::ObjectMeta;

/// How a proxy comes to its token.
#[derive(Debug, Clone, Copy)]
pub(super) enum Way<'a> {
    /// The operator registers it with the control plane of this name.
    ControlPlane(&'a str),
    /// The operator registers it at an address and with credentials that were given.
    Bootstrap(&'a ProxyBootstrapSpec),
    /// Its author has registered it.
    Given(&'a SecretKeySelector),
    /// The spec names none.
    Nowhere,
}

impl<'a> Way<'a> {
    /// That of a spec: of several the first, in the order of preference.
    pub(super) fn of(spec: &'a CoderWorkspaceProxySpec) -> Self {
        match (&spec.control_plane_ref, &spec.bootstrap, &spec.proxy_session_token_secret_ref) {
            (Some(reference), _, _) => Self::ControlPlane(reference.name.trim()),
            (None, Some(bootstrap), _) => Self::Bootstrap(bootstrap),
            (None, None, Some(given)) => Self::Given(given),
            (None, None, None) => Self::Nowhere,
        }
    }

    /// Whether the operator registers the proxy.
    pub(super) fn registers(self) -> bool {
        matches!(self, Self::ControlPlane(_) | Self::Bootstrap(_))
    }

    /// Whether the spec brings credentials.
    pub(super) fn brings_credentials(self) -> bool {
        matches!(self, Self::Bootstrap(_))
    }
}

/// The address that a bootstrap names.
pub(super) fn url(ProxyBootstrapSpec { coder_url, .. }: &ProxyBootstrapSpec) -> &str {
    coder_url.trim()
}

/// The coderd that registers at the address of a bootstrap, however that is written.
pub(super) fn registrar(bootstrap: &ProxyBootstrapSpec) -> String {
    match Endpoint::parse(url(bootstrap)) {
        Ok(at) => {
            let scheme = if at.scheme == Scheme::Https { "https" } else { "http" };
            let host = at.host.trim_end_matches('.').to_lowercase();
            let host = if host.contains(':') { format!("[{host}]") } else { host };
            format!("{scheme}://{host}:{}", at.port)
        }
        Err(_) => url(bootstrap).to_owned(),
    }
}

/// What tells the coderd of a spec without a control plane from others: where the proxy is registered, and where its pods go.
pub(super) fn place_of_coderd(spec: &CoderWorkspaceProxySpec) -> String {
    let dialled = given_url(spec).unwrap_or_default();
    match Way::of(spec) {
        Way::Bootstrap(bootstrap) => format!("{} for {dialled}", registrar(bootstrap)),
        _ => dialled.to_owned(),
    }
}

/// Where pods read their token.
pub(super) fn place(complete: &CoderWorkspaceProxy) -> SecretPlace {
    let name = complete.metadata.name.as_deref().unwrap_or_default();
    match Way::of(&complete.spec) {
        Way::Given(given) => {
            let key = given.key.as_deref().map(str::trim).filter(|key| !key.is_empty());
            let data_key = key.unwrap_or(secret_key::TOKEN).to_owned();
            SecretPlace { secret: given.name.trim().to_owned(), data_key }
        }
        _ => {
            SecretPlace { secret: token_secret(name, &complete.spec), data_key: secret_key::TOKEN.to_owned() }
        }
    }
}

/// The address of the control plane that the spec gives itself.
pub(super) fn given_url(spec: &CoderWorkspaceProxySpec) -> Option<&str> {
    fn text(url: &str) -> Option<&str> {
        Some(url.trim()).filter(|url| !url.is_empty())
    }
    let primary = spec.primary_access_url.as_deref().and_then(text);
    match Way::of(spec) {
        Way::Bootstrap(bootstrap) => primary.or_else(|| text(url(bootstrap))),
        _ => primary,
    }
}

/// A Service of a namespace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ServiceAddress {
    /// Its name.
    pub(super) name: String,
    scheme: Scheme,
    port: u16,
}

/// The Service of this namespace that an address leads to, by any of the names under which pods there find it.
pub(super) fn service(url: &str, namespace: &str, cluster_domain: &str) -> Option<ServiceAddress> {
    let at = Endpoint::parse(url.trim()).ok()?;
    let host = at.host.trim_end_matches('.').to_ascii_lowercase();
    let domain = cluster_domain.trim_end_matches('.').to_ascii_lowercase();
    let endings =
        [format!(".{namespace}.svc.{domain}"), format!(".{namespace}.svc"), format!(".{namespace}")];
    let name = endings.iter().find_map(|ending| host.strip_suffix(ending.as_str())).unwrap_or(&host);
    let is_label = !name.is_empty() && name.bytes().all(|one| one.is_ascii_alphanumeric() || one == b'-');
    is_label.then(|| ServiceAddress { name: name.to_owned(), scheme: at.scheme, port: at.port })
}

/// Whether an address is that of a control plane's own Service.
pub(super) fn is_of(url: &str, control_plane: &CoderControlPlane, cluster_domain: &str) -> bool {
    let namespace = control_plane.metadata.namespace.as_deref().unwrap_or_default();
    let own = webhooks::cluster_url(control_plane, cluster_domain);
    let own = own.and_then(|own| service(&own, namespace, cluster_domain));
    own.is_some_and(|own| Some(own) == service(url, namespace, cluster_domain))
}

/// Whether an address is that of the Service of a control plane of which nothing but its name is known.
pub(super) fn names_service_of(url: &str, metadata: &ObjectMeta, cluster_domain: &str) -> bool {
    let (Some(name), Some(namespace)) = (&metadata.name, &metadata.namespace) else { return false };
    service(url, namespace, cluster_domain).is_some_and(|at| at.name == *name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, from_value, json};

    fn proxy(spec: Value) -> CoderWorkspaceProxy {
        let metadata = json!({ "name": "eu", "namespace": "team" });
        from_value(json!({ "apiVersion": "coder.com/v1alpha1", "kind": "CoderWorkspaceProxy",
            "metadata": metadata, "spec": spec }))
        .unwrap()
    }

    #[test]
    fn a_token_comes_by_one_way_and_is_kept_in_one_place() {
        let bootstrap =
            json!({ "coderURL": "https://coder.example.com ", "credentialsSecretRef": { "name": "c" } });
        let secret = |spec: Value| {
            let SecretPlace { secret, data_key } = place(&proxy(spec));
            format!("{secret}/{data_key}")
        };
        assert_eq!(secret(json!({ "controlPlaneRef": { "name": "coder" } })), "eu-proxy-token/token");
        assert_eq!(secret(json!({ "bootstrap": bootstrap })), "eu-proxy-token/token");
        let given = json!({ "proxySessionTokenSecretRef": { "name": "mine", "key": "k" } });
        assert_eq!(secret(given), "mine/k");
        let spec = proxy(json!({ "bootstrap": bootstrap })).spec;
        assert_eq!(given_url(&spec), Some("https://coder.example.com"));
        assert!(Way::of(&spec).registers() && Way::of(&spec).brings_credentials());
        assert!(matches!(Way::of(&proxy(json!({})).spec), Way::Nowhere));
    }

    #[test]
    fn a_coderd_is_known_by_the_address_that_registers_and_not_by_that_of_the_pods() {
        let spec = |url: &str, primary: &str| {
            let bootstrap = json!({ "coderURL": url, "credentialsSecretRef": { "name": "c" } });
            proxy(json!({ "bootstrap": bootstrap, "primaryAccessURL": primary })).spec
        };
        let registers = |url: &str| match Way::of(&spec(url, "https://eu.example.com")) {
            Way::Bootstrap(bootstrap) => registrar(bootstrap),
            other => panic!("{other:?}"),
        };
        assert_eq!(registers("https://Coder.example.com/"), registers("https://coder.example.com:443"));
        assert_ne!(registers("https://coder.example.com"), registers("https://other.example.com"));
        let before = place_of_coderd(&spec("https://coder.example.com", "https://eu.example.com"));
        for moved in [
            spec("https://other.example.com", "https://eu.example.com"),
            spec("https://coder.example.com", "x"),
        ] {
            assert_ne!(place_of_coderd(&moved), before);
        }
    }

    #[test]
    fn an_address_of_a_service_is_known_however_it_is_written() {
        let plane: CoderControlPlane =
            from_value(json!({ "metadata": { "name": "coder", "namespace": "team" }, "spec": {} })).unwrap();
        let is = |url: &str| is_of(url, &plane, "cluster.local");
        assert!(is("http://coder.team.svc.cluster.local") && is("http://coder.team.svc.cluster.local:80/"));
        for short in [
            "http://coder.team.svc",
            "http://coder.team:80",
            "http://Coder",
            "http://coder.team.svc.cluster.local.:80",
        ] {
            assert!(is(short), "{short}");
        }
        for other in
            ["http://coder.other", "http://coder.team.svc.elsewhere", "http://coder:81", "http://coder.svc"]
        {
            assert!(!is(other), "{other}");
        }
        for other in ["https://coder.team.svc.cluster.local", "http://coder.evil.svc.cluster.local", "x", ""]
        {
            assert!(!is(other), "{other}");
        }
        let names = |url: &str| names_service_of(url, &plane.metadata, "cluster.local");
        assert!(
            names("https://coder.team.svc.cluster.local:8443") && names("http://coder"),
            "whatever its spec says"
        );
        assert!(!names("http://other.team.svc.cluster.local") && !names("https://coder.example.com"));
    }
}
