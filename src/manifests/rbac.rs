//! Decides what the operator and its users may do: one table, each row with the reason for it.
//! It never grants more than the code uses today: the issue that needs another right adds its row.

use crate::kubernetes::lease::{AUTHORITY_LEASE, CONTROLLER_LEASE};
use crate::serving::authority::SECRET as CA_SECRET;
use crds::well_known;
use crds::well_known::workspace_access::{DEPLOYMENTS, PODS, VERBS};

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

/// The kinds of [`well_known::GROUP`], as RBAC names them.
const KINDS: &[&str] = &["codercontrolplanes", "coderprovisioners", "coderworkspaceproxies"];
const SCALES: &[&str] =
    &["codercontrolplanes/scale", "coderprovisioners/scale", "coderworkspaceproxies/scale"];

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

/// One row of the table.
#[derive(Debug, Clone, Copy)]
pub struct Grant {
    /// What it is about.
    pub on: On,
    /// What may be done with it.
    pub verbs: &'static [&'static str],
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
    Role {
        name: OPERATOR,
        holder: Holder::OperatorEverywhere,
        purpose: "What the operator does in every namespace or outside of all.",
        grants: &[
            Grant {
                on: On::Resources { group: well_known::GROUP, resources: KINDS },
                verbs: &["list", "watch"],
                reason: "The operator follows the objects it is there for.",
            },
            Grant {
                on: On::Resources { group: well_known::GROUP, resources: &["codercontrolplanes"] },
                verbs: &["get", "patch"],
                reason: "A pass reads the object as it is now; the patch is for our finalizer alone.",
            },
            Grant {
                on: On::Resources { group: well_known::GROUP, resources: &["codercontrolplanes/status"] },
                verbs: &["patch"],
                reason: "It says what it observed.",
            },
            Grant {
                on: On::Resources { group: well_known::GROUP, resources: &["codercontrolplanes/finalizers"] },
                verbs: &["update"],
                reason: "Children hold back a deletion in the foreground until they are gone. Clusters that guard this \
                         (OpenShift does) ask for the right when a child is made; nothing is ever called with it.",
            },
            Grant {
                on: On::Resources { group: "", resources: &["secrets", "configmaps", "namespaces"] },
                verbs: &["get", "list", "watch"],
                reason: "Objects refer to Secrets and ConfigMaps by name: those are read when they are needed and never \
                         kept. Lists and watches ask for metadata only; namespaces say by a label whose workspaces \
                         they take.",
            },
            Grant {
                on: On::Resources { group: "", resources: &["services"] },
                verbs: &["get", "list", "watch", "create", "patch"],
                reason: "A child of every control plane; it goes with its owner.",
            },
            Grant {
                on: On::Resources { group: "", resources: &["serviceaccounts"] },
                verbs: &["get", "list", "watch", "create", "patch", "delete"],
                reason: "Another child; one that the spec names no more is removed.",
            },
            Grant {
                on: On::Resources { group: "apps", resources: &["deployments"] },
                verbs: &["get", "list", "watch", "create", "patch"],
                reason: "The same for its pods.",
            },
            Grant {
                on: On::Resources { group: "", resources: &["pods"] },
                verbs: &["list"],
                reason: "Whether a rollout that is late is slow or stuck; asked only then, for the pods of one control plane.",
            },
            Grant {
                on: On::Resources {
                    group: "rbac.authorization.k8s.io",
                    resources: &["roles", "rolebindings"],
                },
                verbs: &["get", "list", "watch"],
                reason: "What coderd may do where it runs workspaces. It is written and taken back as another account, \
                         coder-k8s-grants, which holds only what may be granted.",
            },
            Grant {
                on: On::Resources { group: "networking.k8s.io", resources: &["ingresses"] },
                verbs: &["get", "list", "watch", "create", "patch", "delete"],
                reason: "How users reach coderd from outside the cluster; removed when it is no longer asked for.",
            },
            Grant {
                on: On::Resources { group: "gateway.networking.k8s.io", resources: &["httproutes"] },
                verbs: &["get", "list", "watch", "create", "patch", "delete"],
                reason: "The same by the Gateway API, where the cluster has it.",
            },
            Grant {
                on: On::Resources { group: "policy", resources: &["poddisruptionbudgets"] },
                verbs: &["get", "list", "watch", "create", "patch", "delete"],
                reason: "Keeps replicas apart from drains, where it is asked for.",
            },
            Grant {
                on: On::Resources { group: "monitoring.coreos.com", resources: &["servicemonitors"] },
                verbs: &["get", "list", "watch", "create", "patch", "delete"],
                reason: "Tells the Prometheus operator where to look, where there is one.",
            },
            Grant {
                on: On::Named {
                    group: "apiextensions.k8s.io",
                    resources: &["customresourcedefinitions"],
                    names: &["httproutes.gateway.networking.k8s.io", "servicemonitors.monitoring.coreos.com"],
                },
                verbs: &["list", "watch"],
                reason: "The last two kinds come with these definitions: nothing is asked about a kind that is not there, and \
                         its objects are followed as soon as it is.",
            },
            Grant {
                on: On::Resources {
                    group: "admissionregistration.k8s.io",
                    resources: &["mutatingwebhookconfigurations", "validatingwebhookconfigurations"],
                },
                verbs: &["list", "watch", "patch"],
                reason: "It puts its CA in the caBundle of configurations labelled coder.com/inject-ca and reads the \
                         names of the Services they call. Their names carry the prefix of an overlay, so the right \
                         cannot be limited by name.",
            },
            Grant {
                on: On::Resources { group: "apiregistration.k8s.io", resources: &["apiservices"] },
                verbs: &["list", "watch", "patch"],
                reason: "The same for the aggregated API.",
            },
            Grant {
                on: On::Resources { group: "events.k8s.io", resources: &["events"] },
                verbs: &["create", "patch"],
                reason: "It tells in Events, which are kept beside the object they are about, what it did and what went wrong, and \
                         counts repetitions in the Event that is there.",
            },
            Grant {
                on: On::Resources { group: "authentication.k8s.io", resources: &["tokenreviews"] },
                verbs: &["create"],
                reason: "It asks the API server whose bearer token a caller shows.",
            },
            Grant {
                on: On::Resources { group: "authorization.k8s.io", resources: &["subjectaccessreviews"] },
                verbs: &["create"],
                reason: "It asks the API server whether a caller may do what it asks for.",
            },
        ],
    },
    Role {
        name: GRANTS_ACCOUNT,
        holder: Holder::GrantsEverywhere,
        purpose: "What the account does that Roles and RoleBindings are written as. It reads nothing and has no pod; the \
                  operator impersonates it for these calls alone.",
        grants: &[
            Grant {
                on: On::Resources {
                    group: "rbac.authorization.k8s.io",
                    resources: &["roles", "rolebindings"],
                },
                verbs: &["create", "patch", "delete"],
                reason: "What coderd may do where it runs workspaces; taken back when it is no longer asked for.",
            },
            Grant {
                on: On::Resources { group: well_known::GROUP, resources: &["codercontrolplanes/finalizers"] },
                verbs: &["update"],
                reason: "At home Roles and RoleBindings hold back a deletion of their owner, as every child does, and clusters \
                         that guard this ask whoever makes them; nothing is ever called with it.",
            },
        ],
    },
    Role {
        name: well_known::HANDED_ON,
        holder: Holder::GrantsEverywhere,
        purpose: "What coderd may be given for its workspaces. Kubernetes lets nobody grant what he does not hold, and the \
                  account that Roles are written as holds this and the writing of Roles, which no rule may ask for. A rule \
                  of spec.rbac.extraRules beyond it needs a ClusterRole of your own that is bound to that account.",
        grants: &[
            Grant {
                on: On::Resources { group: PODS.group, resources: PODS.resources },
                verbs: &VERBS,
                reason: "Workspaces are pods with volumes.",
            },
            Grant {
                on: On::Resources { group: DEPLOYMENTS.group, resources: DEPLOYMENTS.resources },
                verbs: &VERBS,
                reason: "Many templates run a workspace as a Deployment.",
            },
        ],
    },
    Role {
        name: "coder-k8s-front-proxy-reader",
        holder: Holder::OperatorEverywhere,
        purpose: "The object is in kube-system, and a Role there would do. But the namespace transformer of kustomize \
                  moves every namespaced object, a RoleBinding in kube-system too. A ClusterRole limited to one name \
                  stays in force: it opens the ConfigMaps of that name and no other.",
        grants: &[Grant {
            on: On::Named {
                group: "",
                resources: &["configmaps"],
                names: &["extension-apiserver-authentication"],
            },
            verbs: &["list", "watch"],
            reason: "It holds the CA and the names by which the API server proves that a request to the aggregated \
                     API comes from it.",
        }],
    },
    Role {
        name: OPERATOR,
        holder: Holder::OperatorAtHome,
        purpose: "What the operator does in its own namespace only.",
        grants: &[
            Grant {
                on: On::Resources { group: "coordination.k8s.io", resources: &["leases"] },
                verbs: &["create"],
                reason: "The first replica makes the leases; RBAC cannot limit a create by name.",
            },
            Grant {
                on: On::Named {
                    group: "coordination.k8s.io",
                    resources: &["leases"],
                    names: &[CONTROLLER_LEASE, AUTHORITY_LEASE],
                },
                verbs: &["get", "update"],
                reason: "Replicas agree by these leases on who reconciles and who keeps the CA.",
            },
            Grant {
                on: On::Resources { group: "", resources: &["secrets"] },
                verbs: &["create"],
                reason: "The first replica makes the Secret of the CA; RBAC cannot limit a create by name.",
            },
            Grant {
                on: On::Named { group: "", resources: &["secrets"], names: &[CA_SECRET] },
                verbs: &["get", "list", "watch", "update"],
                reason: "Every replica follows the CA that signs its certificate; one of them rotates it.",
            },
            Grant {
                on: On::Named { group: "", resources: &["serviceaccounts"], names: &[GRANTS_ACCOUNT] },
                verbs: &["impersonate"],
                reason: "Roles and RoleBindings are written as this account, so that nothing can be granted that it \
                         does not hold, whatever the operator itself may do. No other account can be impersonated.",
            },
            Grant {
                on: On::Resources { group: "", resources: &["secrets"] },
                verbs: &["get", "create", "update", "delete"],
                reason: "Its own token for each control plane, which it makes, renews and takes back, and the key of its \
                         checksums, which it makes once. The name of a token is derived from the control plane's, so \
                         the right cannot be limited by name.",
            },
        ],
    },
    Role {
        name: "coder-k8s-view",
        holder: Holder::Users { aggregate_to: &["view"] },
        purpose: "Whoever may view a namespace sees what the operator runs there.",
        grants: &[Grant {
            on: On::Resources { group: well_known::GROUP, resources: KINDS },
            verbs: &["get", "list", "watch"],
            reason: "Secrets belong into Secrets, which these kinds refer to; a value written into extraEnv is readable here.",
        }],
    },
    Role {
        name: "coder-k8s-edit",
        holder: Holder::Users { aggregate_to: &["edit", "admin"] },
        purpose: "Whoever may edit a namespace may run Coder in it. The status is the operator's alone.",
        grants: &[
            Grant {
                on: On::Resources { group: well_known::GROUP, resources: KINDS },
                verbs: &["create", "update", "patch", "delete", "deletecollection"],
                reason: "The same verbs the built-in role has for a Deployment.",
            },
            Grant {
                on: On::Resources { group: well_known::GROUP, resources: SCALES },
                verbs: &["get", "update", "patch"],
                reason: "kubectl scale reads and writes this subresource.",
            },
        ],
    },
    Role {
        name: "coder-k8s-metrics-reader",
        holder: Holder::Users { aggregate_to: &[] },
        purpose: "For the account of your Prometheus: bind it with a ClusterRoleBinding.",
        grants: &[Grant {
            on: On::Urls(&["/metrics"]),
            verbs: &["get"],
            reason: "The metrics port asks the API server whether the caller may read this path.",
        }],
    },
    Role {
        name: "coder-k8s-log-level",
        holder: Holder::Users { aggregate_to: &[] },
        purpose: "For whoever is on call: bind it with a ClusterRoleBinding.",
        grants: &[Grant {
            on: On::Urls(&["/loglevel"]),
            verbs: &["put"],
            reason: "The metrics port asks the API server whether the caller may change the log level.",
        }],
    },
];

#[cfg(test)]
mod tests {
    use super::*;

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
    fn secrets_are_written_in_the_own_namespace_only() {
        for (role, grant) in rows().filter(|(_, grant)| words(grant).contains(&"secrets")) {
            let reads = grant.verbs.iter().all(|verb| ["get", "list", "watch"].contains(verb));
            assert!(reads || role.holder == Holder::OperatorAtHome, "{grant:?}");
        }
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
