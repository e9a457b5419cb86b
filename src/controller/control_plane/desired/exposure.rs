//! Decides how users from outside reach coderd: an Ingress or an HTTPRoute of the name of the control plane, to the
//! port that speaks plain HTTP. Never both: where an old object asks for both, the Ingress stands.

use k8s_openapi::api::networking::v1::{
    HTTPIngressPath, HTTPIngressRuleValue, Ingress, IngressBackend, IngressRule, IngressServiceBackend,
    IngressSpec, IngressTLS, ServiceBackendPort,
};
use serde_json::{Map, Value, json};

use super::origin::Origin;
use super::{Child, filled};

/// Its kind, which comes with the Gateway API.
pub const HTTP_ROUTE: [&str; 3] = ["gateway.networking.k8s.io/v1", "HTTPRoute", "httproutes"];

/// A text without blanks around it; one that is empty counts as not given.
fn trimmed(text: &Option<String>) -> Option<&str> {
    text.as_deref().map(str::trim).filter(|text| !text.is_empty())
}

/// The Ingress, where the spec wants one.
pub(super) fn ingress(origin: &Origin<'_>) -> Option<Child> {
    let spec = origin.spec.expose.as_ref()?.ingress.as_ref()?;
    let (host, wildcard) = (spec.host.trim(), trimmed(&spec.wildcard_host));
    let tls = spec.tls.clone().unwrap_or_default();
    let certificate = |host: Option<&str>, secret: Option<&str>| {
        let (hosts, secret) = (vec![host?.to_owned()], secret?.to_owned());
        Some(IngressTLS { hosts: Some(hosts), secret_name: Some(secret) })
    };
    let certificates: Vec<IngressTLS> = [
        certificate(Some(host), trimmed(&tls.secret_name)),
        certificate(wildcard, trimmed(&tls.wildcard_secret_name)),
    ]
    .into_iter()
    .flatten()
    .collect();
    let mut metadata = origin.namesake();
    metadata.annotations = filled(&spec.annotations);
    Some(Child::of(&Ingress {
        metadata,
        spec: Some(IngressSpec {
            ingress_class_name: trimmed(&spec.class_name).map(str::to_owned),
            rules: Some(std::iter::once(host).chain(wildcard).map(|host| rule(origin, host)).collect()),
            tls: filled(&certificates),
            ..Default::default()
        }),
        status: None,
    }))
}

/// Everything under a host goes to coderd.
fn rule(origin: &Origin<'_>, host: &str) -> IngressRule {
    let backend = IngressServiceBackend {
        name: crds::names::control_plane::workload(origin.name).to_owned(),
        port: Some(ServiceBackendPort { number: Some(origin.plain_port()), ..Default::default() }),
    };
    let path = HTTPIngressPath {
        path: Some("/".to_owned()),
        path_type: "Prefix".to_owned(),
        backend: IngressBackend { service: Some(backend), ..Default::default() },
    };
    IngressRule { host: Some(host.to_owned()), http: Some(HTTPIngressRuleValue { paths: vec![path] }) }
}

/// The HTTPRoute, where the spec wants one.
pub(super) fn http_route(origin: &Origin<'_>) -> Option<Child> {
    let expose = origin.spec.expose.as_ref().filter(|expose| expose.ingress.is_none())?;
    let spec = expose.gateway.as_ref()?;
    let hosts: Vec<&str> = std::iter::once(spec.host.trim()).chain(trimmed(&spec.wildcard_host)).collect();
    let parents: Vec<Value> = spec
        .parent_refs
        .iter()
        .map(|parent| {
            let mut reference = Map::from_iter([("name".to_owned(), json!(parent.name.trim()))]);
            for (key, text) in [("namespace", &parent.namespace), ("sectionName", &parent.section_name)] {
                reference.extend(trimmed(text).map(|text| (key.to_owned(), json!(text))));
            }
            Value::Object(reference)
        })
        .collect();
    let backend = json!({
        "group": "",
        "kind": "Service",
        "name": crds::names::control_plane::workload(origin.name),
        "port": origin.plain_port(),
    });
    let matches = json!([{"path": {"type": "PathPrefix", "value": "/"}}]);
    let rules = json!([{"matches": matches, "backendRefs": [backend]}]);
    let spec = json!({"parentRefs": parents, "hostnames": hosts, "rules": rules});
    Some(Child::extension(HTTP_ROUTE, origin.namesake(), spec))
}

