//! Decides the next step towards one proven key in the Secret and none too many in coderd, from what is recorded and seen;
//! pure, the time too. A key is made, proven and rolled out before the one it replaces is deleted, and nothing is deleted that
//! is not recorded as ours.

mod lookups;
mod retiring;

pub(crate) use retiring::patience;

use super::record::{Home, Key, Record, SecretPlace};
use super::seen::{Listed, Material, Seen, Sight, find, is_same};
use std::collections::HashMap;

/// Keys of ours in one coderd at most: one in use, one being made, one on its way out.
const MOST_KEYS: usize = 3;
/// Keys on their way out at most: more than one only while a control plane cannot be reached. The schema says the same.
const MOST_RETIRING: usize = 6;
/// Places of plaintexts at most: more than one only while pods do not come. The schema says the same.
const MOST_PLACES: usize = 4;
/// Names of others that are told one by one; of more it is told how many there are.
const MOST_TOLD: usize = 3;

/// Why nothing is done now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Wait {
    /// coderd did not tell what is needed.
    Coderd,
    /// The license does not cover external provisioners.
    Entitlement,
    /// Pods are on their way to the key in use.
    Rollout,
    /// The Secret that is asked for is somebody else's.
    SecretNotOurs,
    /// The Secret that is asked for is ours, and nobody can change it any more.
    SecretImmutable,
    /// Another object has the older claim on the name.
    Claimed,
    /// The coderd of a key on its way out cannot be asked; everything else is as it should be.
    Elsewhere,
    /// A key was made a moment ago, or had to be given up: the next one is made after a while.
    Pause,
    /// Too many keys are on their way out of control planes that cannot be asked, or too many Secrets wait for pods.
    TooMany,
}

/// What others are told of a key that is not deleted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Left {
    /// Its name was taken by somebody else: ours has the next number.
    Taken(String),
    /// So many more names were taken.
    MoreTaken(usize),
    /// It is ours, and can never be reached again: its name, and where it is.
    Behind(String, Box<Home>),
    /// A status names it, and nobody can prove that it is ours.
    Unproven(String),
    /// It went with its organization.
    WithOrganization(String),
}

impl Left {
    /// That a key of ours stays where it is.
    pub(crate) fn behind(key: &Key) -> Self {
        Self::Behind(key.name.clone(), Box::new(key.home.clone()))
    }
}

/// One step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Step {
    /// Put the finalizer on the object: somebody must be there to undo what follows.
    AddFinalizer,
    /// Record this, and tell what was left.
    Record(Box<Record>, Vec<Left>),
    /// Make the key that is recorded as pending, and put its plaintext into its place.
    Create,
    /// Copy the plaintext of the key in use from this place to the one that is asked for.
    Move(SecretPlace),
    /// Remove what a place holds that is no longer asked for.
    Empty(SecretPlace),
    /// Delete a key of ours.
    Delete(Key),
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
        (None, None) => seen.begin(),
        (None, Some(current)) => seen.keep(current),
    }
}

/// What the Secret holds of which nothing is recorded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Unrecorded {
    /// Nothing of ours.
    Nothing,
    /// Something of which coderd did not tell what it is.
    Unknown,
    /// The plaintext of a key of ours, and what is to be recorded of it.
    Ours(Box<Record>),
}

/// What the Secret holds of which nothing is recorded.
pub(crate) fn unrecorded(seen: &Seen<'_>) -> Unrecorded {
    if seen.record.current.is_some() || seen.record.pending.is_some() {
        return Unrecorded::Nothing;
    }
    if let Some((place, facts)) = seen.proven(|facts| seen.is_ours(facts)) {
        let mut record = seen.known().using(seen.found(facts), place, seen.now);
        // What another place proves was in use before it.
        for (_, material) in seen.materials {
            if let Material::Is(other) = material
                && seen.is_ours(other)
                && !record.knows(&seen.desired.home, other.id)
            {
                record.retiring.push(Key { used: true, ..seen.found(other) });
            }
        }
        return Unrecorded::Ours(Box::new(record));
    }
    if seen.is_unproven() { Unrecorded::Unknown } else { Unrecorded::Nothing }
}

