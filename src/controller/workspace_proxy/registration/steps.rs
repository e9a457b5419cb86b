//! Decides the next step towards one registration in coderd whose token is in the Secret, from what is recorded and seen; pure, the
//! time too. A token is replaced only where nobody has one that works or somebody asks for it, nothing is taken over that is not
//! ours, and nothing is deleted that is not recorded.

use super::record::{Record, Registration};
use super::seen::{Material, ProxyFacts, Seen, Sight};
use crate::coderd::Uuid;
use crate::controller::attached::claims::is_same;
use crate::controller::attached::secret::SecretPlace;

/// Registrations on their way out at most: more than one only while a control plane cannot be reached. The schema says the same.
const MOST_RETIRING: usize = 6;

/// Why nothing is done now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Wait {
    /// coderd did not tell what is needed.
    Coderd,
    /// The license does not cover workspace proxies.
    Entitlement,
    /// Pods are on their way to the registration in use.
    Rollout,
    /// The Secret that is asked for is somebody else's.
    SecretNotOurs,
    /// The Secret that is asked for is ours, and nobody can change it any more.
    SecretImmutable,
    /// Another object has the older claim on the name.
    Claimed,
    /// coderd has a proxy of this name that is not ours.
    NameTaken,
    /// The coderd of a registration on its way out cannot be asked; everything else is as it should be.
    Elsewhere,
    /// A token was made a moment ago and was not accepted: the next one is made after a while.
    Pause,
    /// Too many registrations are on their way out of control planes that cannot be asked.
    TooMany,
}

/// A registration that stays in coderd, by name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Left(pub String);

/// One step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Step {
    /// Put the finalizer on the object: somebody must be there to undo what follows.
    AddFinalizer,
    /// Record this, and tell what was left.
    Record(Box<Record>, Vec<Left>),
    /// Make the registration that is recorded as pending, and put its token into its place.
    Create,
    /// Replace the token of the registration that is recorded as pending, and put it into its place.
    Regenerate(Uuid),
    /// Give this proxy the name, display name and icon that are asked for.
    Update(Uuid),
    /// Copy the token in use from this place to the one that is asked for.
    Copy(SecretPlace),
    /// Remove what a place holds that is no longer read.
    Empty(SecretPlace),
    /// Delete a registration of ours.
    Delete(Registration),
    /// Nothing can be done now.
    Wait(Wait),
    /// Nothing is left to do.
    Rest,
}

impl Step {
    fn record(record: Record) -> Self {
        Self::Record(Box::new(record), Vec::new())
    }
}

/// The next step.
pub(crate) fn next(seen: &Seen<'_>) -> Step {
    if !seen.has_finalizer {
        return Step::AddFinalizer;
    }
    match (&seen.record.pending, &seen.record.current) {
        (Some(pending), _) => seen.go_on_with(pending),
        (None, Some(current)) => seen.keep(current),
        (None, None) => seen.begin(),
    }
}

/// The registration that the Secret proves to be ours although nothing is recorded: of the older operator, or of a status that
/// was lost.
pub(crate) fn unrecorded(seen: &Seen<'_>) -> Option<Registration> {
    let Material::Is(id, _) = seen.material else { return None };
    let found = seen.of_id(*id).filter(|_| !seen.claimed && !seen.of_others.contains(id))?;
    Some(seen.found(found))
}

