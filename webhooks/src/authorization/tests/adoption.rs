//! Tests of what is asked of whoever has a Helm release taken over.
//! They never meet a cluster: the answers are given by the test.

use serde_json::{Value, json};

use super::*;

fn adopting(release: &str) -> Value {
    json!({"metadata": {"name": "coder", "annotations": {"coder.com/adopt-helm-release": release}},
        "spec": {"rbac": {"workspacePerms": false}}})
}

#[test]
fn whoever_may_run_pods_does_not_have_those_of_others_removed() {
    let (new, plain) = (adopting("coder"), control_plane(json!({"rbac": {"workspacePerms": false}})));
    let runs = |check: &AccessCheck| check.verb == "create";
    let deletes = |check: &AccessCheck| check.verb == "delete" && check.resource == "deployments";
    for old in [None, Some(&plain), Some(&adopting("other"))] {
        assert_eq!(denied(Kind::ControlPlane, old, &new, runs), ["CODER0513"]);
        assert_eq!(denied(Kind::ControlPlane, old, &new, deletes), ["CODER0509"], "it runs pods as well");
        assert_eq!(denied(Kind::ControlPlane, old, &new, |check| runs(check) || deletes(check)), [""; 0]);
    }
    let required = required("CODER0513", Kind::ControlPlane, None, &new);
    assert_eq!(required[0].field, "metadata.annotations[coder.com/adopt-helm-release]");
    assert_eq!(required[0].alternatives[0].in_words(), "delete deployments.apps in namespace coder");
}

#[test]
fn the_same_release_is_not_asked_for_again_and_to_take_the_annotation_away_asks_nothing() {
    let (new, plain) = (adopting("coder"), control_plane(json!({"rbac": {"workspacePerms": false}})));
    assert_eq!(asked(Kind::ControlPlane, Some(&new), &new), []);
    assert_eq!(asked(Kind::ControlPlane, Some(&new), &plain), []);
    let elsewhere = |kind| super::required("CODER0513", kind, None, &new);
    assert_eq!((elsewhere(Kind::Provisioner), elsewhere(Kind::WorkspaceProxy)), (Vec::new(), Vec::new()));
}
