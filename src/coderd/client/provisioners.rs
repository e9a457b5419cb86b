//! The calls for external provisioners: an organisation, its provisioner keys, their daemons, and the jobs that wait.
//! It never keeps a key's plaintext, never sends one in a URL, and never decides which key is whose.

use super::answers::Answer;
use super::jobs::{self, PendingJobs, Tags};
use super::requests::Request;
use super::{Client, Error};
use crate::coderd::error::Operation;
use crate::coderd::uuid::Uuid;
use crate::confidential::Confidential;
use http::StatusCode;
use jiff::Timestamp;
use serde::{Deserialize, Deserializer, de};
use zeroize::Zeroize;

/// coderd's words for a key that it does not know, or that cannot be one.
const UNKNOWN_KEY: &str = "provisioner daemon key invalid";
/// What its database layer says of somebody who may not; the handlers that make and delete keys answer it with a 500.
const DENIED: &str = "rbac: forbidden";
/// Longer than any plaintext of coderd (43 characters).
const LONGEST_PLAINTEXT: usize = 256;

/// An organisation: its id stays what it is when somebody renames it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Organization {
    /// Its id.
    pub id: Uuid,
    /// Its name now.
    pub name: String,
    /// Whether `default` means it.
    #[serde(default)]
    pub is_default: bool,
}

/// A provisioner key, without its plaintext: coderd shows that once, when the key is made.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct ProvisionerKey {
    /// Its id.
    pub id: Uuid,
    /// Its name, which coderd stores in lower case and deletes it by.
    pub name: String,
    /// The organisation it belongs to.
    #[serde(rename = "organization")]
    pub organization_id: Uuid,
    /// When it was made.
    #[serde(deserialize_with = "time")]
    pub created_at: Timestamp,
    /// What its daemons are tagged with. They never change.
    #[serde(default, deserialize_with = "map")]
    pub tags: Tags,
}

impl ProvisionerKey {
    /// Whether it has this name: of two that differ in case alone, coderd accepts one.
    pub fn is_named(&self, name: &str) -> bool {
        self.name.to_lowercase() == name.to_lowercase()
    }
}

/// A key with the daemons that came with it and were heard of within the last three minutes.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct KeyDaemons {
    /// The key, also one of coderd's own.
    pub key: ProvisionerKey,
    /// Its daemons, by name.
    #[serde(default, deserialize_with = "list")]
    pub daemons: Vec<ProvisionerDaemon>,
}

/// A daemon. coderd does not say in this list whether it is busy.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct ProvisionerDaemon {
    /// Its id.
    pub id: Uuid,
    /// Its name: that of its pod.
    pub name: String,
    /// The release it was built from.
    #[serde(default)]
    pub version: String,
    /// Its last heartbeat; they come every minute.
    #[serde(default, deserialize_with = "some_time")]
    pub last_seen_at: Option<Timestamp>,
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

fn time<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Timestamp, D::Error> {
    String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
}

fn some_time<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Timestamp>, D::Error> {
    let text: Option<String> = Option::deserialize(deserializer)?;
    text.map(|text| text.parse()).transpose().map_err(de::Error::custom)
}

/// Go writes a map that was never made as null.
fn map<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Tags, D::Error> {
    Option::deserialize(deserializer).map(Option::unwrap_or_default)
}

