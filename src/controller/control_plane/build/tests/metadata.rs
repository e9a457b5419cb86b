//! How the children of a control plane are recognised.

use super::super::fixtures::ControlPlane;
use serde_json::json;

#[test]
fn every_child_at_home_is_owned_and_labelled() {
    let given = ControlPlane::test().with_everything();
    for child in given.children().all().filter(|child| child.namespace == "ns") {
        let metadata = &child.manifest["metadata"];
        let owner = json!([{
            "apiVersion": "coder.com/v1alpha1", "kind": "CoderControlPlane", "name": "coder", "uid": "u-1",
            "controller": true, "blockOwnerDeletion": true,
        }]);
        assert_eq!(metadata["ownerReferences"], owner, "{}", child.kind.as_str());
        assert_eq!(metadata["namespace"], "ns");
        for (key, value) in
            [("name", "coder-control-plane"), ("instance", "coder"), ("managed-by", "coder-k8s")]
        {
            let label = &metadata["labels"][format!("app.kubernetes.io/{key}")];
            assert_eq!(label, value, "{}", child.kind.as_str());
        }
    }
}

#[test]
fn an_object_without_a_uid_owns_nothing_yet() {
    let given = ControlPlane::test().without_uid();
    for child in given.children().all() {
        assert!(child.manifest["metadata"].get("ownerReferences").is_none());
    }
}

#[test]
fn the_selector_in_text_form_has_the_three_labels() {
    let expected = "app.kubernetes.io/instance=coder,app.kubernetes.io/managed-by=coder-k8s,\
                    app.kubernetes.io/name=coder-control-plane";
    assert_eq!(ControlPlane::test().resolved().owner.selector_text(), expected);
}

#[test]
fn labels_and_annotations_of_the_control_plane_are_not_copied() {
    let mut given = ControlPlane::test();
    given.object["metadata"]["labels"] = json!({"argocd.argoproj.io/instance": "app"});
    given.object["metadata"]["annotations"] = json!({"example.com/a": "b"});
    let text = format!("{:?}", given.children());
    assert!(!text.contains("argocd.argoproj.io/instance") && !text.contains("example.com/a"));
}
