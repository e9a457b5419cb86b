//! What each answer of the API server and of coderd means for the access, without either of them.

use super::*;
use crate::coderd::Retry;
use crate::coderd::error::{Lost, Operation};
use crate::control_plane_access::unreached::About;
use serde_json::{from_value, json};
use std::time::Duration;

const OPERATION: Operation = Operation::Me;

fn control_plane() -> CoderControlPlane {
    let condition = |type_: &str, reason: &str| {
        json!({ "type": type_, "status": "False", "reason": reason, "message": "x",
            "lastTransitionTime": "2026-01-01T00:00:00Z" })
    };
    let conditions = [
        condition("OperatorAccessReady", "DatabaseUrlMissing"),
        condition("CoderdReachable", "NoReplicaReady"),
    ];
    from_value(json!({ "metadata": { "name": "coder", "namespace": "team", "uid": "u1" }, "spec": {},
        "status": { "conditions": conditions } }))
    .unwrap()
}

fn of(holder: Holder) -> TokenPlace {
    let (namespace, secret, key) = ("team".to_owned(), "mine".to_owned(), "token".to_owned());
    TokenPlace::Named { holder, namespace, secret, key }
}

fn access(place: &TokenPlace) -> Access {
    Access::new(&control_plane(), place.clone())
}

fn unread() -> CallError {
    CallError::TimedOut { operation: "get Secret team/mine".to_owned(), limit: Duration::from_secs(5) }
}

#[tokio::test(start_paused = true)]
async fn a_question_ends_with_the_time_there_is() {
    let (limit, operation) = (Duration::from_secs(3), Operation::Organization);
    let began = tokio::time::Instant::now();
    let dripping = std::future::pending::<Result<(), Error>>();
    assert_eq!(within(limit, operation, dripping).await, Err(Error::TimedOut { operation }));
    assert_eq!(began.elapsed(), limit);
    assert_eq!(within(limit, operation, async { Ok(7) }).await, Ok(7));
}

#[test]
fn a_token_that_somebody_named_is_taken_or_it_is_told_what_is_lacking() {
    for (holder, about) in [(Holder::Operator, About::OperatorAccess), (Holder::Bootstrap, About::Bootstrap)]
    {
        let token = Confidential::new("a-b".to_owned());
        assert_eq!(named(Ok(Found::Text(token.clone())), holder).ok(), Some(token));
        let lacking = "Secret mine has no key token; add it, or name the key that it has".to_owned();
        let unavailable = named(Ok(Found::Lacking(lacking.clone())), holder).unwrap_err();
        assert!(matches!(unavailable, Unreached::TokenSecretUnavailable { .. }));
        assert!(unavailable.to_string().starts_with(&lacking), "{unavailable}");
        assert_eq!((unavailable.about(), unavailable.retry()), (about, Retry::WhenChanged));
        let failed = named(Err(unread()), holder).unwrap_err();
        assert!(matches!(failed, Unreached::TokenSecretUnread { .. }));
        assert_eq!((failed.about(), failed.retry()), (about, Retry::Backoff));
    }
}

#[test]
fn the_operators_own_token_is_waited_for_with_the_word_of_the_control_plane() {
    let secret = |uid: &str, managed_by: &str| {
        json!({ "metadata": { "labels": { "app.kubernetes.io/managed-by": managed_by },
            "annotations": { "coder.com/control-plane-uid": uid } }, "data": { "token": "YS1i" } })
    };
    let taken = generated(Some(&secret("u1", "coder-k8s")), &control_plane(), "operator").unwrap();
    assert_eq!(taken.expose(), "a-b");
    for absent in [None, Some(&secret("u0", "coder-k8s"))] {
        let waiting = generated(absent, &control_plane(), "operator").unwrap_err();
        let told = "the operator has no token for control plane coder yet; see condition OperatorAccessReady \
                    (DatabaseUrlMissing) of the CoderControlPlane";
        assert_eq!(waiting.to_string(), told);
        assert_eq!((waiting.about(), waiting.retry()), (About::OperatorAccess, Retry::Backoff));
    }
    let foreign = generated(Some(&secret("u1", "helm")), &control_plane(), "operator").unwrap_err();
    assert!(matches!(foreign, Unreached::TokenSecretForeign { .. }));
    assert!(
        foreign.to_string().contains("Secret team.coder.operator-token in namespace operator"),
        "{foreign}"
    );
    assert_eq!((foreign.about(), foreign.retry()), (About::OperatorAccess, Retry::WhenChanged));
}

#[test]
fn a_token_that_coderd_rejects_is_told_to_whoever_can_replace_it() {
    let rejected = |place: &TokenPlace| access(place).unproven(Error::Unauthorized { operation: OPERATION });
    let operator = rejected(&of(Holder::Operator));
    assert_eq!((operator.about(), operator.retry()), (About::OperatorAccess, Retry::WhenChanged));
    let bootstrap = rejected(&of(Holder::Bootstrap));
    assert_eq!((bootstrap.about(), bootstrap.retry()), (About::Bootstrap, Retry::WhenChanged));
    for given in [&operator, &bootstrap] {
        assert!(given.to_string().ends_with("put another one into Secret mine"), "{given}");
    }
    let own = rejected(&TokenPlace::Generated);
    assert!(matches!(own, Unreached::OwnTokenRejected { .. }));
    assert_eq!((own.about(), own.retry()), (About::OperatorAccess, Retry::Backoff), "another one is made");
}

#[test]
fn a_coderd_that_does_not_answer_is_told_with_the_word_of_the_control_plane_and_one_that_waits_is_not_gone() {
    let access = access(&TokenPlace::Generated);
    let told = access.unanswered(Error::Unreachable { operation: OPERATION, lost: Lost::Connect });
    assert!(
        told.to_string()
            .ends_with("; see condition CoderdReachable (NoReplicaReady) of the CoderControlPlane"),
        "{told}"
    );
    assert_eq!((told.about(), told.retry()), (About::ControlPlane, Retry::Backoff));
    let pause = Duration::from_secs(7);
    let limited = Error::RateLimited { operation: OPERATION, retry_after: pause };
    let told = access.unanswered(limited.clone());
    assert_eq!((told.about(), told.retry()), (About::RateLimit, Retry::After(pause)));
    assert!(!told.to_string().contains('7'), "a message that changes by the second is written by the second");
    let told = access.unproven(limited);
    assert_eq!(told.retry(), Retry::After(pause));
    let redirected = access.unanswered(Error::Redirected { operation: OPERATION, status: 307 });
    assert!(redirected.to_string().contains("set spec.tls"), "{redirected}");
}

#[test]
fn an_error_of_a_later_call_is_about_the_access_or_about_what_was_asked_for() {
    let operation = OPERATION;
    for lost in [
        Error::Unauthorized { operation },
        Error::RateLimited { operation, retry_after: Duration::ZERO },
        Error::TimedOut { operation },
        Error::Unreachable { operation, lost: Lost::Cut },
    ] {
        assert!(is_of_access(&lost), "{lost}");
    }
    for about_the_call in [
        Error::Forbidden { operation },
        Error::NotLicensed { operation },
        Error::NotFoundOrForbidden { operation },
        Error::Conflict { operation },
        Error::Server { operation, status: 500 },
        Error::Malformed { operation },
        Error::Unauthorized { operation: Operation::IdentifyProvisionerKey },
    ] {
        assert!(!is_of_access(&about_the_call), "{about_the_call}");
    }
}
