//! Decides under which addresses control planes and proxies are reached.
//! Never decides the address of a control plane outside the cluster: that is in the environment its author gives.

use crds::exposure::ExposeSpec;
use crds::names;
use crds::shared::TlsSpec;
use crds::{CoderControlPlane, CoderControlPlaneSpec, CoderWorkspaceProxy};
use k8s_openapi::api::core::v1::EnvVar;

/// The variable that tells coderd or a proxy its own address.
pub const ACCESS_URL: &str = "CODER_ACCESS_URL";
/// The variable that tells coderd or a proxy the wildcard for applications.
const WILDCARD_ACCESS_URL: &str = "CODER_WILDCARD_ACCESS_URL";
/// Port of the Service for HTTPS.
pub const HTTPS: i32 = 443;
/// Port that `http` implies.
const HTTP: i32 = 80;

/// Whether coderd serves HTTPS itself.
pub fn serves_tls(spec: &CoderControlPlaneSpec) -> bool {
    has_certificate(spec.tls.as_ref())
}

fn has_certificate(tls: Option<&TlsSpec>) -> bool {
    tls.iter().flat_map(|tls| &tls.secret_names).any(|name| !name.trim().is_empty())
}

/// Port of the Service as the spec has it.
pub fn service_port(spec: &CoderControlPlaneSpec) -> i32 {
    spec.service_port_or_default()
}

fn host(control_plane: &CoderControlPlane, cluster_domain: &str) -> Option<String> {
    let (name, namespace) =
        (control_plane.metadata.name.as_ref()?, control_plane.metadata.namespace.as_ref()?);
    Some(format!("{}.{namespace}.svc.{cluster_domain}", names::control_plane::workload(name)))
}

/// The address of a Service, without a port that the scheme implies.
fn service_url(host: &str, tls: bool, port: i32) -> String {
    match port {
        _ if tls => format!("https://{host}"),
        HTTP => format!("http://{host}"),
        port => format!("http://{host}:{port}"),
    }
}

fn gives(environment: &[EnvVar], name: &str) -> bool {
    environment.iter().any(|variable| variable.name == name)
}

/// [`ACCESS_URL`] as the operator sets it: the address of the Service, without a port that the scheme implies. None where
/// the spec does not want it or gives another, or where the object has no name or namespace yet.
pub fn access_url(control_plane: &CoderControlPlane, cluster_domain: &str) -> Option<String> {
    let spec = &control_plane.spec;
    if gives(&spec.extra_env, ACCESS_URL) || spec.env_use_cluster_access_url == Some(false) {
        return None;
    }
    let host = host(control_plane, cluster_domain)?;
    Some(service_url(&host, serves_tls(spec), service_port(spec)))
}

/// The address by which users and coderd reach a proxy: the one that is given, else the host it is exposed under, else its
/// Service. None where `extraEnv` gives one, or where the object has no name or namespace yet.
pub(super) fn proxy_access_url(proxy: &CoderWorkspaceProxy, cluster_domain: &str) -> Option<String> {
    let spec = &proxy.spec;
    if gives(&spec.extra_env, ACCESS_URL) {
        return None;
    }
    let given = spec.access_url.clone().filter(|url| !url.is_empty());
    let exposed = || spec.expose.as_ref().and_then(exposed_url);
    let inside = || {
        let (name, namespace) = (proxy.metadata.name.as_ref()?, proxy.metadata.namespace.as_ref()?);
        let host = format!("{}.{namespace}.svc.{cluster_domain}", names::workspace_proxy::workload(name));
        Some(service_url(&host, has_certificate(spec.tls.as_ref()), spec.service_port_or_default()))
    };
    given.or_else(exposed).or_else(inside)
}

/// The wildcard for the applications behind a proxy: the one that is given, else the one it is exposed under.
pub(super) fn proxy_wildcard_access_url(proxy: &CoderWorkspaceProxy) -> Option<String> {
    let spec = &proxy.spec;
    if gives(&spec.extra_env, WILDCARD_ACCESS_URL) {
        return None;
    }
    let exposed = || {
        let expose = spec.expose.as_ref()?;
        let ingress = expose.ingress.as_ref().and_then(|ingress| ingress.wildcard_host.clone());
        ingress.or_else(|| expose.gateway.as_ref()?.wildcard_host.clone())
    };
    let given = spec.wildcard_access_url.clone().filter(|url| !url.is_empty());
    given.or_else(exposed).filter(|url| !url.is_empty())
}

/// Both addresses that the pods of a proxy are told. Where the cluster ends the names of Services does not matter to whoever
/// compares two of them.
pub(crate) fn proxy_addresses(proxy: &CoderWorkspaceProxy) -> [Option<String>; 2] {
    [proxy_access_url(proxy, "cluster.local"), proxy_wildcard_access_url(proxy)]
}

/// With HTTPS, unless it is an Ingress that has no certificate: what listens at a Gateway is not known here.
fn exposed_url(expose: &ExposeSpec) -> Option<String> {
    let (host, scheme) = match (&expose.ingress, &expose.gateway) {
        (Some(ingress), _) => {
            let certificate = ingress.tls.as_ref().and_then(|tls| tls.secret_name.as_ref());
            (&ingress.host, if certificate.is_some() { "https" } else { "http" })
        }
        (None, Some(gateway)) => (&gateway.host, "https"),
        (None, None) => return None,
    };
    (!host.is_empty()).then(|| format!("{scheme}://{host}"))
}

