//! What a license says about itself, and whether coderd already has it.
//! It never verifies a signature (coderd does) and never shows the license, only its hash and its claims.

use crate::confidential::Confidential;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::digest::{SHA256, digest};
use serde::Deserialize;
use serde_json::{Map, Value};

use super::uuid::Uuid;
use zeroize::Zeroizing;

/// Larger than any license; a Secret can hold a megabyte.
const LARGEST: usize = 64 * 1024;

/// The claims of a license that we look at, and all of them to compare.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Claims(Map<String, Value>);

/// A text that is no license.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NotALicense {
    /// Nothing is there.
    #[error("the license is empty")]
    Empty,
    /// It is larger than any license.
    #[error("the license is larger than {LARGEST} bytes")]
    TooLarge,
    /// It is no JWT with an object of claims.
    #[error("the license is not a JWT: three parts in base64url, divided by dots")]
    NotAJwt,
}

impl Claims {
    /// Reads the claims of a JWT without verifying it.
    pub fn of(jwt: &Confidential<String>) -> Result<Self, NotALicense> {
        let text = jwt.expose().trim();
        if text.is_empty() {
            return Err(NotALicense::Empty);
        }
        if text.len() > LARGEST {
            return Err(NotALicense::TooLarge);
        }
        let parts: Vec<&str> = text.split('.').collect();
        let [_, payload, _] = parts.as_slice() else { return Err(NotALicense::NotAJwt) };
        let bytes = Zeroizing::new(URL_SAFE_NO_PAD.decode(payload).map_err(|_| NotALicense::NotAJwt)?);
        serde_json::from_slice(&bytes).map(Self).map_err(|_| NotALicense::NotAJwt)
    }

    /// The license's own id; older licenses have none, or one that is no UUID.
    pub fn id(&self) -> Option<Uuid> {
        self.0.get("jti")?.as_str()?.parse().ok()
    }

    /// When it stops working, in seconds since 1970.
    pub fn hard_end(&self) -> Option<i64> {
        seconds(self.0.get("exp")?)
    }

    /// When it expires and its grace period begins, in seconds since 1970.
    pub fn expires(&self) -> Option<i64> {
        seconds(self.0.get("license_expires")?)
    }

    /// Whether both say the same; how a number is written does not count.
    fn same(&self, other: &Self) -> bool {
        self.0.len() == other.0.len()
            && self.0.iter().all(|(name, value)| other.0.get(name).is_some_and(|other| same(value, other)))
    }
}

impl<'de> Deserialize<'de> for Claims {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Self(Option::deserialize(deserializer)?.unwrap_or_default()))
    }
}

/// Go writes times as whole or broken seconds.
fn seconds(value: &Value) -> Option<i64> {
    // Out of range becomes the nearest: a date in the year 292 billion is as good as none.
    value.as_i64().or_else(|| value.as_f64().map(|seconds| seconds as i64))
}

fn same(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Number(one), Value::Number(other)) => one.as_f64() == other.as_f64(),
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| same(one, other))
        }
        (Value::Object(one), Value::Object(other)) => Claims(one.clone()).same(&Claims(other.clone())),
        _ => one == other,
    }
}

/// A license as coderd lists it; the JWT itself is never returned.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct License {
    /// The number to delete it by.
    pub id: i32,
    /// The license's own id, or a random one if it has none.
    pub uuid: String,
    /// When it was uploaded.
    #[serde(default)]
    pub uploaded_at: Option<jiff::Timestamp>,
    /// What it says about itself.
    #[serde(default)]
    pub claims: Claims,
}

/// What to do about a license.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Next {
    /// coderd has it.
    AlreadyThere {
        /// Its number in coderd.
        id: i32,
    },
    /// coderd does not have it.
    Upload,
}

/// Whether coderd, which lists these, already has this license.
pub(crate) fn next(listed: &[License], claims: &Claims) -> Next {
    let there = |license: &&License| match claims.id() {
        Some(id) => license.uuid.parse() == Ok(id),
        None => license.claims.same(claims),
    };
    listed.iter().find(there).map_or(Next::Upload, |license| Next::AlreadyThere { id: license.id })
}

