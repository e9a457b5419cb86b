//! What was observed in a reconcile of a provisioner, as values: what the steps returned, put together in one place.
//! Nothing here says what it means: `status` does.

use super::key::steps::Wait;
use super::observe::External;
use super::reasons::Reason;
use crate::controller::attached::apply::Applied;
use crate::controller::attached::outside::{self, AccessStates};
use crate::controller::children::gate::Gate;
use crate::controller::object::Subject;
use crate::controller::object_writer::Finalizing;
use crate::controller::status::observed::ObservedObject;
use crds::CoderProvisioner;

/// How far something outside has come.
pub(super) type State = outside::State<Reason>;

/// What coderd and the Secret show of the key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Outside {
    pub(super) control_plane: State,
    pub(super) access: State,
    /// Only where the spec brings credentials.
    pub(super) bootstrap: Option<State>,
    pub(super) entitled: State,
    pub(super) key: State,
    pub(super) secret: State,
    /// Why the keys are not settled yet although they work.
    pub(super) wait: Option<Wait>,
    /// Daemons that coderd sees with the key in use.
    pub(super) daemons: Option<usize>,
    /// Whether there was no time to ask about the key: what is said of it was said before.
    pub(super) is_unasked: bool,
}

/// Everything that was observed in a reconcile.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Observed {
    /// What is observed of an object of any kind.
    pub(super) object: ObservedObject,
    /// Why daemons cannot be led to their control plane.
    pub(super) unaddressed: Option<String>,
    /// Pods that are ready.
    pub(super) ready_replicas: i32,
    /// What is outside of Kubernetes.
    pub(super) outside: Outside,
}

impl Observed {
    /// What the steps of a reconcile returned.
    pub(super) fn new(
        subject: &Subject<CoderProvisioner>,
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
            outside: external.outside.clone(),
        }
    }

    /// Nothing was looked at but this of the object.
    pub(super) fn only(object: ObservedObject) -> Self {
        let outside = Outside::of(AccessStates::unasked(false));
        Self { object, unaddressed: None, ready_replicas: 0, outside }
    }
}
