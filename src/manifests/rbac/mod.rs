//! Decides what the operator and its users may do: one table, each row with the reason for it.
//! It never grants more than the code uses today: the issue that needs another right adds its row.

mod grants;
mod operator;
mod shapes;
mod users;

pub use operator::INJECTS_CA;
pub use shapes::{SPLIT_ROLES, SplitRole, WATCHED, grants_at_home, grants_in_watched};

/// The ServiceAccount the operator runs as.
pub const SERVICE_ACCOUNT: &str = "coder-k8s";
/// The ServiceAccount the operator writes Roles and RoleBindings as, by impersonation. What it holds is what may be
/// granted: Kubernetes lets nobody grant more than he has. No pod runs as it.
pub const GRANTS_ACCOUNT: &str = "coder-k8s-grants";
/// What the operator's own objects are called. Not as its account: the Go operator has a Deployment and a
/// ClusterRoleBinding of that name, and what is immutable in them would stop an installation over it half way.
pub const OPERATOR: &str = "coder-k8s-operator";
/// What the manifests say instead of a namespace until an overlay sets it.
pub const PLACEHOLDER_NAMESPACE: &str = "system";

/// The kinds of [`crds::well_known::GROUP`], as RBAC names them.
const KINDS: &[&str] = &["codercontrolplanes", "coderprovisioners", "coderworkspaceproxies"];
const SCALES: &[&str] =
    &["codercontrolplanes/scale", "coderprovisioners/scale", "coderworkspaceproxies/scale"];

/// The kinds whose children name them as owners that wait for them.
const OWNERS_OF_CHILDREN: &[&str] =
    &["codercontrolplanes/finalizers", "coderprovisioners/finalizers", "coderworkspaceproxies/finalizers"];
/// The same for those that have Roles and RoleBindings among their children: proxies have none.
const OWNERS_OF_ROLES: &[&str] = &["codercontrolplanes/finalizers", "coderprovisioners/finalizers"];

/// A Role or ClusterRole and everything it allows.
#[derive(Debug, Clone, Copy)]
pub struct Role {
    /// Its name before any prefix.
    pub name: &'static str,
    /// Who gets it.
    pub holder: Holder,
    /// What it is for, and why it has the shape it has.
    pub purpose: &'static str,
    /// What it allows.
    pub grants: &'static [Grant],
}

/// Who a [`Role`] is for, which also decides what is generated besides it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Holder {
    /// The operator, in every namespace: ClusterRole and ClusterRoleBinding.
    OperatorEverywhere,
    /// The operator, in its own namespace only: Role and RoleBinding.
    OperatorAtHome,
    /// The account that Roles and RoleBindings are written as, in every namespace: ClusterRole and ClusterRoleBinding.
    GrantsEverywhere,
    /// Whoever an administrator binds it to, and whoever has one of these built-in roles: ClusterRole.
    Users {
        /// `view`, `edit` or `admin`.
        aggregate_to: &'static [&'static str],
    },
}

/// A part of the operator that a right is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// The reconcilers.
    Controller,
    /// The admission webhooks.
    Webhooks,
    /// The aggregated API.
    AggregatedApi,
    /// Whoever signs a serving certificate by our CA; every process does.
    Certificates,
    /// Whoever keeps that CA and injects it.
    Authority,
    /// The port of metrics and log level; every process has it.
    Metrics,
}

/// How far a right must reach to be any good.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    /// It counts in each namespace for itself: a Role can give it.
    Namespace,
    /// It is about something outside of all namespaces, or about all of them at once: a Role cannot give it.
    Cluster,
}

/// One row of the table.
#[derive(Debug, Clone, Copy)]
pub struct Grant {
    /// What it is about.
    pub on: On,
    /// What may be done with it.
    pub verbs: &'static [&'static str],
    /// The parts of the operator that need it; none for a right of users.
    pub parts: &'static [Part],
    /// How far it must reach.
    pub extent: Extent,
    /// Why the right is needed.
    pub reason: &'static str,
}

/// What a [`Grant`] is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum On {
    /// Objects of the API.
    Resources {
        /// API group; empty for the core group.
        group: &'static str,
        /// Plural names, with a subresource after `/`.
        resources: &'static [&'static str],
    },
    /// Objects of the API with these names only.
    Named {
        /// API group; empty for the core group.
        group: &'static str,
        /// Plural names, with a subresource after `/`.
        resources: &'static [&'static str],
        /// Names of the objects.
        names: &'static [&'static str],
    },
    /// Paths of a server that asks the API server who may read them.
    Urls(&'static [&'static str]),
}

/// Everything the operator may do, and the roles it offers to its users.
pub const ROLES: &[Role] = &[
    operator::EVERYWHERE,
    grants::WRITES_GRANTS,
    grants::HANDED_ON,
    operator::FRONT_PROXY_READER,
    operator::AT_HOME,
    users::VIEW,
    users::EDIT,
    users::METRICS_READER,
    users::LOG_LEVEL,
];

#[cfg(test)]
mod tests {
    use super::*;
    use crds::well_known;

