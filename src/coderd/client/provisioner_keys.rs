//! The calls for provisioner keys: made once, listed, deleted by name, known by their plaintext.
//! It never keeps a key's plaintext, never sends one in a URL, and never decides which key is whose.

use super::answers::{Answer, time};
use super::elements::{Unlisted, read};
use super::jobs::Tags;
use super::requests::Request;
use super::short_text;
use super::{Client, Error};
use crate::coderd::uuid::Uuid;
use crate::confidential::Confidential;
use http::StatusCode;
use jiff::Timestamp;
use serde::Deserialize;

/// coderd's words for a key that it does not know, or that cannot be one.
const UNKNOWN_KEY: &str = "provisioner daemon key invalid";
/// Characters of a plaintext of coderd, which are letters and digits.
const PLAINTEXT: usize = 43;
/// Longer than any of them, also than one that somebody else has put into a Secret.
const LONGEST_PLAINTEXT: usize = 256;
/// Keys that are kept of a list.
pub(super) const MOST_KEYS: usize = 256;

/// A provisioner key, without its plaintext: coderd shows that once, when the key is made.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct ProvisionerKey {
    /// Its id.
    pub id: Uuid,
    /// Its name, which coderd stores in lower case and deletes it by.
    #[serde(deserialize_with = "short_text::seen_name")]
    pub name: String,
    /// The organisation it belongs to.
    #[serde(rename = "organization")]
    pub organization_id: Uuid,
    /// When it was made.
    #[serde(deserialize_with = "time")]
    pub created_at: Timestamp,
    /// What its daemons are tagged with. They never change.
    #[serde(default, deserialize_with = "short_text::tags")]
    pub tags: Tags,
}

impl ProvisionerKey {
    /// Whether it has this name: of two that differ in case alone, coderd accepts one.
    pub fn is_named(&self, name: &str) -> bool {
        self.name.to_lowercase() == name.to_lowercase()
    }
}

/// What became of a deletion.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Deletion {
    /// The key was there and is gone now.
    Deleted,
    /// There was none of that name, or coderd hides it from the token's user: [`Client::organization_by_id`] with the same
    /// token tells whether it still reads there.
    NotThere,
    /// A name with a slash (or none at all) cannot be part of a path: coderd makes such a key and has no way to delete it.
    Impossible,
}

impl Client {
    /// The provisioner keys of an organisation that are wanted by id or name, oldest first, without coderd's own. Every member
    /// of it sees them. Of the others nothing is kept, so that an organisation may have any number of them.
    /// [`Error::NotLicensed`] without the license; [`Error::TooLarge`] if more are wanted than anybody has.
    pub async fn provisioner_keys(
        &self,
        organization: Uuid,
        is_wanted: impl FnMut(Uuid, &str) -> bool + Send,
    ) -> Result<Vec<ProvisionerKey>, Error> {
        self.provisioner_keys_as(organization, is_wanted, |key| key).await
    }

    /// The same, of which no more is held than `keep` makes of each while the list still arrives: tags are of any length up to
    /// 8 KiB, and take several times that.
    pub async fn provisioner_keys_as<T: Send>(
        &self,
        organization: Uuid,
        mut is_wanted: impl FnMut(Uuid, &str) -> bool + Send,
        keep: impl Fn(ProvisionerKey) -> T + Sync + Send,
    ) -> Result<Vec<T>, Error> {
        let mut keys = Vec::new();
        let mut reader = |object: &[u8]| {
            if let Some(key) = wanted(object, &mut is_wanted)? {
                keys.push(keep(key));
            }
            if keys.len() > MOST_KEYS { Err(Unlisted::TooLarge(MOST_KEYS)) } else { Ok(()) }
        };
        self.list(Request::provisioner_keys(organization), &mut reader).await?;
        Ok(keys)
    }

    /// Makes a provisioner key and gives its plaintext, which coderd never shows again: an error after the request was
    /// sent may hide a key that was made. [`Error::Conflict`] if the name is taken, in any case; [`Error::Invalid`] if
    /// coderd refuses it; [`Error::NotLicensed`] without the license.
    pub async fn create_provisioner_key(
        &self,
        organization: Uuid,
        name: &str,
        tags: &Tags,
    ) -> Result<Confidential<String>, Error> {
        let request = Request::create_provisioner_key(organization, name, tags);
        self.call(request).await.and_then(Answer::created_key)
    }

    /// Deletes a provisioner key by its name, in any case. Daemons that are connected stay so.
    pub async fn delete_provisioner_key(&self, organization: Uuid, name: &str) -> Result<Deletion, Error> {
        match Request::delete_provisioner_key(organization, name) {
            Some(request) => self.call(request).await.and_then(Answer::deletion),
            None => Ok(Deletion::Impossible),
        }
    }

