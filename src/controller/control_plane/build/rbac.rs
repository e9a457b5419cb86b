//! Decides what coderd may do in each namespace that holds workspaces: a Role and its RoleBinding.
//! Never asks whether the namespace exists or consents: who applies them does.

use crds::names::control_plane;
use crds::well_known::{MANAGER, annotation, label};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::{Child, ResolvedControlPlane};
use crate::controller::children::{ChildOwner, StringMap, non_empty, string_map};
use crate::controller::control_plane::resolve::WorkspacePermissions;
use crate::controller::workload::rights;

/// Role and RoleBinding for one namespace.
#[derive(Clone, Debug, PartialEq)]
pub struct WorkspaceAccess {
    /// The namespace.
    pub namespace: String,
    /// What coderd may do there.
    pub role: Child,
    /// What gives it to the account of coderd.
    pub binding: Child,
}

/// Access to the control plane's own namespace and to every other one the spec names; none where the spec wants none.
pub(super) fn workspace_access(plane: &ResolvedControlPlane) -> Vec<WorkspaceAccess> {
    let permissions = plane.permissions.iter();
    let places = permissions
        .flat_map(|permissions| permissions.namespaces.iter().map(move |namespace| (permissions, namespace)));
    places.map(|(permissions, namespace)| access(plane, permissions, namespace)).collect()
}

fn access(
    plane: &ResolvedControlPlane,
    permissions: &WorkspacePermissions,
    namespace: &str,
) -> WorkspaceAccess {
    let (owner, account) = (&plane.owner, &plane.pods.account.name);
    let WorkspacePermissions { namespaces: _, deployments, extra_rules } = permissions;
    let role = control_plane::workspace_role(&owner.namespace, &owner.name, account);
    let binding = control_plane::workspace_role_binding(&owner.namespace, &owner.name, account);
    WorkspaceAccess {
        namespace: namespace.to_owned(),
        role: rights::role(metadata(owner, namespace, &role), *deployments, extra_rules),
        binding: rights::binding(metadata(owner, namespace, &binding), &role, account, &owner.namespace),
    }
}

/// At home the control plane owns them. No owner reaches another namespace: there they are known by labels and uid, and
/// Argo CD is told that they are nobody's difference. They carry no `app.kubernetes.io/instance`, by which Argo CD
/// would claim them for an application of that name.
fn metadata(owner: &ChildOwner, namespace: &str, name: &str) -> ObjectMeta {
    let shortened = crds::names::instance_label(&owner.name);
    let identity = string_map([
        (label::CONTROL_PLANE, &shortened),
        (label::CONTROL_PLANE_NAMESPACE, owner.namespace.as_str()),
    ]);
    let mut annotations: StringMap =
        owner.uid.iter().map(|uid| (annotation::WORKSPACE_RBAC_OWNER_UID.to_owned(), uid.clone())).collect();
    if namespace == owner.namespace {
        let metadata = owner.metadata(name);
        let annotations = non_empty(&annotations);
        return ObjectMeta { labels: Some(owner.labels_over(&identity)), annotations, ..metadata };
    }
    annotations.extend(string_map([
        (annotation::ARGOCD_COMPARE_OPTIONS, "IgnoreExtraneous"),
        (annotation::ARGOCD_SYNC_OPTIONS, "Prune=false"),
    ]));
    let mut labels = identity;
    labels.extend(string_map([(label::MANAGED_BY, MANAGER)]));
    ObjectMeta {
        name: Some(name.to_owned()),
        namespace: Some(namespace.to_owned()),
        labels: Some(labels),
        annotations: Some(annotations),
        ..Default::default()
    }
}

#[cfg(test)]
mod tests {
    use super::super::fixtures::ControlPlane;
    use crate::controller::children::ChildKind;
    use serde_json::{Value, json};

    const VERBS: [&str; 8] =
        ["get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"];

