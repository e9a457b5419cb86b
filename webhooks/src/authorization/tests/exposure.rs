//! Tests of when the right to expose is asked for.
//! They never meet a cluster: the answers are given by the test.

use serde_json::{Value, json};

use super::*;

fn exposed(kind: Kind, old: Option<&Value>, new: &Value) -> Vec<(String, String)> {
    let required = required("CODER0510", kind, old, new);
    required.into_iter().map(|access| (access.field, access.alternatives[0].in_words())).collect()
}

fn told(field: &str, resource: &str) -> Vec<(String, String)> {
    vec![(field.to_owned(), format!("create {resource} in namespace coder"))]
}

#[test]
fn each_way_in_asks_for_the_right_to_make_it_by_hand() {
    let gateway = |host: &str| json!({"expose": {"gateway": {"host": host, "parentRefs": [{"name": "g"}]}}});
    let ingress = |host: &str| json!({"expose": {"ingress": {"host": host}}});
    let service = |port: i32| json!({"service": {"type": "NodePort", "port": port}});
    for (one, other, field, resource) in [
        (ingress("a"), ingress("b"), "spec.expose.ingress", "ingresses.networking.k8s.io"),
        (gateway("a"), gateway("b"), "spec.expose.gateway", "httproutes.gateway.networking.k8s.io"),
        (service(1), service(2), "spec.service", "services"),
    ] {
        let [one, other] = [one, other].map(control_plane);
        let kind = Kind::ControlPlane;
        assert_eq!(exposed(kind, None, &one), told(field, resource));
        assert_eq!(exposed(kind, Some(&control_plane(json!({}))), &one), told(field, resource));
        assert_eq!(exposed(kind, Some(&one), &other), told(field, resource));
        assert_eq!(exposed(kind, Some(&one), &one), []);
        assert_eq!(exposed(kind, Some(&one), &control_plane(json!({}))), [], "what goes is not asked for");
        let pods = |check: &AccessCheck| ["pods", "deployments"].contains(&check.resource.as_str());
        assert_eq!(denied(kind, Some(&one), &other, pods), ["CODER0510"], "pods are no way in");
    }
    let proxied = proxy(json!({"service": {"type": "LoadBalancer"}}));
    assert_eq!(exposed(Kind::WorkspaceProxy, None, &proxied), told("spec.service", "services"));
    let proxied = proxy(ingress("a"));
    let asked = told("spec.expose.ingress", "ingresses.networking.k8s.io");
    assert_eq!(exposed(Kind::WorkspaceProxy, None, &proxied), asked);
}

#[test]
fn annotations_count_and_the_plain_service_does_not() {
    let of = |service: Value| control_plane(json!({ "service": service }));
    let kind = Kind::ControlPlane;
    for plain in
        [json!({}), json!({"type": "ClusterIP", "port": 8080}), json!({"port": 1, "annotations": {}})]
    {
        assert_eq!(exposed(kind, None, &of(plain)), []);
    }
    let marked = of(json!({"annotations": {"cloud.example.com/expose": "true"}}));
    assert_eq!(exposed(kind, None, &marked).len(), 1);
    let balanced = |annotations: Value| of(json!({"type": "LoadBalancer", "annotations": annotations}));
    let (inside, outside) = (balanced(json!({"internal": "true"})), balanced(json!({})));
    assert_eq!(exposed(kind, Some(&inside), &outside).len(), 1, "without the annotation it is open");
    assert_eq!(exposed(kind, Some(&inside), &of(json!({}))), []);
    let [silent, completed] = [json!({"type": "NodePort"}), json!({"type": "NodePort", "port": 80})].map(of);
    assert_eq!(exposed(kind, Some(&silent), &completed), [], "a default is no change");
}