impl Seen<'_> {
    /// A key is being made: it is proven and used, made, or given up.
    fn go_on_with(&self, pending: &Key) -> Step {
        if pending.home != self.desired.home {
            return self.give_up_elsewhere(pending);
        }
        if let Some((place, facts)) = self.proven(|facts| facts.is(pending)) {
            let key = Key { id: Some(facts.id), ..pending.clone() };
            return Step::record(self.record.using(key, place, self.now));
        }
        let Some(listed) = self.listed.filter(|_| !self.is_unproven()) else {
            return Step::Wait(Wait::Coderd);
        };
        match find(listed, &pending.name) {
            // Its plaintext was in an answer that is lost, or nobody wants it any more.
            Some(found) if found.is_made_for(pending) => Step::record(self.record.giving_up(Some(found))),
            Some(found) => {
                let left = vec![Left::Taken(found.facts.name.clone())];
                Step::Record(Box::new(self.record.forgetting_pending()), left)
            }
            None if self.desired.is_stale(pending) => Step::record(self.record.forgetting_pending()),
            None => self.may_make().map_or_else(|| self.make(), Step::Wait),
        }
    }

    /// The name is free.
    fn make(&self) -> Step {
        if self.record.places.contains(&self.desired.place) { Step::Create } else { self.hold() }
    }

    /// The key that was being made is for another coderd than the one that is asked for now.
    fn give_up_elsewhere(&self, pending: &Key) -> Step {
        // Once its plaintext is in the Secret pods may have been started with it.
        let is_kept = self.keeps_elsewhere(pending);
        let used = |record: Record| match record.retiring.split_last() {
            Some((last, others)) if is_kept => {
                let retiring = others.iter().cloned().chain([Key { used: true, ..last.clone() }]).collect();
                Record { retiring, ..record }
            }
            _ => record,
        };
        match self.pending_elsewhere {
            Some(Sight::Listed(found))
                if found.is_made_for(pending) || is_kept && found.may_be_made_for(pending) =>
            {
                Step::record(used(self.record.giving_up(Some(found))))
            }
            Some(Sight::Listed(_) | Sight::Absent | Sight::OrganizationGone) => {
                Step::record(self.record.forgetting_pending())
            }
            Some(Sight::HomeGone) => {
                let left = if is_kept { vec![Left::behind(pending)] } else { Vec::new() };
                Step::Record(Box::new(self.record.forgetting_pending()), left)
            }
            // Whether it came to be is found out when that coderd can be asked.
            Some(Sight::Unreachable | Sight::NotLicensed) | None => {
                Step::record(used(self.record.giving_up(None)))
            }
        }
    }

    /// Nothing is recorded: what the Secret proves to be ours is used, else a key is made.
    fn begin(&self) -> Step {
        match unrecorded(self) {
            Unrecorded::Ours(record) => Step::Record(record, Vec::new()),
            Unrecorded::Unknown => Step::Wait(Wait::Coderd),
            Unrecorded::Nothing => self.replace(true),
        }
    }

    /// A key is in use: it stays while it is what the spec asks for and its plaintext is where it should be.
    fn keep(&self, current: &Key) -> Step {
        if current.home != self.desired.home {
            if self.would_mix() {
                return Step::Wait(Wait::Rollout);
            }
            // Nothing here works yet: that does not wait for a rollout over there.
            return self.replace(true);
        }
        let Some((place, facts)) = self.proven(|facts| facts.is(current)) else {
            // Nothing is concluded from an answer that did not come.
            return if self.is_unproven() { Step::Wait(Wait::Coderd) } else { self.replace(true) };
        };
        if current.id != Some(facts.id) {
            let current = Some(Key { id: Some(facts.id), ..current.clone() });
            return Step::record(Record { current, ..self.record.clone() });
        }
        if *place != self.desired.place {
            return self.relocate(place);
        }
        if self.desired.number_of(&current.name).is_none() || facts.tags_hash != self.desired.tags_hash {
            return self.replace(false);
        }
        self.settle()
    }

    /// The key in use is what it should be: what is left of earlier ones goes. What waits for another coderd keeps nothing else
    /// waiting.
    fn settle(&self) -> Step {
        let adopted = || self.listed.and_then(|listed| self.adopt(listed));
        match self.tidy(false) {
            Some(Step::Wait(wait)) => adopted().unwrap_or_else(|| match self.empty_former_places() {
                Step::Rest => Step::Wait(wait),
                _ if wait != Wait::Elsewhere => Step::Wait(wait),
                step => step,
            }),
            Some(step) => step,
            None => adopted().unwrap_or_else(|| self.empty_former_places()),
        }
    }

    /// Another key is needed. `lost` says that there is none that works: that does not wait for a rollout.
    fn replace(&self, lost: bool) -> Step {
        let is_here = |key: &&Key| key.home == self.desired.home;
        let retiring = self.record.retiring.iter().filter(is_here).count();
        let current = self.record.current.iter().filter(is_here).count();
        let room = retiring == 0 || lost && retiring + current < MOST_KEYS;
        // Without a key that works no pod is on its way to one: what nobody uses makes room.
        match self.tidy(lost && !room) {
            Some(Step::Wait(_)) | None if room => self.intend(),
            Some(Step::Wait(_)) | None if lost && self.is_current_unused() => {
                Step::record(self.record.using_none(self.now))
            }
            Some(step) => step,
            None => Step::Wait(Wait::Rollout),
        }
    }

    /// Whether nobody uses the key that is recorded as the one in use.
    fn is_current_unused(&self) -> bool {
        let current = self.record.current.as_ref().filter(|current| current.home == self.desired.home);
        let found = |current: &Key| find(self.listed?, &current.name);
        current.is_some_and(|current| found(current).is_some_and(|found| found.daemons.is_none()))
    }

    fn intend(&self) -> Step {
        let Some(listed) = self.listed else { return Step::Wait(Wait::Coderd) };
        if let Some(wait) = self.may_make() {
            return Step::Wait(wait);
        }
        let has_place =
            self.record.places.contains(&self.desired.place) || self.record.places.len() < MOST_PLACES;
        // The one in use retires for this one, and this one may have to be given up.
        if self.record.retiring.len() + 2 > MOST_RETIRING || !has_place {
            return Step::Wait(Wait::TooMany);
        }
        if let Some(adopt) = self.adopt(listed) {
            return adopt;
        }
        let (name, number, mut left) = self.free_name(listed);
        left.extend(self.left_by_former_operator());
        let key = self.key(&name, number);
        Step::Record(Box::new(self.known().intending(key, &self.desired.place)), left)
    }

    /// The name of the next key, and which names others have: that of the spec if none of ours has it or comes from it, else
    /// with the next number behind it.
    fn free_name(&self, listed: &[Listed]) -> (String, u64, Vec<Left>) {
        let is_of_this_name =
            |key: &Key| key.home == self.desired.home && self.desired.number_of(&key.name).is_some();
        let next = self.record.number + 1;
        let first = (!self.record.keys().any(is_of_this_name)).then_some((1, next));
        // Each name is looked up once, however many there are.
        let taken: HashMap<String, &Listed> =
            listed.iter().map(|one| (one.facts.name.to_lowercase(), one)).collect();
        let mut others = Vec::new();
        let numbers = (next.max(2)..).map(|number| (number, number));
        // One that was made for a control plane which is gone is ours all the same.
        let is_ours = |id| self.record.keys().any(|key| key.id == Some(id));
        let most = listed.len() + self.taken.len() + 2;
        for (in_name, number) in first.into_iter().chain(numbers).take(most) {
            let name = self.desired.name_of(in_name);
            match taken.get(&name.to_lowercase()) {
                None if self.taken.contains(&in_name) => others.push(name),
                None => return (name, number, told(&others)),
                Some(taken) if is_ours(taken.facts.id) => {}
                Some(taken) => others.push(taken.facts.name.clone()),
            }
        }
        (self.desired.name_of(next), next, told(&others))
    }

    /// What stands in the way of making a key.
    fn may_make(&self) -> Option<Wait> {
        let is_foreign = |(place, material): &(SecretPlace, Material)| {
            place.secret == self.desired.place.secret && *material == Material::Foreign
        };
        if self.claimed {
            return Some(Wait::Claimed);
        }
        if self.materials.iter().any(is_foreign) {
            return Some(Wait::SecretNotOurs);
        }
        if self.immutable.contains(&self.desired.place.secret) {
            return Some(Wait::SecretImmutable);
        }
        if !self.entitled {
            return Some(Wait::Entitlement);
        }
        if self.would_mix() {
            return Some(Wait::Rollout);
        }
        self.paused.then_some(Wait::Pause)
    }

    /// Whether pods that stay where they are would be started again with a plaintext of another coderd: what is in use, or what
    /// the Secret is marked to hold, is of another one than is asked for, and the Deployment cannot follow.
    fn would_mix(&self) -> bool {
        let is_elsewhere = |home: &Home| !home.is_of_coderd(&self.desired.home);
        let is_used = self.record.current.as_ref().is_some_and(|current| is_elsewhere(&current.home));
        let is_kept =
            matches!(self.at(&self.desired.place), Material::Elsewhere(home, _) if is_elsewhere(home));
        !self.may_roll && (is_used || is_kept)
    }

    /// Takes over the key of others that an annotation names, once: it is deleted when ours is in use. One that another object
    /// has recorded is left alone.
    fn adopt(&self, listed: &[Listed]) -> Option<Step> {
        // The next rotation needs room beside it.
        if self.record.retiring.len() + 3 > MOST_RETIRING {
            return None;
        }
        let is_done = |name: &str| self.record.adopted.as_ref().is_some_and(|done| is_same(done, name));
        let name = self.desired.adopt.as_ref().filter(|name| !is_done(name))?;
        let id = |found: &Listed| found.facts.id;
        let is_free = |id| !self.record.knows(&self.desired.home, id) && !self.of_others.contains(&id);
        let found = find(listed, name).filter(|found| is_free(id(found)))?;
        let key = Key { id: Some(id(found)), used: true, ..self.key(&found.facts.name, 0) };
        Some(Step::record(self.record.adopting(key, name)))
    }

    /// The plaintext is copied to where it is asked for.
    fn relocate(&self, from: &SecretPlace) -> Step {
        if *self.at(&self.desired.place) == Material::Foreign {
            return Step::Wait(Wait::SecretNotOurs);
        }
        if self.immutable.contains(&self.desired.place.secret) {
            return Step::Wait(Wait::SecretImmutable);
        }
        if !self.record.places.contains(&self.desired.place) {
            return self.hold();
        }
        Step::Move(from.clone())
    }

    /// Records that the place that is asked for will hold a plaintext.
    fn hold(&self) -> Step {
        if self.record.places.len() >= MOST_PLACES {
            return Step::Wait(Wait::TooMany);
        }
        Step::record(self.record.holding(&self.desired.place))
    }
}

/// What is told of names that others have: the first of them, and how many more there are.
fn told(others: &[String]) -> Vec<Left> {
    let some = others.iter().take(MOST_TOLD).cloned().map(Left::Taken);
    let more = others.len().saturating_sub(MOST_TOLD);
    some.chain((more > 0).then_some(Left::MoreTaken(more))).collect()
}

#[cfg(test)]
mod explorer;
#[cfg(test)]
mod tests;
