//! What the watches show of children: for each its version and whom it belongs to, by hash, so that nobody who may write
//! objects decides how much is kept of one. Beyond a number of objects nothing is kept, and nobody can tell.

use super::ChildKind;
use crate::controller::identity::ObjectKey;
use kube::core::ObjectMeta;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::hash::{BuildHasher, RandomState};

/// Objects that are kept; each takes about a hundred bytes. A thousand control planes have some ten thousand children.
const MOST: usize = 50_000;

/// One object by its kind, namespace and name. The keys of the hash are made by chance at the start: nobody can choose two
/// names of one hash.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place(u64);

/// A version of an object, comparable and nothing more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Version(u64);

/// By what an owner is known: its uid, or its name as labels have it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
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
    /// The same, but its watch fails now. It resumes where it was: with its next word nothing is missing.
    Doubtful,
    /// The cluster does not know it: there is nothing of it.
    Unserved,
}

#[derive(Debug, Default)]
struct Kind {
    following: Following,
    there: HashMap<Place, Entry>,
    verification: Option<Verification>,
}

/// A list that shows what there is, beside the watch.
#[derive(Debug, Default)]
struct Verification {
    /// What the watch has shown since it began, which a list cannot know better.
    fresh: HashSet<Place>,
    /// What the list has shown.
    listed: HashSet<Place>,
}

#[derive(Debug, Default)]
pub(super) struct Shown {
    hasher: RandomState,
    kinds: BTreeMap<ChildKind, Kind>,
    of: HashMap<By, HashSet<Place>>,
    /// There were too many objects in this term.
    overflowed: bool,
}

impl Shown {
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

