//! How the children of a provisioner are recognised.

use super::super::fixtures::Provisioner;
use serde_json::json;

#[test]
fn every_child_is_owned_and_labelled() {
    for child in Provisioner::test().with_everything().children().all() {
        let metadata = &child.manifest["metadata"];
        let owner = json!([{
            "apiVersion": "coder.com/v1alpha1", "kind": "CoderProvisioner", "name": "builders", "uid": "u-1",
            "controller": true, "blockOwnerDeletion": true,
        }]);
        assert_eq!(metadata["ownerReferences"], owner, "{}", child.kind.as_str());
        assert_eq!(metadata["namespace"], "ns");
        for (key, value) in
            [("name", "coder-provisioner"), ("instance", "builders"), ("managed-by", "coder-k8s")]
        {
            let label = &metadata["labels"][format!("app.kubernetes.io/{key}")];
            assert_eq!(label, value, "{}", child.kind.as_str());
        }
    }
}

#[test]
fn an_object_without_a_uid_owns_nothing_yet() {
    for child in Provisioner::test().without_uid().children().all() {
        assert!(child.manifest["metadata"].get("ownerReferences").is_none());
    }
}

#[test]
fn labels_and_annotations_of_the_provisioner_are_not_copied() {
    let mut given = Provisioner::test();
    given.object["metadata"]["labels"] = json!({"argocd.argoproj.io/instance": "app"});
    given.object["metadata"]["annotations"] = json!({"example.com/a": "b"});
    let text = format!("{:?}", given.children());
    assert!(!text.contains("argocd.argoproj.io/instance") && !text.contains("example.com/a"));
}

#[test]
fn the_account_is_named_after_the_object_or_by_the_spec_and_one_of_somebody_else_is_not_made() {
    let account = Provisioner::test().children().service_account.unwrap();
    assert_eq!(account.name, "builders-provisioner");
    let labels = json!({"team": "a", "app.kubernetes.io/managed-by": "me"});
    let given = json!({"name": "robot", "labels": labels, "annotations": {"role": "r"}});
    let named = Provisioner::test().with("serviceAccount", given);
    let metadata = named.children().service_account.unwrap().manifest["metadata"].clone();
    assert_eq!(metadata["name"], "robot");
    assert_eq!((&metadata["labels"]["team"], &metadata["annotations"]["role"]), (&json!("a"), &json!("r")));
    assert_eq!(metadata["labels"]["app.kubernetes.io/managed-by"], "coder-k8s");
    let theirs = named.with("serviceAccount", json!({"disableCreate": true}));
    assert_eq!(theirs.children().service_account, None);
    assert_eq!(theirs.pod()["serviceAccountName"], "robot");
    assert_eq!(theirs.children().role_binding.unwrap().manifest["subjects"][0]["name"], "robot");
}
