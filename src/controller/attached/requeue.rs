//! Decides when an object is looked at again that did not come to its end in a reconcile. Pure: it knows what was observed and asks
//! nobody.

use crate::coderd::Retry;
use crate::controller::runtime::schedule::{Action, REFUSED};
use crate::controller::status::observed::ObservedObject;
use std::time::Duration;

/// When to look again after a failure: of the API server, or of coderd as it says. None if there was none.
pub(crate) fn after_failure(observed: &ObservedObject, retry: Option<Retry>) -> Option<Action> {
    if observed.late.is_some() || !observed.problems.failed.is_empty() {
        return Some(Action::BackOff(Duration::ZERO));
    }
    Some(match retry? {
        Retry::After(pause) => Action::BackOff(pause),
        Retry::Backoff => Action::BackOff(Duration::ZERO),
        Retry::WhenChanged => Action::RequeueAfter(REFUSED),
    })
}