    /// What belongs to an owner beyond `wanted`. None while nobody can tell.
    pub(super) fn beyond(
        &self,
        key: &ObjectKey,
        uid: &str,
        wanted: &HashSet<Place>,
    ) -> Option<BTreeSet<Place>> {
        let is_known = |kind: &ChildKind| {
            let following = self.kinds.get(kind).map(|kind| kind.following);
            matches!(following, Some(Following::Complete | Following::Unserved))
        };
        if self.overflowed || !ChildKind::ALL.iter().all(is_known) {
            return None;
        }
        let owners = [self.by_uid(uid), self.by_labels(&key.labelled())];
        let places = owners.iter().filter_map(|by| self.of.get(by)).flatten().copied();
        Some(places.filter(|place| !wanted.contains(place)).collect())
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

    /// The watch of a kind fails.
    pub(super) fn doubt(&mut self, kind: ChildKind) {
        let kind = self.kind(kind);
        if kind.following == Following::Complete {
            kind.following = Following::Doubtful;
        }
    }

    /// The cluster does not serve a kind, or no longer does; returns whether it did.
    pub(super) fn unserved(&mut self, kind: ChildKind) -> bool {
        let served = matches!(self.kind(kind).following, Following::Complete | Following::Doubtful);
        self.clear(kind, Following::Unserved);
        served
    }

    /// Whether a kind is followed, well or not.
    pub(super) fn is_followed(&self, kind: ChildKind) -> bool {
        let following = self.kinds.get(&kind).map(|kind| kind.following);
        matches!(following, Some(Following::Complete | Following::Doubtful))
    }

    /// A watch shows an object; returns where.
    pub(super) fn show(&mut self, kind: ChildKind, metadata: &ObjectMeta, gone: bool) -> Option<Place> {
        let place = self.place(kind, metadata.namespace.as_deref()?, metadata.name.as_deref()?);
        let entry = self.entry(metadata);
        let of_kind = self.kind(kind);
        if of_kind.following == Following::Doubtful {
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
        if self.kinds.values().map(|kind| kind.there.len()).sum::<usize>() >= MOST {
            tracing::warn!(
                objects = MOST,
                "too many objects with our label; children are read in every reconcile from now on"
            );
            (self.overflowed, self.of) = (true, HashMap::new());
            self.kinds.values_mut().for_each(|kind| kind.there = HashMap::new());
            return;
        }
        for by in entry.owners.into_iter().flatten() {
            self.of.entry(by).or_default().insert(place);
        }
        self.kind(kind).there.insert(place, entry);
    }

    fn remove(&mut self, kind: ChildKind, place: Place) {
        let Some(entry) = self.kind(kind).there.remove(&place) else { return };
        for by in entry.owners.into_iter().flatten() {
            if let Some(places) = self.of.get_mut(&by) {
                places.remove(&place);
                if places.is_empty() {
                    self.of.remove(&by);
                }
            }
        }
    }

    fn clear(&mut self, kind: ChildKind, following: Following) {
        let places: Vec<Place> = self.kind(kind).there.keys().copied().collect();
        places.into_iter().for_each(|place| self.remove(kind, place));
        *self.kind(kind) = Kind { following, ..Kind::default() };
    }

    /// Begins to verify a kind by a list of all there is.
    pub(super) fn begin_verification(&mut self, kind: ChildKind) {
        self.kind(kind).verification = Some(Verification::default());
    }

    /// Whether the list shows an object otherwise than the watch has.
    pub(super) fn is_news(&mut self, kind: ChildKind, metadata: &ObjectMeta) -> bool {
        let (Some(namespace), Some(name)) = (&metadata.namespace, &metadata.name) else { return false };
        let (place, entry) = (self.place(kind, namespace, name), self.entry(metadata));
        let of_kind = self.kind(kind);
        let Some(verification) = &mut of_kind.verification else { return false };
        verification.listed.insert(place);
        !verification.fresh.contains(&place) && of_kind.there.get(&place) != Some(&entry)
    }

    /// Ends the verification; returns what the watch has shown and the list did not, which is there no more.
    pub(super) fn end_verification(&mut self, kind: ChildKind) -> Vec<Place> {
        let of_kind = self.kind(kind);
        let Some(Verification { fresh, listed }) = of_kind.verification.take() else { return Vec::new() };
        if of_kind.following == Following::Doubtful {
            of_kind.following = Following::Complete;
        }
        let is_lost = |place: &&Place| !fresh.contains(place) && !listed.contains(place);
        let lost: Vec<Place> = of_kind.there.keys().filter(is_lost).copied().collect();
        lost.iter().for_each(|place| self.remove(kind, *place));
        lost
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{from_value, json};

    const KIND: ChildKind = ChildKind::Role;

    fn metadata(name: &str, version: &str) -> ObjectMeta {
        from_value(json!({ "name": name, "namespace": "team", "resourceVersion": version,
            "ownerReferences": [{ "apiVersion": "v1", "kind": "X", "name": "coder", "uid": "o", "controller": true }] }))
        .unwrap()
    }

    fn owner() -> ObjectKey {
        ObjectKey { namespace: "team".to_owned(), name: "coder".to_owned() }
    }

    /// Every kind is listed, and nothing is there.
    fn complete() -> Shown {
        let mut shown = Shown::default();
        ChildKind::ALL.iter().for_each(|kind| shown.end_list(*kind));
        shown
    }

    #[test]
    fn whether_an_object_is_there_is_told_once_its_kind_is_listed_and_while_its_watch_works() {
        let mut shown = Shown::default();
        let place = shown.place(KIND, "team", "a");
        shown.begin_list(KIND);
        shown.show(KIND, &metadata("a", "7"), false);
        assert!(shown.current(KIND, place).is_none() && !shown.is_absent(KIND, place), "nobody can tell yet");
        shown.end_list(KIND);
        assert_eq!(shown.current(KIND, place), Some(shown.version("7")));
        assert!(shown.is_absent(KIND, shown.place(KIND, "team", "b")));
        shown.doubt(KIND);
        assert!(shown.current(KIND, place).is_none() && !shown.is_absent(KIND, place), "its watch fails");
        shown.show(KIND, &metadata("a", "8"), true);
        assert!(shown.is_absent(KIND, place), "it goes on");
        shown.begin_list(KIND);
        assert!(!shown.is_absent(KIND, place), "it is listed again");
        shown.unserved(KIND);
        assert!(shown.current(KIND, place).is_none() && !shown.is_absent(KIND, place));
    }

    #[test]
    fn what_belongs_to_an_owner_is_found_by_its_uid_and_by_labels_once_every_kind_is_known() {
        let mut shown = complete();
        shown.show(KIND, &metadata("a", "7"), false);
        let a = shown.place(KIND, "team", "a");
        let beyond = |shown: &Shown, uid: &str, wanted: &[Place]| {
            shown.beyond(&owner(), uid, &wanted.iter().copied().collect())
        };
        assert_eq!(beyond(&shown, "o", &[]), Some([a].into()));
        assert_eq!(beyond(&shown, "o", &[a]), Some([].into()));
        assert_eq!(beyond(&shown, "other", &[]), Some([].into()), "another one's");
        let labelled =
            from_value(json!({ "name": "b", "namespace": "elsewhere", "resourceVersion": "9", "labels": {
            "coder.com/control-plane": "coder", "coder.com/control-plane-namespace": "team" } }));
        shown.show(KIND, &labelled.unwrap(), false);
        let b = shown.place(KIND, "elsewhere", "b");
        assert_eq!(beyond(&shown, "o", &[a]), Some([b].into()), "one elsewhere has labels");
        shown.unserved(ChildKind::HttpRoute);
        assert_eq!(
            beyond(&shown, "o", &[a]),
            Some([b].into()),
            "there is nothing of a kind that nobody serves"
        );
        shown.doubt(ChildKind::Service);
        assert_eq!(beyond(&shown, "o", &[a]), None, "nobody can tell");
        shown.show(ChildKind::Service, &metadata("c", "1"), true);
        shown.show(KIND, &metadata("a", "8"), true);
        assert_eq!(beyond(&shown, "o", &[]), Some([b].into()), "it is gone");
    }

    #[test]
    fn an_object_that_changes_hands_is_its_former_owners_no_more() {
        let mut shown = complete();
        shown.show(KIND, &metadata("a", "7"), false);
        let mut other = metadata("a", "8");
        other.owner_references.iter_mut().flatten().for_each(|owner| owner.uid = "p".to_owned());
        shown.show(KIND, &other, false);
        assert_eq!(shown.beyond(&owner(), "o", &HashSet::new()), Some([].into()));
        assert_eq!(shown.of.len(), 1, "nothing is kept of what was");
    }

    #[test]
    fn a_verification_finds_what_a_watch_has_missed_and_never_knows_better_than_a_watch_that_has_not() {
        let mut shown = complete();
        for name in ["kept", "changed", "lost"] {
            shown.show(KIND, &metadata(name, "1"), false);
        }
        shown.begin_verification(KIND);
        shown.show(KIND, &metadata("fresh", "5"), false);
        shown.show(KIND, &metadata("deleted", "6"), true);
        let is_new =
            |shown: &mut Shown, name: &str, version: &str| shown.is_news(KIND, &metadata(name, version));
        assert!(!is_new(&mut shown, "kept", "1"));
        assert!(is_new(&mut shown, "changed", "2") && is_new(&mut shown, "added", "3"));
        assert!(
            !is_new(&mut shown, "fresh", "4") && !is_new(&mut shown, "deleted", "4"),
            "the list is older"
        );
        let changed = shown.place(KIND, "team", "changed");
        shown.show(KIND, &metadata("changed", "2"), false);
        assert_eq!(shown.end_verification(KIND), [shown.place(KIND, "team", "lost")]);
        assert_eq!(shown.current(KIND, changed), Some(shown.version("2")));
        assert!(shown.is_absent(KIND, shown.place(KIND, "team", "lost")));
        assert!(shown.current(KIND, shown.place(KIND, "team", "fresh")).is_some(), "it came meanwhile");
        shown.doubt(KIND);
        shown.begin_verification(KIND);
        shown.end_verification(KIND);
        assert!(shown.is_absent(KIND, changed), "a list ends a doubt");
    }

    #[test]
    fn beyond_a_number_of_objects_nothing_is_kept_and_nobody_can_tell() {
        let mut shown = complete();
        for number in 0..=MOST {
            shown.show(KIND, &metadata(&number.to_string(), "1"), false);
        }
        let place = shown.place(KIND, "team", "1");
        assert!(shown.current(KIND, place).is_none() && !shown.is_absent(KIND, place));
        assert_eq!(shown.beyond(&owner(), "o", &HashSet::new()), None);
        assert!(shown.of.is_empty() && shown.kinds[&KIND].there.is_empty());
    }
}