    /// The key that a plaintext opens, or none if coderd knows no such key. Needs neither token nor license, and the
    /// plaintext goes in its own header. A text that no daemon could send is no key, and is not sent.
    pub async fn identify_provisioner_key(
        &self,
        plaintext: &Confidential<String>,
    ) -> Result<Option<ProvisionerKey>, Error> {
        if !could_be_sent(plaintext.expose()) {
            return Ok(None);
        }
        let request = Request::identify_provisioner_key(plaintext);
        self.call(request).await.and_then(Answer::identified_key)
    }

    /// Whether the token's user may see the provisioner keys of an organisation: to anybody else [`Client::provisioner_keys`]
    /// shows an empty list.
    pub async fn may_read_provisioner_keys(&self, organization: Uuid) -> Result<bool, Error> {
        #[derive(Deserialize)]
        struct Said {
            read: bool,
        }
        let answer = self.call(Request::may_read_provisioner_keys(organization)).await?;
        answer.json::<Said>().map(|said| said.read)
    }
}

/// A key of a list, if it is wanted. Of any other only id and name are looked at: whatever else somebody gave it does not get
/// in our way.
fn wanted(
    object: &[u8],
    mut is_wanted: impl FnMut(Uuid, &str) -> bool,
) -> Result<Option<ProvisionerKey>, Unlisted> {
    #[derive(Deserialize)]
    struct Head {
        id: Uuid,
        #[serde(deserialize_with = "short_text::name")]
        name: String,
    }
    let head: Head = read(object)?;
    if is_wanted(head.id, &head.name) { read(object).map(Some) } else { Ok(None) }
}

/// Whether it has the form of coderd's plaintexts: whoever answers chooses what we put into a Secret.
fn is_plaintext(key: &str) -> bool {
    key.len() == PLAINTEXT && key.bytes().all(|byte| byte.is_ascii_alphanumeric())
}

/// Whether a daemon could put it into a header.
fn could_be_sent(plaintext: &str) -> bool {
    (1..=LONGEST_PLAINTEXT).contains(&plaintext.len())
        && plaintext.bytes().all(|byte| byte.is_ascii_graphic())
}

