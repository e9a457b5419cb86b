//! What was observed in a reconcile of a workspace proxy, as values: what the steps returned, put together in one place.
//! Nothing here says what it means: `status` does.

use super::reasons::Reason;
use super::registration::steps::Wait;
use crate::controller::attached::outside::AccessStates;
use crate::controller::attached::{observed, outside};

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
pub(super) type Observed = observed::Observed<Outside>;
