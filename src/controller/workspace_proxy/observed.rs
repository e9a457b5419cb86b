//! What was observed in a reconcile of a workspace proxy, as values: what the steps returned, put together in one place.
//! Nothing here says what it means: `status` does.

use super::observe::External;
use super::reasons::Reason;
use super::registration::steps::Wait;
use crate::controller::attached::apply::Applied;
use crate::controller::attached::outside::{self, AccessStates};
use crate::controller::children::exposure::Exposure;
use crate::controller::children::gate::Gate;
use crate::controller::object::Subject;
use crate::controller::object_writer::Finalizing;
use crate::controller::status::observed::ObservedObject;
use crds::CoderWorkspaceProxy;

/// How far something outside has come.
pub(super) type State = outside::State<Reason>;

/// What coderd and the Secret show of the proxy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Outside {
    /// The way to coderd.
    pub(super) reach: AccessStates<Reason>,
    pub(super) registered: State,
    pub(super) secret: State,
    /// What coderd's health check says.
    pub(super) health: State,
    /// Why the registration is not settled yet although it works.
    pub(super) wait: Option<Wait>,
    /// Whether the author brings the token: then coderd is not asked.
    pub(super) is_given: bool,
}

/// Everything that was observed in a reconcile.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Observed {
    /// What is observed of an object of any kind.
    pub(super) object: ObservedObject,
    /// Why pods cannot be led to their control plane.
    pub(super) unaddressed: Option<String>,
    /// Pods that are ready.
    pub(super) ready_replicas: i32,
    /// The way from outside.
    pub(super) exposure: Exposure,
    /// What is outside of Kubernetes.
    pub(super) outside: Outside,
}

impl Observed {
    /// What the steps of a reconcile returned.
    pub(super) fn new(
        subject: &Subject<CoderWorkspaceProxy>,
        gate: &Gate,
        applied: &Applied,
        external: &External,
        finalizing: &Finalizing,
        late: Option<String>,
    ) -> Self {
        Self {
            object: applied.observed(subject, gate, finalizing, late),
            unaddressed: None,
            ready_replicas: applied.ready_replicas(),
            exposure: applied.exposure.clone(),
            outside: external.outside.clone(),
        }
    }

    /// Nothing was looked at but this of the object.
    pub(super) fn only(object: ObservedObject) -> Self {
        Self {
            object,
            unaddressed: None,
            ready_replicas: 0,
            exposure: Exposure::NotRequested,
            outside: Outside::of(AccessStates::unasked(false)),
        }
    }
}
