//! The ServiceAccount of coderd.

use super::super::fixtures::ControlPlane;
use crate::controller::children::ChildKind;
use serde_json::json;

#[test]
fn it_is_named_after_the_control_plane_or_by_the_spec() {
    let account = ControlPlane::test().children().service_account.unwrap();
    assert_eq!((account.name.as_str(), account.kind), ("coder", ChildKind::ServiceAccount));
    assert!(account.manifest["metadata"].get("annotations").is_none());
    let named = ControlPlane::test().with("serviceAccount", json!({"name": "server"})).children();
    assert_eq!(named.service_account.unwrap().name, "server");
    assert_eq!(named.deployment.manifest["spec"]["template"]["spec"]["serviceAccountName"], "server");
}

#[test]
fn its_labels_and_annotations_are_added_and_ours_win() {
    let labels = json!({"team": "a", "app.kubernetes.io/managed-by": "me"});
    let given = json!({"labels": labels, "annotations": {"role": "r"}});
    let account = ControlPlane::test().with("serviceAccount", given).children().service_account.unwrap();
    let metadata = &account.manifest["metadata"];
    assert_eq!(metadata["labels"]["team"], "a");
    assert_eq!(metadata["labels"]["app.kubernetes.io/managed-by"], "coder-k8s");
    assert_eq!(metadata["annotations"], json!({"role": "r"}));
}

#[test]
fn an_account_of_somebody_else_is_used_and_not_made() {
    let given = json!({"name": "theirs", "disableCreate": true});
    let children = ControlPlane::test().with("serviceAccount", given).children();
    assert_eq!(children.service_account, None);
    assert_eq!(children.deployment.manifest["spec"]["template"]["spec"]["serviceAccountName"], "theirs");
    let binding = &children.workspace_access[0].binding.manifest;
    assert_eq!(binding["subjects"][0]["name"], "theirs");
}
