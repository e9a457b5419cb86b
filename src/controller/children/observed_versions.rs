//! What the watches show of children: for each its version and whom it belongs to, by hash, so that nobody who may write
//! objects decides how much is kept of one. Beyond a number of objects nothing is kept, and nobody can tell.

mod verification;

use super::{ChildKind, Presence};
use crate::controller::identity::ObjectKey;
use crds::well_known::{MANAGER, label};
use kube::core::ObjectMeta;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::hash::{BuildHasher, RandomState};
use std::time::Instant;
use verification::Verification;

/// Objects that are kept; each takes a hundred to two hundred bytes. A thousand control planes have some ten thousand
/// children. Beyond it nothing is kept until the next term of leadership.
const MOST: usize = 50_000;

/// One object by its kind, namespace and name. The keys of the hash are made by chance at the start: nobody can choose two
/// names of one hash.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place(u64);

/// A version of an object, comparable and nothing more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Version(u64);

/// By what an owner is known: its uid, or its name as labels have it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct By(u64);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Entry {
    version: Version,
    owners: [Option<By>; 2],
}

/// How a kind is followed.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Following {
    /// Nobody has shown all of it yet.
    #[default]
    Incomplete,
    /// Everything of it was shown, and what changes is.
    Complete,
    /// The same, but its watch has failed. It resumes where it was: with its next word nothing is missing.
    Doubtful(Instant),
    /// The cluster does not know it: there is nothing of it.
    Unserved,
}

#[derive(Debug, Default)]
struct Kind {
    following: Following,
    there: HashMap<Place, Entry>,
    verification: Option<Verification>,
}

/// Objects that the watches show of an owner beyond those that are wanted.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Unwanted {
    /// Which; comparable and nothing more.
    pub places: BTreeSet<Place>,
    /// Whether these are all for certain.
    pub complete: bool,
}

impl Unwanted {
    /// Whether there is nothing for certain.
    pub fn is_nothing(&self) -> bool {
        self.complete && self.places.is_empty()
    }
}

#[derive(Debug)]
pub(super) struct ObservedVersions {
    hasher: RandomState,
    kinds: BTreeMap<ChildKind, Kind>,
    /// What belongs to whom; flat, since many have one only.
    of: BTreeSet<(By, Place)>,
    /// There were too many objects in this term.
    overflowed: bool,
    /// Objects that are kept.
    most: usize,
}

impl Default for ObservedVersions {
    fn default() -> Self {
        Self::sharing(1)
    }
}

impl ObservedVersions {
    /// Nothing yet, and never more than the share of one of so many.
    pub(super) fn sharing(share: usize) -> Self {
        Self {
            hasher: RandomState::default(),
            kinds: BTreeMap::new(),
            of: BTreeSet::new(),
            overflowed: false,
            most: MOST / share,
        }
    }

    pub(super) fn place(&self, kind: ChildKind, namespace: &str, name: &str) -> Place {
        Place(self.hasher.hash_one((kind, namespace, name)))
    }

    pub(super) fn version(&self, text: &str) -> Version {
        Version(self.hasher.hash_one(text))
    }

    /// The version of an object that is there now. None if there is none, or if nobody can tell.
    pub(super) fn current(&self, kind: ChildKind, place: Place) -> Option<Version> {
        let kind = self.complete(kind)?;
        kind.there.get(&place).map(|entry| entry.version)
    }

    /// Whether there is no such object for certain.
    pub(super) fn is_absent(&self, kind: ChildKind, place: Place) -> bool {
        self.complete(kind).is_some_and(|kind| !kind.there.contains_key(&place))
    }

    fn complete(&self, kind: ChildKind) -> Option<&Kind> {
        self.kinds.get(&kind).filter(|kind| kind.following == Following::Complete && !self.overflowed)
    }

    /// What belongs to an owner beyond `wanted`.
    pub(super) fn beyond(&self, key: &ObjectKey, uid: &str, wanted: &HashSet<Place>) -> Unwanted {
        let is_known = |kind: &ChildKind| {
            let following = self.kinds.get(kind).map(|kind| kind.following);
            matches!(following, Some(Following::Complete | Following::Unserved))
        };
        let owners = [self.by_uid(uid), self.by_labels(&key.labelled())];
        let places = owners.into_iter().flat_map(|by| {
            let end = (by, Place(u64::MAX));
            self.of.range((by, Place(0))..=end).map(|(_, place)| *place)
        });
        Unwanted {
            places: places.filter(|place| !wanted.contains(place)).collect(),
            complete: !self.overflowed && ChildKind::ALL.iter().all(is_known),
        }
    }