    #[test]
    fn names_are_those_that_clusters_hold() {
        let children = ControlPlane::test().in_namespace("coder").children();
        let access = &children.workspace_access[0];
        assert_eq!(access.role.name, "coder-84e8e53b-workspace-perms");
        assert_eq!(access.binding.name, "coder-84e8e53b");
        assert_eq!((access.role.kind, access.binding.kind), (ChildKind::Role, ChildKind::RoleBinding));
    }

    #[test]
    fn coderd_may_manage_pods_claims_deployments_and_what_is_added() {
        let rule = |group: &str, resource: &str| json!({"apiGroups": [group], "resources": [resource], "verbs": VERBS});
        let extra = json!({"apiGroups": [""], "resources": ["services"], "verbs": ["get"]});
        let rules = |rbac: Value| {
            let children = ControlPlane::test().with("rbac", rbac).children();
            children.workspace_access[0].role.manifest["rules"].clone()
        };
        let (pods, claims) = (rule("", "pods"), rule("", "persistentvolumeclaims"));
        assert_eq!(rules(json!({})), json!([pods, claims, rule("apps", "deployments")]));
        assert_eq!(
            rules(json!({"enableDeployments": false, "extraRules": [extra]})),
            json!([pods, claims, extra])
        );
    }

    #[test]
    fn the_binding_gives_the_role_to_the_account_at_home() {
        let namespaces = json!({"workspaceNamespaces": ["team-a"]});
        let children = ControlPlane::test().with("rbac", namespaces).children();
        for access in &children.workspace_access {
            let binding = &access.binding.manifest;
            assert_eq!(
                binding["subjects"],
                json!([{"kind": "ServiceAccount", "name": "coder", "namespace": "ns"}])
            );
            let role =
                json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": access.role.name});
            assert_eq!(binding["roleRef"], role);
        }
    }

    #[test]
    fn namespaces_are_trimmed_and_taken_once_and_the_own_one_comes_first() {
        let namespaces = json!({"workspaceNamespaces": [" b ", "ns", "a", "b", " "]});
        let children = ControlPlane::test().with("rbac", namespaces).children();
        let found: Vec<&str> =
            children.workspace_access.iter().map(|access| access.namespace.as_str()).collect();
        assert_eq!(found, ["ns", "b", "a"]);
        assert!(children.workspace_access.iter().all(|access| access.role.namespace == access.namespace));
    }

    #[test]
    fn without_permissions_there_is_no_role_anywhere() {
        let rbac = json!({"workspacePerms": false, "workspaceNamespaces": ["a"]});
        assert_eq!(ControlPlane::test().with("rbac", rbac).children().workspace_access, []);
    }

    #[test]
    fn elsewhere_they_are_known_by_labels_and_uid_and_argo_cd_leaves_them_alone() {
        let namespaces = json!({"workspaceNamespaces": ["team-a"]});
        let children = ControlPlane::test().with("rbac", namespaces).children();
        let access = &children.workspace_access[1];
        for child in [&access.role, &access.binding] {
            let expected = json!({
                "name": child.name,
                "namespace": "team-a",
                "labels": {
                    "app.kubernetes.io/managed-by": "coder-k8s",
                    "coder.com/control-plane": "coder",
                    "coder.com/control-plane-namespace": "ns",
                },
                "annotations": {
                    "coder.com/workspace-rbac-owner-uid": "u-1",
                    "argocd.argoproj.io/compare-options": "IgnoreExtraneous",
                    "argocd.argoproj.io/sync-options": "Prune=false",
                },
            });
            assert_eq!(child.manifest["metadata"], expected);
        }
        let metadata = &children.workspace_access[0].role.manifest["metadata"];
        assert_eq!(metadata["labels"].as_object().unwrap().len(), 5);
        assert_eq!(metadata["annotations"], json!({"coder.com/workspace-rbac-owner-uid": "u-1"}));
    }
}
