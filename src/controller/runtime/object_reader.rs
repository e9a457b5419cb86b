//! Gives a reconcile its object: from the shared watch where that is certainly no older than what this process has read or
//! written of it and asks for nothing else, and by a read where it is not. It never decides what may be done with one that
//! comes from the watch, which may be behind the API server by a moment.

use super::objects::Wanted;
use super::queue::Queue;
use crate::controller::children::Fingerprint;
use crate::controller::identity::ObjectKey;
use crate::controller::object::{Object, Origin, ReconciledKind};
use crate::kubernetes::{CallError, Kept, Kube, Reflected, Target};
use kube::Resource;
use kube::core::ObjectMeta;
use serde_json::{Value, from_value};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Reads the objects of one kind.
pub(crate) struct ObjectReader<K: ReconciledKind> {
    kube: Kube,
    watched: Reflected<Kept<K>>,
    last: Mutex<BTreeMap<ObjectKey, LastRead>>,
}

/// What is remembered of an object that was read.
struct LastRead {
    /// What it asked for; none if a list has shown a version since that nobody has read.
    wanted: Option<Fingerprint>,
    /// The newest version that we know of: the one that was read or listed, or the one of our last write.
    version: u64,
    /// Whether the next reconcile may well end without a read of it.
    is_confirmable: bool,
}

impl LastRead {
    /// Whether an object of the watch may stand for a read: it is of this version or a newer one, and asks for nothing that
    /// was not asked for then. Versions of one kind are numbers that grow (KEP-5504).
    fn is_served_by(&self, watched: &ObjectMeta) -> bool {
        let wanted = Wanted::of(watched);
        let is_as_new = version(watched.resource_version.as_deref()).is_some_and(|now| now >= self.version);
        let asks_the_same = self.wanted == Some(wanted.fingerprint());
        self.is_confirmable && is_as_new && asks_the_same && !wanted.is_deletion()
    }
}

fn version(text: Option<&str>) -> Option<u64> {
    text?.parse().ok()
}

impl<K: ReconciledKind> ObjectReader<K> {
    /// A reader that has read nothing yet.
    pub(crate) fn new(kube: Kube, watched: Reflected<Kept<K>>) -> Self {
        Self { kube, watched, last: Mutex::default() }
    }

    fn last(&self) -> MutexGuard<'_, BTreeMap<ObjectKey, LastRead>> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The object from the watch, without a request. None until it was read once, after a reconcile that ended with an
    /// error or could not do with the watch, when it asks for something else than it did then (a new generation,
    /// `reconcile-at`, its deletion), and while the watch is behind what we know.
    pub(crate) fn watched(&self, key: &ObjectKey) -> Option<Object<K>> {
        let watched = self.watched.named(&key.namespace, &key.name)?;
        let is_served = self.last().get(key).is_some_and(|last| last.is_served_by(watched.meta()));
        let value = is_served.then(|| watched.object()).flatten()?;
        Some(Object::new(key.clone(), Origin::Watch, value))
    }

    /// The object as the API server has it now; none if there is none.
    pub(crate) async fn read(&self, key: &ObjectKey) -> Result<Option<Object<K>>, CallError> {
        let object = self.kube.read(key.target(K::NAME)).await?;
        remember(&mut self.last(), key, object.as_ref().and_then(last_read));
        Ok(object.map(|value| Object::new(key.clone(), Origin::Read, value)))
    }

    /// Takes note of the version that a write of ours has made; if it is not known, the object is read.
    pub(crate) fn written(&self, key: &ObjectKey, resource_version: Option<&str>) {
        let Some(written) = version(resource_version) else { return self.forget(key) };
        if let Some(last) = self.last().get_mut(key) {
            last.version = last.version.max(written);
        }
    }

    /// Takes note of whether the next reconcile of an object may well end without a read of it.
    pub(crate) fn note_confirmable(&self, key: &ObjectKey, is_confirmable: bool) {
        if let Some(last) = self.last().get_mut(key) {
            last.is_confirmable = is_confirmable;
        }
    }

    /// Forgets what is known of an object: it is read.
    pub(crate) fn forget(&self, key: &ObjectKey) {
        self.last().remove(key);
    }

    /// Forgets everything: there may be what our watch has not shown, by another leader or because events were lost.
    pub(crate) fn forget_all(&self) {
        self.last().clear();
    }

    /// Forgets everything of one of the [`places`](Self::places).
    pub(crate) fn forget_all_in(&self, place: &str) {
        self.last().retain(|key, _| !is_in(place, key));
    }

    /// Where there may be objects: namespaces, or, by the empty name, the whole cluster.
    pub(crate) fn places(&self) -> Vec<&str> {
        self.kube.scope().places()
    }

