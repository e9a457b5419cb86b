//! The Deployment of coderd.

use super::super::fixtures::ControlPlane;
use serde_json::json;

#[test]
fn it_always_says_how_many_pods_there_are() {
    for (given, expected) in [
        (ControlPlane::test(), 1),
        (ControlPlane::test().with("replicas", json!(0)), 0),
        (ControlPlane::test().with("replicas", json!(3)), 3),
    ] {
        assert_eq!(given.children().deployment.manifest["spec"]["replicas"], expected);
    }
}

#[test]
fn it_owns_nothing_but_replicas_selector_and_template() {
    let deployment = ControlPlane::test().with_everything().children().deployment;
    assert_eq!(deployment.kind.names(), ["apps/v1", "Deployment", "deployments"]);
    let fields: Vec<&String> = deployment.manifest["spec"].as_object().unwrap().keys().collect();
    assert_eq!(fields, ["replicas", "selector", "template"]);
    let fields: Vec<&String> = deployment.manifest.as_object().unwrap().keys().collect();
    assert_eq!(fields, ["apiVersion", "kind", "metadata", "spec"]);
}

#[test]
fn its_selector_is_the_three_labels_whatever_the_pods_carry() {
    let given = ControlPlane::test().with("podLabels", json!({"team": "a"}));
    let spec = &given.children().deployment.manifest["spec"];
    let expected = json!({
        "app.kubernetes.io/name": "coder-control-plane",
        "app.kubernetes.io/instance": "coder",
        "app.kubernetes.io/managed-by": "coder-k8s",
    });
    assert_eq!(spec["selector"], json!({ "matchLabels": expected }));
    for (key, value) in expected.as_object().unwrap() {
        assert_eq!(&spec["template"]["metadata"]["labels"][key], value);
    }
}
