//! Decides what pods may do where they run workspaces: the Role, and the RoleBinding that gives it to their account.
//! Never asks whether somebody may grant it: who applies them does.

use crate::controller::children::Child;
use crds::well_known::workspace_access;
use k8s_openapi::api::rbac::v1::{PolicyRule, Role, RoleBinding, RoleRef, Subject};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

const RBAC: &str = "rbac.authorization.k8s.io";

/// A Role: pods and volume claims, Deployments where they are allowed, and what the spec adds.
pub(crate) fn role(metadata: ObjectMeta, deployments: bool, extra_rules: &[PolicyRule]) -> Child {
    let all_of = |group: &str, resource: &str| PolicyRule {
        api_groups: Some(vec![group.to_owned()]),
        resources: Some(vec![resource.to_owned()]),
        verbs: workspace_access::VERBS.map(str::to_owned).to_vec(),
        ..Default::default()
    };
    let granted = workspace_access::granted(deployments);
    let mut rules: Vec<PolicyRule> =
        granted.map(|(resources, resource)| all_of(resources.group, resource)).collect();
    rules.extend(extra_rules.iter().cloned());
    Child::of(&Role { metadata, rules: Some(rules) })
}

/// A RoleBinding of a Role in its namespace to an account, which may live in another.
pub(crate) fn binding(metadata: ObjectMeta, role: &str, account: &str, home: &str) -> Child {
    Child::of(&RoleBinding {
        metadata,
        role_ref: RoleRef { api_group: RBAC.to_owned(), kind: "Role".to_owned(), name: role.to_owned() },
        subjects: Some(vec![Subject {
            kind: "ServiceAccount".to_owned(),
            name: account.to_owned(),
            namespace: Some(home.to_owned()),
            ..Default::default()
        }]),
    })
}
