//! Decides when a workspace proxy is looked at again after a reconcile. Pure: it knows what was observed and asks nobody.

use super::observed::Observed;
use super::registration::steps::Wait;
use crate::coderd::Retry;
use crate::controller::attached::outside::{AccessStates, State};
use crate::controller::attached::requeue::after_failure;
use crate::controller::runtime::schedule::{Action, REFUSED, SOON};
use crate::controller::workload::rollout::Rollout;
use std::time::Duration;

/// Whether coderd is about to check the proxy, or pods about to leave a former registration: only coderd knows when.
pub(super) fn is_waiting(observed: &Observed) -> bool {
    let is_complete = matches!(observed.object.rollout, Rollout::Complete(_));
    is_complete && observed.outside.health.is_open()
}

/// When to look again; `recheck` is how often a registration is verified that works, and its health is looked at.
pub(super) fn action(observed: &Observed, pruned: bool, retry: Option<Retry>, recheck: Duration) -> Action {
    if let Some(action) = after_failure(&observed.object, retry) {
        return action;
    }
    let AccessStates { control_plane, access, bootstrap, entitled, rate_limited: _ } =
        &observed.outside.reach;
    let outside = [control_plane, access, entitled, &observed.outside.registered, &observed.outside.secret];
    let is_open = outside.into_iter().chain(bootstrap).any(State::is_open);
    let is_blocked = observed.object.is_blocked() || observed.unaddressed.is_some() || is_open;
    match observed.outside.wait {
        // Watches tell of pods; the timer is for a watch that was cut.
        Some(Wait::Rollout) => Action::RequeueAfter(SOON.min(recheck)),
        _ if is_waiting(observed) => Action::RequeueAfter(recheck),
        wait if is_blocked || !pruned || wait.is_some() => Action::RequeueAfter(REFUSED.min(recheck)),
        _ if observed.object.rollout.is_under_way() => Action::RequeueAfter(SOON.min(recheck)),
        _ => Action::RequeueAfter(recheck),
    }
}

#[cfg(test)]
mod tests {
    use super::super::observed::Outside;
    use super::super::reasons::Reason;
    use super::*;
    use crate::controller::status::observed::ObservedObject;

    #[test]
    fn what_works_is_verified_after_a_while_and_trouble_sooner() {
        let yes = || State::Yes(Reason::Accepted, String::new());
        let object = ObservedObject { rollout: Rollout::Complete(1), ..ObservedObject::nothing() };
        let outside = Outside::given(yes());
        let settled = Observed::only(object, outside);
        let (recheck, after) =
            (Duration::from_secs(300), |seconds| Action::RequeueAfter(Duration::from_secs(seconds)));
        assert_eq!(action(&settled, true, None, recheck), after(300));
        assert_eq!(action(&settled, false, None, recheck), after(45), "something is left to remove");
        let mut unchecked = settled.clone();
        unchecked.outside.health = State::Pending(Reason::WaitingForHealthCheck, String::new());
        assert!(is_waiting(&unchecked) && !is_waiting(&settled));
        assert_eq!(action(&unchecked, true, None, Duration::from_secs(10)), after(10), "later each time");
        let mut moving = settled.clone();
        moving.outside.wait = Some(Wait::Rollout);
        assert_eq!(action(&moving, true, None, recheck), after(30));
        assert_eq!(action(&settled, true, Some(Retry::Backoff), recheck), Action::BackOff(Duration::ZERO));
    }
}
