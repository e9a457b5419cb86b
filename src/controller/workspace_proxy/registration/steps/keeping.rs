//! Decides how a registration in use stays what the spec asks for, and how former ones go. A token that works is replaced only where
//! somebody asks for it.

use super::super::record::{Record, Registration, Replaced};
use super::super::seen::{Material, ProxyFacts, Seen, Sight};
use super::{Left, Step, Wait};
use crate::coderd::Uuid;
use crate::controller::attached::claims::is_same;
use crate::controller::attached::secret::SecretPlace;
use jiff::SignedDuration;

/// How often a token that somebody else replaced is replaced again, one after another.
const MOST_REPLACED: u32 = 3;
/// How long that is remembered.
const REMEMBERED: SignedDuration = SignedDuration::from_hours(24);

impl Seen<'_> {
    /// A registration is in use: it stays, with the name and appearance of the spec and with a token that works.
    pub(super) fn keep(&self, current: &Registration) -> Step {
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
        let known =
            Registration { name: found.name.clone(), brought: self.desired.brought, ..current.clone() };
        if known != *current {
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
                _ if *self.material == Material::Ended(id) => self.take_back(current),
                _ => self.replace_token(current),
            },
        }
    }

    /// The registration in use is in another coderd. Which database a coderd has is what it says of itself, so another control
    /// plane is taken for one in front of the same database only with a proof.
    fn leave(&self, current: &Registration) -> Step {
        let is_same_database = current.home.deployment == self.desired.home.deployment;
        if let Some(wait) = self.is_unseen().filter(|_| is_same_database).or_else(|| self.is_unread()) {
            return Step::Wait(wait);
        }
        if self.is_proven_here && self.is_as_recorded(current) {
            let (home, brought) = (self.desired.home.clone(), self.desired.brought);
            let known = Registration { home, brought, ..current.clone() };
            return Step::record(self.record.known_as(known));
        }
        // Pods that stay where they are would be started again with a token of another coderd.
        if !self.may_roll {
            let is_held = self.admission_disabled;
            return Step::Wait(if is_held { Wait::AdmissionDisabled } else { Wait::Rollout });
        }
        self.begin()
    }

    /// Whether the coderd that is asked for has a registration under its name, and nobody else has recorded it.
    fn is_as_recorded(&self, one: &Registration) -> bool {
        let is_of_others = |id: Uuid| self.of_others.has(&one.home, id) || self.is_of_others(id);
        let found = one.id.filter(|id| !is_of_others(*id)).and_then(|id| self.of_id(id));
        found.is_some_and(|found| is_same(&found.name, &one.name))
    }

    /// The token that works is copied to where it is asked for.
    fn relocate(&self, from: &SecretPlace) -> Step {
        match self.material {
            Material::Foreign => Step::Wait(Wait::SecretNotOurs),
            _ if self.is_immutable => Step::Wait(Wait::SecretImmutable),
            // Whoever may read that Secret would have it.
            _ if self.admission_disabled => Step::Wait(Wait::AdmissionDisabled),
            _ => Step::Copy(from.clone()),
        }
    }

    /// Nobody has a token that works, or somebody asks for another.
    fn replace_token(&self, current: &Registration) -> Step {
        self.intend_token(current, self.record.replaced.clone())
    }

    fn intend_token(&self, current: &Registration, replaced: Option<Replaced>) -> Step {
        match self.may_write() {
            None => {
                let intent = Registration { since: self.now, attempted: true, ..current.clone() };
                Step::record(Record { replaced, ..self.record.intending(intent) })
            }
            Some(wait) => Step::Wait(wait),
        }
    }

    /// Somebody else replaced the token in use. Whoever else works with this registration does the same in turn: that ends after a
    /// few times, unless a person asks for the next one.
    fn take_back(&self, current: &Registration) -> Step {
        let asked = &self.desired.rotate;
        if asked.is_some() && *asked != self.record.rotated_for {
            return self.intend_token(current, None);
        }
        let is_remembered = |before: &&Replaced| self.now.duration_since(before.last) < REMEMBERED;
        let times = self.record.replaced.as_ref().filter(is_remembered).map_or(0, |before| before.times);
        if times >= MOST_REPLACED {
            return Step::Wait(Wait::Contested);
        }
        self.intend_token(current, Some(Replaced { times: times + 1, last: self.now }))
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
            () if differs && self.admission_disabled => self.settle(Some(Wait::AdmissionDisabled)),
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

    /// Whether a registration is in use, whatever else is recorded of it: pods have its token, or are about to.
    fn is_used(&self, one: &Registration) -> bool {
        let is_same = |other: &Registration| {
            other.id.is_some() && other.id == one.id && other.home.deployment == one.home.deployment
        };
        let is_held = one.id.is_some_and(|id| self.token_of(id).is_some())
            && one.home.deployment == self.desired.home.deployment;
        is_held || self.record.current.iter().chain(&self.record.pending).any(is_same)
    }

    /// Without the oldest that waits for its database to come back.
    pub(super) fn forget_database(&self) -> Option<Step> {
        let mut all = self.record.retiring.iter().zip(self.retiring);
        let (one, _) = all.find(|(_, sight)| **sight == Sight::OtherDatabase)?;
        Some(Step::Record(Box::new(self.record.without_retiring(one)), vec![Left::of(one)]))
    }

    /// What is to be done about registrations on their way out; nothing if there are none.
    pub(super) fn tidy(&self) -> Option<Step> {
        let mut wait = None;
        for (one, sight) in self.record.retiring.iter().zip(self.retiring) {
            let without = |left| Some(Step::Record(Box::new(self.record.without_retiring(one)), left));
            if self.is_used(one) {
                return without(Vec::new());
            }
            if one.id.is_some_and(|id| self.of_others.has(&one.home, id)) {
                return without(vec![Left::of(one)]);
            }
            match sight {
                Sight::Absent => return without(Vec::new()),
                Sight::HomeGone => return without(vec![Left::of(one)]),
                Sight::There if self.is_unread().is_some() => wait = Some(Wait::Others),
                Sight::There if self.rolled => return Some(Step::Delete(one.clone())),
                Sight::There => wait = Some(Wait::Rollout),
                // It is known again when its database is back.
                Sight::OtherDatabase => {}
                Sight::NotLicensed => wait = wait.or(Some(Wait::Entitlement)),
                Sight::Unreachable => wait = wait.or(Some(Wait::Elsewhere)),
            }
        }
        wait.map(Step::Wait)
    }
}
