//! Every state of a provisioner with the conditions it gets: what comes first, and what is told beside.

use super::*;
use crate::controller::status::conditions::ConditionStatus;
use crate::controller::status::observed::ObservedObject;
use crds::well_known::condition::DEPLOYMENT_READY;
use crds::well_known::condition::{AUTHORITY_APPLIED, READY, RECONCILING, SPEC_ACCEPTED, STALLED};
use serde_json::json;

fn yes(reason: Reason) -> State {
    State::Yes(reason, "m".to_owned())
}

/// A provisioner that has everything it asked for.
fn healthy() -> Observed {
    let outside = Outside {
        control_plane: yes(Reason::ControlPlaneAvailable),
        access: yes(Reason::OperatorAccessReady),
        bootstrap: None,
        entitled: yes(Reason::Entitled),
        key: yes(Reason::ProvisionerKeyReady),
        secret: yes(Reason::SecretReady),
        wait: None,
        daemons: Some(2),
        is_unasked: false,
    };
    let object = ObservedObject { rollout: Rollout::Complete(2), ..ObservedObject::nothing() };
    Observed { ready_replicas: 2, ..Observed::only(object, outside) }
}

/// The same but for this.
fn with(change: impl FnOnce(&mut Observed)) -> Observed {
    let mut observed = healthy();
    change(&mut observed);
    observed
}

/// Which of the three of kstatus holds, and why.
fn summed_up(observed: &Observed) -> (&'static str, &'static str) {
    let findings = findings(observed);
    let holds: Vec<&Finding> =
        findings[..3].iter().filter(|one| one.status == ConditionStatus::True).collect();
    let [holds] = holds[..] else { panic!("{findings:?}") };
    (holds.type_, findings[0].reason)
}

fn told<'a>(findings: &'a [Finding], type_: &str) -> &'a Finding {
    findings.iter().find(|one| one.type_ == type_).unwrap()
}

#[test]
fn every_state_has_its_reason_and_its_place_in_kstatus() {
    let pending = |reason| State::Pending(reason, "m".to_owned());
    let refused = |reason| State::Refused(reason, "m".to_owned());
    for (observed, expected) in [
        (healthy(), (READY, Reason::DaemonsConnected)),
        (with(|all| all.object.rollout = Rollout::ScaledToZero), (READY, Reason::ScaledToZero)),
        (with(|all| all.object.problems.unimportant = vec!["x".into()]), (READY, Reason::DaemonsConnected)),
        (with(|all| all.outside.daemons = Some(0)), (RECONCILING, Reason::WaitingForDaemons)),
        (with(|all| all.outside.is_unasked = true), (RECONCILING, Reason::Progressing)),
        (with(|all| all.object.rollout = Rollout::Absent), (RECONCILING, Reason::Creating)),
        (with(|all| all.object.rollout = Rollout::Unseen), (RECONCILING, Reason::Creating)),
        (
            with(|all| all.object.rollout = Rollout::UnderWay("1 of 2".into())),
            (RECONCILING, Reason::RollingOut),
        ),
        (with(|all| all.object.problems.failed = vec!["x".into()]), (RECONCILING, Reason::ApplyFailed)),
        (with(|all| all.object.unread = Some("x".into())), (RECONCILING, Reason::ReferenceUnreadable)),
        (with(|all| all.object.missing = vec!["x".into()]), (RECONCILING, Reason::ReferenceMissing)),
        (
            with(|all| all.outside.access = pending(Reason::OperatorAccessNotReady)),
            (RECONCILING, Reason::OperatorAccessNotReady),
        ),
        (
            with(|all| all.outside.bootstrap = Some(pending(Reason::RateLimited))),
            (RECONCILING, Reason::RateLimited),
        ),
        (with(|all| all.object.unreadable = Some("x".into())), (STALLED, Reason::InvalidSpec)),
        (with(|all| all.object.finalizer = Some("x".into())), (STALLED, Reason::FinalizerRefused)),
        (with(|all| all.object.rollout = Rollout::Stuck("x".into())), (STALLED, Reason::RolloutStuck)),
        (with(|all| all.outside.entitled = refused(Reason::NotEntitled)), (STALLED, Reason::NotEntitled)),
        (with(|all| all.outside.key = refused(Reason::KeyNameConflict)), (STALLED, Reason::KeyNameConflict)),
    ] {
        assert_eq!(summed_up(&observed), (expected.0, expected.1.as_str()), "{observed:?}");
    }
}

