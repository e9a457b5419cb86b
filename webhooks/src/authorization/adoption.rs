//! Decides when a change asks the operator to take over a Helm release, and requires the right to delete its Deployment.
//! Never asks for the same release twice.

use crds::well_known::annotation::ADOPT_HELM_RELEASE;
use serde_json::Value;

use super::run_pods::annotation;
use super::{AccessCheck, RequiredAccess, Row};
use crate::field;
use crate::kind::Kind;

/// What the annotation asks for where it was not there, or named another release.
pub(super) fn added(kind: Kind, old: Option<&Value>, new: &Value, namespace: &str) -> Option<RequiredAccess> {
    let release = annotation(new, ADOPT_HELM_RELEASE).filter(|_| kind == Kind::ControlPlane)?;
    if old.and_then(|old| annotation(old, ADOPT_HELM_RELEASE)) == Some(release) {
        return None;
    }
    let delete = AccessCheck::new("delete", "apps", "deployments", namespace);
    Some(RequiredAccess::any(
        field::child("metadata.annotations", ADOPT_HELM_RELEASE),
        "CODER0513",
        vec![delete],
    ))
}

/// The row of the authorization table.
pub(super) fn row() -> Row {
    Row {
        code: "CODER0513",
        fields: format!("of a CoderControlPlane: the annotation `{ADOPT_HELM_RELEASE}`, added or changed")
            .into(),
        required: "`delete deployments.apps` in the namespace of the object",
        instead: "nothing",
    }
}
