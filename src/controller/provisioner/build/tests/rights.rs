//! What daemons may do in their namespace.

use super::super::fixtures::Provisioner;
use crate::controller::children::ChildKind;
use serde_json::{Value, json};

const VERBS: [&str; 8] = ["get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"];

fn rules(rbac: Value) -> Value {
    Provisioner::test().with("rbac", rbac).children().role.unwrap().manifest["rules"].clone()
}

#[test]
fn daemons_may_manage_pods_and_claims_and_what_is_asked_for() {
    let rule =
        |group: &str, resource: &str| json!({"apiGroups": [group], "resources": [resource], "verbs": VERBS});
    let extra = json!({"apiGroups": [""], "resources": ["services"], "verbs": ["get"]});
    let (pods, claims) = (rule("", "pods"), rule("", "persistentvolumeclaims"));
    assert_eq!(rules(json!({})), json!([pods, claims]));
    assert_eq!(
        rules(json!({"enableDeployments": true, "extraRules": [extra]})),
        json!([pods, claims, rule("apps", "deployments"), extra])
    );
}

#[test]
fn the_binding_gives_the_role_to_the_account() {
    let binding = Provisioner::test().children().role_binding.unwrap().manifest;
    let account = json!({"kind": "ServiceAccount", "name": "builders-provisioner", "namespace": "ns"});
    assert_eq!(binding["subjects"], json!([account]));
    let role =
        json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "provisioner-builders"});
    assert_eq!(binding["roleRef"], role);
}

#[test]
fn without_permissions_both_go_and_the_binding_goes_first() {
    let children = Provisioner::test().with("rbac", json!({"workspacePerms": false})).children();
    assert_eq!((children.role.as_ref(), children.role_binding.as_ref()), (None, None));
    assert_eq!(children.absent()[..2], [ChildKind::RoleBinding, ChildKind::Role]);
    let waiting = Provisioner::test().without_key().children();
    assert!(!waiting.absent().contains(&ChildKind::Deployment), "what runs is never taken away");
}
