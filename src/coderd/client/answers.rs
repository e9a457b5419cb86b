//! What coderd's answers mean: values of the calls, and the class of an error from status and text.
//! It reads leniently (unknown fields, null lists, plain text) and never keeps a body.

use crate::coderd::error::{Error, Operation};
use crate::coderd::license::License;
use crate::confidential::Confidential;
use crate::foreign::Foreign;
use bytes::Bytes;
use http::uri::Authority;
use http::{HeaderValue, StatusCode, Uri};
use jiff::Timestamp;
use serde::de::{self, DeserializeOwned, DeserializeSeed};
use serde::{Deserialize, Deserializer};
use std::time::Duration;
use zeroize::Zeroize;

/// Go's limiter counts by the minute.
const DEFAULT_RETRY_AFTER: Duration = Duration::from_secs(60);
const LONGEST_RETRY_AFTER: Duration = Duration::from_secs(600);
/// A name, a colon and a port.
const LONGEST_HOST: usize = 253 + 6;
/// A readable beginning of a secret is a leak too.
const USEFUL_PREFIX: usize = 12;
/// What coderd's database layer says of somebody who may not; handlers that make things answer it with a 500.
const DENIED: &str = "rbac: forbidden";

/// Who coderd is.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct BuildInfo {
    /// Its version, as `v2.36.1+hash`.
    pub version: String,
    /// The identity of its database; another one behind the same URL is another coderd.
    #[serde(default)]
    pub deployment_id: String,
    /// Where its source is: the commit it was built from, or the repository.
    #[serde(default)]
    pub external_url: String,
}

/// The user a token belongs to.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Me {
    /// Its id.
    pub id: String,
    /// Its name.
    pub username: String,
    /// `active`, `dormant` or `suspended`.
    #[serde(default)]
    pub status: String,
    /// The names of its site-wide roles.
    #[serde(default, deserialize_with = "role_names")]
    pub roles: Vec<String>,
}

/// Site-wide roles to which coderd hides no organization.
const READERS_OF_ORGANIZATIONS: [&str; 2] = [OWNER, "template-admin"];
/// The site-wide role to which coderd permits everything.
const OWNER: &str = "owner";

impl Me {
    /// Whether an organization that coderd does not show it is not there.
    pub fn reads_every_organization(&self) -> bool {
        self.roles.iter().any(|role| READERS_OF_ORGANIZATIONS.contains(&role.as_str()))
    }

    /// Whether coderd permits it everything.
    pub fn is_owner(&self) -> bool {
        self.roles.iter().any(|role| role == OWNER)
    }
}

fn role_names<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    #[derive(Deserialize)]
    struct Named {
        name: String,
    }
    let roles: Option<Vec<Named>> = Option::deserialize(deserializer)?;
    Ok(roles.unwrap_or_default().into_iter().map(|role| role.name).collect())
}

/// A time as Go writes it.
pub(super) fn time<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Timestamp, D::Error> {
    String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
}

/// What became of an upload.
#[derive(Debug, Clone, PartialEq)]
pub enum Upload {
    /// coderd took it.
    Accepted(License),
    /// coderd has the very same text, which it says with a 500.
    Duplicate,
}

/// A complete answer.
pub(in crate::coderd) struct Answer {
    pub(super) operation: Operation,
    pub(in crate::coderd) status: StatusCode,
    pub(super) retry_after: Option<String>,
    /// Where it redirects to.
    pub(super) location: Option<String>,
    pub(super) body: Bytes,
    /// What we sent and must not repeat.
    pub(super) secrets: Vec<Confidential<String>>,
}

#[derive(Deserialize, Default)]
pub(super) struct ErrorBody {
    #[serde(default)]
    pub(super) message: String,
    #[serde(default)]
    pub(super) detail: String,
}

/// coderd says that it has a license it does not list: it may have been deleted in between.
pub(super) fn unlisted_duplicate() -> Error {
    Error::Server { operation: Operation::UploadLicense, status: 500 }
}

impl Answer {
    /// Success without a value.
    pub(super) fn done(self) -> Result<(), Error> {
        if self.status.is_success() { Ok(()) } else { Err(self.failure()) }
    }

    /// Success in exactly these words.
    pub(super) fn says(self, words: &str) -> Result<(), Error> {
        match (self.status.is_success(), self.body.as_ref() == words.as_bytes()) {
            (true, true) => Ok(()),
            (true, false) => Err(Error::Malformed { operation: self.operation }),
            (false, _) => Err(self.failure()),
        }
    }

