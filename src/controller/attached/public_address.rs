//! Decides by which names a control plane is known outside of its cluster, and whether coderd redirects whoever comes by another
//! one. From its spec alone: no status is looked at, and what coderd reads from elsewhere is not known here.

use super::address;
use crds::CoderControlPlane;

/// Variables that have coderd redirect to its access URL, the later two by names of earlier releases.
const REDIRECTS: [&str; 3] =
    ["CODER_REDIRECT_TO_ACCESS_URL", "CODER_TLS_REDIRECT_HTTP_TO_HTTPS", "CODER_TLS_REDIRECT_HTTP"];
/// What Go reads as true.
const TRUE: [&str; 6] = ["1", "t", "T", "TRUE", "true", "True"];

/// How a control plane is known outside.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PublicAddress {
    /// Its names, that of the access URL first.
    pub(crate) hosts: Vec<String>,
    /// The access URL, where coderd redirects whoever does not come by its host.
    pub(crate) only: Option<String>,
}

impl PublicAddress {
    /// Of a control plane.
    pub(crate) fn of(control_plane: &CoderControlPlane, cluster_domain: &str) -> Self {
        let spec = &control_plane.spec;
        let variable = |name: &str| spec.extra_env.iter().rfind(|variable| variable.name == name);
        let given = variable(webhooks::ACCESS_URL);
        let access_url = match given {
            Some(given) => given.value.clone(),
            None => webhooks::access_url(control_plane, cluster_domain),
        };
        let is_true = |value: &str| TRUE.contains(&value);
        let is_set =
            |name: &&str| variable(name).and_then(|variable| variable.value.as_deref()).is_some_and(is_true);
        let expose = spec.expose.as_ref();
        let ingress = expose.and_then(|expose| expose.ingress.as_ref()).map(|ingress| ingress.host.as_str());
        let gateway = expose.and_then(|expose| expose.gateway.as_ref()).map(|gateway| gateway.host.as_str());
        let named = given.and_then(|given| address::host(given.value.as_deref()?));
        let hosts = named.into_iter().chain(ingress).chain(gateway).map(str::to_ascii_lowercase).collect();
        Self { hosts, only: access_url.filter(|_| REDIRECTS.iter().any(is_set)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn of(spec: Value) -> PublicAddress {
        let object = json!({ "metadata": { "name": "coder", "namespace": "ns" }, "spec": spec });
        PublicAddress::of(&serde_json::from_value(object).unwrap(), "cluster.local")
    }

    fn variable(name: &str, value: &str) -> Value {
        json!({ "name": name, "value": value })
    }

    #[test]
    fn the_names_are_those_of_the_access_url_and_of_what_is_exposed() {
        let expose = json!({ "ingress": { "host": "coder.example.org", "wildcardHost": "*.example.org" } });
        let url = variable("CODER_ACCESS_URL", "https://Coder.example.com/path");
        let both = of(json!({ "extraEnv": [url], "expose": expose }));
        assert_eq!(both.hosts, ["coder.example.com", "coder.example.org"]);
        let unknown = json!({ "name": "CODER_ACCESS_URL", "valueFrom": { "secretKeyRef": { "name": "a", "key": "b" } } });
        assert_eq!((of(json!({})).hosts, of(json!({ "extraEnv": [unknown] })).hosts), (vec![], vec![]));
    }

    #[test]
    fn only_a_coderd_that_is_told_to_redirects() {
        let url = || variable("CODER_ACCESS_URL", "https://coder.example.com");
        let with = |name: &str, value: &str| of(json!({ "extraEnv": [url(), variable(name, value)] })).only;
        for name in REDIRECTS {
            assert_eq!(with(name, "true").as_deref(), Some("https://coder.example.com"), "{name}");
        }
        assert_eq!(
            (with(REDIRECTS[0], "false"), with(REDIRECTS[0], "yes"), with("OTHER", "true")),
            (None, None, None)
        );
        let redirect = || variable(REDIRECTS[0], "1");
        let own = of(json!({ "extraEnv": [redirect()], "tls": { "secretNames": ["a"] } })).only;
        assert_eq!(own.as_deref(), Some("https://coder.ns.svc.cluster.local"), "as the operator sets it");
        let nobody = json!({ "extraEnv": [redirect()], "envUseClusterAccessURL": false });
        assert_eq!(of(nobody).only, None, "it is not known where to");
    }
}
