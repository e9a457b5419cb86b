//! Decides which Events a change of conditions is worth: what a person wants to hear of, once, and how bad it is.
//! It never publishes, and about a condition that stays as it was it says nothing.

use crate::kubernetes::events::{EventDraft, Severity};
use crds::well_known::condition::{READY, RECONCILING, SPEC_ACCEPTED, STALLED, SUSPENDED};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

/// What a reason says of a condition that does not hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Meaning {
    /// What runs is being replaced, which is always asked for, by a new value in a Secret too; lost replicas and a rollout that
    /// does not go on have other reasons.
    Replacement,
    /// Something else is on its way: no news while it has never been there.
    Progress,
    /// Anything else.
    Other,
}

/// What a reason of the kind means.
type MeaningOf = fn(&str) -> Meaning;

/// What there is to tell when the conditions `before` become those `after`; `resumed` is the reason of a suspension that ended.
pub(crate) fn event_drafts(
    before: &[Condition],
    after: &[Condition],
    meaning: MeaningOf,
    resumed: &'static str,
) -> Vec<EventDraft> {
    let named = |type_: &str| before.iter().find(|old| old.type_ == type_);
    let mut drafts: Vec<EventDraft> = after
        .iter()
        .filter_map(|new| severity(named(&new.type_), new, meaning).map(|severity| told(severity, new)))
        .collect();
    let ended = named(SUSPENDED).filter(|_| after.iter().all(|new| new.type_ != SUSPENDED));
    drafts.extend(ended.map(|_| EventDraft {
        severity: Severity::Normal,
        reason: resumed.to_owned(),
        action: SUSPENDED.to_owned(),
        note: "spec.suspend is no longer true".to_owned(),
    }));
    drafts
}

fn told(severity: Severity, new: &Condition) -> EventDraft {
    EventDraft {
        severity,
        reason: new.reason.clone(),
        // Two conditions with the same reason are still two Events.
        action: new.type_.clone(),
        note: format!("{} is {}: {}", new.type_, new.status, new.message),
    }
}

/// How bad the change is; nothing if nobody wants to hear of it.
fn severity(old: Option<&Condition>, new: &Condition, meaning: MeaningOf) -> Option<Severity> {
    let held = old.is_some_and(|old| old.status == "True");
    let holds = new.status == "True";
    let other_reason = old.is_none_or(|old| old.reason != new.reason);
    match new.type_.as_str() {
        RECONCILING => None,
        // As it should be from the beginning.
        SPEC_ACCEPTED if holds && old.is_none() => None,
        // True is bad here.
        STALLED => (holds && (!held || other_reason)).then_some(Severity::Warning),
        READY if held && holds => other_reason.then_some(Severity::Normal),
        // While it has never been there, the detailed conditions say what is missing.
        READY if !held && !holds => None,
        _ if holds => (!held).then_some(Severity::Normal),
        _ if held => Some(if is_asked_for(old, new, meaning) { Severity::Normal } else { Severity::Warning }),
        _ => {
            let changed = old.is_none_or(|old| old.status != new.status) || other_reason;
            let bad = new.status == "False" && meaning(&new.reason) == Meaning::Other;
            (changed && bad).then_some(Severity::Warning)
        }
    }
}

