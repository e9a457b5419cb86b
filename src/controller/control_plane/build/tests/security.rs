//! How little the pods of coderd may do.

use super::super::fixtures::ControlPlane;
use serde_json::{Value, json};

fn pod_context(given: Value) -> Value {
    ControlPlane::test().with("podSecurityContext", given).pod()["securityContext"].clone()
}

fn container_context(given: Value) -> Value {
    ControlPlane::test().with("securityContext", given).container()["securityContext"].clone()
}

#[test]
fn a_silent_spec_gives_a_pod_that_passes_the_restricted_standard() {
    let profile = json!({"type": "RuntimeDefault"});
    let pod = json!({"runAsNonRoot": true, "runAsUser": 1000, "runAsGroup": 1000, "seccompProfile": profile});
    assert_eq!(ControlPlane::test().pod()["securityContext"], pod);
    let container = json!({"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}});
    assert_eq!(ControlPlane::test().container()["securityContext"], container);
}

#[test]
fn each_field_the_spec_gives_stands_and_the_others_are_filled_in() {
    let context = pod_context(json!({"runAsUser": 2000, "fsGroup": 3000}));
    assert_eq!((&context["runAsUser"], &context["fsGroup"]), (&json!(2000), &json!(3000)));
    assert_eq!((&context["runAsNonRoot"], &context["runAsGroup"]), (&json!(true), &json!(1000)));
    let unconfined = pod_context(json!({"seccompProfile": {"type": "Unconfined"}, "runAsNonRoot": false}));
    assert_eq!(unconfined["seccompProfile"], json!({"type": "Unconfined"}));
    assert_eq!(unconfined["runAsNonRoot"], false);
    let context = container_context(
        json!({"readOnlyRootFilesystem": true, "capabilities": {"add": ["NET_BIND_SERVICE"]}}),
    );
    let expected = json!({
        "readOnlyRootFilesystem": true, "allowPrivilegeEscalation": false,
        "capabilities": {"add": ["NET_BIND_SERVICE"], "drop": ["ALL"]},
    });
    assert_eq!(context, expected);
    let kept = json!({"allowPrivilegeEscalation": true, "capabilities": {"drop": ["NET_RAW"]}});
    assert_eq!(container_context(kept.clone()), kept);
}

#[test]
fn root_that_is_asked_for_is_not_contradicted() {
    assert!(pod_context(json!({"runAsUser": 0})).get("runAsNonRoot").is_none());
    assert_eq!(container_context(json!({"runAsUser": 0}))["runAsNonRoot"], false);
    assert_eq!(container_context(json!({"runAsUser": 0, "runAsNonRoot": true}))["runAsNonRoot"], true);
}

#[test]
fn privileges_that_are_asked_for_are_not_contradicted() {
    assert_eq!(container_context(json!({"privileged": true})), json!({"privileged": true}));
    for name in ["SYS_ADMIN", "CAP_SYS_ADMIN"] {
        let context = container_context(json!({"capabilities": {"add": [name]}}));
        assert_eq!(context, json!({"capabilities": {"add": [name], "drop": ["ALL"]}}));
    }
}

#[test]
fn containers_that_run_before_get_the_same_defaults() {
    let containers = json!([
        {"name": "plain", "image": "a"},
        {"name": "root", "image": "b", "securityContext": {"runAsUser": 0}},
    ]);
    let pod = ControlPlane::test().with("initContainers", containers).pod();
    let tight = json!({"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}});
    assert_eq!(pod["initContainers"][0], json!({"name": "plain", "image": "a", "securityContext": tight}));
    assert_eq!(pod["initContainers"][1]["securityContext"]["runAsNonRoot"], false);
}
