//! Licenses: listed without their text, added once each, deleted by number; each change refreshes the entitlements.
//! It verifies no signature: every JWT that names Coder's key and whose claims can be read is one of Coder's, unless it
//! has expired.

use http::StatusCode;
use serde_json::{Map, Value, json};

use crate::coderd::clock::Timestamp;
use crate::coderd::ids::Uuid;
use crate::coderd::pipeline::Inbound;
use crate::coderd::reply::{Answer, Reply};
use crate::coderd::server::Coderd;
use crate::coderd::state::ServerState;

const ALGORITHM: &str = "EdDSA";
/// The one key Coder signs with.
const KEY: &str = "2022-08-12";

#[derive(Debug)]
pub(in crate::coderd) struct StoredLicense {
    id: i32,
    uuid: Uuid,
    uploaded_at: Timestamp,
    claims: Map<String, Value>,
    jwt: String,
}

impl StoredLicense {
    fn shown(&self) -> Value {
        json!({
            "id": self.id,
            "uuid": self.uuid.to_string(),
            "uploaded_at": self.uploaded_at.rfc3339(),
            "claims": self.claims,
        })
    }
}

pub(in crate::coderd) fn list(state: &mut ServerState, inbound: &Inbound) -> Answer {
    // Whoever may not read them sees none; that is no error.
    let visible = state.licenses.iter().filter(|_| inbound.caller().is_owner());
    let shown: Vec<Value> = visible.map(StoredLicense::shown).collect();
    Ok(Reply::json(StatusCode::OK, &Value::from(shown)))
}

pub(in crate::coderd) fn add(state: &mut ServerState, inbound: &Inbound) -> Answer {
    owners_only(inbound)?;
    let jwt = text_of(&inbound.body)?;
    if jwt.is_empty() {
        let problem =
            ("license".to_owned(), "Validation failed for tag \"required\" with value: \"\"".to_owned());
        return Err(Reply::invalid("Validation failed.", &[problem]));
    }
    let claims = claims(&jwt).ok_or_else(refused)?;
    let ends = claims.get("exp").and_then(Value::as_i64);
    if ends.is_none_or(|end| end < inbound.now.unix_seconds()) {
        return Err(refused());
    }
    if state.licenses.iter().any(|license| license.jwt == jwt) {
        return Err(Reply::detailed(
            StatusCode::INTERNAL_SERVER_ERROR,
            "Unable to add license to database",
            "pq: duplicate key value violates unique constraint \"licenses_jwt_key\"",
        ));
    }
    let uuid = claims.get("jti").and_then(Value::as_str).and_then(Uuid::parse).unwrap_or_else(Uuid::random);
    state.last_license += 1;
    let license = StoredLicense { id: state.last_license, uuid, uploaded_at: inbound.now, claims, jwt };
    let shown = license.shown();
    state.licenses.push(license);
    refresh(state, inbound.now);
    Ok(Reply::json(StatusCode::CREATED, &shown))
}

pub(in crate::coderd) fn delete(state: &mut ServerState, inbound: &Inbound) -> Answer {
    let not_found = |text: &str| Reply::error(StatusCode::NOT_FOUND, text);
    let id: i32 = inbound.param("id").parse().map_err(|_| not_found("License ID must be an integer"))?;
    owners_only(inbound)?;
    let before = state.licenses.len();
    state.licenses.retain(|license| license.id != id);
    if state.licenses.len() == before {
        return Err(not_found("Unknown license ID"));
    }
    refresh(state, inbound.now);
    Ok(Reply::empty(StatusCode::OK))
}

fn refresh(state: &mut ServerState, now: Timestamp) {
    let trial = state.licenses.iter().any(|license| license.claims.get("trial") == Some(&Value::Bool(true)));
    state.entitlements.refresh(!state.licenses.is_empty(), trial, now);
}

fn owners_only(inbound: &Inbound) -> Result<(), Reply> {
    if inbound.caller().is_owner() {
        return Ok(());
    }
    let text = "You don't have permission to view this content. If you believe this is a mistake, please contact your \
                administrator or try signing in with different credentials.";
    Err(Reply::detailed(StatusCode::FORBIDDEN, "Forbidden.", text))
}

/// Whatever is wrong with a license, coderd has one word for it.
fn refused() -> Reply {
    let detail = "license has multiple issues; contact support";
    Reply::detailed(StatusCode::BAD_REQUEST, "Invalid license", detail)
}

/// The field of the body, as Go decodes it: absent and null are empty, another type is an error that names Go's types.
fn text_of(body: &[u8]) -> Result<String, Reply> {
    let read: Value = serde_json::from_slice(body).map_err(|problem| Reply::not_json(body, &problem))?;
    let wrong = |value: &Value, place: &str| {
        Err(Reply::unreadable(&format!("json: cannot unmarshal {} into Go {place}", go_kind(value))))
    };
    match &read {
        Value::Null => Ok(String::new()),
        Value::Object(fields) => match fields.get("license") {
            None | Some(Value::Null) => Ok(String::new()),
            Some(Value::String(text)) => Ok(text.clone()),
            Some(other) => wrong(other, "struct field AddLicenseRequest.license of type string"),
        },
        other => wrong(other, "value of type codersdk.AddLicenseRequest"),
    }
}

fn go_kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

fn claims(jwt: &str) -> Option<Map<String, Value>> {
    let parts: Vec<&str> = jwt.split('.').collect();
    let [header, payload, _] = parts[..] else { return None };
    let header = object(header)?;
    let is = |name: &str, value: &str| header.get(name).and_then(Value::as_str) == Some(value);
    if is("alg", ALGORITHM) && is("kid", KEY) { object(payload) } else { None }
}

/// A part of a JWT: an object in base64url without padding.
fn object(part: &str) -> Option<Map<String, Value>> {
    let padding = "=".repeat((4 - part.len() % 4) % 4);
    let standard = Value::from(part.replace('-', "+").replace('_', "/") + &padding);
    let bytes: k8s_openapi::ByteString = serde_json::from_value(standard).ok()?;
    serde_json::from_slice(&bytes.0).ok()
}

/// A JWT with these claims, as Coder would sell it, signature aside.
///
/// # Panics
/// Never: JSON serialises.
pub fn license_with(claims: &Value) -> String {
    let part = |value: &Value| {
        let encoded = serde_json::to_value(k8s_openapi::ByteString(value.to_string().into_bytes()));
        let encoded = encoded.expect("bytes serialise").as_str().unwrap_or_default().to_owned();
        encoded.trim_end_matches('=').replace('+', "-").replace('/', "_")
    };
    format!(
        "{}.{}.{}",
        part(&json!({ "alg": ALGORITHM, "kid": KEY })),
        part(claims),
        part(&json!("signature"))
    )
}

impl Coderd {
    /// The numbers and ids of its licenses.
    pub fn licenses(&self) -> Vec<(i32, Uuid)> {
        self.state().licenses.iter().map(|license| (license.id, license.uuid)).collect()
    }
}