    /// Lists what there is in one of them, and enqueues every object that the watch shows otherwise: an event was lost, or etcd was
    /// restored. It is read, and the watch begins anew with a list, since others look at what it shows as well.
    pub(crate) async fn verify(&self, place: &str, queue: &Queue<ObjectKey>) -> Result<(), CallError> {
        let before = versions(place, &self.watched);
        let mut listed = BTreeMap::new();
        let all = Target::of(K::NAME, place, "");
        self.kube
            .labelled_metadata(all, "", |metadata| {
                _ = listed.insert(ObjectKey::of(&metadata), metadata.resource_version);
            })
            .await?;
        let missed = missed(&before, &listed, &versions(place, &self.watched));
        if !missed.is_empty() {
            self.watched.relist();
        }
        for key in missed {
            tracing::info!(namespace = key.namespace, name = key.name, "a watch has missed a change");
            let listed = listed.get(&key).and_then(|text| version(text.as_deref()));
            note_missed(&mut self.last(), &key, listed);
            queue.enqueue(key);
        }
        Ok(())
    }
}

/// What is remembered of an object that was read.
fn last_read(object: &Value) -> Option<LastRead> {
    let metadata: ObjectMeta = from_value(object["metadata"].clone()).ok()?;
    let version = version(metadata.resource_version.as_deref())?;
    Some(LastRead { wanted: Some(Wanted::of(&metadata).fingerprint()), version, is_confirmable: true })
}

/// Takes note of what was read. An answer that is older than what is known was on its way while a list showed more, or etcd
/// was restored: nothing is remembered, so that the object is read once more.
fn remember(last: &mut BTreeMap<ObjectKey, LastRead>, key: &ObjectKey, read: Option<LastRead>) {
    let known = last.remove(key);
    let is_older = |read: &LastRead| known.as_ref().is_some_and(|known| read.version < known.version);
    if let Some(read) = read.filter(|read| !is_older(read)) {
        let is_confirmable = known.is_none_or(|known| known.is_confirmable);
        last.insert(key.clone(), LastRead { is_confirmable, ..read });
    }
}

/// Takes note of the version that a list has shown of an object: no older answer stands for it.
fn note_missed(last: &mut BTreeMap<ObjectKey, LastRead>, key: &ObjectKey, listed: Option<u64>) {
    match listed {
        Some(version) => {
            last.insert(key.clone(), LastRead { wanted: None, version, is_confirmable: true });
        }
        None => _ = last.remove(key),
    }
}

/// The objects of a kind by their versions.
type Versions = BTreeMap<ObjectKey, Option<String>>;

/// Whether an object is in a place.
fn is_in(place: &str, key: &ObjectKey) -> bool {
    place.is_empty() || key.namespace == place
}

fn versions<K: ReconciledKind>(place: &str, watched: &Reflected<Kept<K>>) -> Versions {
    let version = |metadata: &ObjectMeta| metadata.resource_version.clone();
    let all = watched.all();
    let of = all.iter().map(|one| (ObjectKey::of(one.meta()), version(one.meta())));
    of.filter(|(key, _)| is_in(place, key)).collect()
}

