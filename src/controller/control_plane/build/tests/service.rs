//! The Service in front of coderd.

use super::super::fixtures::ControlPlane;
use serde_json::{Value, json};

fn port(name: &str, port: i32, target: i32) -> Value {
    json!({"name": name, "port": port, "protocol": "TCP", "targetPort": target})
}

#[test]
fn the_ports_follow_from_the_spec_and_tls() {
    let test = ControlPlane::test;
    let tls = || ControlPlane::test().with_tls(&["a"]);
    for (given, expected) in [
        (test(), json!([port("http", 80, 8080)])),
        (test().on_port(443), json!([port("http", 443, 8080)])),
        (test().on_port(9000), json!([port("http", 9000, 8080)])),
        (tls(), json!([port("http", 80, 8080), port("https", 443, 8443)])),
        (tls().on_port(9000), json!([port("http", 9000, 8080), port("https", 443, 8443)])),
        (tls().on_port(443), json!([port("https", 443, 8443), port("http", 80, 8080)])),
        (test().with("metrics", json!({})), json!([port("http", 80, 8080)])),
    ] {
        assert_eq!(given.children().serving.service.manifest["spec"]["ports"], expected);
    }
}

#[test]
fn it_finds_the_pods_and_carries_the_annotations_of_the_spec() {
    let annotations = json!({"example.com/a": "b"});
    let given =
        ControlPlane::test().with("service", json!({"type": "LoadBalancer", "annotations": annotations}));
    let children = given.children();
    let service = &children.serving.service.manifest;
    assert_eq!(children.serving.service.name, "coder");
    assert_eq!(service["spec"]["type"], "LoadBalancer");
    assert_eq!(service["metadata"]["annotations"], annotations);
    let selector = &children.deployment.manifest["spec"]["selector"]["matchLabels"];
    assert_eq!(&service["spec"]["selector"], selector);
    assert_eq!(service["metadata"]["labels"], *selector);
    assert_eq!(ControlPlane::test().children().serving.service.manifest["spec"]["type"], "ClusterIP");
}