    #[test]
    fn every_right_of_ours_names_the_parts_that_need_it_and_no_right_of_users_does() {
        for (role, grant) in rows() {
            let is_of_users = matches!(role.holder, Holder::Users { .. });
            assert_eq!(grant.parts.is_empty(), is_of_users, "{grant:?}");
        }
    }

    fn rows() -> impl Iterator<Item = (&'static Role, &'static Grant)> {
        ROLES.iter().flat_map(|role| role.grants.iter().map(move |grant| (role, grant)))
    }

    fn words(grant: &Grant) -> Vec<&'static str> {
        let on = match grant.on {
            On::Resources { group, resources } => [&[group], resources].concat(),
            On::Named { group, resources, names } => [&[group], resources, names].concat(),
            On::Urls(urls) => urls.to_vec(),
        };
        [&on, grant.verbs].concat()
    }

    #[test]
    fn every_kind_of_child_can_be_watched_read_and_applied() {
        use crate::controller::children::ChildKind;
        use std::collections::BTreeSet;
        for kind in ChildKind::ALL {
            let [api_version, _, plural] = kind.names();
            let of = api_version.split_once('/').map_or("", |(group, _)| group);
            let verbs: BTreeSet<&str> = ROLES
                .iter()
                .filter(|role| matches!(role.holder, Holder::OperatorEverywhere | Holder::GrantsEverywhere))
                .flat_map(|role| role.grants)
                .filter(|grant| {
                    matches!(grant.on, On::Resources { group, resources } if group == of && resources.contains(&plural))
                })
                .flat_map(|grant| grant.verbs.iter().copied())
                .collect();
            for verb in ["get", "list", "watch", "create", "patch"] {
                assert!(verbs.contains(verb), "nobody may {verb} {plural}: {verbs:?}");
            }
        }
    }

    #[test]
    fn every_row_has_verbs_and_a_reason_and_every_role_a_purpose() {
        for (role, grant) in rows() {
            assert!(!grant.verbs.is_empty(), "{role:?}");
            for prose in [role.purpose, grant.reason] {
                assert!(
                    prose.ends_with('.') && prose.split_whitespace().count() >= 4,
                    "{prose:?} of {}",
                    role.name
                );
            }
        }
    }

    #[test]
    fn nothing_is_granted_by_wildcard_and_nobody_may_escalate() {
        for (role, grant) in rows() {
            let forbidden =
                |word: &&str| word.contains('*') || ["escalate", "bind", "impersonate"].contains(word);
            let found = words(grant).into_iter().find(forbidden);
            let cap = On::Named { group: "", resources: &["serviceaccounts"], names: &[GRANTS_ACCOUNT] };
            let is_cap = grant.on == cap && grant.verbs == ["impersonate"];
            assert!(
                found.is_none() || (is_cap && role.holder == Holder::OperatorAtHome),
                "{}: {found:?}",
                role.name
            );
        }
    }

    /// Else whoever fools the operator into granting something would be stopped by nothing.
    #[test]
    fn the_operator_writes_no_role_and_holds_nothing_only_to_hand_it_on() {
        for (role, grant) in rows().filter(|(_, grant)| words(grant).contains(&"rbac.authorization.k8s.io")) {
            let writes = grant.verbs.iter().any(|verb| !["get", "list", "watch"].contains(verb));
            assert_eq!(writes, role.holder == Holder::GrantsEverywhere, "{grant:?}");
        }
        let holders = |name| ROLES.iter().filter(move |role| role.name == name).map(|role| role.holder);
        assert_eq!(holders(well_known::HANDED_ON).collect::<Vec<_>>(), [Holder::GrantsEverywhere]);
    }

    #[test]
    fn secrets_elsewhere_are_written_for_the_keys_of_provisioners_only() {
        let elsewhere = rows().filter(|(role, _)| role.holder != Holder::OperatorAtHome);
        let is_read = |grant: &Grant| grant.verbs.iter().all(|verb| ["get", "list", "watch"].contains(verb));
        let written = elsewhere.filter(|(_, grant)| words(grant).contains(&"secrets") && !is_read(grant));
        let verbs: Vec<_> = written.map(|(_, grant)| grant.verbs).collect();
        assert_eq!(verbs, [["create", "patch", "delete"]]);
    }

    #[test]
    fn the_kinds_are_those_of_the_api() {
        let definitions = crds::custom_resource_definitions();
        let plurals: Vec<_> = definitions.iter().map(|crd| crd.spec.names.plural.as_str()).collect();
        assert_eq!(plurals, KINDS);
        let scales: Vec<_> = plurals.iter().map(|plural| format!("{plural}/scale")).collect();
        assert_eq!(scales, SCALES);
    }

    #[test]
    fn names_limit_no_right_that_cannot_be_limited_by_name() {
        for (_, grant) in rows().filter(|(_, grant)| matches!(grant.on, On::Named { .. })) {
            for verb in ["create", "deletecollection"] {
                assert!(!grant.verbs.contains(&verb), "{grant:?} allows nothing");
            }
        }
    }
}