/// What a watch has not shown although a list did, or shows although the list did not. What the watch has shown since the
/// list began it knows better, unless it is older.
fn missed(before: &Versions, listed: &Versions, after: &Versions) -> BTreeSet<ObjectKey> {
    let is_missed = |key: &ObjectKey, listed: &Option<String>| match (before.get(key), after.get(key)) {
        // A list is never older than what was shown before it, unless etcd was restored.
        (Some(before), Some(shown)) if before == shown => shown != listed,
        (_, Some(shown)) => match (version(shown.as_deref()), version(listed.as_deref())) {
            (Some(shown), Some(listed)) => shown < listed,
            _ => false,
        },
        // It was deleted, and its event came while we listed.
        (Some(_), None) => false,
        (None, None) => true,
    };
    let differing = listed.iter().filter(|(key, version)| is_missed(key, version)).map(|(key, _)| key);
    let unlisted = after.iter().filter(|(key, version)| before.get(*key) == Some(version));
    let gone = unlisted.filter(|(key, _)| !listed.contains_key(*key)).map(|(key, _)| key);
    differing.chain(gone).cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn object(version: &str) -> Value {
        json!({ "metadata": { "name": "a", "namespace": "team", "uid": "u", "generation": 2, "resourceVersion": version,
            "annotations": { "coder.com/reconcile-at": "now" } } })
    }

    fn is_served(last: &LastRead, change: impl FnOnce(&mut Value)) -> bool {
        let mut watched = object("100");
        change(&mut watched["metadata"]);
        last.is_served_by(&from_value(watched["metadata"].take()).unwrap())
    }

    #[test]
    fn an_object_of_the_watch_serves_while_it_is_as_new_and_asks_for_nothing_else() {
        let last = last_read(&object("99")).unwrap();
        assert!(is_served(&last, |_| ()), "its status was written, or somebody else's label");
        assert!(is_served(&last, |same| same["resourceVersion"] = json!("99")));
        for (field, value) in [
            ("resourceVersion", json!("98")),
            ("resourceVersion", json!("9")),
            ("resourceVersion", json!("later")),
            ("resourceVersion", Value::Null),
            ("generation", json!(3)),
            ("uid", json!("v")),
            ("deletionTimestamp", json!("2026-01-01T00:00:00Z")),
            ("finalizers", json!(["a/b"])),
            ("annotations", json!({ "coder.com/reconcile-at": "again" })),
            ("annotations", json!({ "coder.com/reconcile-at": "now", "coder.com/release-external": "true" })),
        ] {
            assert!(!is_served(&last, |other| other[field] = value.clone()), "{field}: {value}");
        }
        assert!(last_read(&object("x")).is_none(), "versions that cannot be compared serve nobody");
        let mut deleting = object("99");
        deleting["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        let last = last_read(&deleting).unwrap();
        let gone = |going: &mut Value| going["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        assert!(!is_served(&last, gone), "an object that is going is always read");
    }

    #[test]
    fn a_list_finds_what_a_watch_has_missed_and_never_knows_better_than_a_watch_that_has_not() {
        let versions = |all: &[(&str, u64)]| -> Versions {
            let key = |name: &str| ObjectKey { namespace: "team".to_owned(), name: name.to_owned() };
            all.iter().map(|(name, version)| (key(name), Some(version.to_string()))).collect()
        };
        let missed = |before: &Versions, listed: &Versions, after: &Versions| -> Vec<String> {
            missed(before, listed, after).into_iter().map(|key| key.name).collect()
        };
        let before = versions(&[("same", 1), ("changed", 1), ("gone", 1), ("ahead", 1), ("deleted", 1)]);
        let listed = versions(&[("same", 1), ("changed", 2), ("added", 3), ("ahead", 4), ("deleted", 1)]);
        let after = versions(&[("same", 1), ("changed", 1), ("gone", 1), ("ahead", 5), ("new", 6)]);
        assert_eq!(missed(&before, &listed, &after), ["added", "changed", "gone"]);
        let (shown, listed) = (versions(&[("a", 5000), ("b", 5000)]), versions(&[("a", 1100), ("b", 5000)]));
        assert_eq!(missed(&shown, &listed, &shown), ["a"], "listed lower than shown: etcd was restored");
        assert!(missed(&listed, &listed, &shown).is_empty(), "the watch has shown more meanwhile");
        assert!(missed(&listed, &listed, &listed).is_empty(), "after a relist nothing is told again");
        let text = |version: &str| -> Versions {
            listed.keys().map(|key| (key.clone(), Some(version.to_owned()))).collect()
        };
        assert!(missed(&text("x"), &text("x"), &text("x")).is_empty(), "versions that are no numbers");
        assert_eq!(missed(&text("x"), &text("y"), &text("x")), ["a", "b"]);
    }

    /// Whether an object of this version would do, after what is known.
    fn serves(last: &BTreeMap<ObjectKey, LastRead>, version: &str) -> bool {
        last.get(&key()).is_some_and(|last| is_served(last, |same| same["resourceVersion"] = json!(version)))
    }

    fn key() -> ObjectKey {
        ObjectKey { namespace: "team".to_owned(), name: "a".to_owned() }
    }

    #[test]
    fn an_answer_that_was_on_its_way_when_a_list_showed_more_stands_for_nothing() {
        let (mut last, read) = (BTreeMap::new(), |version: &str| last_read(&object(version)));
        for known in [None, read("99")] {
            remember(&mut last, &key(), known);
            note_missed(&mut last, &key(), Some(100));
            assert!(!serves(&last, "100"), "it is read first");
            remember(&mut last, &key(), read("99"));
            assert!(!serves(&last, "99") && !serves(&last, "100"));
            remember(&mut last, &key(), read("100"));
            assert!(!serves(&last, "99") && serves(&last, "100"));
            note_missed(&mut last, &key(), None);
            assert!(last.is_empty());
        }
    }

    #[test]
    fn after_a_restore_of_etcd_an_object_is_read_until_its_old_version_is_forgotten() {
        let (mut last, read) = (BTreeMap::new(), |version: &str| last_read(&object(version)));
        remember(&mut last, &key(), read("5000"));
        note_missed(&mut last, &key(), Some(1100));
        assert!(!serves(&last, "5000") && !serves(&last, "1100"));
        // One of before the restore was on its way.
        remember(&mut last, &key(), read("5000"));
        remember(&mut last, &key(), read("1100"));
        assert!(!serves(&last, "5000") && !serves(&last, "1100"), "they contradict each other");
        remember(&mut last, &key(), read("1100"));
        assert!(serves(&last, "1100"), "the watch has listed again");
    }

    #[test]
    fn an_object_that_cannot_be_confirmed_from_the_watch_is_read_until_it_can() {
        let mut last = last_read(&object("99")).unwrap();
        assert!(is_served(&last, |_| ()));
        last.is_confirmable = false;
        assert!(!is_served(&last, |_| ()));
        let mut all = BTreeMap::from([(key(), last)]);
        remember(&mut all, &key(), last_read(&object("100")));
        assert!(!serves(&all, "100"), "a read alone makes no difference");
    }
}
