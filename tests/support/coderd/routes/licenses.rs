//! Licences: listed without their text, added once each, deleted by number; each change refreshes the entitlements.
//! It verifies no signature: every JWT whose claims can be read is one of Coder's, unless it has expired.

use http::StatusCode;
use serde_json::{Map, Value, json};

use crate::coderd::clock::Timestamp;
use crate::coderd::ids::Uuid;
use crate::coderd::pipeline::Inbound;
use crate::coderd::reply::{Answer, Reply};
use crate::coderd::server::Coderd;
use crate::coderd::state::World;

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

pub(in crate::coderd) fn list(world: &mut World, inbound: &Inbound) -> Answer {
    // Whoever may not read them sees none; that is no error.
    let visible = world.licenses.iter().filter(|_| inbound.caller().is_owner());
    let shown: Vec<Value> = visible.map(StoredLicense::shown).collect();
    Ok(Reply::json(StatusCode::OK, &Value::from(shown)))
}

pub(in crate::coderd) fn add(world: &mut World, inbound: &Inbound) -> Answer {
    owners_only(inbound)?;
    let jwt = inbound.json.as_ref().and_then(|body| body["license"].as_str()).unwrap_or_default();
    if jwt.is_empty() {
        let problem =
            ("license".to_owned(), "Validation failed for tag \"required\" with value: \"\"".to_owned());
        return Err(Reply::invalid("Validation failed.", &[problem]));
    }
    let claims = claims(jwt).map_err(|reason| refused(&reason))?;
    let ends = claims.get("exp").and_then(Value::as_i64);
    if ends.is_none_or(|end| end < inbound.now.unix_seconds()) {
        return Err(refused("token has invalid claims: token is expired"));
    }
    if world.licenses.iter().any(|license| license.jwt == jwt) {
        return Err(Reply::detailed(
            StatusCode::INTERNAL_SERVER_ERROR,
            "Unable to add license to database",
            "pq: duplicate key value violates unique constraint \"licenses_jwt_key\"",
        ));
    }
    let uuid = claims.get("jti").and_then(Value::as_str).and_then(Uuid::parse).unwrap_or_else(Uuid::random);
    world.last_license += 1;
    let license =
        StoredLicense { id: world.last_license, uuid, uploaded_at: inbound.now, claims, jwt: jwt.to_owned() };
    let shown = license.shown();
    world.licenses.push(license);
    refresh(world, inbound.now);
    Ok(Reply::json(StatusCode::CREATED, &shown))
}

pub(in crate::coderd) fn delete(world: &mut World, inbound: &Inbound) -> Answer {
    let not_found = |text: &str| Reply::error(StatusCode::NOT_FOUND, text);
    let id: i32 = inbound.param("id").parse().map_err(|_| not_found("License ID must be an integer"))?;
    owners_only(inbound)?;
    let before = world.licenses.len();
    world.licenses.retain(|license| license.id != id);
    if world.licenses.len() == before {
        return Err(not_found("Unknown license ID"));
    }
    refresh(world, inbound.now);
    Ok(Reply::empty(StatusCode::OK))
}

fn refresh(world: &mut World, now: Timestamp) {
    let trial = world.licenses.iter().any(|license| license.claims.get("trial") == Some(&Value::Bool(true)));
    world.entitlements.refresh(!world.licenses.is_empty(), trial, now);
}

fn owners_only(inbound: &Inbound) -> Result<(), Reply> {
    if inbound.caller().is_owner() {
        return Ok(());
    }
    let text = "You don't have permission to view this content. If you believe this is a mistake, please contact your \
                administrator or try signing in with different credentials.";
    Err(Reply::detailed(StatusCode::FORBIDDEN, "Forbidden.", text))
}

fn refused(reason: &str) -> Reply {
    Reply::detailed(StatusCode::BAD_REQUEST, "Invalid license", reason)
}

fn claims(jwt: &str) -> Result<Map<String, Value>, String> {
    let parts: Vec<&str> = jwt.split('.').collect();
    let [_, payload, _] = parts[..] else {
        return Err("token is malformed: token contains an invalid number of segments".to_owned());
    };
    let malformed = || "token is malformed: could not base64 decode claim".to_owned();
    let padding = "=".repeat((4 - payload.len() % 4) % 4);
    let standard = Value::from(payload.replace('-', "+").replace('_', "/") + &padding);
    let bytes: k8s_openapi::ByteString = serde_json::from_value(standard).map_err(|_| malformed())?;
    serde_json::from_slice(&bytes.0).map_err(|_| malformed())
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
        part(&json!({ "alg": "EdDSA", "kid": "2022-08-12" })),
        part(claims),
        part(&json!("signature"))
    )
}

impl Coderd {
    /// The numbers and ids of its licences.
    pub fn licenses(&self) -> Vec<(i32, Uuid)> {
        self.world().licenses.iter().map(|license| (license.id, license.uuid)).collect()
    }
}
