//! Provisioner keys: made once with a plaintext shown once, listed, deleted by name, proven by plaintext.
//! It proves a key by the hash of its plaintext; the plaintext itself is kept for the test alone and never printed.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use http::StatusCode;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::coderd::clock::Timestamp;
use crate::coderd::ids::Uuid;
use crate::coderd::pipeline::Inbound;
use crate::coderd::reply::{Answer, Reply};
use crate::coderd::routes::entitlements::EXTERNAL_PROVISIONER_DAEMONS;
use crate::coderd::routes::organizations::Organization;
use crate::coderd::secrets::{self, Plaintext};
use crate::coderd::server::Coderd;
use crate::coderd::state::ServerState;

pub(in crate::coderd) const DAEMON_KEY_HEADER: &str = "coder-provisioner-daemon-key";
const PLAINTEXT_LENGTH: usize = 43;
const LONGEST_NAME: usize = 64;
const RESERVED: [(u128, &str); 3] = [(1, "built-in"), (2, "user-auth"), (3, "psk")];
const USER_AUTH: Uuid = Uuid::from_number(2);

#[derive(Clone, Debug)]
pub(in crate::coderd) struct StoredKey {
    pub(in crate::coderd) id: Uuid,
    pub(in crate::coderd) organization: Uuid,
    pub(in crate::coderd) name: String,
    pub(in crate::coderd) tags: BTreeMap<String, String>,
    created_at: Timestamp,
    hashed_secret: Vec<u8>,
    plaintext: Plaintext,
}

impl StoredKey {
    fn is_reserved(&self) -> bool {
        RESERVED.iter().any(|(number, _)| self.id == Uuid::from_number(*number))
    }

    /// Note `organization`, not `organization_id`: coderd's own field name.
    fn shown(&self) -> Value {
        json!({
            "id": self.id.to_string(),
            "created_at": self.created_at.rfc3339(),
            "organization": self.organization.to_string(),
            "name": self.name,
            "tags": self.tags,
        })
    }
}

/// The keys a fresh database seeds in its default organisation; their empty hash matches no plaintext.
pub(in crate::coderd) fn reserved(organization: Uuid, now: Timestamp) -> Vec<StoredKey> {
    let seed = |(number, name): (u128, &str)| StoredKey {
        id: Uuid::from_number(number),
        organization,
        name: name.to_owned(),
        tags: BTreeMap::new(),
        created_at: now,
        hashed_secret: Vec::new(),
        plaintext: Plaintext::default(),
    };
    RESERVED.into_iter().map(seed).collect()
}

impl ServerState {
    /// The key a plaintext belongs to.
    pub(in crate::coderd) fn key_by_plaintext(&self, plaintext: &str) -> Option<&StoredKey> {
        let hash = secrets::hash(plaintext);
        self.keys.iter().find(|key| key.hashed_secret == hash)
    }

    fn key_by_name(&self, organization: Uuid, name: &str) -> Option<&StoredKey> {
        let name = name.to_lowercase();
        self.keys.iter().find(|key| key.organization == organization && key.name.to_lowercase() == name)
    }

    /// Stores a key, its name in lower case as coderd's INSERT does, and gives the plaintext.
    fn insert_key(&mut self, organization: Uuid, wish: KeyWish, now: Timestamp) -> String {
        let plaintext = secrets::random_string(PLAINTEXT_LENGTH);
        self.keys.push(StoredKey {
            id: Uuid::random(),
            organization,
            name: wish.name.to_lowercase(),
            tags: wish.tags.unwrap_or_default(),
            created_at: now,
            hashed_secret: secrets::hash(&plaintext),
            plaintext: Plaintext(plaintext.clone()),
        });
        plaintext
    }

    /// Deletes a key and, by cascade, the rows of its daemons; their open connections stay.
    fn delete_key(&mut self, id: Uuid) {
        self.keys.retain(|key| key.id != id);
        self.forget_daemons_of(id);
    }
}

/// The body of a create; coderd's decoder ignores what it does not know.
#[derive(Debug, Default, Deserialize)]
struct KeyWish {
    #[serde(default)]
    name: String,
    #[serde(default)]
    tags: Option<BTreeMap<String, String>>,
}

impl KeyWish {
    fn check(&self) -> Result<(), Reply> {
        let refuse = |text: String| Err(Reply::invalid(&text, &[("name".to_owned(), text.clone())]));
        if self.name.is_empty() {
            return refuse("Name is required".to_owned());
        }
        if self.name.len() > LONGEST_NAME {
            return refuse(format!("Name must be at most {LONGEST_NAME} characters"));
        }
        if RESERVED.iter().any(|(_, reserved)| reserved.eq_ignore_ascii_case(&self.name)) {
            return refuse(format!("Name cannot be reserved name '{}'", self.name));
        }
        Ok(())
    }
}