#[test]
fn daemons_with_a_key_of_the_spec_are_not_waited_for() {
    let given = json!({ "metadata": { "name": "a", "namespace": "b" }, "spec": { "controlPlaneRef": { "name": "coder" },
        "extraEnv": [{ "name": "CODER_PROVISIONER_DAEMON_KEY", "value": "theirs" }] } });
    let broken = || crate::controller::object::broken_rules::<crds::CoderProvisioner>(&given);
    let of = |daemons: usize| {
        summed_up(&with(|all| (all.object.broken, all.outside.daemons) = (broken(), Some(daemons))))
    };
    assert_eq!(of(0), (STALLED, Reason::KeyGivenBySpec.as_str()));
    assert_eq!(of(1), (READY, Reason::DaemonsConnected.as_str()));
}

#[test]
fn what_somebody_has_to_mend_comes_before_what_comes_by_itself() {
    let observed = with(|all| {
        all.outside.control_plane = State::Pending(Reason::ControlPlaneUnavailable, "it starts".to_owned());
        all.outside.secret = State::Refused(Reason::SecretNotOurs, "it is theirs".to_owned());
        all.object.late = Some("late".to_owned());
    });
    assert_eq!(summed_up(&observed), (STALLED, Reason::SecretNotOurs.as_str()));
    let late = with(|all| {
        all.outside.key = State::Pending(Reason::ProvisionerKeyFailed, "it failed".to_owned());
        all.object.late = Some("it had its time".to_owned());
    });
    let ready = &findings(&late)[0];
    assert_eq!(ready.reason, Reason::DeadlineExceeded.as_str());
    assert_eq!(ready.message, "it had its time; pending: it failed");
}

#[test]
fn every_condition_of_the_contract_is_there_and_two_only_where_they_mean_something() {
    let types =
        |observed: &Observed| -> Vec<&str> { findings(observed).iter().map(|one| one.type_).collect() };
    let always = [
        READY,
        RECONCILING,
        STALLED,
        CONTROL_PLANE_READY,
        OPERATOR_ACCESS_READY,
        EXTERNAL_PROVISIONERS_ENTITLED,
        PROVISIONER_KEY_READY,
        PROVISIONER_KEY_SECRET_READY,
        DEPLOYMENT_READY,
        SPEC_ACCEPTED,
    ];
    assert_eq!(types(&healthy()), always);
    let more = with(|all| {
        all.outside.bootstrap = Some(yes(Reason::BootstrapSecretReady));
        all.object.withheld = Some("x".into());
    });
    assert_eq!(types(&more)[always.len()..], [BOOTSTRAP_SECRET_READY, AUTHORITY_APPLIED]);
}

#[test]
fn the_deployment_is_ready_with_one_pod_and_daemons_are_counted() {
    let one = with(|all| {
        (all.ready_replicas, all.outside.daemons) = (1, Some(1));
        all.object.rollout = Rollout::Unavailable("1 of 2".into());
    });
    let deployment = told(&findings(&one), DEPLOYMENT_READY).clone();
    assert_eq!((deployment.status, &*deployment.message), (ConditionStatus::True, "1 pod is ready"));
    let none = with(|all| (all.ready_replicas, all.object.rollout) = (0, Rollout::Slow("why".into())));
    let deployment = told(&findings(&none), DEPLOYMENT_READY).clone();
    assert_eq!((deployment.status, &*deployment.message), (ConditionStatus::False, "why"));
    assert_eq!(findings(&healthy())[0].message, "coderd sees 2 daemons with the key");
}

#[test]
fn what_others_have_yet_to_make_is_waited_for_and_the_rest_is_in_progress() {
    let pending = |reason| State::Pending(reason, "m".to_owned());
    let stalled = |observed: &Observed| told(&findings(observed), STALLED).message.clone();
    for waits in [
        with(|all| all.object.missing = vec!["x".into()]),
        with(|all| all.outside.control_plane = pending(Reason::ControlPlaneUnavailable)),
        with(|all| all.outside.bootstrap = Some(pending(Reason::BootstrapSecretUnavailable))),
        with(|all| all.outside.key = pending(Reason::OrganizationMissing)),
        with(|all| all.outside.entitled = pending(Reason::NotEntitled)),
    ] {
        assert!(stalled(&waits).starts_with("waiting for the object named in Ready"), "{waits:?}");
    }
    let works = with(|all| all.outside.access = pending(Reason::WaitingForAccess));
    assert_eq!(stalled(&works), "reconciliation is in progress");
}
