//! Decides when a control plane is looked at again after a reconcile. Pure: it knows what was observed and asks nobody.
//! It never lets something that somebody has to mend wait longer than a minute.

use super::observed::{Coderd, Exposure, Observed};
use super::reasons::Reason;
use crate::coderd::Retry;
use crate::controller::runtime::schedule::Action;
use crate::controller::workload::rollout::Rollout;
use std::time::Duration;

/// How often coderd is asked again when all is well.
pub(super) const RECHECK: Duration = Duration::from_secs(300);
/// How often something is looked at that somebody has to mend outside of the cluster: nobody tells us when it is done,
/// and it is to be seen within a minute.
pub(super) const REFUSED: Duration = Duration::from_secs(45);
/// How often something that comes by itself is looked at when nobody tells us.
const SOON: Duration = Duration::from_secs(30);

/// When to look again: soon where something stands in the way that somebody has to move, whatever else is waited for.
pub(super) fn action(
    observed: &Observed,
    pruned: bool,
    retry: Option<Retry>,
    external: Option<Retry>,
) -> Action {
    let blocked = observed.account.is_some()
        || observed.withheld.is_some()
        || !observed.conflicts.is_empty()
        || !observed.refused.is_empty()
        || observed.finalizer.is_some()
        || observed.workspaces.iter().any(|grants| !grants.troubles.is_empty())
        || !observed.unimportant.is_empty()
        || matches!(observed.rollout, Rollout::Stuck(_))
        || matches!(observed.exposure, Exposure::Failed(_));
    if observed.late.is_some() {
        // It waits its turn like whoever failed: one that is slow each time comes later each time.
        return Action::BackOff(Duration::ZERO);
    }
    match undisturbed(observed, retry, external) {
        Action::RequeueAfter(pause) if blocked || !pruned => Action::RequeueAfter(pause.min(REFUSED)),
        Action::BackOff(pause) if blocked || !pruned => Action::BackOff(pause.min(REFUSED)),
        action => action,
    }
}

fn undisturbed(observed: &Observed, retry: Option<Retry>, external: Option<Retry>) -> Action {
    let mut troubles = observed.workspaces.iter().flat_map(|grants| &grants.troubles);
    let grant_failed = troubles.any(|trouble| trouble.reason == Reason::Failed);
    if !observed.failed.is_empty() || grant_failed {
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
        _ if is_under_way(&observed.rollout) => Action::RequeueAfter(SOON),
        _ => Action::RequeueAfter(recheck),
    }
}

fn is_under_way(rollout: &Rollout) -> bool {
    matches!(rollout, Rollout::UnderWay(_) | Rollout::Unavailable(_) | Rollout::Slow(_) | Rollout::Absent)
}

#[cfg(test)]
mod tests {
    use super::super::observed::{Grants, Ungranted};
    use super::*;

    #[test]
    fn what_somebody_has_to_mend_is_looked_at_within_a_minute() {
        let still = || Observed { rollout: Rollout::Complete(1), ..Observed::nothing() };
        let after = |seconds: u64| Action::RequeueAfter(Duration::from_secs(seconds));
        assert_eq!(action(&still(), true, None, None), after(300));
        assert_eq!(action(&still(), false, None, None), after(45), "something is left to remove");
        let late = Observed { late: Some("why".to_owned()), ..still() };
        assert_eq!(action(&late, true, None, None), Action::BackOff(Duration::ZERO));
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
            Observed { account: Some("why".to_owned()), ..still() },
            Observed { withheld: Some("why".to_owned()), ..still() },
            Observed { conflicts: message(), ..still() },
            Observed { refused: message(), ..still() },
            Observed { unimportant: message(), ..still() },
            Observed { rollout: Rollout::Stuck("why".to_owned()), ..still() },
            Observed { workspaces: Some(refused()), ..still() },
            Observed { finalizer: Some("why".to_owned()), ..still() },
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