fn list<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<ProvisionerDaemon>, D::Error> {
    Option::deserialize(deserializer).map(Option::unwrap_or_default)
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

    /// The provisioner keys of an organisation, oldest first, without coderd's own. Every member of it sees them.
    /// [`Error::NotLicensed`] without the license.
    pub async fn provisioner_keys(&self, organization: Uuid) -> Result<Vec<ProvisionerKey>, Error> {
        self.call(Request::provisioner_keys(organization)).await.and_then(|answer| answer.list())
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

    /// The keys of an organisation with their daemons, coderd's own keys included.
    pub async fn provisioner_key_daemons(&self, organization: Uuid) -> Result<Vec<KeyDaemons>, Error> {
        self.call(Request::provisioner_key_daemons(organization)).await.and_then(|answer| answer.list())
    }

    /// How many jobs of an organisation wait for daemons that have a key with these tags. coderd shows this to owners and
    /// to administrators of the organisation (or of its templates) alone; others get [`Error::NotFoundOrForbidden`].
    pub async fn pending_jobs(&self, organization: Uuid, tags: &Tags) -> Result<PendingJobs, Error> {
        let request = Request::pending_jobs(organization, &jobs::filter(tags));
        let listed = self.call(request).await.and_then(|answer| answer.list::<jobs::Job>())?;
        Ok(jobs::waiting_for(tags, &listed))
    }
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
        let operation = self.operation;
        if !self.status.is_success() {
            return Err(self.refusal());
        }
        let created: Option<Created<'_>> = serde_json::from_slice(&self.body).ok();
        let key = created.map(|created| created.key).filter(|key| could_be_sent(key));
        let key = key.map(|key| Confidential::new(key.to_owned()));
        // Where nobody else holds it: what the transport has copied is out of reach.
        if let Ok(mut body) = self.body.try_into_mut() {
            body.as_mut().zeroize();
        }
        key.ok_or(Error::Malformed { operation })
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

    /// The failure of a write, also where coderd takes a denial for an error of its own.
    fn refusal(&self) -> Error {
        let denied = self.status == StatusCode::INTERNAL_SERVER_ERROR && self.said().detail.contains(DENIED);
        if denied { Error::Forbidden { operation: self.operation } } else { self.failure() }
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
mod tests {
    use super::*;
    use bytes::Bytes;
    use serde_json::{Value, json};

    const ID: &str = "6f1f6a3e-0000-4000-8000-000000000001";

    fn answer(operation: Operation, status: u16, body: &Value) -> Answer {
        Answer {
            operation,
            status: StatusCode::from_u16(status).unwrap(),
            retry_after: None,
            location: None,
            body: Bytes::from(body.to_string()),
            secrets: Vec::new(),
        }
    }

    fn key(tags: &Value) -> Value {
        json!({ "id": ID, "name": "eu", "organization": ID, "created_at": "2026-11-18T00:00:00.123456Z", "tags": tags,
            "a field of tomorrow": {} })
    }

    #[test]
    fn keys_and_daemons_are_read_with_null_for_nothing() {
        let keys = json!([key(&json!({ "zone": "eu" })), key(&Value::Null)]);
        let keys: Vec<ProvisionerKey> = answer(Operation::ProvisionerKeys, 200, &keys).list().unwrap();
        assert_eq!((keys[0].id, keys[0].organization_id), (ID.parse().unwrap(), ID.parse().unwrap()));
        assert_eq!(keys[0].created_at.to_string(), "2026-11-18T00:00:00.123456Z");
        assert_eq!((keys[0].tags["zone"].as_str(), keys[1].tags.len()), ("eu", 0));
        let daemon =
            json!({ "id": ID, "name": "pod", "version": "v2.36.1", "last_seen_at": null, "status": null });
        let mut unset = key(&Value::Null);
        // Go's zero time, for a key that no database has.
        unset["created_at"] = json!("0001-01-01T00:00:00Z");
        let listed =
            json!([{ "key": key(&Value::Null), "daemons": [daemon] }, { "key": unset, "daemons": null }]);
        let listed: Vec<KeyDaemons> = answer(Operation::ProvisionerKeyDaemons, 200, &listed).list().unwrap();
        assert_eq!((listed[0].daemons[0].name.as_str(), listed[0].daemons[0].last_seen_at), ("pod", None));
        assert_eq!((listed[1].daemons.len(), listed[1].key.created_at.as_second()), (0, -62_135_596_800));
        let operation = Operation::ProvisionerKeys;
        for broken in [json!([{ "id": ID }]), json!([{ "id": "7" }]), json!({}), json!("text")] {
            let read = answer(operation, 200, &broken).list::<ProvisionerKey>();
            assert_eq!(read, Err(Error::Malformed { operation }), "{broken}");
        }
    }

    #[test]
    fn a_plaintext_is_read_once_and_a_denial_is_known_whatever_its_status() {
        let operation = Operation::CreateProvisionerKey;
        let created = |status, body: Value| answer(operation, status, &body).created_key();
        let plaintext = Confidential::new("x".repeat(43));
        assert_eq!(created(201, json!({ "key": plaintext.expose() })), Ok(plaintext));
        let said = json!({ "message": "An internal server error occurred.", "detail": "unauthorized: rbac: forbidden" });
        assert_eq!(created(500, said), Err(Error::Forbidden { operation }));
        assert_eq!(created(500, json!({})), Err(Error::Server { operation, status: 500 }));
        assert_eq!(created(409, json!({})), Err(Error::Conflict { operation }));
    }

    #[test]
    fn only_a_404_of_the_key_itself_counts_as_not_there() {
        let operation = Operation::DeleteProvisionerKey;
        let deleted = |status, body: Value| answer(operation, status, &body).deletion();
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
            answer(operation, status, &json!({ "message": message })).identified_key()
        };
        assert_eq!((identified(401, UNKNOWN_KEY), identified(400, UNKNOWN_KEY)), (Ok(None), Ok(None)));
        assert_eq!(identified(401, "sign in"), Err(Error::Unauthorized { operation }));
        assert_eq!(identified(404, UNKNOWN_KEY), Err(Error::NotFoundOrForbidden { operation }));
        assert_eq!(identified(500, UNKNOWN_KEY), Err(Error::Server { operation, status: 500 }));
        let known = answer(operation, 200, &key(&Value::Null)).identified_key().unwrap();
        assert_eq!(known.map(|key| key.name).as_deref(), Some("eu"));
    }
}