    fn by_uid(&self, uid: &str) -> By {
        By(self.hasher.hash_one((0u8, uid)))
    }

    fn by_labels(&self, key: &ObjectKey) -> By {
        By(self.hasher.hash_one((1u8, &key.namespace, &key.name)))
    }

    fn entry(&self, metadata: &ObjectMeta) -> Entry {
        let mut owners = metadata.owner_references.iter().flatten();
        let uid = owners.find(|owner| owner.controller == Some(true)).map(|owner| self.by_uid(&owner.uid));
        let labels = ObjectKey::of_labels(metadata).map(|key| self.by_labels(&key));
        let version = self.version(metadata.resource_version.as_deref().unwrap_or_default());
        Entry { version, owners: [uid, labels] }
    }

    fn kind(&mut self, kind: ChildKind) -> &mut Kind {
        self.kinds.entry(kind).or_default()
    }

    /// A watch begins to show everything of a kind.
    pub(super) fn begin_list(&mut self, kind: ChildKind) {
        self.clear(kind, Following::Incomplete);
    }

    /// A watch has shown everything of a kind.
    pub(super) fn end_list(&mut self, kind: ChildKind) {
        self.kind(kind).following = Following::Complete;
    }

    /// The watch of a kind fails now.
    pub(super) fn doubt(&mut self, kind: ChildKind, now: Instant) {
        let kind = self.kind(kind);
        if matches!(kind.following, Following::Complete | Following::Doubtful(_)) {
            kind.following = Following::Doubtful(now);
        }
    }

    /// The cluster does not serve a kind, or no longer does; returns whether it did.
    pub(super) fn unserved(&mut self, kind: ChildKind) -> bool {
        let served = self.is_followed(kind);
        self.clear(kind, Following::Unserved);
        served
    }

    /// Whether a kind is followed, well or not.
    pub(super) fn is_followed(&self, kind: ChildKind) -> bool {
        let following = self.kinds.get(&kind).map(|kind| kind.following);
        matches!(following, Some(Following::Complete | Following::Doubtful(_)))
    }

    /// A watch shows an object; returns where.
    pub(super) fn observe(&mut self, kind: ChildKind, metadata: &ObjectMeta, gone: bool) -> Option<Place> {
        let place = self.place(kind, metadata.namespace.as_deref()?, metadata.name.as_deref()?);
        let entry = self.entry(metadata);
        let of_kind = self.kind(kind);
        if matches!(of_kind.following, Following::Doubtful(_)) {
            of_kind.following = Following::Complete;
        }
        if let Some(verification) = &mut of_kind.verification {
            verification.fresh.insert(place);
        }
        if gone {
            self.remove(kind, place);
        } else {
            self.insert(kind, place, entry);
        }
        Some(place)
    }

    fn insert(&mut self, kind: ChildKind, place: Place, entry: Entry) {
        if self.overflowed {
            return;
        }
        self.remove(kind, place);
        if self.kinds.values().map(|kind| kind.there.len()).sum::<usize>() >= self.most {
            tracing::warn!(
                objects = self.most,
                find = find_command(),
                "too many objects with our label; children are read in every reconcile from now on; remove those that \
                 are not ours, then restart the leader"
            );
            (self.overflowed, self.of) = (true, BTreeSet::new());
            self.kinds.values_mut().for_each(|kind| kind.there = HashMap::new());
            return;
        }
        for by in entry.owners.into_iter().flatten() {
            self.of.insert((by, place));
        }
        self.kind(kind).there.insert(place, entry);
    }

    fn remove(&mut self, kind: ChildKind, place: Place) {
        let Some(entry) = self.kind(kind).there.remove(&place) else { return };
        for by in entry.owners.into_iter().flatten() {
            self.of.remove(&(by, place));
        }
    }

    fn clear(&mut self, kind: ChildKind, following: Following) {
        let places: Vec<Place> = self.kind(kind).there.keys().copied().collect();
        places.into_iter().for_each(|place| self.remove(kind, place));
        *self.kind(kind) = Kind { following, ..Kind::default() };
    }
}

/// The command that shows how many objects of each kind and namespace have our label.
fn find_command() -> String {
    let always = ChildKind::ALL.iter().filter(|kind| kind.presence() == Presence::Always);
    let kinds: Vec<&str> = always.map(|kind| kind.names()[2]).collect();
    let (kinds, label) = (kinds.join(","), label::MANAGED_BY);
    format!(
        "kubectl get {kinds} -A -l {label}={MANAGER} -o custom-columns=KIND:.kind,NAMESPACE:.metadata.namespace \
         --no-headers | sort | uniq -c | sort -rn | head"
    )
}

#[cfg(test)]
mod tests;
