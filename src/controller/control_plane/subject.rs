//! The object of a reconcile, as it was read. Nothing here changes while the reconcile goes on, and nothing is decided.

use super::KIND;
use crate::controller::finalizer::Finalizer;
use crate::controller::identity::{ObjectKey, Owner};
use crate::kubernetes::Target;
use crds::well_known::{annotation, finalizer};
use crds::{CoderControlPlane, CoderControlPlaneStatus};
use serde_json::{Value, from_value};
use webhooks::Cause;

/// Our finalizer on a control plane: there is something outside its namespace to clean up.
pub(super) const FINALIZER: Finalizer = Finalizer(finalizer::CONTROL_PLANE);

/// A control plane as the API server has it.
pub(super) struct Object {
    pub(super) key: ObjectKey,
    pub(super) value: Value,
    pub(super) uid: String,
    pub(super) generation: i64,
    /// Its status, as it was written before.
    pub(super) status: CoderControlPlaneStatus,
}

impl Object {
    pub(super) fn new(key: ObjectKey, value: Value) -> Self {
        Self {
            key,
            uid: value["metadata"]["uid"].as_str().unwrap_or_default().to_owned(),
            generation: value["metadata"]["generation"].as_i64().unwrap_or_default(),
            status: from_value(value["status"].clone()).unwrap_or_default(),
            value,
        }
    }

    pub(super) fn target(&self) -> Target<'_> {
        self.key.target(KIND)
    }

    pub(super) fn owner(&self) -> Owner<'_> {
        Owner::new(&self.key, &self.uid)
    }

    pub(super) fn is_deleting(&self) -> bool {
        !self.value["metadata"]["deletionTimestamp"].is_null()
    }

    /// Whether our finalizer is on it.
    pub(super) fn is_held(&self) -> bool {
        FINALIZER.is_on(&self.value)
    }

    /// Whether somebody asks for a reconcile that was not done yet: then nothing is taken as known.
    pub(super) fn is_requested(&self) -> bool {
        self.reconcile_at() != self.status.last_handled_reconcile_at
    }

    /// What it was last asked to be reconciled for.
    pub(super) fn reconcile_at(&self) -> Option<String> {
        self.value["metadata"]["annotations"][annotation::RECONCILE_AT].as_str().map(str::to_owned)
    }
}

/// One that our types can read.
pub(super) struct Subject {
    pub(super) object: Object,
    /// With every default in it, but without what runs.
    pub(super) complete: CoderControlPlane,
    /// What the rules say against it.
    pub(super) broken: Vec<Cause>,
}
