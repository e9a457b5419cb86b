//! Decides when a control plane is looked at again after a reconcile. Pure: it knows what was observed and asks nobody.
//! It never lets something that somebody has to mend wait longer than a minute.

use super::observed::{Coderd, Observed};
use super::reasons::Reason;
use crate::coderd::Retry;
use crate::controller::children::exposure::Exposure;
use crate::controller::runtime::schedule::{Action, REFUSED, SOON};
use std::time::Duration;

/// How often coderd is asked again when all is well.
pub(super) const RECHECK: Duration = Duration::from_secs(300);
/// How often a Helm release that is being taken over is looked at: its objects are followed by no watch of ours.
const ADOPTING: Duration = Duration::from_secs(5);

/// When to look again: soon where something stands in the way that somebody has to move, whatever else is waited for.
pub(super) fn action(
    observed: &Observed,
    pruned: bool,
    retry: Option<Retry>,
    external: Option<Retry>,
) -> Action {
    let blocked = observed.object.is_blocked()
        || observed.workspaces.iter().any(|grants| !grants.troubles.is_empty())
        || matches!(observed.exposure, Exposure::Failed(_));
    if observed.object.late.is_some() {
        // It waits its turn like whoever failed: one that is slow each time comes later each time.
        return Action::BackOff(Duration::ZERO);
    }
    match undisturbed(observed, retry, external) {
        Action::RequeueAfter(pause) if observed.adoption.is_some() && !blocked => {
            Action::RequeueAfter(pause.min(ADOPTING))
        }
        Action::RequeueAfter(pause) if blocked || !pruned => Action::RequeueAfter(pause.min(REFUSED)),
        Action::BackOff(pause) if blocked || !pruned => Action::BackOff(pause.min(REFUSED)),
        action => action,
    }
}

fn undisturbed(observed: &Observed, retry: Option<Retry>, external: Option<Retry>) -> Action {
    let mut troubles = observed.workspaces.iter().flat_map(|grants| &grants.troubles);
    let grant_failed = troubles.any(|trouble| trouble.reason == Reason::Failed);
    if !observed.object.problems.failed.is_empty() || grant_failed {
        return Action::BackOff(Duration::ZERO);
    }
    let unreachable = matches!(observed.coderd, Coderd::Unreachable(..));
    match external.filter(|_| !unreachable) {
        Some(Retry::After(pause)) => return Action::BackOff(pause),
        Some(Retry::Backoff) => return Action::BackOff(Duration::ZERO),
        Some(Retry::WhenChanged) | None => {}
    }
    let recheck = if external == Some(Retry::WhenChanged) { REFUSED } else { RECHECK };
    match (&observed.coderd, retry) {
        (Coderd::Unreachable(..) | Coderd::Degraded { .. }, Some(Retry::After(pause))) => {
            Action::BackOff(pause)
        }
        (Coderd::Unreachable(..) | Coderd::Degraded { .. }, _) => Action::BackOff(Duration::ZERO),
        // It is there and was not asked for what is still to be asked.
        (Coderd::Answered { .. }, Some(Retry::After(pause))) => Action::RequeueAfter(pause),
        (Coderd::Answered { .. }, Some(_)) => Action::BackOff(Duration::ZERO),
        _ if observed.exposure == Exposure::NoGatewayApi => Action::RequeueAfter(recheck),
        // Watches tell of rollouts; the timer is for a watch that was cut.
        _ if observed.object.rollout.is_under_way() => Action::RequeueAfter(SOON),
        _ => Action::RequeueAfter(recheck),
    }
}

#[cfg(test)]
mod tests {
    use super::super::observed::{Grants, Ungranted};
    use super::*;
    use crate::controller::children::apply::Problems;
    use crate::controller::status::observed::ObservedObject;
    use crate::controller::workload::rollout::Rollout;

    #[test]
    fn what_somebody_has_to_mend_is_looked_at_within_a_minute() {
        let object = || ObservedObject { rollout: Rollout::Complete(1), ..ObservedObject::nothing() };
        let still = || Observed::only(object());
        let with = |problems| Observed::only(ObservedObject { problems, ..object() });
        let after = |seconds: u64| Action::RequeueAfter(Duration::from_secs(seconds));
        assert_eq!(action(&still(), true, None, None), after(300));
        assert_eq!(action(&still(), false, None, None), after(45), "something is left to remove");
        let late = Observed::only(ObservedObject { late: Some("why".to_owned()), ..object() });
        assert_eq!(action(&late, true, None, None), Action::BackOff(Duration::ZERO));
        let adopting = Observed { adoption: Some("why".to_owned()), ..still() };
        assert_eq!(action(&adopting, false, None, None), after(5), "no watch tells of it");
        let message = || vec!["why".to_owned()];
        let refused = || Grants {
            troubles: vec![Ungranted {
                own_namespace: true,
                reason: Reason::Refused,
                message: String::new(),
            }],
            ..Grants::default()
        };
        for blocked in [
            Observed::only(ObservedObject { account: Some("why".to_owned()), ..object() }),
            Observed::only(ObservedObject { withheld: Some("why".to_owned()), ..object() }),
            with(Problems { conflicts: message(), ..Problems::default() }),
            with(Problems { refused: message(), ..Problems::default() }),
            with(Problems { unimportant: message(), ..Problems::default() }),
            Observed::only(ObservedObject { rollout: Rollout::Stuck("why".to_owned()), ..object() }),
            Observed { workspaces: Some(refused()), ..still() },
            Observed::only(ObservedObject { finalizer: Some("why".to_owned()), ..object() }),
            Observed { exposure: Exposure::Failed("why".to_owned()), ..still() },
        ] {
            assert_eq!(action(&blocked, true, None, None), after(45), "{blocked:?}");
            let unreachable =
                Observed { coderd: Coderd::Unreachable(Reason::Unreachable, "why".to_owned()), ..blocked };
            let hour = Some(Retry::After(Duration::from_secs(3600)));
            let expected = Action::BackOff(Duration::from_secs(45));
            assert_eq!(action(&unreachable, true, hour, None), expected, "{unreachable:?}");
        }
    }
}
