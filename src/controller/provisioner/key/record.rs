//! What is recorded of the keys of a provisioner: the one in use, the one that is being made, and those on their way out. It
//! outlives the process; whatever is done in coderd is recorded here before it is done. Nothing is decided here.

use super::seen::{CLOCK_SKEW, Listed, UNDER_WAY};
use crate::coderd::Uuid;
use jiff::Timestamp;

pub(crate) use crate::controller::attached::secret::SecretPlace;

/// Which coderd a key is in, and which organization of it. An organization is its id: coderd lets it be renamed.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Home {
    /// Uid of the CoderControlPlane.
    pub control_plane: String,
    /// Id of the deployment, which a database keeps: another database behind the same control plane is another coderd.
    pub deployment: String,
    /// Id of the organization.
    pub organization: Uuid,
}

impl Home {
    /// A coderd of which it is only known that it is another one.
    pub(super) fn unknown(organization: Uuid) -> Self {
        Self { control_plane: String::new(), deployment: String::new(), organization }
    }

    /// Whether both are organizations of one coderd.
    pub(super) fn is_of_coderd(&self, other: &Self) -> bool {
        self.control_plane == other.control_plane && self.deployment == other.deployment
    }
}

/// A key in coderd that is, or may be, ours.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Key {
    /// Where it is.
    pub home: Home,
    /// Its name in coderd.
    pub name: String,
    /// Its id; not known before it was seen there.
    pub id: Option<Uuid>,
    /// Which of our keys it is, counted from 1: no number is given twice.
    pub number: u64,
    /// Hash of the tags it is made with.
    pub tags_hash: String,
    /// When it came to be what it is: intended, in use or retiring.
    pub since: Timestamp,
    /// Whether coderd was, or is about to be, asked to make it: before that, a key of its name is somebody else's.
    pub attempted: bool,
    /// Whether pods may have been started with it.
    pub used: bool,
}

/// Everything that is recorded.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Record {
    /// The key whose plaintext was proven to be in the Secret.
    pub current: Option<Key>,
    /// The key that is being made.
    pub pending: Option<Key>,
    /// Keys that are no longer wanted and not gone yet.
    pub retiring: Vec<Key>,
    /// The highest number that was ever given to a key.
    pub number: u64,
    /// Every place that may hold a plaintext of ours.
    pub places: Vec<SecretPlace>,
    /// The key that was taken over because an annotation names it: that is done once.
    pub adopted: Option<String>,
}

impl Key {
    /// Whether somebody else made it, and an annotation has us take it over.
    pub(super) fn is_adopted(&self) -> bool {
        self.number == 0
    }

    /// Whether an earlier request to make it may still come to something.
    pub(super) fn may_be_under_way(&self, now: Timestamp) -> bool {
        let latest = self.since.checked_add(UNDER_WAY + CLOCK_SKEW);
        self.attempted && latest.is_ok_and(|latest| now <= latest)
    }

    /// Whether what is listed under its name is it.
    pub(crate) fn is_found(&self, found: &Listed) -> bool {
        self.id.map_or_else(|| found.is_made_for(self), |id| id == found.facts.id)
    }
}

impl Record {
    /// Every key, the one in use first.
    pub(crate) fn keys(&self) -> impl Iterator<Item = &Key> {
        self.current.iter().chain(&self.pending).chain(&self.retiring)
    }

    /// Whether a key of this id is recorded in this coderd.
    pub(super) fn knows(&self, home: &Home, id: Uuid) -> bool {
        self.keys().any(|key| key.home == *home && key.id == Some(id))
    }

    /// With a key that is about to be made, and the place its plaintext will be in.
    pub(super) fn intending(&self, key: Key, place: &SecretPlace) -> Self {
        let number = self.number.max(key.number);
        Self { pending: Some(key), number, ..self.holding(place) }
    }

    /// With the key that was intended about to be made now.
    pub(crate) fn attempting(&self, now: Timestamp) -> Self {
        let pending = self.pending.clone().map(|key| Key { attempted: true, since: now, ..key });
        Self { pending, ..self.clone() }
    }

    /// With a place that may hold a plaintext from now on.
    pub(super) fn holding(&self, place: &SecretPlace) -> Self {
        let mut record = self.clone();
        if !record.places.contains(place) {
            record.places.push(place.clone());
        }
        record
    }

    /// Whether no other recorded place is in the Secret of this one.
    pub(super) fn is_alone(&self, place: &SecretPlace) -> bool {
        self.places.iter().all(|one| one == place || one.secret != place.secret)
    }

    /// Without a place that holds nothing any more.
    pub(super) fn emptied(&self, place: &SecretPlace) -> Self {
        let mut record = self.clone();
        record.places.retain(|one| one != place);
        record
    }

    /// With another key in use, whose plaintext is proven; the one before it is on its way out.
    pub(super) fn using(&self, key: Key, place: &SecretPlace, now: Timestamp) -> Self {
        let mut record = self.holding(place);
        record.pending = None;
        record.number = record.number.max(key.number);
        // One that was on its way out, and is asked for again.
        record.retiring.retain(|one| one.home != key.home || one.id != key.id);
        let before = record.current.replace(Key { used: true, since: now, ..key });
        record.retiring.extend(before.map(|before| Key { since: now, ..before }));
        record
    }

    /// With the key that was being made on its way out instead: nobody has its plaintext, or nobody wants it any more. Where
    /// it was found, whoever uses it counts; where not, the time of the intent tells later whether it is ours.
    pub(super) fn giving_up(&self, found: Option<&Listed>) -> Self {
        let mut record = self.clone();
        let id = found.map(|found| found.facts.id);
        let used = found.is_some_and(|found| !found.daemons.is_none());
        record.retiring.extend(record.pending.take().map(|key| Key { id, used, ..key }));
        record
    }

    /// With no key in use: the plaintext of the one that was is lost, and nobody uses it any more.
    pub(super) fn using_none(&self, now: Timestamp) -> Self {
        let mut record = self.clone();
        record.retiring.extend(record.current.take().map(|key| Key { since: now, ..key }));
        record
    }

    /// With what was intended before an attempt that coderd refused: that attempt came to nothing.
    pub(crate) fn unattempted(&self, before: Option<Key>) -> Self {
        Self { pending: before, ..self.clone() }
    }

    /// Without the key that was being made: it never came to be.
    pub(crate) fn forgetting_pending(&self) -> Self {
        Self { pending: None, ..self.clone() }
    }

    /// With a key of others on its way out, as an annotation asks.
    pub(super) fn adopting(&self, key: Key, name: &str) -> Self {
        let mut record = Self { adopted: Some(name.to_owned()), ..self.clone() };
        record.retiring.push(key);
        record
    }

    /// Without a key that is gone, or that is not ours to delete.
    pub(crate) fn without(&self, key: &Key) -> Self {
        let mut record = self.clone();
        record.current.take_if(|one| one == key);
        record.pending.take_if(|one| one == key);
        record.retiring.retain(|one| one != key);
        record
    }
}