/// The checks in front of every organisation-scoped key route, in coderd's order: organisation, then license.
fn gate(state: &ServerState, inbound: &Inbound) -> Result<Organization, Reply> {
    let organization = state.readable_organization(inbound.caller(), inbound.param("org"))?;
    state.entitlements.require(EXTERNAL_PROVISIONER_DAEMONS)?;
    Ok(organization)
}

pub(in crate::coderd) fn create(state: &mut ServerState, inbound: &Inbound) -> Answer {
    let organization = gate(state, inbound)?;
    let wish: KeyWish =
        serde_json::from_slice(&inbound.body).map_err(|problem| Reply::not_json(&inbound.body, &problem))?;
    wish.check()?;
    may_write(inbound, &organization)?;
    if state.key_by_name(organization.id, &wish.name).is_some() {
        let text = format!("Provisioner key with name '{}' already exists in organization", wish.name);
        return Err(Reply::error(StatusCode::CONFLICT, &text));
    }
    let plaintext = state.insert_key(organization.id, wish, inbound.now);
    Ok(Reply::json(StatusCode::CREATED, &json!({ "key": plaintext })))
}

/// Neither 403 nor 404: coderd's handlers take the refusal of their database layer for an internal error.
fn may_write(inbound: &Inbound, organization: &Organization) -> Result<(), Reply> {
    if inbound.caller().may_manage_provisioners(organization.id) {
        return Ok(());
    }
    let (text, detail) = ("An internal server error occurred.", "unauthorized: rbac: forbidden");
    Err(Reply::detailed(StatusCode::INTERNAL_SERVER_ERROR, text, detail))
}

/// The keys of an organisation, which every member of it sees.
fn keys_of(state: &ServerState, organization: Uuid) -> Vec<StoredKey> {
    state.keys.iter().filter(|key| key.organization == organization).cloned().collect()
}

pub(in crate::coderd) fn list(state: &mut ServerState, inbound: &Inbound) -> Answer {
    let organization = gate(state, inbound)?;
    let keys = keys_of(state, organization.id);
    let shown = keys.iter().filter(|key| !key.is_reserved()).map(StoredKey::shown).collect();
    Ok(Reply::json(StatusCode::OK, &shown))
}

pub(in crate::coderd) fn list_with_daemons(state: &mut ServerState, inbound: &Inbound) -> Answer {
    let organization = gate(state, inbound)?;
    let mut keys = keys_of(state, organization.id);
    if !keys.iter().any(|key| key.id == USER_AUTH) {
        // Only the default organisation has the row; coderd makes one up everywhere else.
        let made_up = reserved(organization.id, Timestamp::GO_ZERO);
        keys.extend(made_up.into_iter().filter(|key| key.id == USER_AUTH));
    }
    let with_daemons = |key: &StoredKey| {
        let daemons = state.recent_daemons_of(key.id, inbound.now);
        json!({ "key": key.shown(), "daemons": daemons })
    };
    Ok(Reply::json(StatusCode::OK, &keys.iter().map(with_daemons).collect()))
}

pub(in crate::coderd) fn delete(state: &mut ServerState, inbound: &Inbound) -> Answer {
    let organization = gate(state, inbound)?;
    let key = state.key_by_name(organization.id, inbound.param("key")).ok_or_else(Reply::not_found)?;
    if key.is_reserved() {
        let text = format!("Cannot delete reserved '{}' provisioner key", key.name);
        return Err(Reply::error(StatusCode::BAD_REQUEST, &text));
    }
    may_write(inbound, &organization)?;
    let deletion = KeyDeletion {
        key: key.known(),
        plaintext: key.plaintext.clone(),
        connected: state.connected_daemons_of(key.id),
    };
    state.delete_key(deletion.key.id);
    state.key_deletions.push(deletion);
    Ok(Reply::empty(StatusCode::NO_CONTENT))
}

/// Proves a plaintext; needs no license and ignores the path.
pub(in crate::coderd) fn fetch_by_plaintext(state: &mut ServerState, inbound: &Inbound) -> Answer {
    let presented = inbound.headers.get(DAEMON_KEY_HEADER).and_then(|value| value.to_str().ok());
    let plaintext = presented.unwrap_or_default();
    if plaintext.is_empty() {
        return Err(Reply::error(StatusCode::UNAUTHORIZED, "provisioner daemon key required"));
    }
    let invalid = "provisioner daemon key invalid";
    if plaintext.len() != PLAINTEXT_LENGTH {
        let detail = format!("must be {PLAINTEXT_LENGTH} characters");
        return Err(Reply::detailed(StatusCode::BAD_REQUEST, invalid, &detail));
    }
    let key = state.key_by_plaintext(plaintext);
    let key = key.ok_or_else(|| Reply::error(StatusCode::UNAUTHORIZED, invalid))?;
    Ok(Reply::json(StatusCode::OK, &key.shown()))
}

