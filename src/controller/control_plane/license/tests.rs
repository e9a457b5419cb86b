//! What is said of each answer about a license, and what the status keeps.

use super::*;
use crate::coderd::license::NotALicense;
use serde_json::{Value, from_value, json};
use std::time::Duration;

const OPERATION: Operation = Operation::UploadLicense;

fn said(answer: Result<Applied, ApplyError>) -> Licensed {
    judge(Some(answer), "h1".to_owned(), None)
}

#[test]
fn what_is_there_is_applied_and_its_time_changes_only_with_it() {
    let judged = |answer, before| judge(answer, "h1".to_owned(), before);
    let there = || Some(Ok(Applied::AlreadyThere { id: 1 }));
    let uploaded = || Some(Ok(Applied::Uploaded { id: 1 }));
    let fresh = Some("h1".to_owned());
    for (answer, before, applied) in [
        (there(), Some("h1"), None),
        (there(), Some("h0"), fresh.clone()),
        (there(), None, fresh.clone()),
        (uploaded(), Some("h1"), fresh.clone()),
        (uploaded(), None, fresh),
    ] {
        let licensed = judged(answer, before);
        assert_eq!((licensed.state.phase, licensed.state.reason), (ExternalPhase::Granted, Reason::Applied));
        assert_eq!((licensed.applied, licensed.retry), (applied, None), "{before:?}");
    }
    assert_eq!(judged(None, Some("h1")).state.phase, ExternalPhase::Granted, "silence takes nothing away");
    assert_eq!(judged(None, Some("h0")).state.reason, Reason::WaitingForCoderd);
    let late = |operation| Some(Err(ApplyError::Call(Error::TimedOut { operation })));
    let unlisted = judged(late(Operation::Licenses), Some("h1"));
    assert_eq!((unlisted.state.phase, unlisted.retry), (ExternalPhase::Granted, Some(Retry::Backoff)));
    assert_eq!(judged(late(Operation::Licenses), Some("h0")).state.reason, Reason::Error);
    assert_eq!(
        judged(late(Operation::UploadLicense), Some("h1")).state.reason,
        Reason::Error,
        "coderd lost it"
    );
}

#[test]
fn every_refusal_has_its_reason_and_what_may_pass_is_tried_again() {
    let call = |error: Error| said(Err(ApplyError::Call(error)));
    for (licensed, state, reason) in [
        (said(Err(NotALicense::NotAJwt.into())), ExternalPhase::Refused, Reason::Invalid),
        (
            call(Error::Invalid { operation: OPERATION, message: "expired".into() }),
            ExternalPhase::Refused,
            Reason::Invalid,
        ),
        (call(Error::RouteMissing { operation: OPERATION }), ExternalPhase::Refused, Reason::NotSupported),
        (call(Error::Forbidden { operation: OPERATION }), ExternalPhase::Refused, Reason::Forbidden),
        (call(Error::Unauthorized { operation: OPERATION }), ExternalPhase::Pending, Reason::Forbidden),
        (call(Error::Server { operation: OPERATION, status: 500 }), ExternalPhase::Pending, Reason::Error),
    ] {
        assert_eq!((licensed.state.phase, licensed.state.reason), (state, reason));
        let retry = if state == ExternalPhase::Refused { Retry::WhenChanged } else { Retry::Backoff };
        assert_eq!((licensed.retry, licensed.applied), (Some(retry), None), "{reason}");
    }
    let pause = Duration::from_secs(9);
    let limited = call(Error::RateLimited { operation: OPERATION, retry_after: pause });
    assert_eq!(limited.retry, Some(Retry::After(pause)));
}

#[test]
fn without_access_it_waits_or_says_who_denies_it() {
    let access = |phase| Accessed {
        state: ExternalState { phase, reason: Reason::ProofFailed, message: "why".to_owned() },
        needed: true,
        client: None,
        token: None,
        retry: None,
        needs_finalizer: false,
        token_events: vec![],
    };
    let reason =
        |state| without_access(&access(state)).map(|licensed| (licensed.state.phase, licensed.state.reason));
    assert_eq!(reason(ExternalPhase::Granted), None);
    assert_eq!(reason(ExternalPhase::Pending), Some((ExternalPhase::Pending, Reason::WaitingForAccess)));
    assert_eq!(reason(ExternalPhase::Refused), Some((ExternalPhase::Pending, Reason::WaitingForAccess)));
    assert_eq!(reason(ExternalPhase::NotRequested), Some((ExternalPhase::Refused, Reason::AccessDisabled)));
}

