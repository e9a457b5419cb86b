//! The object of a reconcile, as it was read. Nothing here changes while the reconcile goes on, and nothing is decided.

use super::KIND;
use crate::controller::children::Fingerprint;
use crate::controller::finalizer::Finalizer;
use crate::controller::identity::{ObjectKey, Owner};
use crate::kubernetes::Target;
use crds::well_known::{annotation, finalizer};
use crds::{CoderControlPlane, CoderControlPlaneStatus};
use serde_json::{Value, from_value};
use webhooks::Cause;

/// Our finalizer on a control plane: there is something outside its namespace to clean up.
pub(super) const FINALIZER: Finalizer = Finalizer(finalizer::CONTROL_PLANE);

/// What is asked of a control plane.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct AskedFor {
    pub(super) uid: String,
    pub(super) generation: i64,
    pub(super) request: Option<Fingerprint>,
}

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
    pub(super) fn has_finalizer(&self) -> bool {
        FINALIZER.is_on(&self.value)
    }

    /// What is asked of this object: a later one of its name, another spec and another request ask for something else.
    pub(super) fn asked_for(&self) -> AskedFor {
        AskedFor { uid: self.uid.clone(), generation: self.generation, request: self.request() }
    }

    /// The last request to have it reconciled; its text may be of any length.
    pub(super) fn request(&self) -> Option<Fingerprint> {
        self.reconcile_at().map(|text| Fingerprint::of(&Value::String(text)))
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
