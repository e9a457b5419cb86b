//! Reads one value of a Secret, and says what is lacking where there is none.
//! It keeps nothing, and tells of a Secret only the one key that was asked for.

use crate::confidential::{Confidential, decoded};
use crate::kubernetes::{CallError, Kube, Target};
use serde_json::Value;

/// What a key of a Secret has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Found {
    /// Text, without the spaces around it.
    Text(Confidential<String>),
    /// There is none; what is lacking, and what to do.
    Lacking(String),
}

impl Found {
    /// The text, if there is some.
    pub(crate) fn text(self) -> Option<Confidential<String>> {
        match self {
            Self::Text(text) => Some(text),
            Self::Lacking(_) => None,
        }
    }
}

/// One value of a Secret.
pub(crate) async fn secret_value(
    kube: &Kube,
    namespace: &str,
    name: &str,
    key: &str,
) -> Result<Found, CallError> {
    let object =
        kube.read(Target { api_version: "v1", kind: "Secret", plural: "secrets", namespace, name }).await?;
    Ok(found(object.as_ref(), name, key))
}

/// What the key of a Secret that was read has. Other keys are not told: they are nobody's business here.
fn found(object: Option<&Value>, name: &str, key: &str) -> Found {
    let lacking = |what: String| Found::Lacking(what);
    let Some(object) = object else {
        return lacking(format!("Secret {name} does not exist; create it with the key {key}"));
    };
    let value = &object["data"][key];
    if value.is_null() {
        return lacking(format!("Secret {name} has no key {key}; add it, or name the key that it has"));
    }
    match decoded(value) {
        None => lacking(format!("the key {key} of Secret {name} is not text; correct it")),
        Some(text) if text.is_blank() => lacking(format!("the key {key} of Secret {name} is empty; fill it")),
        Some(text) => Found::Text(text.trimmed()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn it_is_told_what_is_lacking_of_a_value() {
        let lacking = |object: Option<Value>| match found(object.as_ref(), "s", "k") {
            Found::Lacking(what) => what,
            Found::Text(text) => format!("text: {}", text.expose()),
        };
        let secret = |value: &str| Some(json!({"data": {"other": "eA==", "k": value}}));
        assert_eq!(lacking(None), "Secret s does not exist; create it with the key k");
        let no_key = lacking(Some(json!({"data": {"other": "eA=="}})));
        assert_eq!(no_key, "Secret s has no key k; add it, or name the key that it has");
        assert_eq!(lacking(Some(json!({}))), no_key);
        assert_eq!(lacking(secret("")), "the key k of Secret s is empty; fill it");
        assert_eq!(lacking(secret("IAo=")), "the key k of Secret s is empty; fill it");
        assert_eq!(lacking(secret("/w==")), "the key k of Secret s is not text; correct it");
        assert_eq!(lacking(secret("IGEK")), "text: a");
    }
}
