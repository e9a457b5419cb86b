//! What every kind says of itself in the same words, for a kind that has no more reasons than all have.
#![allow(
    dead_code,
    unreachable_pub,
    reason = "the reasons of a kind are listed for the documentation as well"
)]

use super::*;
use crate::controller::children::apply::Problems;
use crate::controller::status::reasons::{KindReason, reasons};
use crate::controller::status::transitions::Meaning;
use webhooks::CauseReason;

reasons! {
    enum Reason {
        Settled {
            Accepted: "As every kind has it.",
            Available: "As every kind has it.",
            Resumed: "As every kind has it.",
        }
        Replacement {
            RollingOut: "As every kind has it.",
        }
        Progress {
            ReplicasUnavailable: "As every kind has it.",
            Progressing: "As every kind has it.",
        }
        NeedsYou {
            InvalidSpec: "As every kind has it.",
            RulesBroken: "As every kind has it.",
            AdmissionDisabled: "As every kind has it.",
            AccountNotOurs: "As every kind has it.",
            ChildConflict: "As every kind has it.",
            ChildRefused: "As every kind has it.",
            FinalizerRefused: "As every kind has it.",
            RolloutStuck: "As every kind has it.",
            SecretMissing: "As every kind has it.",
            ReferenceMissing: "As every kind has it.",
        }
        Fault {
            DeadlineExceeded: "As every kind has it.",
            RolloutSlow: "As every kind has it.",
            ApplyFailed: "As every kind has it.",
            ReferenceUnreadable: "As every kind has it.",
        }
    }
}

fn standing(stalled: Option<Reason>, unfinished: Option<Reason>) -> Standing<Reason> {
    let told = |reason: Reason| (reason, "why".to_owned());
    Standing {
        stalled: stalled.map(told),
        unfinished: unfinished.map(told),
        ready: (Reason::Available, "it is there".to_owned()),
        besides: vec!["one".to_owned(), "two".to_owned()],
        waited_for: &[Reason::SecretMissing],
    }
}

#[test]
fn whatever_needs_somebody_comes_first_and_only_what_is_done_is_ready() {
    let (stuck, rolling) = (Some(Reason::RolloutStuck), Some(Reason::RollingOut));
    for (standing, holds, reason) in [
        (standing(stuck, rolling), STALLED, Reason::RolloutStuck),
        (standing(None, rolling), RECONCILING, Reason::RollingOut),
        (standing(None, None), READY, Reason::Available),
    ] {
        let findings = standing.summary(None);
        let said = findings.iter().find(|one| one.status == ConditionStatus::True).unwrap();
        assert_eq!((said.type_, findings[0].reason), (holds, reason.as_str()));
        assert_eq!(findings.iter().filter(|one| one.status == ConditionStatus::True).count(), 1);
    }
    let [ready, ..] = standing(None, None).summary(Some("late"));
    assert_eq!(ready.message, "it is there, but one; two", "what was left takes nothing away");
}

#[test]
fn what_there_was_no_time_for_is_the_reason_while_something_is_to_come() {
    let [ready, _, stalled] = standing(None, Some(Reason::SecretMissing)).summary(Some("it had its time"));
    assert_eq!((ready.reason, &*ready.message), ("DeadlineExceeded", "it had its time; pending: why"));
    assert_eq!((stalled.reason, &*stalled.message), ("Progressing", "reconciliation is in progress"));
    let [_, _, stalled] = standing(None, Some(Reason::SecretMissing)).summary(None);
    assert!(stalled.message.starts_with("waiting for the object named in Ready"), "{}", stalled.message);
}

/// An object of which all of this is true at once.
fn troubled() -> ObservedObject {
    let told = |text: &str| Some(text.to_owned());
    let problems = Problems {
        conflicts: vec!["conflict".to_owned()],
        refused: vec!["refused".to_owned(), "twice".to_owned()],
        failed: vec!["failed".to_owned()],
        unimportant: Vec::new(),
    };
    ObservedObject {
        unreadable: told("unreadable"),
        withheld: told("withheld"),
        account: told("account"),
        problems,
        rollout: Rollout::Stuck("stuck".to_owned()),
        finalizer: told("finalizer"),
        ..ObservedObject::nothing()
    }
}

