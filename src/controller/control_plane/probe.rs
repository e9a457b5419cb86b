//! Asks coderd who it is, at the address of the object's own Service and nowhere else.
//! It never sends a token: who answers is not proven yet.

use super::status::Coderd;
use crate::coderd::{Client, Egress, Endpoint, Error, Pause};
use crds::CoderControlPlaneStatus;
use crds::well_known::condition;

/// What coderd said, and the client to go on with.
pub struct Probe {
    /// For the status.
    pub coderd: Coderd,
    /// Present when it answered.
    pub client: Option<Client>,
    /// What went wrong.
    pub error: Option<Error>,
}

/// Asks coderd at `url`, trusting `authorities` (PEM) besides the public ones, unless it wants to be left alone.
pub async fn probe(url: &str, authorities: Option<&str>, egress: &Egress, pause: Pause) -> Probe {
    let silent = |message: String| Probe {
        coderd: Coderd::Silent("Misconfigured", message),
        client: None,
        error: None,
    };
    let endpoint = match Endpoint::parse(url) {
        Ok(endpoint) => authorities.iter().fold(endpoint, |endpoint, pem| endpoint.trusting(*pem)),
        Err(error) => return silent(error.to_string()),
    };
    let client = match Client::new(endpoint, None, &egress.resolve, egress.limits()) {
        Ok(client) => client.heeding(pause),
        Err(error) => return silent(error.to_string()),
    };
    match client.build_info().await {
        Ok(info) => {
            Probe { coderd: Coderd::Answered(shown(&info.version), None), client: Some(client), error: None }
        }
        Err(error) => Probe {
            coderd: Coderd::Silent(reason(&error), error.to_string()),
            client: None,
            error: Some(error),
        },
    }
}

/// What is said of a coderd that is not asked because it asked to be left alone for a while. Whoever answered last is
/// there; none if it did not.
pub fn left_alone(before: &CoderControlPlaneStatus) -> Option<Coderd> {
    let reachable = before.conditions.iter().find(|one| one.type_ == condition::CODERD_REACHABLE)?;
    let version = before.version.clone().filter(|_| reachable.status == "True")?;
    let trouble = "there were too many requests (429); it is asked again after the time it set";
    Some(Coderd::Answered(version, Some(trouble.to_owned())))
}

/// Why coderd counts as not reached: nobody there, nobody in time, or an answer that is none.
fn reason(error: &Error) -> &'static str {
    match error {
        Error::Unreachable { .. } => "Unreachable",
        Error::TimedOut { .. } => "TimedOut",
        Error::Tls { .. } => "TlsFailed",
        Error::Refused { .. } => "AddressRefused",
        Error::RateLimited { .. } => "RateLimited",
        Error::Server { .. } => "ServerError",
        Error::Redirected { .. } => "Redirected",
        Error::Unauthorized { .. }
        | Error::Forbidden { .. }
        | Error::NotLicensed { .. }
        | Error::NotFoundOrForbidden { .. }
        | Error::RouteMissing { .. }
        | Error::Conflict { .. }
        | Error::Invalid { .. }
        | Error::Unexpected { .. }
        | Error::TooLarge { .. }
        | Error::Malformed { .. } => "UnexpectedAnswer",
    }
}

/// Characters of a version that are kept.
const LONGEST_VERSION: usize = 64;

/// A version as the status shows it: whoever answers chooses the text, and everybody keeps it.
fn shown(version: &str) -> String {
    version.chars().filter(char::is_ascii_graphic).take(LONGEST_VERSION).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::coderd::error::{Lost, Operation};
    use std::time::Duration;

    #[test]
    fn nobody_there_and_a_wrong_answer_are_told_apart() {
        let operation = Operation::BuildInfo;
        for (error, expected) in [
            (Error::Unreachable { operation, lost: Lost::Connect }, "Unreachable"),
            (Error::TimedOut { operation }, "TimedOut"),
            (Error::Tls { operation, reason: String::new() }, "TlsFailed"),
            (Error::RateLimited { operation, retry_after: std::time::Duration::ZERO }, "RateLimited"),
            (Error::Server { operation, status: 502 }, "ServerError"),
            (Error::Forbidden { operation }, "UnexpectedAnswer"),
            (Error::Malformed { operation }, "UnexpectedAnswer"),
        ] {
            assert_eq!(reason(&error), expected, "{error}");
        }
        let refused = Error::Unauthorized { operation }.to_string();
        assert!(!refused.contains("coderd does not accept the token"), "none was sent: {refused}");
    }

    #[tokio::test]
    async fn an_answer_is_waited_for_no_longer_than_the_flag_says() {
        // It takes connections and never answers.
        let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let rule = format!("coder.ns.svc={}", silent.local_addr().unwrap()).parse().unwrap();
        let egress = Egress {
            resolve: crate::coderd::Resolve::new(vec![rule]),
            allowed_urls: crate::coderd::AllowedUrls::new(Vec::new()),
            request_timeout: Duration::from_millis(200),
        };
        let asked = probe("http://coder.ns.svc:80", None, &egress, Pause::default());
        let told = tokio::time::timeout(Duration::from_secs(5), asked).await.expect("the flag counts");
        assert!(matches!(told.coderd, Coderd::Silent("TimedOut", _)));
    }

    #[test]
    fn a_version_is_short_and_printable() {
        assert_eq!(shown("v2.36.1+abc"), "v2.36.1+abc");
        assert_eq!(shown(&"x\n ".repeat(1000)).len(), LONGEST_VERSION);
    }
}
