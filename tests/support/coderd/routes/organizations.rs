//! Organisations and the four ways to address one.
//! It never tells a caller whether an organisation they may not read exists.

use http::StatusCode;
use serde_json::{Value, json};

use crate::coderd::clock::Timestamp;
use crate::coderd::identity::User;
use crate::coderd::ids::Uuid;
use crate::coderd::pipeline::Inbound;
use crate::coderd::reply::{Answer, Reply};
use crate::coderd::server::Coderd;
use crate::coderd::state::ServerState;

#[derive(Clone, Debug)]
pub(in crate::coderd) struct Organization {
    pub(in crate::coderd) id: Uuid,
    name: String,
    is_default: bool,
    created_at: Timestamp,
    updated_at: Timestamp,
}

impl Organization {
    pub(in crate::coderd) fn new(name: &str, is_default: bool, now: Timestamp) -> Self {
        Self { id: Uuid::random(), name: name.to_owned(), is_default, created_at: now, updated_at: now }
    }

    /// Whether a path segment means this organisation.
    fn is_meant_by(&self, word: &str) -> bool {
        if word == "default" {
            return self.is_default;
        }
        match Uuid::parse(word) {
            Some(Uuid::NIL) => self.is_default,
            Some(id) => self.id == id,
            None => self.name.eq_ignore_ascii_case(word),
        }
    }

    fn shown(&self) -> Value {
        // The one that migrations made has their words; renaming it changes only the name.
        let (display_name, description) = match self.is_default {
            true => ("Coder", "Builtin default organization."),
            false => (self.name.as_str(), ""),
        };
        json!({
            "id": self.id.to_string(),
            "name": self.name,
            "display_name": display_name,
            "icon": "",
            "description": description,
            "created_at": self.created_at.rfc3339(),
            "updated_at": self.updated_at.rfc3339(),
            "is_default": self.is_default,
            "default_org_member_roles": ["organization-workspace-access"],
        })
    }
}

impl ServerState {
    /// The organisation a caller addresses, or the vague 404.
    pub(in crate::coderd) fn readable_organization(
        &self,
        caller: &User,
        word: &str,
    ) -> Result<Organization, Reply> {
        let meant = self.organizations.iter().find(|organization| organization.is_meant_by(word));
        let readable = meant.filter(|organization| caller.may_read_organization(organization.id));
        readable.cloned().ok_or_else(Reply::not_found)
    }

    /// The organisation a test addresses.
    pub(in crate::coderd) fn organization_named(&self, word: &str) -> &Organization {
        let meant = self.organizations.iter().find(|organization| organization.is_meant_by(word));
        meant.unwrap_or_else(|| panic!("the double has no organisation {word:?}"))
    }
}

pub(in crate::coderd) fn list(state: &mut ServerState, inbound: &Inbound) -> Answer {
    let caller = inbound.caller();
    let readable = state.organizations.iter().filter(|one| caller.may_read_organization(one.id));
    Ok(Reply::json(StatusCode::OK, &readable.map(Organization::shown).collect()))
}

pub(in crate::coderd) fn show(state: &mut ServerState, inbound: &Inbound) -> Answer {
    let organization = state.readable_organization(inbound.caller(), inbound.param("org"))?;
    Ok(Reply::json(StatusCode::OK, &organization.shown()))
}

impl Coderd {
    /// Adds an organisation and says its id.
    ///
    /// # Panics
    /// If the name is taken, in any case.
    pub fn add_organization(&self, name: &str) -> Uuid {
        let now = self.clock().now();
        let mut state = self.state();
        let taken = state.organizations.iter().any(|known| known.name.eq_ignore_ascii_case(name));
        assert!(!taken, "the double already has an organisation {name:?}");
        let organization = Organization::new(name, false, now);
        let id = organization.id;
        state.organizations.push(organization);
        id
    }

    /// The id of an organisation, addressed as in a path: `default`, a UUID or a name.
    ///
    /// # Panics
    /// If there is no such organisation.
    pub fn organization_id(&self, word: &str) -> Uuid {
        self.state().organization_named(word).id
    }

    /// Renames an organisation, as its admin would.
    ///
    /// # Panics
    /// If there is no such organisation.
    pub fn rename_organization(&self, word: &str, name: &str) {
        let id = self.organization_id(word);
        let now = self.clock().now();
        for organization in self.state().organizations.iter_mut().filter(|known| known.id == id) {
            name.clone_into(&mut organization.name);
            organization.updated_at = now;
        }
    }

    /// Deletes an organisation.
    ///
    /// # Panics
    /// If there is none, or it is the default one, or it still holds keys: coderd refuses all three.
    pub fn remove_organization(&self, word: &str) {
        let id = self.organization_id(word);
        let mut state = self.state();
        assert!(!state.organization_named(word).is_default, "the default organisation stays");
        assert!(
            !state.keys.iter().any(|key| key.organization == id),
            "organisation {word:?} still holds keys"
        );
        state.organizations.retain(|known| known.id != id);
    }
}
