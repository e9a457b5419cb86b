//! Decides which rows of the table other shapes of an installation need: one identity a role, or Roles in a few namespaces.
//! It never adds a row: each of them is a row of [`super::ROLES`].

use super::{Extent, Grant, Holder, Part, ROLES, Role};

/// What the Role is called that the operator has in a namespace that it watches.
pub const WATCHED: &str = "coder-k8s-watched";

/// A role of the operator that has a Deployment and an account of its own.
#[derive(Debug, Clone, Copy)]
pub struct SplitRole {
    /// What its account, its roles and its Deployment are called.
    pub name: &'static str,
    /// The value of its `--app`.
    pub app: &'static str,
    /// What it runs.
    pub parts: &'static [Part],
}

/// The roles. Whoever may write the Secret of the CA can have it deleted and make it anew as the token of an account, so the CA is kept
/// by the role that may read and write every Secret already. A part that comes to the operator with a mode of its own adds one.
pub const SPLIT_ROLES: &[SplitRole] = &[
    SplitRole {
        name: "coder-k8s-controller",
        app: "controller",
        parts: &[Part::Controller, Part::Authority, Part::Certificates, Part::Metrics],
    },
    SplitRole {
        name: "coder-k8s-webhooks",
        app: "webhooks",
        parts: &[Part::Webhooks, Part::Certificates, Part::Metrics],
    },
];

impl SplitRole {
    /// What its account may do in every namespace or outside of all.
    pub fn everywhere(&self) -> impl Iterator<Item = &'static Grant> {
        needed(Holder::OperatorEverywhere, self.parts)
    }

    /// What its account may do in its own namespace.
    pub fn at_home(&self) -> impl Iterator<Item = &'static Grant> {
        needed(Holder::OperatorAtHome, self.parts)
    }
}

/// What an operator that watches a few namespaces only runs.
const OF_NAMESPACED: &[Part] = &[Part::Controller, Part::Authority, Part::Certificates, Part::Metrics];

/// What a holder of such an operator may do in each namespace that it watches.
pub fn grants_in_watched(holder: Holder) -> impl Iterator<Item = &'static Grant> {
    needed(holder, OF_NAMESPACED).filter(|grant| grant.extent == Extent::Namespace)
}

/// What it may do in its own namespace.
pub fn grants_at_home() -> impl Iterator<Item = &'static Grant> {
    needed(Holder::OperatorAtHome, OF_NAMESPACED)
}

fn needed(holder: Holder, parts: &'static [Part]) -> impl Iterator<Item = &'static Grant> {
    let of_holder = ROLES.iter().filter(move |role: &&Role| role.holder == holder);
    let grants = of_holder.flat_map(|role| role.grants);
    grants.filter(move |grant| grant.parts.iter().any(|part| parts.contains(part)))
}

#[cfg(test)]
mod tests {
    use super::super::On;
    use super::*;
    use crate::serving::authority::SECRET as CA_SECRET;

    fn is_about(grant: &Grant, resource: &str) -> bool {
        match grant.on {
            On::Resources { resources, .. } | On::Named { resources, .. } => resources.contains(&resource),
            On::Urls(_) => false,
        }
    }

    #[test]
    fn the_roles_together_may_do_what_the_one_operator_may_but_for_parts_that_none_of_them_runs() {
        let ours = [Holder::OperatorEverywhere, Holder::OperatorAtHome];
        for role in ROLES.iter().filter(|role| ours.contains(&role.holder)) {
            for grant in role.grants {
                let mut all = SPLIT_ROLES.iter().flat_map(|one| one.everywhere().chain(one.at_home()));
                let is_there = all.any(|one| one.on == grant.on && one.verbs == grant.verbs);
                assert_eq!(is_there, grant.parts != [Part::AggregatedApi], "{grant:?}");
            }
        }
    }

    #[test]
    fn the_webhooks_hold_no_secret_but_the_ca_and_write_nothing() {
        let webhooks = SPLIT_ROLES.iter().find(|role| role.app == "webhooks").unwrap();
        assert!(!webhooks.everywhere().any(|grant| is_about(grant, "secrets")));
        for grant in webhooks.at_home() {
            let named = On::Named { group: "", resources: &["secrets"], names: &[CA_SECRET] };
            assert_eq!((grant.on, grant.verbs), (named, ["list", "watch"].as_slice()));
        }
        let writes = |grant: &&Grant| grant.verbs.iter().any(|verb| !["get", "list", "watch"].contains(verb));
        let questions = ["tokenreviews", "subjectaccessreviews"];
        for grant in webhooks.everywhere().filter(writes) {
            assert!(questions.iter().any(|question| is_about(grant, question)), "{grant:?}");
        }
        assert!(!webhooks.everywhere().any(|grant| is_about(grant, "deployments")));
    }

    #[test]
    fn in_a_watched_namespace_nothing_is_given_that_a_role_cannot_give() {
        let resources = ["customresourcedefinitions", "apiservices", "tokenreviews", "subjectaccessreviews"];
        for grant in grants_in_watched(Holder::OperatorEverywhere) {
            assert!(!resources.iter().any(|resource| is_about(grant, resource)), "{grant:?}");
            assert!(!is_about(grant, "namespaces") || grant.verbs == ["get"], "{grant:?}");
        }
        let all = || grants_in_watched(Holder::OperatorEverywhere);
        assert!(
            all().any(|grant| is_about(grant, "deployments")) && all().any(|one| is_about(one, "secrets"))
        );
        assert!(grants_in_watched(Holder::GrantsEverywhere).any(|grant| is_about(grant, "rolebindings")));
    }
}
