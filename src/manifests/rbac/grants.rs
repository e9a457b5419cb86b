//! What the account may do that Roles and RoleBindings are written as: write them, and what they may grant.
//! It never reads anything.

use super::{Extent, GRANTS_ACCOUNT, Grant, Holder, OWNERS_OF_ROLES, On, Part, Role};
use crds::well_known;
use crds::well_known::workspace_access::{DEPLOYMENTS, PODS, VERBS};

pub(super) const WRITES_GRANTS: Role = Role {
    name: GRANTS_ACCOUNT,
    holder: Holder::GrantsEverywhere,
    purpose: "What the account does that Roles and RoleBindings are written as. It reads nothing and has no pod; the \
              operator impersonates it for these calls alone.",
    grants: &[
        Grant {
            on: On::Resources { group: "rbac.authorization.k8s.io", resources: &["roles", "rolebindings"] },
            verbs: &["create", "patch", "delete"],
            parts: &[Part::Controller],
            extent: Extent::Namespace,
            reason: "What coderd and its provisioners may do where they run workspaces; taken back when it is no longer \
                     asked for.",
        },
        Grant {
            on: On::Resources { group: well_known::GROUP, resources: OWNERS_OF_ROLES },
            verbs: &["update"],
            parts: &[Part::Controller],
            extent: Extent::Namespace,
            reason: "At home Roles and RoleBindings hold back a deletion of their owner, as every child does, and clusters \
                     that guard this ask whoever makes them; nothing is ever called with it.",
        },
    ],
};

pub(super) const HANDED_ON: Role = Role {
    name: well_known::HANDED_ON,
    holder: Holder::GrantsEverywhere,
    purpose: "What coderd and its provisioners may be given for workspaces. Kubernetes lets nobody grant what he does not hold, and the \
              account that Roles are written as holds this and the writing of Roles, which no rule may ask for. A rule \
              of spec.rbac.extraRules beyond it needs a ClusterRole of your own that is bound to that account.",
    grants: &[
        Grant {
            on: On::Resources { group: PODS.group, resources: PODS.resources },
            verbs: &VERBS,
            parts: &[Part::Controller],
            extent: Extent::Namespace,
            reason: "Workspaces are pods with volumes.",
        },
        Grant {
            on: On::Resources { group: DEPLOYMENTS.group, resources: DEPLOYMENTS.resources },
            verbs: &VERBS,
            parts: &[Part::Controller],
            extent: Extent::Namespace,
            reason: "Many templates run a workspace as a Deployment.",
        },
    ],
};
