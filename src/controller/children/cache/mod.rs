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
use std::collections::{BTreeSet, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// The cache of all children of all kinds, as the watches fill it: there is one, so that each list and each change is looked at
/// once. It is a hint: what a token is sent to, what a pod runs as, and what is about to be deleted, is always read live.
#[derive(Debug, Default)]
pub struct SharedChildCache(Mutex<State>);

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

impl SharedChildCache {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Forgets everything: another leader may have changed it.
    pub fn forget_all(&self) {
        *self.state() = State::default();
    }

    /// Takes note of what a watch shows; returns whose child it was that is another now: it may not say so any more.
    pub fn seen(&self, kind: ChildKind, change: &Change) -> Option<OwnerKey> {
        let mut state = self.state();
        let place = state.observed.observe(kind, &change.metadata, change.gone)?;
        let version = state.observed.version(change.metadata.resource_version.as_deref().unwrap_or_default());
        let cached = state.children.get(&place).filter(|cached| change.gone || cached.version != version)?;
        let owner = cached.owner.clone();
        if change.gone {
            state.children.remove(&place);
        }
        Some(owner)
    }

    /// Takes note that a watch begins to show everything of a kind.
    pub fn begin_list(&self, kind: ChildKind) {
        self.state().observed.begin_list(kind);
    }

    /// Takes note that everything of a kind has been shown; returns whose children are gone without a word.
    pub fn end_list(&self, kind: ChildKind) -> BTreeSet<OwnerKey> {
        let mut state = self.state();
        state.observed.end_list(kind);
        state.keep_shown(kind)
    }

    /// Takes note that the watch of a kind fails.
    pub fn doubt(&self, kind: ChildKind) {
        self.state().observed.doubt(kind, Instant::now());
    }

    /// Takes note that the cluster does not serve a kind; returns whether it did.
    pub fn unserved(&self, kind: ChildKind) -> bool {
        let mut state = self.state();
        state.children.retain(|_, cached| cached.kind != kind);
        state.observed.unserved(kind)
    }

    /// Whether there is something to verify of a kind.
    pub fn is_followed(&self, kind: ChildKind) -> bool {
        self.state().observed.is_followed(kind)
    }

    /// Begins to verify a kind by a list of all there is.
    pub fn begin_verification(&self, kind: ChildKind) {
        self.state().observed.begin_verification(kind);
    }

    /// Takes note of an object that the list shows; returns whether the watch has not shown it like that.
    pub fn verify(&self, kind: ChildKind, metadata: &ObjectMeta) -> bool {
        self.state().observed.verify(kind, metadata)
    }

    /// Ends the verification; returns whose children are gone without a word of the watch.
    pub fn end_verification(&self, kind: ChildKind) -> BTreeSet<OwnerKey> {
        let mut state = self.state();
        let lost = state.observed.end_verification(kind, Instant::now());
        lost.iter().filter_map(|place| state.children.remove(place)).map(|cached| cached.owner).collect()
    }
}

#[cfg(test)]
mod tests;