#[test]
fn what_stands_in_the_way_is_told_in_one_order() {
    let mut observed = troubled();
    let mut first = |mended: fn(&mut ObservedObject)| {
        mended(&mut observed);
        blocked::<Reason>(&observed).map(|(reason, message)| (reason.as_str(), message))
    };
    let told = |reason: &'static str, message: &str| Some((reason, message.to_owned()));
    assert_eq!(first(|_| {}), told("InvalidSpec", "unreadable"));
    assert_eq!(first(|object| object.unreadable = None), told("AdmissionDisabled", "withheld"));
    assert_eq!(first(|object| object.withheld = None), told("AccountNotOurs", "account"));
    assert_eq!(first(|object| object.account = None), told("ChildConflict", "conflict"));
    assert_eq!(
        first(|object| object.problems.conflicts.clear()),
        told("ChildRefused", &child_refused("refused; twice"))
    );
    assert_eq!(first(|object| object.problems.refused.clear()), None);
    let reasons = [finalizer_refused::<Reason>(&observed), stuck(&observed), failed(&observed)];
    let reasons = reasons.map(|one| one.unwrap().0);
    assert_eq!(reasons, [Reason::FinalizerRefused, Reason::RolloutStuck, Reason::ApplyFailed]);
    assert_eq!(rolling_out::<Reason>(&observed.rollout), None);
}

#[test]
fn the_rules_that_a_spec_breaks_are_told_with_their_codes_first() {
    let of = |observed: &ObservedObject| {
        let finding = accepted::<Reason>(observed);
        (finding.status, finding.reason, finding.message)
    };
    let (status, reason, message) = of(&troubled());
    assert_eq!((status, reason, &*message), (ConditionStatus::False, "InvalidSpec", "unreadable"));
    let (status, reason, _) = of(&ObservedObject::nothing());
    assert_eq!((status, reason), (ConditionStatus::True, "Accepted"));
    let cause = Cause {
        field: "spec.a".to_owned(),
        code: "CODER0202",
        problem: "is empty".to_owned(),
        fix: "give a value".into(),
        reason: CauseReason::Required,
        tolerated: false,
    };
    let broken = Verdict { causes: vec![cause; 20], more_causes: 3, ..Verdict::default() };
    let (status, reason, message) = of(&ObservedObject { broken, ..ObservedObject::nothing() });
    assert_eq!((status, reason), (ConditionStatus::False, "RulesBroken"));
    assert!(message.starts_with("the spec breaks CODER0202: spec.a: is empty"), "{message}");
    assert!(message.ends_with(" more problems") && message.len() <= 300, "{message}");
}

#[test]
fn what_is_held_back_is_told_while_it_is() {
    let told = authority::<Reason>(&troubled()).unwrap();
    assert_eq!(
        (told.type_, told.status, &*told.message),
        (AUTHORITY_APPLIED, ConditionStatus::False, "withheld")
    );
    assert_eq!(authority::<Reason>(&ObservedObject::nothing()), None);
}

#[test]
fn a_reason_says_of_a_condition_that_does_not_hold_what_its_class_says() {
    let told = ["RollingOut", "Progressing", "RolloutStuck", "Unheard"].map(Reason::meaning);
    assert_eq!(told, [Meaning::Replacement, Meaning::Progress, Meaning::Other, Meaning::Other]);
}

#[test]
fn pods_that_wait_for_something_that_is_not_there_are_not_stuck() {
    let mut observed =
        ObservedObject { rollout: Rollout::Stuck("late".to_owned()), ..ObservedObject::nothing() };
    assert_eq!(stuck::<Reason>(&observed), Some((Reason::RolloutStuck, "late".to_owned())));
    assert_eq!(missing::<Reason>(&observed), None);
    observed.missing = vec!["Secret a".to_owned(), "ConfigMap b".to_owned()];
    assert_eq!(stuck::<Reason>(&observed), None);
    let told = (Reason::ReferenceMissing, "Secret a; ConfigMap b".to_owned());
    assert_eq!(missing::<Reason>(&observed), Some(told));
    let unread = failed::<Reason>(&ObservedObject::unread("no".to_owned()));
    assert_eq!(unread, Some((Reason::ReferenceUnreadable, "no".to_owned())));
}
