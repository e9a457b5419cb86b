//! Every state of a control plane with the conditions it gets and what kstatus makes of them.
//! The rules of kstatus are written out here as its own documentation gives them.

use super::*;
use webhooks::CauseReason;

fn wish(state: WishState, reason: &'static str) -> Wish {
    Wish { state, reason, message: "m".to_owned() }
}

fn broken(field: &str, code: &'static str) -> Cause {
    let (field, problem, fix) = (field.to_owned(), "is empty".to_owned(), "give a value".into());
    Cause { field, code, problem, fix, reason: CauseReason::Required, tolerated: false }
}

/// A control plane that has everything it asked for.
fn healthy() -> Observed {
    Observed {
        unreadable: None,
        broken: vec![],
        account: None,
        held: None,
        conflicts: vec![],
        refused: vec![],
        failed: vec![],
        unimportant: vec![],
        missing: vec![],
        rollout: Rollout::Complete(2),
        exposure: Exposure::InPlace("Ingress"),
        finalizer: None,
        workspaces: Some(Grants::default()),
        coderd: Coderd::Answered { version: Some("v2.36.1".to_owned()), trouble: None },
        access: wish(WishState::Granted, "Proven"),
        access_needed: true,
        license: wish(WishState::Granted, "Applied"),
        late: None,
    }
}

#[test]
fn what_there_was_no_time_for_is_told_and_takes_nothing_away() {
    let late = || Some("the reconcile had its 30 seconds".to_owned());
    let [ready, reconciling, stalled] = summary(&Observed { late: late(), ..healthy() });
    assert_eq!(
        (ready.truth, ready.reason),
        (Truth::True, "Available"),
        "all it has been asked about is well"
    );
    assert!(ready.message.contains("but the reconcile had its 30 seconds"), "{}", ready.message);
    assert_eq!((reconciling.truth, stalled.truth), (Truth::False, Truth::False));
    let waiting = wish(WishState::Pending, "WaitingForCoderd");
    let [ready, reconciling, _] = summary(&Observed { late: late(), license: waiting, ..healthy() });
    assert_eq!(
        (ready.truth, ready.reason),
        (Truth::False, "DeadlineExceeded"),
        "the license was never there"
    );
    assert!(ready.message.starts_with("the reconcile had its 30 seconds; until then m"), "{}", ready.message);
    assert_eq!(reconciling.truth, Truth::True);
}

