//! Decides under which addresses a control plane is reached inside the cluster.
//! Never decides an address outside of it: that is in the environment its author gives.

use crds::names::control_plane::workload;
use crds::{CoderControlPlane, CoderControlPlaneSpec};

/// The variable that tells coderd its own address.
pub const ACCESS_URL: &str = "CODER_ACCESS_URL";
/// Port of the Service for HTTPS.
pub const HTTPS: i32 = 443;
/// Port that `http` implies.
const HTTP: i32 = 80;

/// Whether coderd serves HTTPS itself.
pub fn serves_tls(spec: &CoderControlPlaneSpec) -> bool {
    spec.tls.iter().flat_map(|tls| &tls.secret_names).any(|name| !name.trim().is_empty())
}

/// Port of the Service as the spec has it.
pub fn service_port(spec: &CoderControlPlaneSpec) -> i32 {
    spec.service_port_or_default()
}

fn host(control_plane: &CoderControlPlane, cluster_domain: &str) -> Option<String> {
    let (name, namespace) =
        (control_plane.metadata.name.as_ref()?, control_plane.metadata.namespace.as_ref()?);
    Some(format!("{}.{namespace}.svc.{cluster_domain}", workload(name)))
}

/// [`ACCESS_URL`] as the operator sets it: the address of the Service, without a port that the scheme implies. None where
/// the spec does not want it or gives another, or where the object has no name or namespace yet.
pub fn access_url(control_plane: &CoderControlPlane, cluster_domain: &str) -> Option<String> {
    let spec = &control_plane.spec;
    let given = spec.extra_env.iter().any(|variable| variable.name == ACCESS_URL);
    if given || spec.env_use_cluster_access_url == Some(false) {
        return None;
    }
    let host = host(control_plane, cluster_domain)?;
    Some(match service_port(spec) {
        _ if serves_tls(spec) => format!("https://{host}"),
        HTTP => format!("http://{host}"),
        port => format!("http://{host}:{port}"),
    })
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
}
