//! Decides how the table of rights becomes RBAC objects: a role for each entry, a binding where an account of ours holds it.
//! It never adds a right: every rule is a row of [`super::rbac::ROLES`].

use super::rbac::{GRANTS_ACCOUNT, Grant, Holder, On, PLACEHOLDER_NAMESPACE, ROLES, Role, SERVICE_ACCOUNT};
use super::{File, Generated, ManifestError, yaml};
use serde::Serialize;
use serde_json::{Value, json};
use serde_saphyr::FlowSeq;

const API_VERSION: &str = "rbac.authorization.k8s.io/v1";

/// `kustomize/base/rbac.yaml`.
pub(super) fn files() -> Generated {
    let mut content = yaml::HEADER.to_owned();
    for (index, role) in ROLES.iter().enumerate() {
        if index > 0 {
            content.push_str("---\n");
        }
        content.push_str(&rules_and_purpose(role)?);
        if let Some(binding) = binding(role) {
            content.push_str("---\n");
            content.push_str(&yaml::document(role.name, &binding)?);
        }
    }
    Ok(vec![File { path: "kustomize/base/rbac.yaml".to_owned(), content }])
}

/// A role, with its purpose and the reason of every rule as comments: whoever reviews the YAML sees why.
fn rules_and_purpose(role: &Role) -> Result<String, ManifestError> {
    let head =
        json!({ "apiVersion": API_VERSION, "kind": role_kind(role.holder), "metadata": metadata(role) });
    let mut text = yaml::comment(role.purpose, 0);
    text.push_str(&yaml::document(role.name, &head)?);
    text.push_str("rules:\n");
    for grant in role.grants {
        text.push_str(&yaml::comment(grant.reason, 0));
        text.push_str(&yaml::fragment(role.name, &[Rule::of(grant)])?);
    }
    Ok(text)
}

pub(super) fn role_kind(holder: Holder) -> &'static str {
    match holder {
        Holder::OperatorAtHome => "Role",
        Holder::OperatorEverywhere | Holder::GrantsEverywhere | Holder::Users { .. } => "ClusterRole",
    }
}

fn metadata(role: &Role) -> Value {
    match role.holder {
        Holder::OperatorEverywhere | Holder::GrantsEverywhere => json!({ "name": role.name }),
        Holder::OperatorAtHome => json!({ "name": role.name, "namespace": PLACEHOLDER_NAMESPACE }),
        Holder::Users { aggregate_to: [] } => json!({ "name": role.name }),
        Holder::Users { aggregate_to } => {
            let label = |to: &&str| (format!("rbac.authorization.k8s.io/aggregate-to-{to}"), json!("true"));
            let labels: serde_json::Map<_, _> = aggregate_to.iter().map(label).collect();
            json!({ "labels": labels, "name": role.name })
        }
    }
}

/// What gives the role to an account of ours; roles for users are bound by whoever runs the cluster.
fn binding(role: &Role) -> Option<Value> {
    let (kind, account) = match role.holder {
        Holder::OperatorEverywhere => ("ClusterRoleBinding", SERVICE_ACCOUNT),
        Holder::OperatorAtHome => ("RoleBinding", SERVICE_ACCOUNT),
        Holder::GrantsEverywhere => ("ClusterRoleBinding", GRANTS_ACCOUNT),
        Holder::Users { .. } => return None,
    };
    Some(json!({
        "apiVersion": API_VERSION,
        "kind": kind,
        "metadata": metadata(role),
        "roleRef": {
            "apiGroup": "rbac.authorization.k8s.io", "kind": role_kind(role.holder), "name": role.name,
        },
        "subjects": [{
            "kind": "ServiceAccount", "name": account, "namespace": PLACEHOLDER_NAMESPACE,
        }],
    }))
}

/// A list in one line: a rule then fits on a screen next to its reason.
type Words = FlowSeq<&'static [&'static str]>;

/// A PolicyRule as it is written.
#[derive(Serialize, Default)]
#[serde(rename_all = "camelCase")]
struct Rule {
    #[serde(skip_serializing_if = "Option::is_none")]
    api_groups: Option<FlowSeq<[&'static str; 1]>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    resources: Option<Words>,
    #[serde(skip_serializing_if = "Option::is_none")]
    resource_names: Option<Words>,
    #[serde(rename = "nonResourceURLs", skip_serializing_if = "Option::is_none")]
    non_resource_urls: Option<Words>,
    verbs: Option<Words>,
}

impl Rule {
    fn of(grant: &Grant) -> Self {
        let verbs = Some(FlowSeq(grant.verbs));
        match grant.on {
            On::Resources { group, resources } => Self {
                api_groups: Some(FlowSeq([group])),
                resources: Some(FlowSeq(resources)),
                verbs,
                ..Self::default()
            },
            On::Named { group, resources, names } => Self {
                api_groups: Some(FlowSeq([group])),
                resources: Some(FlowSeq(resources)),
                resource_names: Some(FlowSeq(names)),
                verbs,
                ..Self::default()
            },
            On::Urls(urls) => Self { non_resource_urls: Some(FlowSeq(urls)), verbs, ..Self::default() },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::api::rbac::v1::{ClusterRole, Role as NamespacedRole};

    fn documents() -> Vec<Value> {
        let rbac = files().unwrap().remove(0);
        serde_saphyr::from_multiple(&rbac.content).unwrap()
    }

    #[test]
    fn the_yaml_reads_back_as_the_rows_of_the_table() {
        let documents = documents();
        let read: Vec<_> = documents.iter().filter(|object| object.get("rules").is_some()).collect();
        assert_eq!(read.len(), ROLES.len());
        for (object, role) in read.iter().zip(ROLES) {
            let object = (*object).clone();
            let rules = match role.holder {
                Holder::OperatorAtHome => serde_json::from_value::<NamespacedRole>(object).unwrap().rules,
                _ => serde_json::from_value::<ClusterRole>(object).unwrap().rules,
            };
            let verbs: Vec<_> = rules.unwrap().into_iter().map(|rule| rule.verbs).collect();
            assert_eq!(verbs, role.grants.iter().map(|grant| grant.verbs.to_vec()).collect::<Vec<_>>());
        }
    }

    #[test]
    fn only_our_two_accounts_are_bound_and_each_to_its_own_roles() {
        for object in documents() {
            let Some(subjects) = object.get("subjects") else { continue };
            let handed_on = ["coder-k8s-grants", "coder-k8s-workspaces"].map(Value::from);
            let account =
                if handed_on.contains(&object["roleRef"]["name"]) { "coder-k8s-grants" } else { "coder-k8s" };
            assert_eq!(
                subjects,
                &json!([{ "kind": "ServiceAccount", "name": account, "namespace": "system" }])
            );
        }
    }
}
