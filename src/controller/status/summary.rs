//! Decides what Ready, Reconciling and Stalled say, and what of an object stands in its way or is still to come whatever its kind.
//! Pure. What else does, and in which order, is decided by the kind.

use super::conditions::{ConditionStatus, Finding, conditions};
use super::observed::ObservedObject;
use super::reasons::{KindReason, SharedReason};
use crate::controller::object::{Object, ReconciledKind};
use crate::controller::workload::rollout::Rollout;
use crds::KindStatus;
use crds::well_known::condition::{AUTHORITY_APPLIED, READY, RECONCILING, SPEC_ACCEPTED, STALLED};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use webhooks::{Cause, Verdict, problem_list};

/// Bytes that several problems may take, with room for the number of those that are not told.
pub(crate) const ROOM: usize = 270;

/// A reason of a kind and what it means here.
pub(crate) type Because<R> = (R, String);

/// Where an object stands, as its kind sees it.
#[derive(Debug)]
pub(crate) struct Standing<R: 'static> {
    /// Why nothing will move before somebody acts.
    pub(crate) stalled: Option<Because<R>>,
    /// What is still to come, the first thing first.
    pub(crate) unfinished: Option<Because<R>>,
    /// What it is when neither is there.
    pub(crate) ready: Because<R>,
    /// What is told of an object that is ready all the same.
    pub(crate) besides: Vec<String>,
    /// Reasons for which others have yet to make something. It is seen when it is there.
    pub(crate) waited_for: &'static [R],
}

impl<R: KindReason> Standing<R> {
    /// Ready, Reconciling and Stalled. Never are the last two both true, and Ready is true only when neither is; `late` is why
    /// something was left for the next reconcile.
    pub(crate) fn summary(self, late: Option<&str>) -> [Finding; 3] {
        if let Some((reason, message)) = self.stalled {
            return [
                Finding::no(READY, reason, &*message),
                Finding::no(
                    RECONCILING,
                    reason,
                    "nothing more is done until the problem named in Stalled is fixed",
                ),
                Finding::yes(STALLED, reason, message),
            ];
        }
        if let Some((reason, message)) = self.unfinished {
            let (reason, message) = match late {
                Some(late) => (SharedReason::DeadlineExceeded.into(), format!("{late}; pending: {message}")),
                None => (reason, message),
            };
            return [
                Finding::no(READY, reason, &*message),
                Finding::yes(RECONCILING, reason, message),
                Finding::no(
                    STALLED,
                    R::from(SharedReason::Progressing),
                    not_stalled(self.waited_for.contains(&reason)),
                ),
            ];
        }
        let (reason, mut message) = self.ready;
        if let Some(besides) = joined(&self.besides) {
            message += &format!(", but {besides}");
        }
        [
            Finding::yes(READY, reason, message),
            Finding::no(RECONCILING, reason, "reconciliation is complete"),
            Finding::no(STALLED, reason, "no problem needs your attention"),
        ]
    }
}

/// Why something that is not finished is not stalled either.
fn not_stalled(waits_for_others: bool) -> &'static str {
    if waits_for_others {
        return "waiting for the object named in Ready";
    }
    "reconciliation is in progress"
}

/// Several messages as one, if there are any.
pub(crate) fn joined(messages: &[String]) -> Option<String> {
    (!messages.is_empty()).then(|| messages.join("; "))
}

fn because<R: KindReason>(reason: SharedReason, message: Option<String>) -> Option<Because<R>> {
    message.map(|message| (reason.into(), message))
}

/// What stands in the way before anything of the kind's own is looked at.
pub(crate) fn blocked<R: KindReason>(observed: &ObservedObject) -> Option<Because<R>> {
    let problems = &observed.problems;
    None.or_else(|| because(SharedReason::InvalidSpec, observed.unreadable.clone()))
        .or_else(|| because(SharedReason::AdmissionDisabled, observed.withheld.clone()))
        .or_else(|| because(SharedReason::AccountNotOurs, observed.account.clone()))
        .or_else(|| because(SharedReason::ChildConflict, joined(&problems.conflicts)))
        .or_else(|| {
            because(SharedReason::ChildRefused, joined(&problems.refused).map(|why| child_refused(&why)))
        })
}

