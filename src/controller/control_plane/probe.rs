//! Decides what is said of coderd after it was asked whether it is up and who it is, at the address of the object's own
//! Service and nowhere else. It never sends a token: who answers is not proven yet.

use super::observed::Coderd;
use super::reasons::Reason;
use crate::coderd::{Client, Egress, Error, RateLimitHold};
use crate::control_plane_access::client;
use crate::control_plane_access::introduction::{Identity, Unintroduced, hint, introduce};
use crate::control_plane_access::trust::Trust;
use crds::CoderControlPlaneStatus;
use crds::well_known::condition;

/// What coderd said, and the client to go on with.
pub(super) struct Probe {
    /// For the status.
    pub coderd: Coderd,
    /// Present when it said who it is.
    pub client: Option<Client>,
    /// What went wrong.
    pub error: Option<Error>,
}

/// Asks coderd at `url`, unless it wants to be left alone.
pub(super) async fn probe(url: &str, trust: Trust, egress: &Egress, hold: RateLimitHold) -> Probe {
    let client = match client(url, trust, egress, hold) {
        Ok(client) => client,
        Err(message) => {
            return Probe {
                coderd: Coderd::Unreachable(Reason::Misconfigured, message),
                client: None,
                error: None,
            };
        }
    };
    match introduce(client).await {
        Ok((client, identity)) => Probe { coderd: answered(identity), client: Some(client), error: None },
        Err(Unintroduced::Absent(error)) => {
            tracing::warn!(url, error = %error.detail(), "coderd does not answer as it should");
            let coderd = Coderd::Unreachable(reason(&error), error.to_string());
            Probe { coderd, client: None, error: Some(error) }
        }
        Err(Unintroduced::Silent(error)) => {
            let trouble = format!("{error}{}", hint(&error));
            let coderd = Coderd::Answered { version: None, deployment_id: None, trouble: Some(trouble) };
            Probe { coderd, client: None, error: Some(error) }
        }
    }
}

fn answered(Identity { version, deployment_id }: Identity) -> Coderd {
    Coderd::Answered { version: Some(version), deployment_id, trouble: None }
}

/// What is said of coderd, given what was said of it before and whether the question before this one failed as well. One
/// that fails takes nothing away: a dropped packet is no outage.
pub(super) fn judged(seen: Coderd, before: &CoderControlPlaneStatus, again: bool) -> Coderd {
    match seen {
        Coderd::Unreachable(reason, message)
            if reason != Reason::Misconfigured && !again && was_reachable(before) =>
        {
            Coderd::Degraded { version: before.version.clone(), message }
        }
        other => other,
    }
}

fn was_reachable(before: &CoderControlPlaneStatus) -> bool {
    let reachable = before.conditions.iter().find(|one| one.type_ == condition::CODERD_REACHABLE);
    reachable.is_some_and(|reachable| reachable.status == "True")
}

/// What is said of a coderd that is not asked because it asked to be left alone for a while. Whoever answered last is
/// there; none if it did not.
pub(super) fn left_alone(before: &CoderControlPlaneStatus) -> Option<Coderd> {
    let trouble = "there were too many requests (429); it is asked again after the time it set";
    let (version, trouble) = (before.version.clone(), Some(trouble.to_owned()));
    was_reachable(before).then_some(Coderd::Answered { version, deployment_id: None, trouble })
}