/// A key as it exists in coderd.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProvisionerKey {
    /// Its id.
    pub id: Uuid,
    /// Its organisation.
    pub organization: Uuid,
    /// Its name, in lower case.
    pub name: String,
    /// Its tags.
    pub tags: BTreeMap<String, String>,
}

impl StoredKey {
    fn known(&self) -> ProvisionerKey {
        ProvisionerKey {
            id: self.id,
            organization: self.organization,
            name: self.name.clone(),
            tags: self.tags.clone(),
        }
    }
}

/// A key that a client has deleted.
#[derive(Clone, Debug)]
pub struct KeyDeletion {
    /// The key.
    pub key: ProvisionerKey,
    /// The daemons that were connected with it, and still are.
    pub connected: Vec<String>,
    plaintext: Plaintext,
}

impl KeyDeletion {
    /// Whether this was its plaintext.
    pub fn had(&self, plaintext: &str) -> bool {
        self.plaintext.0 == plaintext
    }
}

/// Who is told of every deletion, and may object.
type Objection = dyn Fn(&KeyDeletion) -> Result<(), String> + Send + Sync;

/// The one who is told, if anybody wants to be.
#[derive(Clone, Default)]
pub(in crate::coderd) struct DeletionWatch(Option<Arc<Objection>>);

impl fmt::Debug for DeletionWatch {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_tuple("DeletionWatch").field(&self.0.is_some()).finish()
    }
}

impl DeletionWatch {
    /// What there is to object to these deletions.
    pub(in crate::coderd) fn objections(&self, deletions: &[KeyDeletion]) -> Vec<String> {
        let Some(objection) = &self.0 else { return Vec::new() };
        deletions.iter().filter_map(|deletion| objection(deletion).err()).collect()
    }
}

impl Coderd {
    /// Tells of every key that a client deletes, before the client has its answer. An error is a violation: it fails the
    /// test as a request outside the contract does. Only one is told at a time: the next call replaces the first.
    pub fn on_key_deletion(
        &self,
        objection: impl Fn(&KeyDeletion) -> Result<(), String> + Send + Sync + 'static,
    ) {
        self.watch_deletions(DeletionWatch(Some(Arc::new(objection))));
    }

    /// The plaintext of a key by its name, in any case, as whoever made it was shown. For what a test asserts, never for
    /// what it does in a client's stead.
    ///
    /// # Panics
    /// If the organisation is unknown.
    pub fn plaintext_of(&self, organization: &str, name: &str) -> Option<String> {
        let state = self.state();
        let organization = state.organization_named(organization).id;
        let key = state.key_by_name(organization, name).filter(|key| !key.is_reserved());
        key.map(|key| key.plaintext.0.clone())
    }

    /// Makes a key as somebody else would, in the UI say, and gives the plaintext only that person would know.
    ///
    /// # Panics
    /// If the organisation is unknown or coderd would refuse the name.
    pub fn add_provisioner_key(&self, organization: &str, name: &str, tags: &[(&str, &str)]) -> String {
        let tags = tags.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let wish = KeyWish { name: name.to_owned(), tags: Some(tags) };
        assert!(wish.check().is_ok(), "coderd refuses the key name {name:?}");
        let now = self.clock().now();
        let mut state = self.state();
        let organization = state.organization_named(organization).id;
        assert!(state.key_by_name(organization, name).is_none(), "the double already has a key {name:?}");
        state.insert_key(organization, wish, now)
    }

    /// Deletes a key as somebody else would.
    ///
    /// # Panics
    /// If there is no such key.
    pub fn remove_provisioner_key(&self, organization: &str, name: &str) {
        let mut state = self.state();
        let organization = state.organization_named(organization).id;
        let id = state.key_by_name(organization, name).map(|key| key.id);
        state.delete_key(id.unwrap_or_else(|| panic!("the double has no key {name:?}")));
    }

    /// The keys that exist in an organisation, oldest first, without the reserved ones.
    ///
    /// # Panics
    /// If the organisation is unknown.
    pub fn provisioner_keys(&self, organization: &str) -> Vec<ProvisionerKey> {
        let state = self.state();
        let organization = state.organization_named(organization).id;
        let keys = state.keys.iter().filter(|key| key.organization == organization && !key.is_reserved());
        keys.map(StoredKey::known).collect()
    }

    /// The id of the key a plaintext belongs to, if it still opens the door.
    pub fn key_proven_by(&self, plaintext: &str) -> Option<Uuid> {
        self.state().key_by_plaintext(plaintext).map(|key| key.id)
    }
}