/// What is said of children that are refused. The way out comes first: a long cause is cut.
fn child_refused(why: &str) -> String {
    format!("change the spec, or the quota, policy or permission that refuses a child: {why}")
}

/// That our finalizer is refused.
pub(crate) fn finalizer_refused<R: KindReason>(observed: &ObservedObject) -> Option<Because<R>> {
    because(SharedReason::FinalizerRefused, observed.finalizer.clone())
}

/// That the rollout does not go on. Pods that wait for a Secret are stuck because of it: who is told of it knows what to do.
pub(crate) fn stuck<R: KindReason>(observed: &ObservedObject) -> Option<Because<R>> {
    match &observed.rollout {
        Rollout::Stuck(message) if observed.missing.is_empty() => {
            because(SharedReason::RolloutStuck, Some(message.clone()))
        }
        _ => None,
    }
}

/// What could not be read or done this time.
pub(crate) fn failed<R: KindReason>(observed: &ObservedObject) -> Option<Because<R>> {
    because(SharedReason::ReferenceUnreadable, observed.unread.clone())
        .or_else(|| because(SharedReason::ApplyFailed, joined(&observed.problems.failed)))
}

/// That pods refer to something that is not there.
pub(crate) fn missing<R: KindReason>(observed: &ObservedObject) -> Option<Because<R>> {
    because(SharedReason::ReferenceMissing, joined(&observed.missing))
}

/// How far a rollout is that is under way. Of a Deployment that is not there the kind says what it waits for.
pub(crate) fn rolling_out<R: KindReason>(rollout: &Rollout) -> Option<Because<R>> {
    let (reason, message) = match rollout {
        Rollout::UnderWay(how_far) => (SharedReason::RollingOut, how_far),
        Rollout::Unavailable(message) => (SharedReason::ReplicasUnavailable, message),
        Rollout::Slow(message) => (SharedReason::RolloutSlow, message),
        Rollout::Absent
        | Rollout::Unseen
        | Rollout::ScaledToZero
        | Rollout::Stuck(_)
        | Rollout::Complete(_) => return None,
    };
    because(reason, Some(message.clone()))
}

/// Whether the spec is as the rules want it. Codes come first, so that a message that is cut still names every rule.
pub(crate) fn accepted<R: KindReason>(observed: &ObservedObject) -> Finding {
    let no = |reason: SharedReason, message: String| Finding::no(SPEC_ACCEPTED, R::from(reason), message);
    if let Some(why) = &observed.unreadable {
        return no(SharedReason::InvalidSpec, why.clone());
    }
    let Verdict { causes, more_causes, .. } = &observed.broken;
    if causes.is_empty() {
        return Finding::yes(SPEC_ACCEPTED, R::from(SharedReason::Accepted), "the spec breaks no rule");
    }
    let mut codes: Vec<&str> = causes.iter().map(|cause| cause.code).collect();
    codes.dedup();
    let breaks = format!("the spec breaks {}: ", codes.join(", "));
    let lines: Vec<String> = causes.iter().map(Cause::to_string).collect();
    let lines = problem_list(&lines, "; ", ROOM.saturating_sub(breaks.len()), *more_causes);
    no(SharedReason::RulesBroken, breaks + &lines)
}

/// What is held back while admission is disabled; there is no such condition while it is not.
pub(crate) fn authority<R: KindReason>(observed: &ObservedObject) -> Option<Finding> {
    let told = observed.withheld.as_deref()?;
    Some(Finding::no(AUTHORITY_APPLIED, R::from(SharedReason::AdmissionDisabled), told))
}

/// The status of an object of which everything was found out.
pub(crate) fn whole<K: ReconciledKind>(
    object: &Object<K>,
    mut status: K::Status,
    findings: &[Finding],
    now: &Time,
) -> K::Status {
    *status.conditions_mut() = conditions(findings, status.conditions(), object.generation, now);
    status.set_handled(object.generation, object.reconcile_at());
    let is_ready = |one: &Finding| one.type_ == READY && one.status == ConditionStatus::True;
    status.set_phase(findings.iter().any(is_ready));
    status
}

#[cfg(test)]
mod tests;