/// SHA-256 of the license in hexadecimal, to see whether a Secret has changed.
pub(crate) fn sha256(jwt: &Confidential<String>) -> String {
    let digest = digest(&SHA256, jwt.expose().trim().as_bytes());
    digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn jwt(claims: &Value) -> Confidential<String> {
        let part = |text: &str| URL_SAFE_NO_PAD.encode(text);
        Confidential::new(format!("{}.{}.{}\n", part("{}"), part(&claims.to_string()), part("signature")))
    }

    fn listed(id: i32, uuid: &str, claims: &Value) -> License {
        serde_json::from_value(json!({ "id": id, "uuid": uuid, "claims": claims })).unwrap()
    }

    const ID: &str = "6f1f6a3e-0000-4000-8000-000000000001";
    const OTHER: &str = "6f1f6a3e-0000-4000-8000-000000000002";

    #[test]
    fn claims_are_read_without_a_key() {
        let claims =
            Claims::of(&jwt(&json!({ "jti": ID, "exp": 1_800_000_000, "license_expires": 1.7e9 }))).unwrap();
        assert_eq!(claims.id().unwrap().to_string(), ID);
        assert_eq!((claims.hard_end(), claims.expires()), (Some(1_800_000_000), Some(1_700_000_000)));
    }

    #[test]
    fn what_is_no_license_is_refused_and_never_a_panic() {
        let claims = |text: &str| Claims::of(&Confidential::new(text.to_owned()));
        assert_eq!(claims(" \n"), Err(NotALicense::Empty));
        assert_eq!(claims(&"a".repeat(LARGEST + 1)), Err(NotALicense::TooLarge));
        for text in ["a", "a.b", "a.b.c.d", "a.!.c", "a.bnVsbA==.c", "..", "a.W10.c", "a.\u{fffd}.c"] {
            assert_eq!(claims(text), Err(NotALicense::NotAJwt), "{text}");
        }
        let deep = format!("a.{}.c", URL_SAFE_NO_PAD.encode(format!("{{\"a\":{}", "[".repeat(40_000))));
        assert_eq!(claims(&deep), Err(NotALicense::NotAJwt));
        let odd = Claims::of(&jwt(&json!({ "jti": 7, "exp": "soon", "license_expires": 1e300 }))).unwrap();
        assert_eq!((odd.id(), odd.hard_end(), odd.expires()), (None, None, Some(i64::MAX)));
    }

    #[test]
    fn a_license_with_an_id_is_found_by_it_alone() {
        let claims = Claims::of(&jwt(&json!({ "jti": ID, "exp": 2 }))).unwrap();
        let there =
            [listed(1, OTHER, &json!({ "jti": ID, "exp": 2 })), listed(2, &ID.to_uppercase(), &json!({}))];
        assert_eq!(next(&there, &claims), Next::AlreadyThere { id: 2 });
        assert_eq!(next(&there[..1], &claims), Next::Upload);
        assert_eq!(next(&[], &claims), Next::Upload);
    }

    #[test]
    fn a_license_without_an_id_is_found_by_all_its_claims() {
        let text = json!({ "jti": "old", "exp": 2.0, "features": { "scim": 1 }, "list": [1] });
        let claims = Claims::of(&jwt(&text)).unwrap();
        let same = json!({ "jti": "old", "exp": 2, "features": { "scim": 1.0 }, "list": [1.0] });
        assert_eq!(next(&[listed(3, OTHER, &same)], &claims), Next::AlreadyThere { id: 3 });
        let more = json!({ "jti": "old", "exp": 2, "features": { "scim": 1, "x": 1 }, "list": [1] });
        assert_eq!(next(&[listed(3, OTHER, &more), listed(4, OTHER, &Value::Null)], &claims), Next::Upload);
    }

    #[test]
    fn the_hash_does_not_see_white_space_around() {
        let hash = sha256(&Confidential::new("  abc\n".to_owned()));
        assert_eq!(hash, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    }
}
