//! The calls for organisations: which one a name means, and what it is called now.
//! It never decides which organisation an object belongs to.

use super::requests::Request;
use super::short_text;
use super::{Client, Error};
use crate::coderd::error::Operation;
use crate::coderd::uuid::Uuid;
use serde::Deserialize;

/// An organisation: its id stays what it is when somebody renames it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Organization {
    /// Its id.
    pub id: Uuid,
    /// Its name now.
    #[serde(deserialize_with = "short_text::organization_name")]
    pub name: String,
    /// Whether `default` means it.
    #[serde(default)]
    pub is_default: bool,
}

impl Client {
    /// The organisation of this name; `default` means the one that is the default, whatever its name.
    pub async fn organization(&self, name: &str) -> Result<Organization, Error> {
        let nowhere = Error::NotFoundOrForbidden { operation: Operation::Organization };
        self.call(Request::organization(name).ok_or(nowhere)?).await.and_then(|answer| answer.json())
    }

    /// The organisation of this id, whatever its name is now.
    pub async fn organization_by_id(&self, id: Uuid) -> Result<Organization, Error> {
        self.organization(&id.to_string()).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::coderd::client::answers::tests::answer_to;
    use serde_json::json;

    const ID: &str = "6f1f6a3e-0000-4000-8000-000000000001";

    #[test]
    fn the_name_of_an_organisation_is_short_and_printable() {
        let organization = |name: &str| {
            answer_to(Operation::Organization, 200, &json!({ "id": ID, "name": name }))
                .json::<Organization>()
                .is_ok()
        };
        assert!(organization("platform-7") && organization(&"x".repeat(64)));
        for name in [&"x".repeat(65), "a b", "a\u{1b}[2J", "\u{202e}a", "ä"] {
            assert!(!organization(name), "{name:?}");
        }
    }
}
