//! What was observed in a reconcile of a provisioner, as values: what the steps returned, put together in one place.
//! Nothing here says what it means: `status` does.

use super::apply::Applied;
use super::key::steps::Wait;
use super::observe::External;
use super::reasons::Reason;
use crate::controller::children::gate::Gate;
use crate::controller::object::Subject;
use crate::controller::object_writer::Finalizing;
use crate::controller::workload::rollout::{self, Rollout};
use crds::CoderProvisioner;
use webhooks::Cause;

/// How far something outside has come.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum State {
    /// Nobody asked for it, or nobody could be asked yet.
    Unknown(Reason, String),
    /// It is as it should be.
    Yes(Reason, String),
    /// It comes by itself, or is tried again.
    Pending(Reason, String),
    /// It will not come before somebody acts.
    Refused(Reason, String),
}

impl State {
    /// Something that nobody can tell before the control plane answers.
    pub(super) fn waiting() -> Self {
        Self::Unknown(Reason::WaitingForControlPlane, "waiting for the control plane".to_owned())
    }
}

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
}

/// Everything that was observed in a reconcile.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Observed {
    /// Why the object cannot be read, so that nothing can be made of it.
    pub(super) unreadable: Option<String>,
    /// What the rules say against the object as it is stored.
    pub(super) broken: Vec<Cause>,
    /// Why nothing is run as the account that is asked for.
    pub(super) account: Option<String>,
    /// What is held back while admission is disabled.
    pub(super) withheld: Option<String>,
    /// Objects of our names that belong to somebody else.
    pub(super) conflicts: Vec<String>,
    /// Children that the API server refuses.
    pub(super) refused: Vec<String>,
    /// What could not be done this time.
    pub(super) failed: Vec<String>,
    /// Children that daemons run without and that could not be applied.
    pub(super) unimportant: Vec<String>,
    /// The Deployment.
    pub(super) rollout: Rollout,
    /// Pods that are ready.
    pub(super) ready_replicas: i32,
    /// Why our finalizer is not as it must be, if the API server refuses that.
    pub(super) finalizer: Option<String>,
    /// What is outside of Kubernetes.
    pub(super) outside: Outside,
    /// Why something was left for the next reconcile.
    pub(super) late: Option<String>,
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
        let mut failed = applied.problems.failed.clone();
        let mut finalizer = None;
        match finalizing {
            Finalizing::Unchanged | Finalizing::Written => {}
            Finalizing::Refused(why) => finalizer = Some(why.clone()),
            Finalizing::Failed(why) => failed.push(why.clone()),
        }
        Self {
            unreadable: None,
            broken: subject.broken.causes.clone(),
            account: applied.account.clone(),
            withheld: gate.withheld.told(&subject.object.key.namespace),
            conflicts: applied.problems.conflicts.clone(),
            refused: applied.problems.refused.clone(),
            failed,
            unimportant: applied.problems.unimportant.clone(),
            rollout: applied.rollout.clone(),
            ready_replicas: rollout::ready_replicas(applied.deployment.as_ref()),
            finalizer,
            outside: external.outside.clone(),
            late,
        }
    }

    /// Nothing was looked at.
    pub(super) fn nothing() -> Self {
        Self {
            unreadable: None,
            broken: Vec::new(),
            account: None,
            withheld: None,
            conflicts: Vec::new(),
            refused: Vec::new(),
            failed: Vec::new(),
            unimportant: Vec::new(),
            rollout: Rollout::Unseen,
            ready_replicas: 0,
            finalizer: None,
            outside: Outside {
                control_plane: State::waiting(),
                access: State::waiting(),
                bootstrap: None,
                entitled: State::waiting(),
                key: State::waiting(),
                secret: State::waiting(),
                wait: None,
                daemons: None,
            },
            late: None,
        }
    }
}