fn ungranted(troubles: &[(bool, &'static str, &str)]) -> Option<Grants> {
    let troubles = troubles.iter().map(|(home, reason, message)| Ungranted {
        home: *home,
        reason,
        message: (*message).to_owned(),
    });
    Some(Grants { troubles: troubles.collect(), notes: Vec::new() })
}

/// What kstatus says about conditions whose generation was observed.
fn kstatus(findings: &[Finding]) -> &'static str {
    for finding in findings.iter().filter(|finding| finding.truth == Truth::True) {
        match finding.about {
            RECONCILING => return "InProgress",
            STALLED => return "Failed",
            _ => {}
        }
    }
    match findings.iter().find(|finding| finding.about == READY).map(|ready| ready.truth) {
        Some(Truth::True) | None => "Current",
        Some(_) => "InProgress",
    }
}

/// States that are Current, with the reason of Ready.
fn settled() -> Vec<(Observed, &'static str)> {
    vec![
        (healthy(), "Available"),
        (
            Observed {
                rollout: Rollout::ScaledToZero,
                coderd: Coderd::NotAsked("ScaledToZero"),
                ..healthy()
            },
            "ScaledToZero",
        ),
        (
            Observed {
                rollout: Rollout::ScaledToZero,
                coderd: Coderd::NotAsked("ScaledToZero"),
                license: wish(WishState::Pending, "WaitingForCoderd"),
                ..healthy()
            },
            "ScaledToZero",
        ),
        (Observed { exposure: Exposure::NotAsked, ..healthy() }, "Available"),
        (
            Observed { coderd: Coderd::Faltered { version: None, message: "m".into() }, ..healthy() },
            "Available",
        ),
        (Observed { workspaces: None, ..healthy() }, "Available"),
        (Observed { workspaces: ungranted(&[(false, "NamespaceMissing", "x")]), ..healthy() }, "Available"),
        (Observed { workspaces: ungranted(&[(true, "GrantFrozen", "x")]), ..healthy() }, "Available"),
        (Observed { broken: vec![broken("x", "CODER0202")], ..healthy() }, "Available"),
        (Observed { unimportant: vec!["x".into()], ..healthy() }, "Available"),
        (Observed { license: wish(WishState::NotAsked, "NotRequested"), ..healthy() }, "Available"),
        (
            Observed {
                access: wish(WishState::Refused, "NoDatabase"),
                access_needed: false,
                license: wish(WishState::NotAsked, "NotRequested"),
                ..healthy()
            },
            "Available",
        ),
    ]
}

/// States that are Failed, with the reason of Ready.
fn stuck() -> Vec<(Observed, &'static str)> {
    let text = || vec!["x".to_owned()];
    vec![
        (Observed { unreadable: Some("x".into()), ..healthy() }, "InvalidSpec"),
        (Observed { held: Some("x".into()), ..healthy() }, "AdmissionDisabled"),
        (Observed { account: Some("x".into()), conflicts: text(), ..healthy() }, "AccountNotOurs"),
        (Observed { conflicts: text(), ..healthy() }, "ChildConflict"),
        (Observed { refused: text(), ..healthy() }, "ChildRefused"),
        (Observed { workspaces: ungranted(&[(true, "Refused", "x")]), ..healthy() }, "WorkspaceGrantRefused"),
        (
            Observed { workspaces: ungranted(&[(true, "ChildConflict", "x")]), ..healthy() },
            "WorkspaceGrantConflict",
        ),
        (Observed { finalizer: Some("x".into()), ..healthy() }, "FinalizerRefused"),
        (Observed { rollout: Rollout::Stuck("x".into()), ..healthy() }, "RolloutStuck"),
        (Observed { access: wish(WishState::Refused, "WrongPassword"), ..healthy() }, "WrongPassword"),
        (Observed { license: wish(WishState::Refused, "Invalid"), ..healthy() }, "LicenseInvalid"),
        (Observed { license: wish(WishState::Refused, "NotSupported"), ..healthy() }, "LicenseNotSupported"),
        (Observed { license: wish(WishState::Refused, "Forbidden"), ..healthy() }, "LicenseForbidden"),
        (Observed { license: wish(WishState::Refused, "Expired"), ..healthy() }, "LicenseExpired"),
    ]
}

/// States that are InProgress, with the reason of Ready.
fn going_on() -> Vec<(Observed, &'static str)> {
    let text = || vec!["x".to_owned()];
    vec![
        (Observed { missing: text(), rollout: Rollout::Stuck("y".into()), ..healthy() }, "ReferenceMissing"),
        (Observed { failed: text(), ..healthy() }, "ApplyFailed"),
        (Observed { workspaces: ungranted(&[(true, "Failed", "x")]), ..healthy() }, "WorkspaceGrantFailed"),
        (Observed { missing: text(), ..healthy() }, "ReferenceMissing"),
        (Observed { rollout: Rollout::Absent, ..healthy() }, "Creating"),
        (Observed { rollout: Rollout::UnderWay("1 of 2".into()), ..healthy() }, "RollingOut"),
        (Observed { rollout: Rollout::Unavailable("0 of 2".into()), ..healthy() }, "ReplicasUnavailable"),
        (Observed { rollout: Rollout::Slow("x".into()), ..healthy() }, "RolloutSlow"),
        (Observed { exposure: Exposure::NoGatewayApi, ..healthy() }, "NoGatewayAPI"),
        (Observed { exposure: Exposure::Failed("x".into()), ..healthy() }, "ExposureFailed"),
        (Observed { coderd: Coderd::Silent("TimedOut", "x".into()), ..healthy() }, "CoderdUnreachable"),
        (Observed { access: wish(WishState::Pending, "Unreachable"), ..healthy() }, "Unreachable"),
        (Observed { license: wish(WishState::Pending, "Waiting"), ..healthy() }, "Waiting"),
    ]
}

#[test]
fn every_state_has_its_reason_and_its_place_in_kstatus() {
    for (expected, table) in [("Current", settled()), ("Failed", stuck()), ("InProgress", going_on())] {
        for (observed, reason) in table {
            let findings = findings(&observed);
            assert_eq!((kstatus(&findings), findings[0].reason), (expected, reason), "{observed:?}");
        }
    }
}

#[test]
fn what_waits_for_others_is_not_said_to_be_worked_on() {
    let text = || vec!["x".to_owned()];
    for (observed, waits) in [
        (Observed { missing: text(), ..healthy() }, true),
        (Observed { exposure: Exposure::NoGatewayApi, ..healthy() }, true),
        (Observed { access: wish(WishState::Pending, "TokenSecretMissing"), ..healthy() }, true),
        (Observed { license: wish(WishState::Pending, "SecretMissing"), ..healthy() }, true),
        (Observed { rollout: Rollout::Absent, ..healthy() }, false),
        (Observed { failed: text(), ..healthy() }, false),
    ] {
        let stalled = &findings(&observed)[2];
        let said = if waits { "it waits for what Ready names" } else { "it is being worked on" };
        assert!(stalled.truth == Truth::False && stalled.message.starts_with(said), "{stalled:?}");
    }
}

#[test]
fn the_three_of_kstatus_never_contradict_each_other() {
    let truth =
        |findings: &[Finding], about| findings.iter().find(|finding| finding.about == about).unwrap().truth;
    for rollout in [Rollout::Absent, Rollout::Stuck("x".into()), Rollout::Complete(1)] {
        for unreadable in [None, Some("x".to_owned())] {
            for license in [WishState::Granted, WishState::Pending, WishState::Refused] {
                let observed = Observed {
                    rollout: rollout.clone(),
                    unreadable: unreadable.clone(),
                    license: wish(license, "L"),
                    ..healthy()
                };
                let found = findings(&observed);
                let [ready, reconciling, stalled] =
                    [READY, RECONCILING, STALLED].map(|about| truth(&found, about) == Truth::True);
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
    let about: Vec<&str> = findings(&healthy()).iter().map(|finding| finding.about).collect();
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
    let broken = vec![broken("a", "CODER0202"), broken("b", "CODER0202"), broken("c", "CODER0304")];
    let (good, bad) = (findings(&healthy()), findings(&Observed { broken, ..healthy() }));
    let different: Vec<&str> = good.iter().zip(&bad).filter(|(a, b)| a != b).map(|(a, _)| a.about).collect();
    assert_eq!(different, [SPEC_ACCEPTED]);
    let said = bad.last().unwrap();
    assert_eq!((said.truth, said.reason), (Truth::False, "RulesBroken"));
    assert!(said.message.starts_with("the spec breaks CODER0202, CODER0304"), "{}", said.message);
}

#[test]
fn what_coderd_runs_without_is_told_beside_ready() {
    let found = findings(&Observed { unimportant: vec!["ServiceMonitor refused".into()], ..healthy() });
    assert_eq!(found[0].truth, Truth::True);
    assert!(found[0].message.ends_with("but ServiceMonitor refused"), "{}", found[0].message);
}

#[test]
fn of_a_deployment_that_could_not_be_applied_nothing_is_said() {
    let observed = Observed { rollout: Rollout::Unseen, failed: vec!["no answer".into()], ..healthy() };
    let found = findings(&observed);
    assert_eq!((found[0].reason, found[3].truth), ("ApplyFailed", Truth::Unknown));
}

#[test]
fn a_bad_workspace_namespace_degrades_one_condition_only() {
    let bad = Observed {
        workspaces: ungranted(&[(false, "NoConsent", "label it"), (false, "Missing", "make it")]),
        ..healthy()
    };
    let (good, bad) = (findings(&healthy()), findings(&bad));
    let different: Vec<&str> = good.iter().zip(&bad).filter(|(a, b)| a != b).map(|(a, _)| a.about).collect();
    assert_eq!(different, [WORKSPACE_RBAC_READY]);
    assert_eq!(bad[7].message, "label it; make it");
}

#[test]
fn rights_that_work_as_they_are_are_granted_and_what_is_to_say_of_them_is_said() {
    let grants = Grants { troubles: Vec::new(), notes: vec!["they are from before".into()] };
    let found = findings(&Observed { workspaces: Some(grants), ..healthy() });
    assert_eq!((found[7].truth, found[7].reason), (Truth::True, "Granted"));
    assert!(found[7].message.ends_with("; they are from before"), "{}", found[7].message);
    assert_eq!(found[0].truth, Truth::True);
}
