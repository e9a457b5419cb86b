//! What was observed in a reconcile of a provisioner, as values: what the steps returned, put together in one place.
//! Nothing here says what it means: `status` does.

use super::key::steps::Wait;
use super::reasons::Reason;
use crate::controller::attached::{observed, outside};

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
pub(super) type Observed = observed::Observed<Outside>;
