//! What was observed in a reconcile of an object that belongs to a control plane, as values: what the steps returned, put together
//! in one place. What is outside of Kubernetes is a value of the kind, and what all of it means is said by its `status`.

use super::apply::Applied;
use crate::controller::children::exposure::Exposure;
use crate::controller::children::gate::Gate;
use crate::controller::object::{ReconciledKind, Subject};
use crate::controller::object_writer::Finalizing;
use crate::controller::status::observed::ObservedObject;

/// Everything that was observed in a reconcile.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Observed<Outside> {
    /// What is observed of an object of any kind.
    pub(crate) object: ObservedObject,
    /// Why pods cannot be led to their control plane.
    pub(crate) unaddressed: Option<String>,
    /// Pods that are ready.
    pub(crate) ready_replicas: i32,
    /// The way from outside; not asked for where the kind has none.
    pub(crate) exposure: Exposure,
    /// What is outside of Kubernetes.
    pub(crate) outside: Outside,
}

impl<Outside> Observed<Outside> {
    /// What the steps of a reconcile returned.
    pub(crate) fn new<K: ReconciledKind>(
        subject: &Subject<K>,
        gate: &Gate,
        applied: &Applied,
        outside: Outside,
        finalizing: &Finalizing,
        late: Option<String>,
    ) -> Self {
        Self {
            object: applied.observed(subject, gate, finalizing, late),
            unaddressed: None,
            ready_replicas: applied.ready_replicas(),
            exposure: applied.exposure.clone(),
            outside,
        }
    }

    /// Nothing was looked at but this of the object.
    pub(crate) fn only(object: ObservedObject, outside: Outside) -> Self {
        Self { object, unaddressed: None, ready_replicas: 0, exposure: Exposure::NotRequested, outside }
    }
}
