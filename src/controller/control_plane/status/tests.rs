//! Every state of a control plane with the conditions it gets and what kstatus makes of them.
//! The rules of kstatus are written out here as its own documentation gives them.

use super::*;
use crate::control_plane_access::unreached::COMING;
use crate::controller::control_plane::observed::Ungranted;
use crds::well_known::condition::{READY, RECONCILING, SPEC_ACCEPTED, STALLED};
use webhooks::{Cause, CauseReason, Verdict};

fn state(phase: ExternalPhase, reason: Reason) -> ExternalState {
    ExternalState { phase, reason, message: "m".to_owned() }
}

fn broken(field: &str, code: &'static str) -> Cause {
    let (field, problem, fix) = (field.to_owned(), "is empty".to_owned(), "give a value".into());
    Cause { field, code, problem, fix, reason: CauseReason::Required, tolerated: false }
}

fn verdict(of: &[(&str, &'static str)]) -> Verdict {
    Verdict { causes: of.iter().map(|(field, code)| broken(field, code)).collect(), ..Verdict::default() }
}

/// A control plane that has everything it asked for.
fn healthy() -> Observed {
    Observed {
        object: ObservedObject { rollout: Rollout::Complete(2), ..ObservedObject::nothing() },
        exposure: Exposure::InPlace("Ingress"),
        workspaces: Some(Grants::default()),
        coderd: Coderd::Answered {
            version: Some("v2.36.1".to_owned()),
            deployment_id: Some("d1".to_owned()),
            trouble: None,
        },
        access: state(ExternalPhase::Granted, Reason::TokenProven),
        access_needed: true,
        license: state(ExternalPhase::Granted, Reason::Applied),
        adoption: None,
    }
}

/// The same but for this.
fn with(change: impl FnOnce(&mut ObservedObject)) -> Observed {
    let mut observed = healthy();
    change(&mut observed.object);
    observed
}

/// The same but for its rollout.
fn rolled(rollout: Rollout) -> Observed {
    with(|object| object.rollout = rollout)
}

#[test]
fn what_there_was_no_time_for_is_told_and_takes_nothing_away() {
    let late = || Some("the reconcile had its 30 seconds".to_owned());
    let [ready, reconciling, stalled] = summary(&with(|object| object.late = late()));
    assert_eq!(
        (ready.status, ready.reason),
        (ConditionStatus::True, Reason::Available.as_str()),
        "all it has been asked about is well"
    );
    assert!(ready.message.contains("but the reconcile had its 30 seconds"), "{}", ready.message);
    assert_eq!((reconciling.status, stalled.status), (ConditionStatus::False, ConditionStatus::False));
    let waiting = state(ExternalPhase::Pending, Reason::WaitingForCoderd);
    let [ready, reconciling, _] =
        summary(&Observed { license: waiting, ..with(|object| object.late = late()) });
    assert_eq!(
        (ready.status, ready.reason),
        (ConditionStatus::False, Reason::DeadlineExceeded.as_str()),
        "the license was never there"
    );
    assert!(ready.message.starts_with("the reconcile had its 30 seconds; pending: m"), "{}", ready.message);
    assert_eq!(reconciling.status, ConditionStatus::True);
}

fn ungranted(troubles: &[(bool, Reason, &str)]) -> Option<Grants> {
    let troubles = troubles.iter().map(|(own_namespace, reason, message)| Ungranted {
        own_namespace: *own_namespace,
        reason: *reason,
        message: (*message).to_owned(),
    });
    Some(Grants { troubles: troubles.collect(), notes: Vec::new() })
}

/// What kstatus says about conditions whose generation was observed.
fn kstatus(findings: &[Finding]) -> &'static str {
    for finding in findings.iter().filter(|finding| finding.status == ConditionStatus::True) {
        match finding.type_ {
            RECONCILING => return "InProgress",
            STALLED => return "Failed",
            _ => {}
        }
    }
    match findings.iter().find(|finding| finding.type_ == READY).map(|ready| ready.status) {
        Some(ConditionStatus::True) | None => "Current",
        Some(_) => "InProgress",
    }
}

/// States that are Current, with the reason of Ready.
fn settled() -> Vec<(Observed, Reason)> {
    vec![
        (healthy(), Reason::Available),
        (
            Observed { coderd: Coderd::NotProbed(Reason::ScaledToZero), ..rolled(Rollout::ScaledToZero) },
            Reason::ScaledToZero,
        ),
        (
            Observed {
                coderd: Coderd::NotProbed(Reason::ScaledToZero),
                license: state(ExternalPhase::Pending, Reason::WaitingForCoderd),
                ..rolled(Rollout::ScaledToZero)
            },
            Reason::ScaledToZero,
        ),
        (Observed { exposure: Exposure::NotRequested, ..healthy() }, Reason::Available),
        (
            Observed { coderd: Coderd::Degraded { version: None, message: "m".into() }, ..healthy() },
            Reason::Available,
        ),
        (Observed { workspaces: None, ..healthy() }, Reason::Available),
        (
            Observed { workspaces: ungranted(&[(false, Reason::NamespaceMissing, "x")]), ..healthy() },
            Reason::Available,
        ),
        (
            Observed { workspaces: ungranted(&[(true, Reason::GrantFrozen, "x")]), ..healthy() },
            Reason::Available,
        ),
        (with(|object| object.broken = verdict(&[("x", "CODER0202")])), Reason::Available),
        (with(|object| object.problems.unimportant = vec!["x".into()]), Reason::Available),
        (
            Observed { license: state(ExternalPhase::NotRequested, Reason::NotRequested), ..healthy() },
            Reason::Available,
        ),
        (
            Observed {
                access: state(ExternalPhase::Refused, Reason::NoDatabaseURL),
                access_needed: false,
                license: state(ExternalPhase::NotRequested, Reason::NotRequested),
                ..healthy()
            },
            Reason::Available,
        ),
    ]
}

/// States that are Failed, with the reason of Ready.
fn stuck() -> Vec<(Observed, Reason)> {
    let text = || vec!["x".to_owned()];
    vec![
        (with(|object| object.unreadable = Some("x".into())), Reason::InvalidSpec),
        (with(|object| object.withheld = Some("x".into())), Reason::AdmissionDisabled),
        (
            with(|object| {
                object.account = Some("x".into());
                object.problems.conflicts = text();
            }),
            Reason::AccountNotOurs,
        ),
        (with(|object| object.problems.conflicts = text()), Reason::ChildConflict),
        (with(|object| object.problems.refused = text()), Reason::ChildRefused),
        (
            Observed { workspaces: ungranted(&[(true, Reason::Refused, "x")]), ..healthy() },
            Reason::WorkspaceGrantRefused,
        ),
        (
            Observed { workspaces: ungranted(&[(true, Reason::ChildConflict, "x")]), ..healthy() },
            Reason::WorkspaceGrantConflict,
        ),
        (with(|object| object.finalizer = Some("x".into())), Reason::FinalizerRefused),
        (rolled(Rollout::Stuck("x".into())), Reason::RolloutStuck),
        (
            Observed { access: state(ExternalPhase::Refused, Reason::DatabaseLoginRefused), ..healthy() },
            Reason::DatabaseLoginRefused,
        ),
        (
            Observed { license: state(ExternalPhase::Refused, Reason::Invalid), ..healthy() },
            Reason::LicenseInvalid,
        ),
        (
            Observed { license: state(ExternalPhase::Refused, Reason::NotSupported), ..healthy() },
            Reason::LicenseNotSupported,
        ),
        (
            Observed { license: state(ExternalPhase::Refused, Reason::Forbidden), ..healthy() },
            Reason::LicenseForbidden,
        ),
        (
            Observed { license: state(ExternalPhase::Refused, Reason::Expired), ..healthy() },
            Reason::LicenseExpired,
        ),
    ]
}

/// States that are InProgress, with the reason of Ready.
fn going_on() -> Vec<(Observed, Reason)> {
    let text = || vec!["x".to_owned()];
    vec![
        (
            with(|object| (object.missing, object.rollout) = (text(), Rollout::Stuck("y".into()))),
            Reason::ReferenceMissing,
        ),
        (with(|object| object.problems.failed = text()), Reason::ApplyFailed),
        (
            Observed { workspaces: ungranted(&[(true, Reason::Failed, "x")]), ..healthy() },
            Reason::WorkspaceGrantFailed,
        ),
        (with(|object| object.missing = text()), Reason::ReferenceMissing),
        (rolled(Rollout::Absent), Reason::Creating),
        (rolled(Rollout::UnderWay("1 of 2".into())), Reason::RollingOut),
        (rolled(Rollout::Unavailable("0 of 2".into())), Reason::ReplicasUnavailable),
        (rolled(Rollout::Slow("x".into())), Reason::RolloutSlow),
        (Observed { exposure: Exposure::NoGatewayApi, ..healthy() }, Reason::NoGatewayAPI),
        (Observed { exposure: Exposure::Failed("x".into()), ..healthy() }, Reason::ExposureFailed),
        (
            Observed { coderd: Coderd::Unreachable(Reason::Unreachable, "x".into()), ..healthy() },
            Reason::CoderdUnreachable,
        ),
        (
            Observed { access: state(ExternalPhase::Pending, Reason::Unreachable), ..healthy() },
            Reason::Unreachable,
        ),
        (
            Observed { license: state(ExternalPhase::Pending, Reason::WaitingForAccess), ..healthy() },
            Reason::WaitingForAccess,
        ),
    ]
}

#[test]
fn every_state_has_its_reason_and_its_place_in_kstatus() {
    for (expected, table) in [("Current", settled()), ("Failed", stuck()), ("InProgress", going_on())] {
        for (observed, reason) in table {
            let findings = findings(&observed);
            assert_eq!((kstatus(&findings), findings[0].reason), (expected, reason.as_str()), "{observed:?}");
        }
    }
}

#[test]
fn what_waits_for_others_is_not_said_to_be_worked_on() {
    let text = || vec!["x".to_owned()];
    for (observed, waits) in [
        (with(|object| object.missing = text()), true),
        (Observed { exposure: Exposure::NoGatewayApi, ..healthy() }, true),
        (Observed { access: state(ExternalPhase::Pending, Reason::TokenSecretMissing), ..healthy() }, true),
        (Observed { license: state(ExternalPhase::Pending, Reason::SecretMissing), ..healthy() }, true),
        (rolled(Rollout::Absent), false),
        (with(|object| object.problems.failed = text()), false),
    ] {
        let stalled = &findings(&observed)[2];
        let said =
            if waits { "waiting for the object named in Ready" } else { "reconciliation is in progress" };
        assert!(stalled.status == ConditionStatus::False && stalled.message.starts_with(said), "{stalled:?}");
    }
}

#[test]
fn the_three_of_kstatus_never_contradict_each_other() {
    let truth =
        |findings: &[Finding], about| findings.iter().find(|finding| finding.type_ == about).unwrap().status;
    for rollout in [Rollout::Absent, Rollout::Stuck("x".into()), Rollout::Complete(1)] {
        for unreadable in [None, Some("x".to_owned())] {
            for license in [ExternalPhase::Granted, ExternalPhase::Pending, ExternalPhase::Refused] {
                let object = with(|object| {
                    object.rollout = rollout.clone();
                    object.unreadable = unreadable.clone();
                });
                let observed = Observed { license: state(license, Reason::Error), ..object };
                let found = findings(&observed);
                let [ready, reconciling, stalled] =
                    [READY, RECONCILING, STALLED].map(|about| truth(&found, about) == ConditionStatus::True);
                assert_eq!(
                    [ready, reconciling, stalled].iter().filter(|holds| **holds).count(),
                    1,
                    "{observed:?}"
                );
            }
        }
    }
}

#[test]
fn every_condition_of_the_contract_is_always_there() {
    let about: Vec<&str> = findings(&healthy()).iter().map(|finding| finding.type_).collect();
    assert_eq!(
        about,
        [
            READY,
            RECONCILING,
            STALLED,
            DEPLOYMENT_AVAILABLE,
            EXPOSED,
            OPERATOR_ACCESS_READY,
            LICENSE_APPLIED,
            WORKSPACE_RBAC_READY,
            CODERD_REACHABLE,
            SPEC_ACCEPTED
        ]
    );
}

#[test]
fn broken_rules_are_told_with_their_codes_first_and_change_nothing_else() {
    let broken = verdict(&[("a", "CODER0202"), ("b", "CODER0202"), ("c", "CODER0304")]);
    let (good, bad) = (findings(&healthy()), findings(&with(|object| object.broken = broken)));
    let different: Vec<&str> = good.iter().zip(&bad).filter(|(a, b)| a != b).map(|(a, _)| a.type_).collect();
    assert_eq!(different, [SPEC_ACCEPTED]);
    let said = bad.last().unwrap();
    assert_eq!((said.status, said.reason), (ConditionStatus::False, Reason::RulesBroken.as_str()));
    assert!(said.message.starts_with("the spec breaks CODER0202, CODER0304"), "{}", said.message);
}

#[test]
fn rules_that_are_broken_in_many_places_are_counted() {
    let long = "x".repeat(100);
    let causes = vec![broken(&long, "CODER0202"); 64];
    let broken = Verdict { causes, more_causes: 7, ..Verdict::default() };
    let said = findings(&with(|object| object.broken = broken)).pop().unwrap().message;
    assert!(said.ends_with("; and 70 more problems") && said.len() <= 300, "{said}");
}

#[test]
fn what_coderd_runs_without_is_told_beside_ready() {
    let found = findings(&with(|object| object.problems.unimportant = vec!["ServiceMonitor refused".into()]));
    assert_eq!(found[0].status, ConditionStatus::True);
    assert!(found[0].message.ends_with("but ServiceMonitor refused"), "{}", found[0].message);
}

#[test]
fn of_a_deployment_that_could_not_be_applied_nothing_is_said() {
    let observed = with(|object| {
        object.rollout = Rollout::Unseen;
        object.problems.failed = vec!["no answer".into()];
    });
    let found = findings(&observed);
    assert_eq!((found[0].reason, found[3].status), (Reason::ApplyFailed.as_str(), ConditionStatus::Unknown));
}

#[test]
fn a_bad_workspace_namespace_degrades_one_condition_only() {
    let bad = Observed {
        workspaces: ungranted(&[
            (false, Reason::NoConsent, "label it"),
            (false, Reason::NamespaceMissing, "make it"),
        ]),
        ..healthy()
    };
    let (good, bad) = (findings(&healthy()), findings(&bad));
    let different: Vec<&str> = good.iter().zip(&bad).filter(|(a, b)| a != b).map(|(a, _)| a.type_).collect();
    assert_eq!(different, [WORKSPACE_RBAC_READY]);
    assert_eq!(bad[7].message, "label it; make it");
}

#[test]
fn rights_that_work_as_they_are_are_granted_and_what_is_to_say_of_them_is_said() {
    let grants = Grants { troubles: Vec::new(), notes: vec!["they are from before".into()] };
    let found = findings(&Observed { workspaces: Some(grants), ..healthy() });
    assert_eq!((found[7].status, found[7].reason), (ConditionStatus::True, Reason::Granted.as_str()));
    assert!(found[7].message.ends_with("; they are from before"), "{}", found[7].message);
    assert_eq!(found[0].status, ConditionStatus::True);
}

#[test]
fn who_coderd_is_stays_as_it_said_last_until_it_says_otherwise() {
    let answered = |version: Option<&str>, deployment_id: Option<&str>| Coderd::Answered {
        version: version.map(str::to_owned),
        deployment_id: deployment_id.map(str::to_owned),
        trouble: None,
    };
    let mut status = CoderControlPlaneStatus::default();
    let mut after = |coderd: &Coderd| {
        identity(&mut status, coderd);
        (status.version.clone().unwrap_or_default(), status.deployment_id.clone().unwrap_or_default())
    };
    let pair = |version: &str, id: &str| (version.to_owned(), id.to_owned());
    assert_eq!(after(&answered(None, None)), pair("", ""));
    assert_eq!(after(&answered(Some("v1"), Some("d1"))), pair("v1", "d1"));
    let silent = [
        answered(None, None),
        Coderd::Degraded { version: Some("v1".to_owned()), message: "x".to_owned() },
        Coderd::Unreachable(Reason::Unreachable, "x".to_owned()),
        Coderd::NotProbed(Reason::NoReplicaReady),
    ];
    for coderd in silent {
        assert_eq!(after(&coderd), pair("v1", "d1"), "{coderd:?}");
    }
    assert_eq!(after(&answered(Some("v2"), Some("d2"))), pair("v2", "d2"), "another database");
}

#[test]
fn the_words_by_which_others_know_that_a_token_comes_are_reasons_of_a_control_plane() {
    for word in COMING {
        assert!(Reason::parse(word).is_some(), "{word}");
    }
}