/// Why coderd counts as not reached. Before somebody has answered as coderd does it is one word, whatever is there.
fn reason(error: &Error) -> Reason {
    match error {
        Error::NotCoderd { .. } | Error::Unreachable { .. } | Error::TimedOut { .. } | Error::Tls { .. } => {
            Reason::Unreachable
        }
        Error::Refused { .. } => Reason::AddressRefused,
        Error::RateLimited { .. } => Reason::RateLimited,
        Error::Server { .. } => Reason::ServerError,
        Error::Redirected { .. } => Reason::Redirected,
        Error::Unauthorized { .. }
        | Error::Forbidden { .. }
        | Error::NotLicensed { .. }
        | Error::NotFoundOrForbidden { .. }
        | Error::RouteMissing { .. }
        | Error::Conflict { .. }
        | Error::Invalid { .. }
        | Error::Unexpected { .. }
        | Error::TooLarge { .. }
        | Error::Malformed { .. } => Reason::UnexpectedAnswer,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::coderd::error::{Lost, Operation};
    use serde_json::{from_value, json};
    use std::time::Duration;

    #[test]
    fn nobody_there_and_a_wrong_answer_are_told_apart() {
        let operation = Operation::Healthz;
        for (error, expected) in [
            (
                Error::NotCoderd { operation, detail: Box::new(Error::Malformed { operation }) },
                Reason::Unreachable,
            ),
            (Error::Unreachable { operation, lost: Lost::Connect }, Reason::Unreachable),
            (Error::TimedOut { operation }, Reason::Unreachable),
            (Error::Tls { operation, reason: "x".into() }, Reason::Unreachable),
            (Error::RateLimited { operation, retry_after: std::time::Duration::ZERO }, Reason::RateLimited),
            (Error::Server { operation, status: 502 }, Reason::ServerError),
            (Error::Forbidden { operation }, Reason::UnexpectedAnswer),
            (Error::Malformed { operation }, Reason::UnexpectedAnswer),
        ] {
            assert_eq!(reason(&error), expected, "{error}");
        }
        let refused = Error::Unauthorized { operation }.to_string();
        assert!(!refused.contains("coderd does not accept the token"), "none was sent: {refused}");
    }

    #[tokio::test]
    async fn an_answer_is_waited_for_no_longer_than_the_flag_says() {
        // It takes connections and never answers.
        let unreachable = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let rule = format!("coder.ns.svc={}", unreachable.local_addr().unwrap()).parse().unwrap();
        let egress = Egress {
            resolve: crate::coderd::Resolve::new(vec![rule]),
            allowed_urls: crate::coderd::AllowedUrls::new(Vec::new()),
            request_timeout: Duration::from_millis(200),
            observer: crate::coderd::Observer::default(),
        };
        let asked = probe("http://coder.ns.svc:80", Trust::default(), &egress, RateLimitHold::default());
        let told = tokio::time::timeout(Duration::from_secs(5), asked).await.expect("the flag counts");
        assert!(matches!(told.coderd, Coderd::Unreachable(Reason::Unreachable, _)));
        assert!(matches!(told.error.unwrap().detail(), Error::TimedOut { .. }));
    }

    fn said(reachable: &str) -> CoderControlPlaneStatus {
        let condition = json!({ "type": "CoderdReachable", "status": reachable, "reason": "x", "message": "x",
            "lastTransitionTime": "2026-01-01T00:00:00Z" });
        from_value(json!({ "version": "v1", "conditions": [condition] })).unwrap()
    }

    #[test]
    fn the_first_question_that_fails_takes_nothing_away_and_the_second_does() {
        let unreachable = || Coderd::Unreachable(Reason::Unreachable, "why".to_owned());
        let degraded = Coderd::Degraded { version: Some("v1".to_owned()), message: "why".to_owned() };
        assert_eq!(judged(unreachable(), &said("True"), false), degraded);
        assert_eq!(judged(unreachable(), &said("True"), true), unreachable());
        assert_eq!(judged(unreachable(), &said("False"), false), unreachable());
        assert_eq!(judged(unreachable(), &said("Unknown"), false), unreachable());
        assert_eq!(judged(unreachable(), &CoderControlPlaneStatus::default(), false), unreachable());
        let wrong = || Coderd::Unreachable(Reason::Misconfigured, "why".to_owned());
        assert_eq!(judged(wrong(), &said("True"), false), wrong(), "asking again does not mend it");
    }

    #[test]
    fn whoever_answered_last_is_there_while_it_is_left_alone() {
        assert!(left_alone(&said("True")).is_some());
        assert_eq!(left_alone(&said("False")), None);
    }
}
