//! The Ingress and the HTTPRoute of a control plane.

use super::super::fixtures::ControlPlane;
use crate::controller::children::ChildKind;
use serde_json::{Value, json};

fn ingress_rule(host: &str, port: i32) -> Value {
    let backend = json!({"service": {"name": "coder", "port": {"number": port}}});
    json!({"host": host, "http": {"paths": [{"path": "/", "pathType": "Prefix", "backend": backend}]}})
}

#[test]
fn without_exposure_there_is_neither() {
    for given in [ControlPlane::test(), ControlPlane::test().with("expose", json!({}))] {
        let children = given.children();
        assert_eq!((children.serving.ingress, children.serving.http_route), (None, None));
    }
}

#[test]
fn an_ingress_sends_every_host_to_the_plain_port() {
    let exposed = |given: ControlPlane| {
        let ingress = json!({"host": " coder.example.com ", "wildcardHost": "*.coder.example.com"});
        given.with("expose", json!({"ingress": ingress})).children()
    };
    let children = exposed(ControlPlane::test());
    let ingress = children.serving.ingress.unwrap();
    assert_eq!((ingress.kind, ingress.name.as_str()), (ChildKind::Ingress, "coder"));
    let rules =
        |port| json!([ingress_rule("coder.example.com", port), ingress_rule("*.coder.example.com", port)]);
    assert_eq!(ingress.manifest["spec"], json!({"rules": rules(80)}));
    assert_eq!(children.serving.http_route, None);
    for (given, port) in [
        (ControlPlane::test().on_port(9000), 9000),
        (ControlPlane::test().with_tls(&["a"]), 80),
        (ControlPlane::test().with_tls(&["a"]).on_port(443), 80),
        (ControlPlane::test().on_port(443), 443),
    ] {
        let ingress = exposed(given).serving.ingress.unwrap();
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
        ControlPlane::test().with("expose", expose).children().serving.ingress.unwrap().manifest
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
    let children = ControlPlane::test().on_port(9000).with("expose", json!({"gateway": gateway})).children();
    let route = children.serving.http_route.unwrap();
    assert_eq!(route.kind.names(), ["gateway.networking.k8s.io/v1", "HTTPRoute", "httproutes"]);
    let backend = json!({"group": "", "kind": "Service", "name": "coder", "port": 9000});
    let matches = json!([{"path": {"type": "PathPrefix", "value": "/"}}]);
    let expected = json!({
        "parentRefs": [{"name": "public", "namespace": "gateways", "sectionName": "https"}, {"name": "b"}],
        "hostnames": ["a.example.com", "*.example.com"],
        "rules": [{"matches": matches, "backendRefs": [backend]}],
    });
    assert_eq!(route.manifest["spec"], expected);
    assert_eq!(children.serving.ingress, None);
}

#[test]
fn of_two_ways_the_ingress_stands() {
    let gateway = json!({"host": "a", "parentRefs": [{"name": "g"}]});
    let both = json!({"ingress": {"host": "a"}, "gateway": gateway});
    let children = ControlPlane::test().with("expose", both).children();
    assert!(children.serving.ingress.is_some() && children.serving.http_route.is_none());
}