    /// The host of the URL that coderd wants to be asked by, as it writes it, if it redirects to one.
    pub(super) fn access_host(&self) -> Option<HeaderValue> {
        let location = self.location.as_ref().filter(|_| self.status == StatusCode::TEMPORARY_REDIRECT)?;
        let uri: Uri = location.parse().ok()?;
        uri.scheme()?;
        // We send it back, so it has to be a host and no more.
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.:[]".contains(&byte);
        let is_host = |host: &&str| host.len() <= LONGEST_HOST && host.bytes().all(plain);
        let host = uri.authority().map(Authority::as_str).filter(is_host)?;
        HeaderValue::from_str(host).ok()
    }

    /// Success with a value.
    pub(super) fn json<T: DeserializeOwned>(self) -> Result<T, Error> {
        if !self.status.is_success() {
            return Err(self.failure());
        }
        serde_json::from_slice(&self.body).map_err(|_| Error::Malformed { operation: self.operation })
    }

    /// Success with a value that is read with what is looked for in it.
    pub(super) fn json_with<T>(
        self,
        seed: impl for<'de> DeserializeSeed<'de, Value = T>,
    ) -> Result<T, Error> {
        if !self.status.is_success() {
            return Err(self.failure());
        }
        let mut body = serde_json::Deserializer::from_slice(&self.body);
        let read = seed.deserialize(&mut body).and_then(|value| body.end().map(|()| value));
        read.map_err(|_| Error::Malformed { operation: self.operation })
    }

    pub(super) fn upload(self) -> Result<Upload, Error> {
        let said = self.said();
        let unique = said.detail.contains("licenses_jwt_key") || said.detail.contains("duplicate key");
        if self.status == StatusCode::INTERNAL_SERVER_ERROR && unique {
            return Ok(Upload::Duplicate);
        }
        self.json().map(Upload::Accepted)
    }

    /// How long coderd wants to be left alone, if it says so.
    pub(super) fn asks_to_wait(&self) -> Option<Duration> {
        (self.status == StatusCode::TOO_MANY_REQUESTS).then(|| self.retry_after())
    }

    pub(super) fn said(&self) -> ErrorBody {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }

    pub(super) fn failure(&self) -> Error {
        let operation = self.operation;
        let status = self.status.as_u16();
        match status {
            300..400 => Error::Redirected { operation, status },
            400 => Error::Invalid { operation, message: self.message() },
            401 => Error::Unauthorized { operation },
            403 if String::from_utf8_lossy(&self.body).contains("Premium") => {
                Error::NotLicensed { operation }
            }
            403 => Error::Forbidden { operation },
            404 if self.said().message == "Route not found." => Error::RouteMissing { operation },
            404 => Error::NotFoundOrForbidden { operation },
            409 => Error::Conflict { operation },
            429 => Error::RateLimited { operation, retry_after: self.retry_after() },
            500..600 => Error::Server { operation, status },
            _ => Error::Unexpected { operation, status },
        }
    }

    /// The failure of a write, also where coderd takes a denial for an error of its own.
    pub(super) fn refusal(&self) -> Error {
        let denied = self.status == StatusCode::INTERNAL_SERVER_ERROR && self.said().detail.contains(DENIED);
        if denied { Error::Forbidden { operation: self.operation } } else { self.failure() }
    }

    /// What was made with a secret that coderd shows this once. An answer of which `read` makes nothing is no answer: what
    /// was asked for may have been made.
    pub(super) fn shown_once<T>(self, read: impl FnOnce(&[u8]) -> Option<T>) -> Result<T, Error> {
        if !self.status.is_success() {
            return Err(self.refusal());
        }
        let made = read(&self.body);
        // Where nobody else holds it: what the transport has copied is out of reach.
        if let Ok(mut body) = self.body.try_into_mut() {
            body.as_mut().zeroize();
        }
        made.ok_or(Error::Malformed { operation: self.operation })
    }

    fn retry_after(&self) -> Duration {
        let seconds = self.retry_after.as_deref().and_then(|text| text.trim().parse().ok());
        seconds.map_or(DEFAULT_RETRY_AFTER, Duration::from_secs).min(LONGEST_RETRY_AFTER)
    }

    /// coderd's words for people: message and detail, cleaned and cut, without what we sent. Only what would be shown is
    /// searched: whoever answers chooses how much there is.
    fn message(&self) -> Foreign {
        let said = self.said();
        let parts = [said.message, said.detail].into_iter().filter(|part| !part.is_empty());
        let text = Foreign::new(&parts.collect::<Vec<String>>().join(": "));
        let joined: String = text.as_str().split(' ').collect();
        let repeats = |secret: &str| shows(text.as_str(), secret) || shows(&joined, secret);
        if self.secrets.iter().any(|secret| repeats(secret.expose())) {
            return "(withheld: it repeats what was sent)".into();
        }
        if text.as_str().is_empty() { "(nothing)".into() } else { text }
    }
}

