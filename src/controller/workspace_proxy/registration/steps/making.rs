//! Decides how a registration comes to be: from nothing, by a request whose answer may be lost, from one of others that an annotation
//! names. It never takes what another object has recorded.

use super::super::record::{Record, Registration};
use super::super::seen::{Material, ProxyFacts, Seen, Sight};
use super::{Left, Step, Wait, unrecorded};
use crate::coderd::Uuid;
use crate::controller::attached::claims::is_same;

/// Registrations on their way out at most: more than one only while a control plane cannot be reached. The schema says the same.
const MOST_RETIRING: usize = 6;

impl Seen<'_> {
    /// Something is being made: it is proven and used, made, or given up.
    pub(super) fn go_on_with(&self, pending: &Registration) -> Step {
        if pending.home != self.desired.home {
            return self.give_up_elsewhere(pending);
        }
        if let Some(wait) = self.is_unseen() {
            return Step::Wait(wait);
        }
        match (pending.id, self.is_unread()) {
            (Some(id), _) => self.go_on_with_token(pending, id),
            (None, Some(wait)) => Step::Wait(wait),
            (None, None) => self.go_on_with_creation(pending),
        }
    }

    /// A registration is being made.
    fn go_on_with_creation(&self, pending: &Registration) -> Step {
        if let Some(found) = self.proven_for(pending) {
            let rotated_for = self.token_of(found.id).cloned().flatten();
            return Step::record(self.record.using(self.found(found), rotated_for, self.now));
        }
        let is_stale = !is_same(&pending.name, &self.desired.name);
        let named = self.proxies.into_iter().flatten().find(|one| is_same(&one.name, &pending.name));
        match named {
            // Its token was in an answer that is lost.
            Some(found) if self.is_made_for(found, pending) => {
                let known = Registration { id: Some(found.id), ..pending.clone() };
                Step::record(self.record.intending(known))
            }
            Some(_) => Step::record(self.record.forgetting_pending()),
            None if is_stale => Step::record(self.record.forgetting_pending()),
            None => self.may_make().map_or(Step::Create, Step::Wait),
        }
    }

    /// The proxy that we asked for, if its token is in the Secret.
    fn proven_for(&self, pending: &Registration) -> Option<&ProxyFacts> {
        let Material::Is(id, _) = self.material else { return None };
        self.of_id(*id).filter(|found| self.is_made_for(found, pending))
    }

    /// Whether a proxy is the one that this object asked for, and that nobody else has recorded.
    fn is_made_for(&self, found: &ProxyFacts, intent: &Registration) -> bool {
        found.is_made_for(intent, &self.desired.origin) && !self.is_of_others(found.id)
    }

    /// The token of a registration is being replaced.
    fn go_on_with_token(&self, pending: &Registration, id: Uuid) -> Step {
        let Some(found) = self.of_id(id) else {
            return Step::record(self.record.without_id(&pending.home, id));
        };
        match self.token_of(id) {
            Some(rotation) if self.is_rotated(rotation) || self.is_new(pending, rotation) => {
                let (name, brought) = (found.name.clone(), self.desired.brought);
                let known = Registration { name, brought, ..pending.clone() };
                Step::record(self.record.using(known, rotation.clone(), self.now))
            }
            // What belongs to others still is taken only as long as somebody asks for it.
            _ if self.record.is_adopting(pending) => match self.may_make() {
                _ if !self.is_asked_for(pending, id) => Step::record(self.record.not_adopting()),
                // Once coderd was asked, the token of before may be gone: whoever had it is helped by no waiting.
                _ if self.of_others.is_any_unread() && !pending.attempted => Step::Wait(Wait::Others),
                wait => wait.map_or(Step::Regenerate(id), Step::Wait),
            },
            _ => self.may_write().map_or(Step::Regenerate(id), Step::Wait),
        }
    }

    /// Whether the spec and the annotation still ask for a proxy of others, and nobody has recorded it meanwhile.
    fn is_asked_for(&self, pending: &Registration, id: Uuid) -> bool {
        let is_named = self.desired.adopt.as_ref().is_some_and(|name| is_same(name, &pending.name));
        is_named
            && is_same(&self.desired.name, &pending.name)
            && !self.of_others.has_in_database(&self.desired.home, id)
    }

    /// Whether a token was put into the Secret after it was asked for: for a rotation other than that of the one before.
    fn is_new(&self, pending: &Registration, rotation: &Option<String>) -> bool {
        pending.attempted && rotation.is_some() && *rotation != self.record.rotated_for
    }

    /// What was being made is for another coderd than the one that is asked for now.
    fn give_up_elsewhere(&self, pending: &Registration) -> Step {
        let forget = || self.record.forgetting_pending();
        if self.record.is_adopting(pending) {
            let left = pending.attempted.then(|| Left::of(pending));
            return Step::Record(Box::new(self.record.not_adopting()), left.into_iter().collect());
        }
        let is_in_use = self.record.current.as_ref().is_some_and(|current| {
            current.home.deployment == pending.home.deployment && current.id == pending.id
        });
        if is_in_use || !pending.attempted && pending.id.is_none() {
            return Step::record(forget());
        }
        match self.pending_elsewhere {
            Some(Sight::Absent) => Step::record(forget()),
            Some(Sight::HomeGone | Sight::OtherDatabase) => {
                Step::Record(Box::new(forget()), vec![Left::of(pending)])
            }
            Some(Sight::There | Sight::Unreachable | Sight::NotLicensed) | None => {
                let mut record = forget();
                record.retiring.push(pending.clone());
                Step::record(record)
            }
        }
    }

    /// Nothing is in use here: what the Secret proves to be ours is used, else a registration is made.
    pub(super) fn begin(&self) -> Step {
        if let Some(wait) = self.is_unseen().or_else(|| self.is_unread()) {
            return Step::Wait(wait);
        }
        if let Some(ours) = unrecorded(self) {
            let rotated_for = ours.id.and_then(|id| self.token_of(id)).cloned().flatten();
            return Step::record(self.record.using(ours, rotated_for, self.now));
        }
        if let Some(wait) = self.may_make() {
            return Step::Wait(wait);
        }
        if self.record.retiring.len() + 2 > MOST_RETIRING {
            let tidied = self.tidy().filter(|step| !matches!(step, Step::Wait(_)));
            return tidied.or_else(|| self.forget_database()).unwrap_or(Step::Wait(Wait::TooMany));
        }
        match self.of_name() {
            None => {
                let intent = Registration {
                    home: self.desired.home.clone(),
                    name: self.desired.name.clone(),
                    id: None,
                    since: self.now,
                    attempted: false,
                    brought: self.desired.brought,
                };
                Step::record(self.record.intending(intent))
            }
            // One that was on its way out, and is asked for again.
            Some(found) if self.is_recorded(found) => Step::record(self.record.intending(self.found(found))),
            Some(found) => self.adopt(found),
        }
    }

    /// Whether a proxy here is one of ours, perhaps made before its id was known. What it says of its maker only an owner of coderd
    /// could have written, who may do with it what we may.
    fn is_recorded(&self, found: &ProxyFacts) -> bool {
        let is_made = found.is_made_by(&self.desired.origin) && !self.is_primary(found.id);
        self.record.knows(&self.desired.home, found.id)
            || self.was_at_another_address(found.id)
            || is_made && !self.is_of_others(found.id)
    }

    /// Whether a proxy is one of ours that another address led to, by what this coderd says of itself. It is shown no token, and
    /// gives another with credentials of the spec, whose author may do so anyway; the operator lends its own to nobody's claim.
    fn was_at_another_address(&self, id: Uuid) -> bool {
        let here = &self.desired.home;
        self.desired.brought
            && here.address.is_some()
            && self.record.knows_by_address(&here.deployment, id)
            && !self.is_primary(id)
            && !self.of_others.has_in_database(here, id)
    }

    /// Takes over the proxy of others that an annotation names, once. One that another object has recorded is left alone, and so
    /// is the control plane itself.
    fn adopt(&self, found: &ProxyFacts) -> Step {
        let is_named = self.desired.adopt.as_ref().is_some_and(|name| is_same(name, &found.name));
        let is_done = self.record.adopted.as_ref().is_some_and(|name| is_same(name, &found.name));
        let is_taken =
            self.is_primary(found.id) || self.of_others.has_in_database(&self.desired.home, found.id);
        if !is_named || is_done || is_taken {
            return Step::Wait(Wait::NameTaken);
        }
        if self.of_others.is_any_unread() {
            return Step::Wait(Wait::Others);
        }
        let adopted = Some(found.name.clone());
        Step::record(Record { adopted, adopting: Some(found.id), ..self.record.intending(self.found(found)) })
    }
}
