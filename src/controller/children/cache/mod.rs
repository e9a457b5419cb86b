//! Remembers which children are as we applied them, so that they are not read again, and asks the watches what there is. A child
//! counts as up to date while the version that its watch shows now is the very one we noted: whatever else it shows, or
//! while it shows nothing for certain, the child is read live. It never decides what to do about a child.

mod kept;
mod of_kind;

pub use of_kind::ChildCache;
pub(crate) use of_kind::Snapshot;

use super::ChildKind;
use super::fingerprint::Fingerprint;
use super::observed_versions::{ObservedVersions, Place, Version};
use crate::controller::identity::OwnerKey;
use crate::kubernetes::Change;
use kube::core::ObjectMeta;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// The cache of all children of all kinds, as the watches fill it: there is one, so that each list and each change is looked at
/// once. It is a hint: what a token is sent to, what a pod runs as, and what is about to be deleted, is always read live.
#[derive(Debug)]
pub struct SharedChildCache(Mutex<States>);

/// What is known by the places that are watched, each by itself: of one that is refused nothing is known, and that is all. A
/// namespace has its own, or is a part of the whole cluster, whose name is empty.
#[derive(Debug)]
struct States(BTreeMap<String, State>);

#[derive(Debug, Default)]
struct State {
    observed: ObservedVersions,
    children: HashMap<Place, CachedChild>,
}

/// A child that was as it should be when it was read or applied.
#[derive(Debug)]
struct CachedChild {
    kind: ChildKind,
    owner: OwnerKey,
    version: Version,
    fingerprint: Fingerprint,
    /// What is kept of it, as text; none of one that was not as it should be, or of which there would be too much.
    live: Option<Box<str>>,
}

impl CachedChild {
    fn live(&self) -> Option<Value> {
        serde_json::from_str(self.live.as_ref()?).ok()
    }
}

impl State {
    /// What was noted of an object that is still of that version.
    fn current(&self, kind: ChildKind, place: Place) -> Option<&CachedChild> {
        let current = self.observed.current(kind, place)?;
        self.children.get(&place).filter(|cached| cached.version == current)
    }

    fn seen(&mut self, kind: ChildKind, change: &Change) -> Option<OwnerKey> {
        let place = self.observed.observe(kind, &change.metadata, change.gone)?;
        let version = self.observed.version(change.metadata.resource_version.as_deref().unwrap_or_default());
        let cached = self.children.get(&place).filter(|cached| change.gone || cached.version != version)?;
        let owner = cached.owner.clone();
        if change.gone {
            self.children.remove(&place);
        }
        Some(owner)
    }

    /// Forgets what is there no more; returns whose it was.
    fn keep_shown(&mut self, kind: ChildKind) -> BTreeSet<OwnerKey> {
        let (observed, mut lost) = (&self.observed, BTreeSet::new());
        self.children.retain(|place, cached| {
            let is_lost = cached.kind == kind && observed.is_absent(kind, *place);
            if is_lost {
                lost.insert(cached.owner.clone());
            }
            !is_lost
        });
        lost
    }
}

impl States {
    /// Nothing of these places. Together they keep no more than one would.
    fn of<'a>(places: impl ExactSizeIterator<Item = &'a str>) -> Self {
        let share = places.len().max(1);
        let state = || State { observed: ObservedVersions::sharing(share), children: HashMap::new() };
        Self(places.map(|place| (place.to_owned(), state())).collect())
    }

    /// What is known where an object is; none if nobody looks there.
    fn at(&self, namespace: &str) -> Option<&State> {
        self.0.get(namespace).or_else(|| self.0.get(""))
    }

    fn at_mut(&mut self, namespace: &str) -> Option<&mut State> {
        let place = if self.0.contains_key(namespace) { namespace } else { "" };
        self.0.get_mut(place)
    }
}

impl Default for SharedChildCache {
    fn default() -> Self {
        Self::of(&[""])
    }
}

impl SharedChildCache {
    /// One of these places, of which it knows nothing yet.
    pub fn of(places: &[&str]) -> Self {
        Self(Mutex::new(States::of(places.iter().copied())))
    }

    fn states(&self) -> MutexGuard<'_, States> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does something with what is known of a place; the answer for one where nobody looks is the usual one.
    fn with<T: Default>(&self, place: &str, act: impl FnOnce(&mut State) -> T) -> T {
        self.states().at_mut(place).map(act).unwrap_or_default()
    }

    /// Forgets everything: another leader may have changed it.
    pub fn forget_all(&self) {
        let mut states = self.states();
        let forgotten = States::of(states.0.keys().map(String::as_str));
        *states = forgotten;
    }

    /// Takes note of what a watch shows; returns whose child it was that is another now: it may not say so any more.
    pub fn seen(&self, kind: ChildKind, change: &Change) -> Option<OwnerKey> {
        self.with(change.metadata.namespace.as_deref()?, |state| state.seen(kind, change))
    }

    /// Takes note that a watch begins to show everything of a kind.
    pub fn begin_list(&self, place: &str, kind: ChildKind) {
        self.with(place, |state| state.observed.begin_list(kind));
    }

    /// Takes note that everything of a kind has been shown; returns whose children are gone without a word.
    pub fn end_list(&self, place: &str, kind: ChildKind) -> BTreeSet<OwnerKey> {
        self.with(place, |state| {
            state.observed.end_list(kind);
            state.keep_shown(kind)
        })
    }

    /// Takes note that the watch of a kind fails.
    pub fn doubt(&self, place: &str, kind: ChildKind) {
        self.with(place, |state| state.observed.doubt(kind, Instant::now()));
    }

    /// Takes note that the cluster does not serve a kind; returns whether it did.
    pub fn unserved(&self, place: &str, kind: ChildKind) -> bool {
        self.with(place, |state| {
            state.children.retain(|_, cached| cached.kind != kind);
            state.observed.unserved(kind)
        })
    }

    /// Whether there is something to verify of a kind.
    pub fn is_followed(&self, place: &str, kind: ChildKind) -> bool {
        self.with(place, |state| state.observed.is_followed(kind))
    }

    /// Begins to verify a kind by a list of all there is.
    pub fn begin_verification(&self, place: &str, kind: ChildKind) {
        self.with(place, |state| state.observed.begin_verification(kind));
    }

    /// Takes note of an object that the list shows; returns whether the watch has not shown it like that.
    pub fn verify(&self, kind: ChildKind, metadata: &ObjectMeta) -> bool {
        let Some(namespace) = &metadata.namespace else { return false };
        self.with(namespace, |state| state.observed.verify(kind, metadata))
    }

    /// Ends the verification; returns whose children are gone without a word of the watch.
    pub fn end_verification(&self, place: &str, kind: ChildKind) -> BTreeSet<OwnerKey> {
        self.with(place, |state| {
            let lost = state.observed.end_verification(kind, Instant::now());
            lost.iter().filter_map(|place| state.children.remove(place)).map(|cached| cached.owner).collect()
        })
    }
}

#[cfg(test)]
mod tests;