/// Whether what held is given up because somebody changed the spec, or because it is not asked for any more.
fn is_asked_for(old: Option<&Condition>, new: &Condition, meaning: MeaningOf) -> bool {
    let respecified = old.is_some_and(|old| old.observed_generation != new.observed_generation);
    new.status == "Unknown"
        || match meaning(&new.reason) {
            Meaning::Replacement => true,
            Meaning::Progress => respecified,
            Meaning::Other => false,
        }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn meaning(reason: &str) -> Meaning {
        match reason {
            "RollingOut" | "KeyRotating" => Meaning::Replacement,
            "Creating" | "ReplicasUnavailable" | "Preparing" | "DatabaseNotMigrated" => Meaning::Progress,
            _ => Meaning::Other,
        }
    }

    fn event_drafts(before: &[Condition], after: &[Condition]) -> Vec<EventDraft> {
        super::event_drafts(before, after, meaning, "Resumed")
    }
    use crds::well_known::condition::{DEPLOYMENT_AVAILABLE, OPERATOR_ACCESS_READY, PROVISIONER_KEY_READY};
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
    use k8s_openapi::jiff::Timestamp;

    fn condition(type_: &str, status: &str, reason: &str, generation: i64) -> Condition {
        Condition {
            type_: type_.to_owned(),
            status: status.to_owned(),
            reason: reason.to_owned(),
            message: "why".to_owned(),
            observed_generation: Some(generation),
            last_transition_time: Time(Timestamp::UNIX_EPOCH),
        }
    }

    #[test]
    fn every_transition_a_person_cares_about_is_told_once_and_no_other() {
        use Severity::{Normal, Warning};
        let (access, rollout) = (OPERATOR_ACCESS_READY, DEPLOYMENT_AVAILABLE);
        // (condition, what it was with generation 1, what it is, its generation, what is told)
        for (about, old, new, generation, expected) in [
            (READY, None, ("False", "Creating"), 1, None),
            (READY, Some(("False", "Creating")), ("False", "RollingOut"), 1, None),
            (READY, Some(("False", "RollingOut")), ("True", "Available"), 1, Some(Normal)),
            (READY, Some(("True", "Available")), ("True", "Available"), 2, None),
            (READY, Some(("True", "Available")), ("True", "ScaledToZero"), 2, Some(Normal)),
            (READY, Some(("True", "Available")), ("False", "RollingOut"), 2, Some(Normal)),
            (READY, Some(("True", "Available")), ("False", "RollingOut"), 1, Some(Normal)),
            (READY, Some(("True", "DaemonsConnected")), ("False", "KeyRotating"), 1, Some(Normal)),
            (PROVISIONER_KEY_READY, Some(("True", "KeyRotating")), ("False", "KeyRotating"), 2, Some(Normal)),
            (PROVISIONER_KEY_READY, Some(("Unknown", "Progressing")), ("False", "KeyRotating"), 1, None),
            (READY, Some(("True", "Available")), ("False", "ReplicasUnavailable"), 1, Some(Warning)),
            (READY, Some(("True", "Available")), ("False", "ReplicasUnavailable"), 2, Some(Normal)),
            (READY, Some(("True", "Available")), ("False", "RolloutStuck"), 1, Some(Warning)),
            (READY, Some(("True", "Available")), ("False", "CoderdUnreachable"), 2, Some(Warning)),
            (RECONCILING, Some(("False", "Available")), ("True", "RollingOut"), 2, None),
            (STALLED, None, ("False", "Progressing"), 1, None),
            (STALLED, Some(("False", "Progressing")), ("True", "InvalidSpec"), 1, Some(Warning)),
            (STALLED, Some(("True", "InvalidSpec")), ("True", "InvalidSpec"), 2, None),
            (STALLED, Some(("True", "InvalidSpec")), ("True", "ChildConflict"), 2, Some(Warning)),
            (STALLED, Some(("True", "InvalidSpec")), ("False", "Available"), 2, None),
            (rollout, None, ("False", "Creating"), 1, None),
            (rollout, Some(("True", "RolloutComplete")), ("False", "RollingOut"), 1, Some(Normal)),
            (rollout, Some(("True", "RolloutComplete")), ("False", "ReplicasUnavailable"), 1, Some(Warning)),
            (rollout, Some(("True", "RolloutComplete")), ("False", "ReplicasUnavailable"), 2, Some(Normal)),
            (rollout, Some(("False", "RollingOut")), ("False", "ReplicasUnavailable"), 1, None),
            (rollout, Some(("False", "RollingOut")), ("False", "RolloutStuck"), 1, Some(Warning)),
            (rollout, Some(("False", "RollingOut")), ("True", "RolloutComplete"), 1, Some(Normal)),
            (access, None, ("Unknown", "NoDatabaseURL"), 1, None),
            (access, None, ("False", "DatabaseUrlMissing"), 1, Some(Warning)),
            (access, None, ("False", "DatabaseNotMigrated"), 1, None),
            (access, Some(("False", "Preparing")), ("False", "DatabaseLoginRefused"), 1, Some(Warning)),
            (access, Some(("False", "ProofFailed")), ("False", "ProofFailed"), 1, None),
            (access, Some(("Unknown", "Disabled")), ("False", "ProofFailed"), 2, Some(Warning)),
            (access, Some(("False", "ProofFailed")), ("True", "TokenProven"), 1, Some(Normal)),
            (access, Some(("True", "TokenProven")), ("False", "TokenRejected"), 1, Some(Warning)),
            (access, Some(("True", "TokenProven")), ("Unknown", "Disabled"), 2, Some(Normal)),
            (SPEC_ACCEPTED, None, ("True", "Accepted"), 1, None),
            (SPEC_ACCEPTED, None, ("False", "RulesBroken"), 1, Some(Warning)),
            (SPEC_ACCEPTED, Some(("False", "RulesBroken")), ("True", "Accepted"), 2, Some(Normal)),
            (SUSPENDED, None, ("True", "Suspended"), 1, Some(Normal)),
        ] {
            let before: Vec<_> =
                old.iter().map(|(status, reason)| condition(about, status, reason, 1)).collect();
            let after = [condition(about, new.0, new.1, generation)];
            let told = event_drafts(&before, &after);
            let severities: Vec<Severity> = told.iter().map(|one| one.severity).collect();
            assert_eq!(severities, Vec::from_iter(expected), "{about}: {old:?} -> {new:?}");
            for one in told {
                assert_eq!((one.reason.as_str(), one.action.as_str()), (new.1, about));
                assert_eq!(one.note, format!("{about} is {}: why", new.0));
            }
            assert_eq!(event_drafts(&after, &after), [], "a reconcile that changes nothing");
        }
    }

    #[test]
    fn the_end_of_a_suspension_is_told() {
        let before = [condition(SUSPENDED, "True", "Suspended", 1)];
        let reasons: Vec<String> = event_drafts(&before, &[]).into_iter().map(|one| one.reason).collect();
        assert_eq!(reasons, ["Resumed"]);
        assert_eq!(event_drafts(&[], &[]), []);
    }
}
