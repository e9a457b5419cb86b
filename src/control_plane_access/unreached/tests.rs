//! What is said of each cause, and which condition says it.

use super::*;
use crate::coderd::Lost;
use crate::coderd::error::Operation;
use serde_json::{from_value, json};

/// One of each.
fn all() -> Vec<(Unreached, About, Retry)> {
    let (operation, left) = (Operation::Healthz, Duration::from_secs(7));
    let name = || "coder".to_owned();
    let call = || CallError::TimedOut { operation: "get Service team/coder".to_owned(), limit: left };
    let service = |refusal| Unreached::Service { refusal, service: name() };
    let said = Said::default;
    let (plane, access) = (About::ControlPlane, About::OperatorAccess);
    let (later, changed) = (Retry::Backoff, Retry::WhenChanged);
    let mut all = vec![
        (Unreached::Going { control_plane: name() }, plane, changed),
        (Unreached::Unread(call()), plane, later),
        (service(Refusal::Missing), plane, later),
        (service(Refusal::NotOurs), plane, changed),
        (service(Refusal::Changed), plane, changed),
        (Unreached::Misconfigured("tls.crt of Secret tls is too large".to_owned()), plane, changed),
        (Unreached::Unanswered { error: Error::TimedOut { operation }, said: said() }, plane, later),
        (Unreached::RateLimited { left }, About::RateLimit, Retry::After(left)),
        (Unreached::AccessDisabled { control_plane: name() }, access, changed),
        (Unreached::AccessNotReady { control_plane: name(), said: said() }, access, later),
        (Unreached::NotOwnerYet { control_plane: name() }, access, later),
        (Unreached::TokenSecretRefMissing { control_plane: name() }, access, changed),
        (Unreached::TokenSecretForeign { secret: name(), namespace: name() }, access, changed),
        (Unreached::OwnTokenRejected { control_plane: name(), said: said() }, access, later),
    ];
    for (holder, about) in [(Holder::Operator, access), (Holder::Bootstrap, About::Bootstrap)] {
        let lacking = "Secret mine has no key token; add it, or name the key that it has".to_owned();
        all.extend([
            (Unreached::AdmissionDisabled { holder, namespace: "team".to_owned() }, about, changed),
            (Unreached::TokenSecretRefInvalid { holder }, about, changed),
            (Unreached::TokenSecretUnavailable { holder, lacking }, about, changed),
            (Unreached::TokenSecretUnread { holder, error: call() }, about, later),
            (Unreached::TokenRejected { holder, secret: name() }, about, changed),
        ]);
    }
    all
}

#[test]
fn each_has_its_condition_its_time_and_a_message_that_fits() {
    for (unreached, about, retry) in all() {
        let told = unreached.to_string();
        assert_eq!((unreached.about(), unreached.retry()), (about, retry), "{told}");
        assert!((20..=300).contains(&told.len()), "{}: {told}", told.len());
    }
}

#[test]
fn a_message_names_what_to_change() {
    let told = |which: fn(&Unreached) -> bool| -> Vec<String> {
        all().into_iter().map(|(one, ..)| one).filter(which).map(|one| one.to_string()).collect()
    };
    let admission = told(|one| matches!(one, Unreached::AdmissionDisabled { .. }));
    assert!(admission.iter().all(|told| told.contains("kubectl label namespace team coder.com/admission-")));
    let invalid = told(|one| matches!(one, Unreached::TokenSecretRefInvalid { .. }));
    assert!(invalid[0].starts_with("spec.operatorAccess.tokenSecretRef of the control plane"), "{invalid:?}");
    assert!(invalid[1].starts_with("spec.bootstrap.credentialsSecretRef"), "{invalid:?}");
    let missing = told(|one| matches!(one, Unreached::TokenSecretRefMissing { .. })).remove(0);
    assert!(
        missing.contains("spec.operatorAccess.tokenSecretRef") && missing.contains("CODER_PG_CONNECTION_URL")
    );
    let rejected = told(|one| matches!(one, Unreached::TokenRejected { .. }));
    assert!(rejected.iter().all(|told| told.contains("into Secret coder")), "{rejected:?}");
}

#[test]
fn a_coderd_that_may_still_answer_is_waited_for_and_says_so() {
    let operation = Operation::Healthz;
    let said = Said(Some(("CoderdReachable", "NoReplicaReady".to_owned())));
    let hidden = |error: Error| Error::NotCoderd { operation, detail: Box::new(error) };
    let told = |error: Error, said: &Said| Unreached::Unanswered { error, said: said.clone() }.to_string();
    let nothing = Said::default();
    for (error, said) in [
        (Error::TimedOut { operation }, &nothing),
        (Error::Unreachable { operation, lost: Lost::Connect }, &nothing),
        (Error::Server { operation, status: 503 }, &nothing),
        (Error::TimedOut { operation }, &said),
        (hidden(Error::TimedOut { operation }), &said),
    ] {
        let told = told(error, said);
        assert!(told.starts_with("waiting: "), "{told}");
    }
    let tls = || Error::Tls { operation, reason: "unknown issuer".into() };
    for error in [tls(), hidden(tls()), Error::Redirected { operation, status: 307 }] {
        let told = told(error, &nothing);
        assert!(!told.starts_with("waiting"), "it does not come by itself: {told}");
    }
    let same = [hidden(tls()), hidden(Error::TimedOut { operation })].map(|error| told(error, &nothing));
    assert_eq!(same[0], same[1], "whoever leads us somewhere learns nothing of who is there");
    let going = Unreached::Going { control_plane: "coder".to_owned() }.to_string();
    assert!(!going.starts_with("waiting"), "nobody need wait for what goes: {going}");
}

#[test]
fn one_word_of_a_status_is_repeated_and_nothing_else_of_it() {
    let said = |status: &str, reason: &str| {
        let condition = json!({ "type": "OperatorAccessReady", "status": status, "reason": reason,
            "message": "hunter2", "lastTransitionTime": "2026-01-01T00:00:00Z" });
        let plane =
            json!({ "metadata": { "name": "coder" }, "spec": {}, "status": { "conditions": [condition] } });
        Said::of(&from_value(plane).unwrap(), "OperatorAccessReady").to_string()
    };
    assert_eq!(
        said("False", "DatabaseUrlMissing"),
        "; see condition OperatorAccessReady (DatabaseUrlMissing) of the CoderControlPlane"
    );
    assert_eq!(
        said("Unknown", "NotNeeded"),
        "; see condition OperatorAccessReady (NotNeeded) of the CoderControlPlane"
    );
    assert_eq!(said("True", "TokenProven"), "", "it is not what stands in the way");
    for odd in ["", "two words", "line\nbreak", "x".repeat(LONGEST_REASON + 1).as_str()] {
        assert_eq!(said("False", odd), "");
    }
    let not_ready = |word: &str| {
        let said = Said(Some(("OperatorAccessReady", word.to_owned())));
        Unreached::AccessNotReady { control_plane: "coder".to_owned(), said }.to_string()
    };
    let given = "the operator is being given a token for control plane coder";
    assert_eq!(COMING.map(not_ready), [given; 2]);
    assert!(not_ready("DatabaseUrlMissing").ends_with("(DatabaseUrlMissing) of the CoderControlPlane"));
    let bare = from_value(json!({ "metadata": { "name": "coder" }, "spec": {} })).unwrap();
    assert_eq!(Said::of(&bare, "OperatorAccessReady"), Said::default());
}
