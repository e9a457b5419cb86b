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

/// Its pods are told the address: whoever chooses it chooses where users are sent with their sessions.
#[test]
fn an_address_that_pods_of_a_proxy_are_told_needs_the_right_to_run_them() {
    let asked = |old: Value, new: Value| -> Vec<String> {
        let [old, new] = [old, new].map(proxy);
        let required = required("CODER0509", Kind::WorkspaceProxy, Some(&old), &new);
        required.into_iter().map(|access| access.field).collect()
    };
    let ingress =
        |host: &str, wildcard: &str| json!({"expose": {"ingress": {"host": host, "wildcardHost": wildcard}}});
    let gateway = |host: &str| json!({"expose": {"gateway": {"host": host, "parentRefs": [{"name": "g"}]}}});
    let one = || ingress("a.example.com", "*.a.example.com");
    for (old, new) in [
        (json!({}), one()),
        (one(), ingress("b.example.com", "*.a.example.com")),
        (one(), ingress("a.example.com", "*.b.example.com")),
        (one(), gateway("a.example.com")),
        (one(), json!({})),
    ] {
        assert_eq!(asked(old.clone(), new.clone()), ["spec.expose"], "{old} {new}");
    }
    let given = |mut spec: Value| {
        spec["accessURL"] = json!("https://eu.example.com");
        spec["wildcardAccessURL"] = json!("*.eu.example.com");
        spec
    };
    let mut annotated = one();
    annotated["expose"]["ingress"]["annotations"] = json!({"a": "b"});
    for (old, new) in [(one(), one()), (one(), annotated), (given(json!({})), given(one()))] {
        assert_eq!(asked(old.clone(), new.clone()), [""; 0], "pods are told what they were: {old} {new}");
    }
    let [old, new] = [json!({}), one()].map(control_plane);
    let required = required("CODER0509", Kind::ControlPlane, Some(&old), &new);
    assert!(required.is_empty(), "coderd is told no address of these");
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
