//! The requests we send: method, path, body, and whether a token goes along.
//! It builds values; it never sends them.

use crate::coderd::error::Operation;
use crate::confidential::Confidential;
use http::Method;
use serde::Serialize;
use zeroize::Zeroizing;

/// A request before it is sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Request {
    pub(super) operation: Operation,
    pub(super) method: Method,
    pub(super) path: String,
    pub(super) body: Option<Confidential<String>>,
    /// What the answer must not repeat.
    pub(super) secret: Option<Confidential<String>>,
    pub(super) authenticated: bool,
}

impl Request {
    fn get(operation: Operation, path: &str) -> Self {
        Self {
            operation,
            method: Method::GET,
            path: path.to_owned(),
            body: None,
            secret: None,
            authenticated: true,
        }
    }

    /// A token where none is needed only spreads it.
    fn open(self) -> Self {
        Self { authenticated: false, ..self }
    }

    pub(super) fn healthz() -> Self {
        Self::get(Operation::Healthz, "/healthz").open()
    }

    pub(super) fn build_info() -> Self {
        Self::get(Operation::BuildInfo, "/api/v2/buildinfo").open()
    }

    pub(super) fn entitlements() -> Self {
        Self::get(Operation::Entitlements, "/api/v2/entitlements").open()
    }

    pub(super) fn me() -> Self {
        Self::get(Operation::Me, "/api/v2/users/me")
    }

    pub(super) fn licenses() -> Self {
        Self::get(Operation::Licenses, "/api/v2/licenses")
    }

    pub(super) fn upload_license(jwt: &Confidential<String>) -> Self {
        let secret = jwt.clone().trimmed();
        Self {
            method: Method::POST,
            body: Some(license_body(secret.expose())),
            secret: Some(secret),
            ..Self::get(Operation::UploadLicense, "/api/v2/licenses")
        }
    }

    pub(super) fn delete_token(id: &str) -> Self {
        // Ids are letters and digits; anything else is no id of coderd and must not shape the path.
        let id: String = id.chars().filter(char::is_ascii_alphanumeric).collect();
        let path = format!("/api/v2/users/me/keys/{id}");
        Self { method: Method::DELETE, ..Self::get(Operation::DeleteToken, &path) }
    }
}

/// The license in the JSON that coderd takes, written once into a place that is large enough: what is moved to a larger
/// one stays behind in the smaller.
fn license_body(jwt: &str) -> Confidential<String> {
    #[derive(Serialize)]
    struct Upload<'a> {
        license: &'a str,
    }
    let mut bytes = Zeroizing::new(Vec::with_capacity(2 * jwt.len() + 32));
    // One text under one name always serialises, and JSON is UTF-8.
    let written = serde_json::to_writer(&mut *bytes, &Upload { license: jwt });
    let text = written.ok().and_then(|()| std::str::from_utf8(&bytes).ok()).unwrap_or_default();
    Confidential::new(text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_calls_that_need_a_token_take_one() {
        for open in [Request::healthz(), Request::build_info(), Request::entitlements()] {
            assert!(!open.authenticated, "{open:?}");
        }
        assert!(Request::me().authenticated && Request::licenses().authenticated);
    }

    #[test]
    fn a_license_travels_trimmed_and_unseen() {
        let request = Request::upload_license(&Confidential::new(" hunter2\n".to_owned()));
        assert_eq!(request.body.as_ref().unwrap().expose(), r#"{"license":"hunter2"}"#);
        assert!(!format!("{request:?}").contains("hunter2"));
    }

    #[test]
    fn an_id_cannot_leave_its_place_in_the_path() {
        assert_eq!(Request::delete_token("a/../b?c").path, "/api/v2/users/me/keys/abc");
    }
}