impl Seen<'_> {
    fn of_id(&self, id: Uuid) -> Option<&ProxyFacts> {
        self.proxies?.iter().find(|one| one.id == id)
    }

    /// The proxy that has the name that is asked for.
    fn of_name(&self) -> Option<&ProxyFacts> {
        self.proxies?.iter().find(|one| is_same(&one.name, &self.desired.name))
    }

    /// A proxy that coderd has, as it is recorded.
    fn found(&self, facts: &ProxyFacts) -> Registration {
        Registration {
            home: self.desired.home.clone(),
            name: facts.name.clone(),
            id: Some(facts.id),
            since: self.now,
            attempted: false,
        }
    }

    /// The rotation of the token of this proxy in the Secret, if there is one that coderd accepts.
    fn token_of(&self, id: Uuid) -> Option<&Option<String>> {
        match self.material {
            Material::Is(of, rotation) if *of == id => Some(rotation),
            _ => None,
        }
    }

    /// Whether a token for this rotation is what is asked for.
    fn is_rotated(&self, rotation: &Option<String>) -> bool {
        let asked = &self.desired.rotate;
        asked.is_none() || asked == rotation || *asked == self.record.rotated_for
    }

    /// Why nothing can be concluded: an answer did not come.
    fn is_unseen(&self) -> Option<Wait> {
        let is_unseen = self.proxies.is_none() || *self.material == Material::Unproven;
        is_unseen.then_some(if self.entitled { Wait::Coderd } else { Wait::Entitlement })
    }

    /// What stands in the way of a new registration.
    fn may_make(&self) -> Option<Wait> {
        self.claimed.then_some(Wait::Claimed).or_else(|| self.may_write())
    }

    /// What stands in the way of a new token. Of its own name an older object keeps nobody from one.
    fn may_write(&self) -> Option<Wait> {
        if *self.material == Material::Foreign {
            return Some(Wait::SecretNotOurs);
        }
        if self.is_immutable {
            return Some(Wait::SecretImmutable);
        }
        if !self.entitled {
            return Some(Wait::Entitlement);
        }
        self.paused.then_some(Wait::Pause)
    }

    /// Something is being made: it is proven and used, made, or given up.
    fn go_on_with(&self, pending: &Registration) -> Step {
        if pending.home != self.desired.home {
            return self.give_up_elsewhere(pending);
        }
        if let Some(wait) = self.is_unseen() {
            return Step::Wait(wait);
        }
        match pending.id {
            Some(id) => self.go_on_with_token(pending, id),
            None => self.go_on_with_creation(pending),
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
            Some(found) if found.is_made_for(pending) => {
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
        self.of_id(*id).filter(|found| found.is_made_for(pending))
    }

    /// The token of a registration is being replaced.
    fn go_on_with_token(&self, pending: &Registration, id: Uuid) -> Step {
        let Some(found) = self.of_id(id) else {
            return Step::record(self.record.without_id(&pending.home, id));
        };
        match self.token_of(id) {
            Some(rotation) if self.is_rotated(rotation) || self.is_new(pending, rotation) => {
                let known = Registration { name: found.name.clone(), ..pending.clone() };
                Step::record(self.record.using(known, rotation.clone(), self.now))
            }
            // What belongs to others still is taken only as long as somebody asks for it.
            _ if self.record.is_adopting(pending) => match self.may_make() {
                _ if !self.is_asked_for(pending, id) => Step::record(self.record.not_adopting()),
                wait => wait.map_or(Step::Regenerate(id), Step::Wait),
            },
            _ => self.may_write().map_or(Step::Regenerate(id), Step::Wait),
        }
    }

    /// Whether the spec and the annotation still ask for a proxy of others, and nobody has recorded it meanwhile.
    fn is_asked_for(&self, pending: &Registration, id: Uuid) -> bool {
        let is_named = self.desired.adopt.as_ref().is_some_and(|name| is_same(name, &pending.name));
        is_named && is_same(&self.desired.name, &pending.name) && !self.of_others.contains(&id)
    }

    /// Whether a token was put into the Secret after it was asked for: for a rotation other than that of the one before.
    fn is_new(&self, pending: &Registration, rotation: &Option<String>) -> bool {
        pending.attempted && rotation.is_some() && *rotation != self.record.rotated_for
    }

    /// What was being made is for another coderd than the one that is asked for now.
    fn give_up_elsewhere(&self, pending: &Registration) -> Step {
        let forget = || self.record.forgetting_pending();
        // Behind another control plane the same database is the same coderd.
        if !pending.home.deployment.is_empty() && pending.home.deployment == self.desired.home.deployment {
            let known = Registration { home: self.desired.home.clone(), ..pending.clone() };
            return Step::record(self.record.intending(known));
        }
        if self.record.is_adopting(pending) {
            let left = pending.attempted.then(|| Left(pending.name.clone()));
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
            Some(Sight::HomeGone) => Step::Record(Box::new(forget()), vec![Left(pending.name.clone())]),
            Some(Sight::There | Sight::Unreachable | Sight::NotLicensed) | None => {
                let mut record = forget();
                record.retiring.push(pending.clone());
                Step::record(record)
            }
        }
    }

    /// Nothing is in use here: what the Secret proves to be ours is used, else a registration is made.
    fn begin(&self) -> Step {
        if let Some(wait) = self.is_unseen() {
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
            return self
                .tidy()
                .filter(|step| !matches!(step, Step::Wait(_)))
                .unwrap_or(Step::Wait(Wait::TooMany));
        }
        match self.of_name() {
            None => {
                let intent = Registration {
                    home: self.desired.home.clone(),
                    name: self.desired.name.clone(),
                    id: None,
                    since: self.now,
                    attempted: false,
                };
                Step::record(self.record.intending(intent))
            }
            // One that was on its way out, and is asked for again.
            Some(found) if self.is_recorded(found) => Step::record(self.record.intending(self.found(found))),
            Some(found) => self.adopt(found),
        }
    }

    /// Whether a proxy here is one of ours, perhaps on its way out before its id was known.
    fn is_recorded(&self, found: &ProxyFacts) -> bool {
        let here =
            self.record.retiring.iter().filter(|one| one.home == self.desired.home && one.id.is_none());
        self.record.knows(&self.desired.home, found.id) || here.into_iter().any(|one| found.is_made_for(one))
    }

    /// Takes over the proxy of others that an annotation names, once. One that another object has recorded is left alone.
    fn adopt(&self, found: &ProxyFacts) -> Step {
        let is_named = self.desired.adopt.as_ref().is_some_and(|name| is_same(name, &found.name));
        let is_done = self.record.adopted.as_ref().is_some_and(|name| is_same(name, &found.name));
        if !is_named || is_done || self.of_others.contains(&found.id) {
            return Step::Wait(Wait::NameTaken);
        }
        let adopted = Some(found.name.clone());
        Step::record(Record { adopted, ..self.record.intending(self.found(found)) })
    }

    /// A registration is in use: it stays, with the name and appearance of the spec and with a token that works.
    fn keep(&self, current: &Registration) -> Step {
        if current.home != self.desired.home {
            return self.leave(current);
        }
        if let Some(wait) = self.is_unseen() {
            return Step::Wait(wait);
        }
        let Some((id, found)) = current.id.and_then(|id| Some((id, self.of_id(id)?))) else {
            // Somebody removed it there.
            return Step::record(self.record.without(current));
        };
        if found.name != current.name {
            let known = Registration { name: found.name.clone(), ..current.clone() };
            return Step::record(self.record.known_as(known));
        }
        match self.token_of(id) {
            Some(rotation) if self.is_rotated(rotation) => self.update(found, rotation),
            Some(_) => self.replace_token(current),
            None => match self.former {
                Some((place, Material::Is(of, rotation))) if *of == id && self.is_rotated(rotation) => {
                    self.relocate(place)
                }
                Some((_, Material::Unproven)) => Step::Wait(Wait::Coderd),
                _ => self.replace_token(current),
            },
        }
    }

    /// The registration in use is in another coderd. Behind another control plane the same database is the same coderd.
    fn leave(&self, current: &Registration) -> Step {
        let is_same_coderd =
            !current.home.deployment.is_empty() && current.home.deployment == self.desired.home.deployment;
        let is_there = current.id.is_some_and(|id| self.of_id(id).is_some());
        if let Some(wait) = self.is_unseen().filter(|_| is_same_coderd) {
            return Step::Wait(wait);
        }
        if is_same_coderd && is_there {
            let known = Registration { home: self.desired.home.clone(), ..current.clone() };
            return Step::record(self.record.known_as(known));
        }
        // Pods that stay where they are would be started again with a token of another coderd.
        if !self.may_roll {
            return Step::Wait(Wait::Rollout);
        }
        self.begin()
    }

    /// The token that works is copied to where it is asked for.
    fn relocate(&self, from: &SecretPlace) -> Step {
        match self.material {
            Material::Foreign => Step::Wait(Wait::SecretNotOurs),
            _ if self.is_immutable => Step::Wait(Wait::SecretImmutable),
            _ => Step::Copy(from.clone()),
        }
    }

    /// Nobody has a token that works, or somebody asks for another.
    fn replace_token(&self, current: &Registration) -> Step {
        match self.may_write() {
            None => {
                let intent = Registration { since: self.now, attempted: true, ..current.clone() };
                Step::record(self.record.intending(intent))
            }
            Some(wait) => Step::Wait(wait),
        }
    }

    /// Name and appearance are brought to what the spec asks for; a name of others stays theirs.
    fn update(&self, found: &ProxyFacts, rotation: &Option<String>) -> Step {
        let asked = &self.desired.rotate;
        if asked.is_some() && asked == rotation && self.record.rotated_for != *asked {
            return Step::record(Record { rotated_for: asked.clone(), ..self.record.clone() });
        }
        let desired = self.desired;
        let is_other = |other: &&ProxyFacts| other.id != found.id;
        let is_taken = self.of_name().filter(is_other).is_some();
        let is_renamed = found.name != desired.name;
        let differs = is_renamed || found.display_name != desired.display_name || found.icon != desired.icon;
        match () {
            () if is_renamed && is_taken => self.settle(Some(Wait::NameTaken)),
            () if is_renamed && self.claimed => self.settle(Some(Wait::Claimed)),
            () if differs && !self.entitled => self.settle(Some(Wait::Entitlement)),
            () if differs => Step::Update(found.id),
            () => self.settle(None),
        }
    }

    /// The registration in use is what it should be: what is left of earlier ones goes. What waits for another coderd keeps
    /// nothing else waiting.
    fn settle(&self, wait: Option<Wait>) -> Step {
        let emptied = || match self.former {
            Some((_, Material::Absent | Material::Foreign)) | None => None,
            Some(_) if !self.rolled => Some(Step::Wait(Wait::Rollout)),
            Some((place, _)) => Some(Step::Empty(place.clone())),
        };
        match (self.tidy(), emptied()) {
            (Some(step), _) | (_, Some(step)) if !matches!(step, Step::Wait(_)) => step,
            (left, emptied) => match wait.map(Step::Wait).or(left).or(emptied) {
                Some(step) => step,
                None => Step::Rest,
            },
        }
    }

    /// What is to be done about registrations on their way out; nothing if there are none.
    fn tidy(&self) -> Option<Step> {
        let mut wait = None;
        for (one, sight) in self.record.retiring.iter().zip(self.retiring) {
            let without = |left| Some(Step::Record(Box::new(self.record.without(one)), left));
            match sight {
                Sight::Absent => return without(Vec::new()),
                Sight::HomeGone => return without(vec![Left(one.name.clone())]),
                Sight::There if self.rolled => return Some(Step::Delete(one.clone())),
                Sight::There => wait = Some(Wait::Rollout),
                Sight::NotLicensed => wait = wait.or(Some(Wait::Entitlement)),
                Sight::Unreachable => wait = wait.or(Some(Wait::Elsewhere)),
            }
        }
        wait.map(Step::Wait)
    }
}

#[cfg(test)]
mod explorer;
#[cfg(test)]
mod tests;
