//! Decides how a status changes where only a part of it was found out: an object that is suspended, that cannot be read, or
//! that is going and held. Pure. What is said of the rest stays, as it was said before.

use super::conditions::{Finding, conditions};
use crate::controller::object::{Object, ReconciledKind};
use crds::KindStatus;
use crds::well_known::condition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

/// The conditions that sum up an object, the three of kstatus.
const SUMMARY: [&str; 3] = [condition::READY, condition::RECONCILING, condition::STALLED];

/// The status of an object of which no more was found out than sums it up, and `besides` these conditions. Whoever is told what is
/// wrong with an object knows that it is no longer suspended.
pub(crate) fn summary<K: ReconciledKind>(
    object: &Object<K>,
    mut status: K::Status,
    mut findings: Vec<Finding>,
    besides: &[&str],
    now: &Time,
) -> K::Status {
    findings.retain(|one| SUMMARY.contains(&one.type_) || besides.contains(&one.type_));
    status.conditions_mut().retain(|old| old.type_ != condition::SUSPENDED);
    with_first(object, status, &findings, now)
}

/// The status of a suspended object, with what was found out all the same. What was said of it before it was suspended stays.
pub(crate) fn suspended<K: ReconciledKind>(
    object: &Object<K>,
    mut status: K::Status,
    reason: impl Into<&'static str>,
    found: Vec<Finding>,
    now: &Time,
) -> K::Status {
    let message = "reconciliation is suspended by spec.suspend; nothing is changed until it is removed";
    let mut findings = vec![Finding::yes(condition::SUSPENDED, reason, message)];
    findings.extend(found);
    let new = conditions(&findings, status.conditions(), object.generation, now);
    let before = status.conditions_mut();
    before.retain(|old| new.iter().all(|new| new.type_ != old.type_));
    before.extend(new);
    status.set_handled(object.generation, object.reconcile_at());
    status
}

/// The status of an object that is going and held, with why, and with what was found out besides; `progressing` is the reason of
/// what comes by itself.
pub(crate) fn cleanup_failed<K: ReconciledKind>(
    object: &Object<K>,
    (status, found): (K::Status, Option<Finding>),
    reason: impl Into<&'static str>,
    progressing: impl Into<&'static str>,
    why: &str,
    now: &Time,
) -> K::Status {
    let (reason, message) = (reason.into(), format!("{why}; retrying"));
    let mut findings = vec![
        Finding::no(condition::READY, reason, &*message),
        Finding::yes(condition::RECONCILING, reason, &*message),
        Finding::no(condition::STALLED, progressing, "reconciliation is in progress"),
        Finding::no(condition::CLEANED_UP, reason, message),
    ];
    findings.extend(found);
    with_first(object, status, &findings, now)
}

/// A status that says this first, and is not ready.
fn with_first<K: ReconciledKind>(
    object: &Object<K>,
    mut status: K::Status,
    findings: &[Finding],
    now: &Time,
) -> K::Status {
    let new = conditions(findings, status.conditions(), object.generation, now);
    let before = status.conditions_mut();
    before.retain(|old| new.iter().all(|new| new.type_ != old.type_));
    before.splice(..0, new);
    status.set_handled(object.generation, object.reconcile_at());
    status.set_phase(false);
    status
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::controller::identity::ObjectKey;
    use crate::controller::object::Origin;
    use crds::well_known::condition::{CLEANED_UP, EXPOSED, READY, RECONCILING, STALLED, SUSPENDED};
    use crds::{CoderControlPlane, CoderControlPlaneStatus};
    use k8s_openapi::jiff::Timestamp;
    use serde_json::{Value, json};

    /// An object of generation 2 that was ready, exposed and perhaps more with generation 1.
    fn object(more: &[&str]) -> Object<CoderControlPlane> {
        let condition = |type_: &&str| {
            json!({ "type": type_, "status": "True", "reason": "Before", "message": "", "observedGeneration": 1,
                "lastTransitionTime": "2026-01-01T00:00:00Z" })
        };
        let conditions: Vec<Value> = [READY, EXPOSED].iter().chain(more).map(condition).collect();
        let status = json!({ "phase": "Ready", "conditions": conditions });
        let key = ObjectKey { namespace: "team".to_owned(), name: "coder".to_owned() };
        let metadata = json!({ "generation": 2, "annotations": { "coder.com/reconcile-at": "now" } });
        Object::new(key, Origin::Read, json!({ "metadata": metadata, "status": status }))
    }

    fn now() -> Time {
        Time(Timestamp::UNIX_EPOCH)
    }

    /// The types and reasons of the conditions, and what else every status says.
    fn told(status: &CoderControlPlaneStatus) -> (Vec<(&str, &str)>, Option<&str>) {
        assert_eq!(status.observed_generation, Some(2));
        assert_eq!(status.last_handled_reconcile_at.as_deref(), Some("now"));
        let conditions = status.conditions.iter().map(|one| (&*one.type_, &*one.reason));
        (conditions.collect(), status.phase.as_deref())
    }

    #[test]
    fn what_was_found_comes_first_and_replaces_what_was_said_of_the_same() {
        let object = object(&[SUSPENDED]);
        let findings = || vec![Finding::no(READY, "Failed", "why"), Finding::no(EXPOSED, "Unseen", "")];
        let after = |besides: &[&str]| summary(&object, object.status.clone(), findings(), besides, &now());
        assert_eq!(told(&after(&[])), (vec![(READY, "Failed"), (EXPOSED, "Before")], Some("Pending")));
        assert_eq!(told(&after(&[EXPOSED])).0, [(READY, "Failed"), (EXPOSED, "Unseen")]);
    }

    #[test]
    fn a_suspended_object_keeps_what_was_said_before() {
        let object = object(&[]);
        let after = suspended(&object, object.status.clone(), "Suspended", Vec::new(), &now());
        let expected = vec![(READY, "Before"), (EXPOSED, "Before"), (SUSPENDED, "Suspended")];
        assert_eq!(told(&after), (expected, Some("Ready")));
        let found = vec![Finding::no(EXPOSED, "Lost", "")];
        let again = suspended(&object, after, "Suspended", found, &now());
        let expected = vec![(READY, "Before"), (SUSPENDED, "Suspended"), (EXPOSED, "Lost")];
        assert_eq!(told(&again), (expected, Some("Ready")));
    }

    #[test]
    fn an_object_that_is_held_says_why_and_that_it_is_tried_again() {
        let object = object(&[SUSPENDED]);
        let before = (object.status.clone(), None);
        let after =
            cleanup_failed(&object, before, "CleanupFailed", "Progressing", "a Role is there", &now());
        let (conditions, phase) = told(&after);
        let (new, kept) = conditions.split_at(4);
        let why = "CleanupFailed";
        assert_eq!(new, [(READY, why), (RECONCILING, why), (STALLED, "Progressing"), (CLEANED_UP, why)]);
        assert_eq!(kept, [(EXPOSED, "Before"), (SUSPENDED, "Before")], "its suspension has not ended");
        assert_eq!((phase, &*after.conditions[0].message), (Some("Pending"), "a Role is there; retrying"));
    }
}