impl Answer {
    /// The plaintext of a key that was made. An answer without a usable one is no answer: the key may be there.
    pub(super) fn created_key(self) -> Result<Confidential<String>, Error> {
        #[derive(Deserialize)]
        struct Created<'a> {
            key: &'a str,
        }
        self.shown_once(|body| {
            let created: Created<'_> = serde_json::from_slice(body).ok()?;
            is_plaintext(created.key).then(|| Confidential::new(created.key.to_owned()))
        })
    }

    pub(super) fn deletion(self) -> Result<Deletion, Error> {
        if self.status.is_success() {
            return Ok(Deletion::Deleted);
        }
        match self.refusal() {
            Error::NotFoundOrForbidden { .. } => Ok(Deletion::NotThere),
            other => Err(other),
        }
    }

    /// Only coderd's own words mean that a key is unknown: whoever else refuses the call says nothing of the key.
    pub(super) fn identified_key(self) -> Result<Option<ProvisionerKey>, Error> {
        let refused = matches!(self.status, StatusCode::UNAUTHORIZED | StatusCode::BAD_REQUEST);
        if refused && self.said().message == UNKNOWN_KEY {
            return Ok(None);
        }
        self.json().map(Some)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::coderd::client::answers::tests::answer_to;
    use crate::coderd::error::Operation;
    use serde_json::{Value, json};

    pub(in crate::coderd::client) const ID: &str = "6f1f6a3e-0000-4000-8000-000000000001";

    pub(in crate::coderd::client) fn key(tags: &Value) -> Value {
        json!({ "id": ID, "name": "eu", "organization": ID, "created_at": "2026-11-18T00:00:00.123456Z", "tags": tags,
            "a field of tomorrow": {} })
    }

    fn listed(key: &Value, is_wanted: bool) -> Result<Option<ProvisionerKey>, Unlisted> {
        wanted(key.to_string().as_bytes(), |_, _| is_wanted)
    }

    #[test]
    fn keys_are_read_with_null_for_nothing() {
        let tagged = listed(&key(&json!({ "zone": "eu" })), true).unwrap().unwrap();
        assert_eq!((tagged.id, tagged.organization_id), (ID.parse().unwrap(), ID.parse().unwrap()));
        assert_eq!(tagged.created_at.to_string(), "2026-11-18T00:00:00.123456Z");
        assert_eq!(tagged.tags["zone"], "eu");
        let mut unset = key(&Value::Null);
        // Go's zero time, for a key that no database has.
        unset["created_at"] = json!("0001-01-01T00:00:00Z");
        let unset = listed(&unset, true).unwrap().unwrap();
        assert_eq!((unset.tags.len(), unset.created_at.as_second()), (0, -62_135_596_800));
        for broken in [json!({ "id": ID }), json!({ "id": "7", "name": "a" }), json!({ "id": ID, "name": 7 })]
        {
            assert_eq!(listed(&broken, true), Err(Unlisted::Malformed), "{broken}");
        }
    }

    #[test]
    fn what_is_kept_of_a_key_is_bounded_and_what_others_have_is_not_looked_at() {
        let many = |count: usize| -> Value {
            (0..count)
                .map(|number| (format!("t{number}"), json!("x")))
                .collect::<serde_json::Map<_, _>>()
                .into()
        };
        assert_eq!(listed(&key(&many(256)), true).unwrap().unwrap().tags.len(), 256);
        for tags in [many(257), json!({ "a": "x".repeat(8 << 10) }), json!({ "x".repeat(9 << 10): "" })] {
            assert_eq!(listed(&key(&tags), true), Err(Unlisted::Malformed));
            assert_eq!(listed(&key(&tags), false), Ok(None));
        }
        let renamed = |name: &str| {
            let mut key = key(&Value::Null);
            key["name"] = json!(name);
            key
        };
        assert!(
            listed(&renamed(&"\u{1f600}".repeat(64)), true).unwrap().is_some(),
            "as long as coderd keeps it"
        );
        assert_eq!(listed(&renamed(&"x".repeat(257)), true), Err(Unlisted::Malformed));
        assert_eq!(listed(&renamed("a\u{1b}[2J"), true), Err(Unlisted::Malformed));
        assert_eq!(listed(&renamed("a\u{1b}[2J"), false), Ok(None), "coderd lets a key have such a name");
    }

    #[test]
    fn a_plaintext_is_read_once_and_a_denial_is_known_whatever_its_status() {
        let operation = Operation::CreateProvisionerKey;
        let created = |status, body: Value| answer_to(operation, status, &body).created_key();
        let plaintext = Confidential::new("x".repeat(43));
        assert_eq!(created(201, json!({ "key": plaintext.expose() })), Ok(plaintext));
        // Anything else would be a text of somebody's choice in a Secret of ours.
        for text in ["postgres://evil", &"x".repeat(42), &"x".repeat(44), &format!("{}-", "x".repeat(42))] {
            assert_eq!(created(201, json!({ "key": text })), Err(Error::Malformed { operation }), "{text}");
        }
        let said = json!({ "message": "An internal server error occurred.", "detail": "unauthorized: rbac: forbidden" });
        assert_eq!(created(500, said), Err(Error::Forbidden { operation }));
        assert_eq!(created(500, json!({})), Err(Error::Server { operation, status: 500 }));
        assert_eq!(created(409, json!({})), Err(Error::Conflict { operation }));
    }

    #[test]
    fn only_a_404_of_the_key_itself_counts_as_not_there() {
        let operation = Operation::DeleteProvisionerKey;
        let deleted = |status, body: Value| answer_to(operation, status, &body).deletion();
        assert_eq!(deleted(204, Value::Null), Ok(Deletion::Deleted));
        assert_eq!(deleted(404, json!({ "message": "Resource not found" })), Ok(Deletion::NotThere));
        let missing = deleted(404, json!({ "message": "Route not found." }));
        assert_eq!(missing, Err(Error::RouteMissing { operation }));
        let premium =
            json!({ "message": "External Provisioner Daemons is a Premium feature. Contact sales!" });
        assert_eq!(deleted(403, premium), Err(Error::NotLicensed { operation }));
        let denied = json!({ "detail": "unauthorized: rbac: forbidden" });
        assert_eq!(deleted(500, denied), Err(Error::Forbidden { operation }));
    }

    #[test]
    fn a_key_is_unknown_in_coderds_words_alone() {
        let operation = Operation::IdentifyProvisionerKey;
        let identified = |status, message: &str| {
            answer_to(operation, status, &json!({ "message": message })).identified_key()
        };
        assert_eq!((identified(401, UNKNOWN_KEY), identified(400, UNKNOWN_KEY)), (Ok(None), Ok(None)));
        assert_eq!(identified(401, "sign in"), Err(Error::Unauthorized { operation }));
        assert_eq!(identified(404, UNKNOWN_KEY), Err(Error::NotFoundOrForbidden { operation }));
        assert_eq!(identified(500, UNKNOWN_KEY), Err(Error::Server { operation, status: 500 }));
        let known = answer_to(operation, 200, &key(&Value::Null)).identified_key().unwrap();
        assert_eq!(known.map(|key| key.name).as_deref(), Some("eu"));
    }
}
