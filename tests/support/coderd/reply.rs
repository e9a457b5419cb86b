//! The shapes of coderd's answers: JSON bodies, its error body, the vague 404 and the plain-text misfits.
//! It never decides which answer a request gets.

use http::{HeaderName, HeaderValue, StatusCode, header};
use serde_json::{Value, json};

/// An answer of the double before it is put on the wire.
#[derive(Clone, Debug)]
pub(super) struct Reply {
    pub(super) status: StatusCode,
    pub(super) headers: Vec<(HeaderName, HeaderValue)>,
    pub(super) body: Vec<u8>,
}

/// What a handler returns; the error side is an answer too, it only ends the handler early.
pub(super) type Answer = Result<Reply, Reply>;

impl Reply {
    /// A JSON body, ended by a newline as Go's encoder does.
    pub(super) fn json(status: StatusCode, body: &Value) -> Self {
        Self::typed(status, "application/json; charset=utf-8", format!("{body}\n"))
    }

    /// A body of any type.
    pub(super) fn typed(status: StatusCode, content_type: &str, body: impl Into<Vec<u8>>) -> Self {
        let reply = Self { status, headers: Vec::new(), body: body.into() };
        reply.with(header::CONTENT_TYPE, content_type)
    }

    /// No body at all.
    pub(super) fn empty(status: StatusCode) -> Self {
        Self { status, headers: Vec::new(), body: Vec::new() }
    }

    /// An error with nothing but a message.
    pub(super) fn error(status: StatusCode, message: &str) -> Self {
        Self::json(status, &json!({ "message": message }))
    }

    /// An error with a detail.
    pub(super) fn detailed(status: StatusCode, message: &str, detail: &str) -> Self {
        Self::json(status, &json!({ "message": message, "detail": detail }))
    }

    /// A 400 that names each wrong field.
    pub(super) fn invalid(message: &str, problems: &[(String, String)]) -> Self {
        let validations: Vec<Value> =
            problems.iter().map(|(field, detail)| json!({ "field": field, "detail": detail })).collect();
        Self::json(StatusCode::BAD_REQUEST, &json!({ "message": message, "validations": validations }))
    }

    /// A 400 for a body that Go's decoder cannot read; its words for a misplaced character only begin like this.
    pub(super) fn not_json(body: &[u8], problem: &serde_json::Error) -> Self {
        let words = match problem.is_eof() {
            true if body.is_empty() => "EOF".to_owned(),
            true => "unexpected EOF".to_owned(),
            false => format!("invalid character: {problem}"),
        };
        Self::unreadable(&words)
    }

    /// A 400 for a body that is JSON but not of the type the route decodes into.
    pub(super) fn unreadable(words: &str) -> Self {
        Self::detailed(StatusCode::BAD_REQUEST, "Request body must be valid JSON.", words)
    }

    /// The one text for "no such thing" and "not for you", so that existence does not leak.
    pub(super) fn not_found() -> Self {
        Self::error(StatusCode::NOT_FOUND, "Resource not found or you do not have access to this resource")
    }

    /// What every unknown route answers, and every Premium route of an AGPL build.
    pub(super) fn route_not_found() -> Self {
        Self::error(StatusCode::NOT_FOUND, "Route not found.")
    }

    /// Adds a header; the value is one of ours, so it is always printable.
    pub(super) fn with(mut self, name: HeaderName, value: &str) -> Self {
        let value = HeaderValue::from_str(value).expect("headers of the double are printable");
        self.headers.push((name, value));
        self
    }
}
