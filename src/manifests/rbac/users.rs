//! What people and programs that are not ours may do with what the operator offers them.
//! It never lets them write a status.

use super::{Extent, Grant, Holder, KINDS, On, Role, SCALES};
use crds::well_known;

pub(super) const VIEW: Role = Role {
    name: "coder-k8s-view",
    holder: Holder::Users { aggregate_to: &["view"] },
    purpose: "Whoever may view a namespace sees what the operator runs there.",
    grants: &[Grant {
        on: On::Resources { group: well_known::GROUP, resources: KINDS },
        verbs: &["get", "list", "watch"],
        parts: &[],
        extent: Extent::Namespace,
        reason: "Secrets belong into Secrets, which these kinds refer to; a value written into extraEnv is readable here.",
    }],
};

pub(super) const EDIT: Role = Role {
    name: "coder-k8s-edit",
    holder: Holder::Users { aggregate_to: &["edit", "admin"] },
    purpose: "Whoever may edit a namespace may run Coder in it. The status is the operator's alone.",
    grants: &[
        Grant {
            on: On::Resources { group: well_known::GROUP, resources: KINDS },
            verbs: &["create", "update", "patch", "delete", "deletecollection"],
            parts: &[],
            extent: Extent::Namespace,
            reason: "The same verbs the built-in role has for a Deployment.",
        },
        Grant {
            on: On::Resources { group: well_known::GROUP, resources: SCALES },
            verbs: &["get", "update", "patch"],
            parts: &[],
            extent: Extent::Namespace,
            reason: "kubectl scale reads and writes this subresource.",
        },
    ],
};

pub(super) const METRICS_READER: Role = Role {
    name: "coder-k8s-metrics-reader",
    holder: Holder::Users { aggregate_to: &[] },
    purpose: "For the account of your Prometheus: bind it with a ClusterRoleBinding.",
    grants: &[Grant {
        on: On::Urls(&["/metrics"]),
        verbs: &["get"],
        parts: &[],
        extent: Extent::Namespace,
        reason: "The metrics port asks the API server whether the caller may read this path.",
    }],
};

pub(super) const LOG_LEVEL: Role = Role {
    name: "coder-k8s-log-level",
    holder: Holder::Users { aggregate_to: &[] },
    purpose: "For whoever is on call: bind it with a ClusterRoleBinding.",
    grants: &[Grant {
        on: On::Urls(&["/loglevel"]),
        verbs: &["put"],
        parts: &[],
        extent: Extent::Namespace,
        reason: "The metrics port asks the API server whether the caller may change the log level.",
    }],
};
