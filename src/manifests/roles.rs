//! Decides how the table of rights becomes RBAC objects: a role for each entry, a binding where an account of ours holds it;
//! for one identity a role, and for a few namespaces, the rows that are needed then.
//! It never adds a right: every rule is a row of [`super::rbac::ROLES`].

use super::rbac::{
    GRANTS_ACCOUNT, Grant, Holder, On, PLACEHOLDER_NAMESPACE, ROLES, Role, SERVICE_ACCOUNT, SPLIT_ROLES,
    WATCHED, grants_in_watched,
};
use super::{File, Generated, ManifestError, yaml};
use crds::well_known::HANDED_ON;
use serde::Serialize;
use serde_json::{Value, json};
use serde_saphyr::FlowSeq;

const API_VERSION: &str = "rbac.authorization.k8s.io/v1";

/// `kustomize/base/rbac.yaml`, and what stands beside it or in its place.
pub(super) fn files() -> Generated {
    let of_table = |role: &'static Role| Shape {
        kind: role_kind(role.holder),
        name: role.name,
        metadata: metadata(role),
        purpose: role.purpose,
        grants: role.grants.iter().collect(),
        account: account(role.holder),
    };
    Ok(vec![
        file("kustomize/base/rbac.yaml", ROLES.iter().map(of_table))?,
        file("kustomize/components/split-roles/rbac.yaml", split())?,
        file("kustomize/overlays/namespaced/watched/rbac.yaml", watched())?,
    ])
}

/// One role as it is written, with who holds it.
struct Shape {
    kind: &'static str,
    name: &'static str,
    metadata: Value,
    purpose: &'static str,
    grants: Vec<&'static Grant>,
    account: Option<&'static str>,
}

fn file(path: &str, roles: impl IntoIterator<Item = Shape>) -> Result<File, ManifestError> {
    let mut documents = Vec::new();
    for role in roles {
        documents.push(rules_and_purpose(&role)?);
        if let Some(binding) = role.account.map(|account| binding(&role, account)) {
            documents.push(yaml::document(role.name, &binding)?);
        }
    }
    Ok(File { path: path.to_owned(), content: format!("{}{}", yaml::HEADER, documents.join("---\n")) })
}

/// The rights of one identity a role.
fn split() -> impl Iterator<Item = Shape> {
    SPLIT_ROLES.iter().flat_map(|role| {
        let shape = |kind, metadata, purpose, grants| Shape {
            kind,
            name: role.name,
            metadata,
            purpose,
            grants,
            account: Some(role.name),
        };
        let everywhere = "What this role does in every namespace or outside of all.";
        let at_home = "What this role does in its own namespace only.";
        [
            shape("ClusterRole", json!({ "name": role.name }), everywhere, role.everywhere().collect()),
            shape("Role", namespaced(role.name), at_home, role.at_home().collect()),
        ]
    })
}

/// The rights of an operator in a namespace that it watches.
fn watched() -> impl Iterator<Item = Shape> {
    let shape = |name, purpose, grants, account| Shape {
        kind: "Role",
        name,
        metadata: namespaced(name),
        purpose,
        grants,
        account: Some(account),
    };
    let is_handed_on = |name: &'static str| {
        let handed_on: &[Grant] = ROLES.iter().find(|role| role.name == name).map_or(&[], |role| role.grants);
        grants_in_watched(Holder::GrantsEverywhere)
            .filter(|grant| handed_on.iter().any(|one| one.on == grant.on && one.verbs == grant.verbs))
            .collect::<Vec<_>>()
    };
    let ours = grants_in_watched(Holder::OperatorEverywhere).collect();
    [
        shape(WATCHED, "What the operator does in a namespace that it watches.", ours, SERVICE_ACCOUNT),
        shape(GRANTS_ACCOUNT, purpose_of(GRANTS_ACCOUNT), is_handed_on(GRANTS_ACCOUNT), GRANTS_ACCOUNT),
        shape(
            HANDED_ON,
            "What coderd and its provisioners may be given in this namespace. A rule of spec.rbac.extraRules beyond it needs a Role \
             of your own that is bound to the same account.",
            is_handed_on(HANDED_ON),
            GRANTS_ACCOUNT,
        ),
    ]
    .into_iter()
}

fn purpose_of(name: &str) -> &'static str {
    ROLES.iter().find(|role| role.name == name).map_or("", |role| role.purpose)
}

/// A role, with its purpose and the reason of every rule as comments: whoever reviews the YAML sees why.
fn rules_and_purpose(role: &Shape) -> Result<String, ManifestError> {
    let head = json!({ "apiVersion": API_VERSION, "kind": role.kind, "metadata": role.metadata });
    let mut text = yaml::comment(role.purpose, 0);
    text.push_str(&yaml::document(role.name, &head)?);
    text.push_str("rules:\n");
    for grant in &role.grants {
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

fn namespaced(name: &str) -> Value {
    json!({ "name": name, "namespace": PLACEHOLDER_NAMESPACE })
}

fn metadata(role: &Role) -> Value {
    match role.holder {
        Holder::OperatorEverywhere | Holder::GrantsEverywhere => json!({ "name": role.name }),
        Holder::OperatorAtHome => namespaced(role.name),
        Holder::Users { aggregate_to: [] } => json!({ "name": role.name }),
        Holder::Users { aggregate_to } => {
            let label = |to: &&str| (format!("rbac.authorization.k8s.io/aggregate-to-{to}"), json!("true"));
            let labels: serde_json::Map<_, _> = aggregate_to.iter().map(label).collect();
            json!({ "labels": labels, "name": role.name })
        }
    }
}

/// The account of ours that holds a role; roles for users are bound by whoever runs the cluster.
fn account(holder: Holder) -> Option<&'static str> {
    match holder {
        Holder::OperatorEverywhere | Holder::OperatorAtHome => Some(SERVICE_ACCOUNT),
        Holder::GrantsEverywhere => Some(GRANTS_ACCOUNT),
        Holder::Users { .. } => None,
    }
}

/// What gives the role to an account of ours.
fn binding(role: &Shape, account: &str) -> Value {
    json!({
        "apiVersion": API_VERSION,
        "kind": format!("{}Binding", role.kind),
        "metadata": role.metadata,
        "roleRef": {
            "apiGroup": "rbac.authorization.k8s.io", "kind": role.kind, "name": role.name,
        },
        "subjects": [{
            "kind": "ServiceAccount", "name": account, "namespace": PLACEHOLDER_NAMESPACE,
        }],
    })
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