#[cfg(test)]
mod tests {
    use super::super::given::ControlPlane;
    use serde_json::{Value, json};

    fn ingress_rule(host: &str, port: i32) -> Value {
        let backend = json!({"service": {"name": "coder", "port": {"number": port}}});
        json!({"host": host, "http": {"paths": [{"path": "/", "pathType": "Prefix", "backend": backend}]}})
    }

    #[test]
    fn without_exposure_there_is_neither() {
        for given in [ControlPlane::test(), ControlPlane::test().with("expose", json!({}))] {
            let children = given.children();
            assert_eq!((children.ingress, children.http_route), (None, None));
        }
    }

    #[test]
    fn an_ingress_sends_every_host_to_the_plain_port() {
        let exposed = |given: ControlPlane| {
            let ingress = json!({"host": " coder.example.com ", "wildcardHost": "*.coder.example.com"});
            given.with("expose", json!({"ingress": ingress})).children()
        };
        let children = exposed(ControlPlane::test());
        let ingress = children.ingress.unwrap();
        assert_eq!((ingress.plural, ingress.name.as_str()), ("ingresses", "coder"));
        let rules = |port| {
            json!([ingress_rule("coder.example.com", port), ingress_rule("*.coder.example.com", port)])
        };
        assert_eq!(ingress.manifest["spec"], json!({"rules": rules(80)}));
        assert_eq!(children.http_route, None);
        for (given, port) in [
            (ControlPlane::test().on_port(9000), 9000),
            (ControlPlane::test().with_tls(&["a"]), 80),
            (ControlPlane::test().with_tls(&["a"]).on_port(443), 80),
            (ControlPlane::test().on_port(443), 443),
        ] {
            let ingress = exposed(given).ingress.unwrap();
            assert_eq!(ingress.manifest["spec"]["rules"], rules(port));
        }
    }

    #[test]
    fn an_ingress_carries_class_annotations_and_a_certificate_for_each_host_it_has() {
        let of = |wildcard: Option<&str>| {
            let mut ingress = json!({
                "host": "a.example.com", "className": "nginx", "annotations": {"example.com/a": "b"},
                "tls": {"secretName": "one", "wildcardSecretName": "two"},
            });
            if let Some(wildcard) = wildcard {
                ingress["wildcardHost"] = json!(wildcard);
            }
            let expose = json!({ "ingress": ingress });
            ControlPlane::test().with("expose", expose).children().ingress.unwrap().manifest
        };
        let one = json!({"hosts": ["a.example.com"], "secretName": "one"});
        let two = json!({"hosts": ["*.example.com"], "secretName": "two"});
        let ingress = of(Some("*.example.com"));
        assert_eq!(ingress["spec"]["tls"], json!([one, two]));
        assert_eq!(ingress["spec"]["ingressClassName"], "nginx");
        assert_eq!(ingress["metadata"]["annotations"], json!({"example.com/a": "b"}));
        assert_eq!(of(None)["spec"]["tls"], json!([one]), "a certificate without its host is left out");
    }

    #[test]
    fn a_route_attaches_to_its_gateways() {
        let gateway = json!({
            "host": "a.example.com", "wildcardHost": "*.example.com",
            "parentRefs": [{"name": " public ", "namespace": "gateways", "sectionName": "https"}, {"name": "b"}],
        });
        let children =
            ControlPlane::test().on_port(9000).with("expose", json!({"gateway": gateway})).children();
        let route = children.http_route.unwrap();
        assert_eq!((route.api_version, route.plural), ("gateway.networking.k8s.io/v1", "httproutes"));
        let backend = json!({"group": "", "kind": "Service", "name": "coder", "port": 9000});
        let matches = json!([{"path": {"type": "PathPrefix", "value": "/"}}]);
        let expected = json!({
            "parentRefs": [{"name": "public", "namespace": "gateways", "sectionName": "https"}, {"name": "b"}],
            "hostnames": ["a.example.com", "*.example.com"],
            "rules": [{"matches": matches, "backendRefs": [backend]}],
        });
        assert_eq!(route.manifest["spec"], expected);
        assert_eq!(children.ingress, None);
    }

    #[test]
    fn of_two_ways_the_ingress_stands() {
        let gateway = json!({"host": "a", "parentRefs": [{"name": "g"}]});
        let both = json!({"ingress": {"host": "a"}, "gateway": gateway});
        let children = ControlPlane::test().with("expose", both).children();
        assert!(children.ingress.is_some() && children.http_route.is_none());
    }
}