/// `status.url`: the address of the Service, always with its port.
pub fn cluster_url(control_plane: &CoderControlPlane, cluster_domain: &str) -> Option<String> {
    let host = host(control_plane, cluster_domain)?;
    if serves_tls(&control_plane.spec) {
        return Some(format!("https://{host}:{HTTPS}"));
    }
    Some(format!("http://{host}:{}", service_port(&control_plane.spec)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn urls(spec: Value) -> [Option<String>; 2] {
        let object = json!({
            "apiVersion": "coder.com/v1alpha1", "kind": "CoderControlPlane",
            "metadata": {"name": "coder", "namespace": "ns"}, "spec": spec,
        });
        let control_plane: CoderControlPlane = serde_json::from_value(object).unwrap();
        [access_url(&control_plane, "corp.example"), cluster_url(&control_plane, "corp.example")]
    }

    #[test]
    fn every_address_ends_with_the_domain_of_the_cluster() {
        let tls = json!({"secretNames": ["a"]});
        let blank = json!({"secretNames": [" "]});
        for (spec, access, cluster) in [
            (json!({}), "http://coder.ns.svc.corp.example", "http://coder.ns.svc.corp.example:80"),
            (
                json!({"service": {"port": 8080}}),
                "http://coder.ns.svc.corp.example:8080",
                "http://coder.ns.svc.corp.example:8080",
            ),
            (
                json!({ "tls": tls }),
                "https://coder.ns.svc.corp.example",
                "https://coder.ns.svc.corp.example:443",
            ),
            (
                json!({"tls": tls, "service": {"port": 8080}}),
                "https://coder.ns.svc.corp.example",
                "https://coder.ns.svc.corp.example:443",
            ),
            (
                json!({ "tls": blank }),
                "http://coder.ns.svc.corp.example",
                "http://coder.ns.svc.corp.example:80",
            ),
        ] {
            assert_eq!(urls(spec.clone()), [Some(access.to_owned()), Some(cluster.to_owned())], "{spec}");
        }
    }

    #[test]
    fn another_access_url_is_left_to_its_author_and_status_keeps_the_address() {
        let cluster = Some("http://coder.ns.svc.corp.example:80".to_owned());
        for spec in [
            json!({"envUseClusterAccessURL": false}),
            json!({"extraEnv": [{"name": "CODER_ACCESS_URL", "value": "https://coder.example.com"}]}),
        ] {
            assert_eq!(urls(spec), [None, cluster.clone()]);
        }
    }

    fn proxy_urls(spec: Value) -> [Option<String>; 2] {
        let object = json!({
            "apiVersion": "coder.com/v1alpha1", "kind": "CoderWorkspaceProxy",
            "metadata": {"name": "fra", "namespace": "ns"}, "spec": spec,
        });
        let proxy: CoderWorkspaceProxy = serde_json::from_value(object).unwrap();
        [proxy_access_url(&proxy, "corp.example"), proxy_wildcard_access_url(&proxy)]
    }

    #[test]
    fn a_proxy_is_reached_as_given_else_as_exposed_else_by_its_service() {
        let ingress = |tls: Value| json!({"ingress": {"host": "fra.example.com", "wildcardHost": "*.fra.example.com", "tls": tls}});
        let (plain, secured) = (ingress(Value::Null), ingress(json!({"secretName": "fra-tls"})));
        let gateway = json!({"gateway": {"host": "fra.example.com", "parentRefs": [{"name": "public"}]}});
        let wildcard = Some("*.fra.example.com");
        for (spec, access, wildcard) in [
            (json!({}), "http://wsproxy-fra.ns.svc.corp.example", None),
            (json!({"accessURL": ""}), "http://wsproxy-fra.ns.svc.corp.example", None),
            (json!({"service": {"port": 8080}}), "http://wsproxy-fra.ns.svc.corp.example:8080", None),
            (json!({"tls": {"secretNames": ["a"]}}), "https://wsproxy-fra.ns.svc.corp.example", None),
            (json!({ "expose": plain }), "http://fra.example.com", wildcard),
            (json!({ "expose": secured }), "https://fra.example.com", wildcard),
            (json!({ "expose": gateway }), "https://fra.example.com", None),
            (
                json!({"expose": plain, "accessURL": "https://eu.example.com"}),
                "https://eu.example.com",
                wildcard,
            ),
            (
                json!({"expose": gateway, "wildcardAccessURL": "*.eu"}),
                "https://fra.example.com",
                Some("*.eu"),
            ),
        ] {
            let expected = [Some(access.to_owned()), wildcard.map(str::to_owned)];
            assert_eq!(proxy_urls(spec.clone()), expected, "{spec}");
        }
        let own =
            ["CODER_ACCESS_URL", "CODER_WILDCARD_ACCESS_URL"].map(|name| json!({"name": name, "value": "x"}));
        assert_eq!(
            proxy_urls(json!({"expose": plain, "extraEnv": own})),
            [None, None],
            "its author gives both"
        );
    }
}