#[test]
fn entitlements_have_no_heartbeat() {
    let at = |second| Time(Timestamp::from_second(second).unwrap());
    let mut status = CoderControlPlaneStatus::default();
    describe_entitlements(&mut status, None, &at(0));
    assert_eq!(
        (status.license_tier.as_deref(), status.external_provisioner_daemons_entitlement.as_deref()),
        (Some("unknown"), Some("unknown"))
    );
    assert_eq!(status.entitlements_last_checked, None);
    describe_entitlements(&mut status, Some(("none", "not_entitled")), &at(1));
    describe_entitlements(&mut status, Some(("none", "not_entitled")), &at(2));
    describe_entitlements(&mut status, None, &at(3));
    assert_eq!(status.entitlements_last_checked, Some(at(1)));
    describe_entitlements(&mut status, Some(("premium", "entitled")), &at(4));
    assert_eq!(
        (status.license_tier.as_deref(), status.entitlements_last_checked),
        (Some("premium"), Some(at(4)))
    );
}

const DAY: i64 = 86_400;

fn claims(claims: &Value) -> Claims {
    from_value(claims.clone()).unwrap()
}

#[test]
fn what_is_left_of_a_license_counts_in_days_and_has_a_grace_period() {
    let now = Timestamp::from_second(1_800_000_000).unwrap();
    let at = |days: i64| now.as_second() + days * DAY;
    let when = |days: i64| Timestamp::from_second(at(days)).unwrap();
    for (claimed, expected) in [
        (json!({}), Left::Enough),
        (json!({ "exp": 1e300 }), Left::Enough),
        (json!({ "exp": at(31) }), Left::Enough),
        (json!({ "exp": at(30) }), Left::Month),
        (json!({ "exp": at(8) }), Left::Month),
        (json!({ "exp": at(7) }), Left::Week),
        (json!({ "exp": at(0) }), Left::Nothing(when(0))),
        (json!({ "license_expires": at(20), "exp": at(50) }), Left::Month),
        (json!({ "license_expires": at(-1), "exp": at(50) }), Left::Grace(when(50))),
        (json!({ "license_expires": at(-9), "exp": at(-2) }), Left::Nothing(when(-2))),
        (json!({ "license_expires": at(-1) }), Left::Nothing(when(-1))),
    ] {
        assert_eq!(left(&claims(&claimed), now), expected, "{claimed}");
    }
    assert_eq!(expiry(&claims(&json!({ "license_expires": at(1), "exp": at(2) }))), Some(when(1)));
}

#[test]
fn only_a_license_that_is_there_ends_soon() {
    let of = |state, left| Licensed::new(state, Reason::Applied, "m").with_time_left(left, None).state.reason;
    assert_eq!(of(ExternalPhase::Granted, Left::Week), Reason::ExpiresWithin7Days);
    assert_eq!(of(ExternalPhase::Granted, Left::Enough), Reason::Applied);
    assert_eq!(of(ExternalPhase::Pending, Left::Week), Reason::Applied);
}

#[test]
fn an_end_that_comes_nearer_is_told_once_for_each_border() {
    let status = |truth: &str, reason: &str, hash: &str| -> CoderControlPlaneStatus {
        let condition = json!({ "type": LICENSE_APPLIED, "status": truth, "reason": reason, "message": "m",
            "lastTransitionTime": "2026-01-01T00:00:00Z" });
        from_value(json!({ "conditions": [condition], "licenseLastAppliedHash": hash })).unwrap()
    };
    let told = |before: &CoderControlPlaneStatus, after: &CoderControlPlaneStatus| {
        event_drafts(before, after).into_iter().map(|one| one.reason).collect::<Vec<String>>()
    };
    let (fine, month, week) = (
        status("True", "Applied", "a"),
        status("True", "ExpiresWithin30Days", "a"),
        status("True", "ExpiresWithin7Days", "a"),
    );
    assert_eq!(told(&fine, &month), ["ExpiresWithin30Days"]);
    assert_eq!(told(&month, &week), ["ExpiresWithin7Days"]);
    assert_eq!(told(&week, &week), Vec::<String>::new());
    assert_eq!(told(&week, &status("True", "Applied", "b")), ["LicenseReplaced"]);
    assert_eq!(told(&week, &status("False", "Expired", "a")), Vec::<String>::new(), "the condition tells it");
    assert_eq!(told(&CoderControlPlaneStatus::default(), &week), Vec::<String>::new());
}

#[test]
fn while_admission_is_disabled_no_license_is_sent_and_one_that_is_there_stays() {
    let spec = |value: serde_json::Value| serde_json::from_value::<CoderControlPlaneSpec>(value).unwrap();
    let asked = spec(serde_json::json!({ "licenseSecretRef": { "name": "license" } }));
    let none = CoderControlPlaneStatus::default();
    let had = CoderControlPlaneStatus { license_last_applied_hash: Some("x".to_owned()), ..none.clone() };
    let said = |spec: &CoderControlPlaneSpec, before: &CoderControlPlaneStatus| {
        let licensed = unsent(spec, before);
        assert_eq!(licensed.applied, None);
        (licensed.state.phase, licensed.state.reason)
    };
    assert_eq!(said(&asked, &none), (ExternalPhase::Refused, Reason::AdmissionDisabled));
    assert_eq!(said(&asked, &had), (ExternalPhase::Granted, Reason::Applied));
    assert_eq!(said(&spec(serde_json::json!({})), &had), (ExternalPhase::NotRequested, Reason::NotRequested));
}