/// Whether any stretch of the secret that is long enough to be of use occurs in the text, which is short.
fn shows(text: &str, secret: &str) -> bool {
    let length = USEFUL_PREFIX.min(secret.chars().count()).max(1);
    let starts: Vec<usize> = text.char_indices().map(|(at, _)| at).chain([text.len()]).collect();
    let mut stretches = starts.windows(length + 1).filter_map(|ends| match ends {
        [first, .., last] => text.get(*first..*last),
        _ => None,
    });
    stretches.any(|stretch| secret.contains(stretch))
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use serde_json::{Value, json};

    /// An answer to a call that sent no secret.
    pub(in crate::coderd::client) fn answer_to(operation: Operation, status: u16, body: &Value) -> Answer {
        Answer {
            operation,
            status: StatusCode::from_u16(status).unwrap(),
            retry_after: None,
            location: None,
            body: Bytes::from(body.to_string()),
            secrets: Vec::new(),
        }
    }

    fn answer(status: u16, body: &str) -> Answer {
        Answer {
            body: Bytes::copy_from_slice(body.as_bytes()),
            secrets: vec![Confidential::new("eyJhbGciOiJFZERTQSJ9.secret.part".to_owned())],
            ..answer_to(Operation::UploadLicense, status, &Value::Null)
        }
    }

    #[test]
    fn roles_are_names_and_may_be_null() {
        let me = |roles: Value| {
            serde_json::from_value::<Me>(json!({ "id": "1", "username": "a", "roles": roles }))
        };
        assert_eq!(me(json!([{ "name": "owner", "display_name": "Owner" }])).unwrap().roles, ["owner"]);
        assert_eq!(me(Value::Null).unwrap().roles, Vec::<String>::new());
    }

    #[test]
    fn a_message_is_cut_cleaned_and_never_repeats_what_was_sent() {
        let said = |message: &str| match answer(400, &json!({ "message": message }).to_string()).done() {
            Err(Error::Invalid { message, .. }) => message.to_string(),
            other => panic!("{other:?}"),
        };
        assert_eq!(said("Invalid\u{7}\n \u{202e}license"), "Invalid license");
        assert_eq!(said(&"ä".repeat(500)).chars().count(), 201);
        assert!(said("bad token eyJhbGciOiJFZERTQSJ9").starts_with("(withheld"));
        assert!(said("bad DSJ9.secret.part").starts_with("(withheld"));
        let spread: String = "DSJ9.secret.part".chars().flat_map(|letter| [letter, '\u{200b}']).collect();
        assert!(said(&spread).starts_with("(withheld"), "however it is spread out");
        let text = answer(400, "<html>plain").done().unwrap_err().to_string();
        assert!(text.ends_with("(nothing)"), "{text}");
    }

    #[test]
    fn only_a_redirect_to_a_url_names_the_host_to_ask_by() {
        let host = |status, location: &str| {
            let answer = Answer { location: Some(location.to_owned()), ..answer(status, "") };
            answer.access_host().map(|host| host.to_str().unwrap().to_owned())
        };
        let named = |name: &str| Some(name.to_owned());
        assert_eq!(host(307, "https://coder.example.com"), named("coder.example.com"));
        assert_eq!(host(307, "http://Coder.example.com:8443/base?x"), named("Coder.example.com:8443"));
        for (status, location) in [
            (302, "https://coder.example.com"),
            (200, "https://coder.example.com"),
            (307, "/login"),
            (307, "coder.example.com"),
            (307, "https://user:hunter2@coder.example.com"),
            (307, "no url"),
            (307, "https://coder.example.com;evil"),
            (307, &format!("https://{}", "a".repeat(300))),
        ] {
            assert_eq!(host(status, location), None, "{status} {location}");
        }
    }

    #[test]
    fn a_wait_is_bounded_and_has_a_default() {
        let wait = |text: Option<&str>| {
            Answer { retry_after: text.map(str::to_owned), ..answer(429, "") }.retry_after()
        };
        assert_eq!(wait(Some("7")), Duration::from_secs(7));
        assert_eq!(wait(Some("999999999")), LONGEST_RETRY_AFTER);
        assert_eq!(wait(Some("Fri, 31 Dec 2027 23:59:59 GMT")), DEFAULT_RETRY_AFTER);
        assert_eq!(wait(None), DEFAULT_RETRY_AFTER);
    }

    #[test]
    fn a_duplicate_license_is_known_by_the_unique_key() {
        let text = json!({ "message": "Unable to add license to database",
            "detail": "pq: duplicate key value violates unique constraint \"licenses_jwt_key\"" });
        assert_eq!(answer(500, &text.to_string()).upload(), Ok(Upload::Duplicate));
        assert!(matches!(answer(500, "{}").upload(), Err(Error::Server { status: 500, .. })));
    }
}
