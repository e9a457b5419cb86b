//! What the watches show of children: for each its version and whom it belongs to, by hash, so that nobody who may write
//! objects decides how much is kept of one. Beyond a number of objects nothing is kept, and nobody can tell.

use super::{ChildKind, Presence};
use crate::controller::identity::ObjectKey;
use crds::well_known::{MANAGER, label};
use kube::core::ObjectMeta;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::hash::{BuildHasher, RandomState};
use std::time::{Duration, Instant};

/// Objects that are kept; each takes a hundred to two hundred bytes. A thousand control planes have some ten thousand
/// children. Beyond it nothing is kept until the next term of leadership.
const MOST: usize = 50_000;
/// A watch that fails is tried again within 30 s.
const LONGEST_DOUBT: Duration = Duration::from_secs(60);

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

/// A list that shows what there is, beside the watch.
#[derive(Debug, Default)]
struct Verification {
    /// What the watch has shown since it began, which a list cannot know better.
    fresh: HashSet<Place>,
    /// What the list has observed.
    listed: HashSet<Place>,
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

#[derive(Debug, Default)]
pub(super) struct ObservedVersions {
    hasher: RandomState,
    kinds: BTreeMap<ChildKind, Kind>,
    /// What belongs to whom; flat, since many have one only.
    of: BTreeSet<(By, Place)>,
    /// There were too many objects in this term.
    overflowed: bool,
}

impl ObservedVersions {
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
        if self.kinds.values().map(|kind| kind.there.len()).sum::<usize>() >= MOST {
            tracing::warn!(
                objects = MOST,
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

    /// Begins to verify a kind by a list of all there is.
    pub(super) fn begin_verification(&mut self, kind: ChildKind) {
        self.kind(kind).verification = Some(Verification::default());
    }

    /// Takes note of an object that the list shows; returns whether the watch has not shown it like that.
    pub(super) fn verify(&mut self, kind: ChildKind, metadata: &ObjectMeta) -> bool {
        let (Some(namespace), Some(name)) = (&metadata.namespace, &metadata.name) else { return false };
        let (place, entry) = (self.place(kind, namespace, name), self.entry(metadata));
        let overflowed = self.overflowed;
        let of_kind = self.kind(kind);
        let Some(verification) = &mut of_kind.verification else { return false };
        verification.listed.insert(place);
        let is_same = verification.fresh.contains(&place) || of_kind.there.get(&place) == Some(&entry);
        if is_same || overflowed {
            return false;
        }
        self.insert(kind, place, entry);
        true
    }

    /// Ends the verification; returns what the watch has shown and the list did not, which is there no more. It ends a doubt
    /// that is so old that a watch which still fails would have said so again.
    pub(super) fn end_verification(&mut self, kind: ChildKind, now: Instant) -> Vec<Place> {
        let of_kind = self.kind(kind);
        let Some(Verification { fresh, listed }) = of_kind.verification.take() else { return Vec::new() };
        let is_over = |since: Instant| now.saturating_duration_since(since) > LONGEST_DOUBT;
        if matches!(of_kind.following, Following::Doubtful(since) if is_over(since)) {
            of_kind.following = Following::Complete;
        }
        let is_lost = |place: &&Place| !fresh.contains(place) && !listed.contains(place);
        let lost: Vec<Place> = of_kind.there.keys().filter(is_lost).copied().collect();
        lost.iter().for_each(|place| self.remove(kind, *place));
        lost
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
    fn complete() -> ObservedVersions {
        let mut observed = ObservedVersions::default();
        ChildKind::ALL.iter().for_each(|kind| observed.end_list(*kind));
        observed
    }

    #[test]
    fn whether_an_object_is_there_is_told_once_its_kind_is_listed_and_while_its_watch_works() {
        let mut observed = ObservedVersions::default();
        let place = observed.place(KIND, "team", "a");
        observed.begin_list(KIND);
        observed.observe(KIND, &metadata("a", "7"), false);
        assert!(
            observed.current(KIND, place).is_none() && !observed.is_absent(KIND, place),
            "nobody can tell yet"
        );
        observed.end_list(KIND);
        assert_eq!(observed.current(KIND, place), Some(observed.version("7")));
        assert!(observed.is_absent(KIND, observed.place(KIND, "team", "b")));
        observed.doubt(KIND, Instant::now());
        assert!(
            observed.current(KIND, place).is_none() && !observed.is_absent(KIND, place),
            "its watch fails"
        );
        observed.observe(KIND, &metadata("a", "8"), true);
        assert!(observed.is_absent(KIND, place), "it goes on");
        observed.begin_list(KIND);
        assert!(!observed.is_absent(KIND, place), "it is listed again");
        observed.unserved(KIND);
        assert!(observed.current(KIND, place).is_none() && !observed.is_absent(KIND, place));
    }

    #[test]
    fn what_belongs_to_an_owner_is_found_by_its_uid_and_by_labels_once_every_kind_is_known() {
        let mut observed = complete();
        observed.observe(KIND, &metadata("a", "7"), false);
        let a = observed.place(KIND, "team", "a");
        let beyond = |observed: &ObservedVersions, uid: &str, wanted: &[Place]| {
            observed.beyond(&owner(), uid, &wanted.iter().copied().collect())
        };
        let only = |places: &[Place]| Unwanted { places: places.iter().copied().collect(), complete: true };
        assert_eq!(beyond(&observed, "o", &[]), only(&[a]));
        assert_eq!(beyond(&observed, "o", &[a]), only(&[]));
        assert_eq!(beyond(&observed, "other", &[]), only(&[]), "another one's");
        let labelled =
            from_value(json!({ "name": "b", "namespace": "elsewhere", "resourceVersion": "9", "labels": {
            "coder.com/control-plane": "coder", "coder.com/control-plane-namespace": "team" } }));
        observed.observe(KIND, &labelled.unwrap(), false);
        let b = observed.place(KIND, "elsewhere", "b");
        assert_eq!(beyond(&observed, "o", &[a]), only(&[b]), "one elsewhere has labels");
        observed.unserved(ChildKind::HttpRoute);
        assert_eq!(beyond(&observed, "o", &[a]), only(&[b]), "there is nothing of a kind that nobody serves");
        observed.doubt(ChildKind::Service, Instant::now());
        let more = Unwanted { complete: false, ..only(&[b]) };
        assert_eq!(beyond(&observed, "o", &[a]), more, "there may be more");
        observed.observe(ChildKind::Service, &metadata("c", "1"), true);
        observed.observe(KIND, &metadata("a", "8"), true);
        assert_eq!(beyond(&observed, "o", &[]), only(&[b]), "it is gone");
    }

    #[test]
    fn an_object_that_changes_hands_is_its_former_owners_no_more() {
        let mut observed = complete();
        observed.observe(KIND, &metadata("a", "7"), false);
        let mut other = metadata("a", "8");
        other.owner_references.iter_mut().flatten().for_each(|owner| owner.uid = "p".to_owned());
        observed.observe(KIND, &other, false);
        assert!(observed.beyond(&owner(), "o", &HashSet::new()).places.is_empty());
        assert_eq!(observed.of.len(), 1, "nothing is kept of what was");
    }

    #[test]
    fn a_verification_finds_what_a_watch_has_missed_and_never_knows_better_than_a_watch_that_has_not() {
        let mut observed = complete();
        for name in ["kept", "changed", "lost"] {
            observed.observe(KIND, &metadata(name, "1"), false);
        }
        observed.begin_verification(KIND);
        observed.observe(KIND, &metadata("fresh", "5"), false);
        observed.observe(KIND, &metadata("deleted", "6"), true);
        let news = |observed: &mut ObservedVersions, name: &str, version: &str| {
            observed.verify(KIND, &metadata(name, version))
        };
        assert!(!news(&mut observed, "kept", "1"));
        assert!(news(&mut observed, "changed", "2") && news(&mut observed, "added", "3"));
        assert!(
            !news(&mut observed, "fresh", "4") && !news(&mut observed, "deleted", "4"),
            "the list is older"
        );
        let (changed, now) = (observed.place(KIND, "team", "changed"), Instant::now());
        assert_eq!(observed.end_verification(KIND, now), [observed.place(KIND, "team", "lost")]);
        assert_eq!(observed.current(KIND, changed), Some(observed.version("2")));
        assert!(observed.is_absent(KIND, observed.place(KIND, "team", "lost")));
        assert!(observed.current(KIND, observed.place(KIND, "team", "fresh")).is_some(), "it came meanwhile");
        observed.doubt(KIND, Instant::now());
        observed.begin_verification(KIND);
        observed.end_verification(KIND, now);
        assert!(!observed.is_absent(KIND, changed), "its watch may still fail");
        observed.begin_verification(KIND);
        observed.end_verification(KIND, now + LONGEST_DOUBT * 2);
        assert!(observed.is_absent(KIND, changed), "a list ends a doubt that nobody has renewed");
    }

    #[test]
    fn whoever_has_too_many_objects_is_told_how_to_find_them() {
        let command = find_command();
        assert!(command.starts_with("kubectl get serviceaccounts,"), "{command}");
        assert!(command.contains(" -A -l app.kubernetes.io/managed-by=coder-k8s "), "{command}");
        assert!(!command.contains("httproutes"), "a kind that a cluster may lack would fail it: {command}");
    }

    #[test]
    fn beyond_a_number_of_objects_nothing_is_kept_and_nobody_can_tell() {
        let mut observed = complete();
        for number in 0..=MOST {
            observed.observe(KIND, &metadata(&number.to_string(), "1"), false);
        }
        let place = observed.place(KIND, "team", "1");
        assert!(observed.current(KIND, place).is_none() && !observed.is_absent(KIND, place));
        assert_eq!(observed.beyond(&owner(), "o", &HashSet::new()), Unwanted::default());
        observed.begin_verification(KIND);
        assert!(!observed.verify(KIND, &metadata("1", "2")), "nothing is news");
        assert!(observed.of.is_empty() && observed.kinds[&KIND].there.is_empty());
    }
}
