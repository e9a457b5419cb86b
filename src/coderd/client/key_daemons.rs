//! The call for the daemons that came with provisioner keys.
//! It reads names and nothing else of them, and never decides which daemon is whose.

use super::elements::{Unlisted, read};
use super::provisioner_keys::MOST_KEYS;
use super::requests::Request;
use super::short_text::{self, Names};
use super::{Client, Error};
use crate::coderd::uuid::Uuid;
use serde::Deserialize;
use std::collections::BTreeSet;

/// Daemons that are kept of a list, whichever key they have.
const MOST_DAEMONS: usize = short_text::MOST_NAMES;

/// The daemons that came with a key and were heard of within the last three minutes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyDaemons {
    /// The id of the key.
    pub key: Uuid,
    /// Their names, which are those of their pods.
    pub names: BTreeSet<String>,
}

impl Client {
    /// The daemons of the keys of an organisation that are wanted by id; coderd's own keys are among those it may be.
    /// [`Error::TooLarge`] if there are more than are kept.
    pub async fn provisioner_key_daemons(
        &self,
        organization: Uuid,
        is_wanted: impl Fn(Uuid) -> bool + Sync,
    ) -> Result<Vec<KeyDaemons>, Error> {
        let (mut all, mut left) = (Vec::new(), MOST_DAEMONS);
        let mut reader = |object: &[u8]| {
            if let Some(daemons) = daemons_of(object, &is_wanted, left)? {
                left -= daemons.names.len();
                all.push(daemons);
            }
            if all.len() > MOST_KEYS { Err(Unlisted::TooLarge(MOST_KEYS)) } else { Ok(()) }
        };
        self.list(Request::provisioner_key_daemons(organization), &mut reader).await?;
        Ok(all)
    }
}

/// The daemons of a key, if it is wanted and there are no more of them than this.
fn daemons_of(
    object: &[u8],
    is_wanted: impl Fn(Uuid) -> bool,
    most: usize,
) -> Result<Option<KeyDaemons>, Unlisted> {
    #[derive(Deserialize)]
    struct Head {
        key: Id,
    }
    #[derive(Deserialize)]
    struct Id {
        id: Uuid,
    }
    #[derive(Deserialize)]
    struct Rest {
        #[serde(default)]
        daemons: Names,
    }
    let Id { id: key } = read::<Head>(object)?.key;
    if !is_wanted(key) {
        return Ok(None);
    }
    let names = read::<Rest>(object)?.daemons.0;
    if names.len() > most {
        Err(Unlisted::TooLarge(MOST_DAEMONS))
    } else {
        Ok(Some(KeyDaemons { key, names }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::coderd::client::provisioner_keys::tests::{ID, key};
    use serde_json::{Value, json};

    fn daemons(of: &Value, most: usize) -> Result<Option<KeyDaemons>, Unlisted> {
        daemons_of(of.to_string().as_bytes(), |_| true, most)
    }

    #[test]
    fn daemons_are_read_with_null_for_nothing() {
        let named = |names: &[&str]| {
            let all: Vec<Value> =
                names.iter().map(|name| json!({ "name": name, "version": {}, "id": 7 })).collect();
            json!({ "key": key(&Value::Null), "daemons": all })
        };
        let two = daemons(&named(&["b", "a"]), 2).unwrap().unwrap();
        assert_eq!((two.key, two.names.len()), (ID.parse().unwrap(), 2));
        assert_eq!(daemons(&named(&["b", "a"]), 1), Err(Unlisted::TooLarge(MOST_DAEMONS)));
        for nothing in [json!({ "key": { "id": ID }, "daemons": null }), json!({ "key": { "id": ID } })] {
            assert!(daemons(&nothing, 0).unwrap().unwrap().names.is_empty(), "{nothing}");
        }
        let skipped =
            daemons_of(json!({ "key": { "id": ID }, "daemons": 7 }).to_string().as_bytes(), |_| false, 0);
        assert_eq!(skipped, Ok(None), "whatever others have");
        assert_eq!(daemons(&json!({ "daemons": [] }), 1), Err(Unlisted::Malformed));
    }
}
