//! Decides when a provisioner is looked at again after a reconcile. Pure: it knows what was observed and asks nobody.

use super::key::steps::Wait;
use super::observed::{Observed, Outside, State};
use crate::coderd::Retry;
use crate::controller::attached::requeue::after_failure;
use crate::controller::runtime::schedule::{Action, REFUSED, SOON};
use crate::controller::workload::rollout::Rollout;
use std::time::Duration;

/// Whether daemons are about to connect, or to go: only coderd knows when they did.
pub(super) fn is_waiting(observed: &Observed) -> bool {
    let is_complete = matches!(observed.object.rollout, Rollout::Complete(_));
    is_complete && (observed.outside.daemons == Some(0) || observed.outside.wait == Some(Wait::Rollout))
}

/// When to look again; `recheck` is how often a key is verified that works, and daemons are looked for that are waited for.
pub(super) fn action(observed: &Observed, pruned: bool, retry: Option<Retry>, recheck: Duration) -> Action {
    if let Some(action) = after_failure(&observed.object, retry) {
        return action;
    }
    let Outside { control_plane, access, bootstrap, entitled, key, secret, wait, .. } = &observed.outside;
    let states = [control_plane, access, entitled, key, secret].into_iter().chain(bootstrap);
    let blocked = observed.object.is_blocked()
        || observed.unaddressed.is_some()
        || states.into_iter().any(State::is_open);
    match wait {
        _ if is_waiting(observed) => Action::RequeueAfter(recheck),
        // Watches tell of pods; the timer is for a watch that was cut.
        Some(Wait::Rollout) => Action::RequeueAfter(SOON.min(recheck)),
        _ if blocked || !pruned || wait.is_some() => Action::RequeueAfter(REFUSED.min(recheck)),
        _ if observed.object.rollout.is_under_way() => Action::RequeueAfter(SOON.min(recheck)),
        _ => Action::RequeueAfter(recheck),
    }
}

/// The same, but no later than after this time.
pub(super) fn sooner(action: Action, pause: Option<Duration>) -> Action {
    match (action, pause) {
        (Action::RequeueAfter(after), Some(pause)) => Action::RequeueAfter(after.min(pause)),
        (action, _) => action,
    }
}

#[cfg(test)]
mod tests {
    use super::super::reasons::Reason;
    use super::*;
    use crate::controller::status::observed::ObservedObject;

    fn settled() -> Observed {
        let yes = || State::Yes(Reason::Accepted, String::new());
        let outside = Outside {
            control_plane: yes(),
            access: yes(),
            bootstrap: None,
            entitled: yes(),
            key: yes(),
            secret: yes(),
            wait: None,
            daemons: Some(1),
            is_unasked: false,
        };
        let object = ObservedObject { rollout: Rollout::Complete(1), ..ObservedObject::nothing() };
        Observed::only(object, outside)
    }

    #[test]
    fn a_key_that_works_is_verified_after_a_while_and_trouble_sooner() {
        let recheck = Duration::from_secs(300);
        let after = |seconds| Action::RequeueAfter(Duration::from_secs(seconds));
        let of = |observed: &Observed| action(observed, true, None, recheck);
        assert_eq!(of(&settled()), after(300));
        assert_eq!(action(&settled(), false, None, recheck), after(45), "something is left to remove");
        let mut waiting = settled();
        waiting.outside.daemons = Some(0);
        assert!(is_waiting(&waiting) && !is_waiting(&settled()));
        assert_eq!(action(&waiting, true, None, Duration::from_secs(10)), after(10), "later each time");
        let mut rotating = settled();
        rotating.outside.wait = Some(Wait::Rollout);
        assert!(is_waiting(&rotating));
        rotating.object.rollout = Rollout::UnderWay(String::new());
        assert_eq!(of(&rotating), after(30), "watches tell of pods");
        let mut refused = settled();
        refused.outside.key = State::Refused(Reason::KeyNameConflict, String::new());
        assert_eq!(of(&refused), after(45));
        let failed = action(&settled(), true, Some(Retry::Backoff), recheck);
        assert_eq!(failed, Action::BackOff(Duration::ZERO));
        let minute = Some(Duration::from_secs(60));
        assert_eq!(sooner(of(&settled()), minute), after(60), "a pod that may be a zombie");
        assert_eq!((sooner(failed, minute), sooner(of(&settled()), None)), (failed, after(300)));
    }
}
