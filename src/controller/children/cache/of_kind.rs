//! The cache as the reconciler of one kind uses it: what it notes is its own, so that an object of another kind with the same name
//! is told nothing of it and forgets nothing of it.

use super::kept::kept;
use super::{CachedChild, SharedChildCache, State};
use crate::controller::children::observed_versions::{Place, Unwanted};
use crate::controller::children::{Child, ChildKind};
use crate::controller::identity::{ObjectKey, OwnerKey};
use serde_json::Value;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

/// What is known of the children of one kind of owner.
#[derive(Debug, Clone)]
pub struct ChildCache {
    owner_kind: &'static str,
    shared: Arc<SharedChildCache>,
}

/// Children that were up to date at one moment: for a reconcile that changes none of them, whatever is shown meanwhile.
#[derive(Debug, Default)]
pub struct Snapshot(HashMap<(ChildKind, String, String), Value>);

impl Snapshot {
    /// What was known of a child.
    pub fn of(&self, child: &Child) -> Option<Value> {
        self.0.get(&(child.kind, child.namespace.clone(), child.name.clone())).cloned()
    }
}

impl State {
    fn place(&self, child: &Child) -> Place {
        self.observed.place(child.kind, &child.namespace, &child.name)
    }

    fn up_to_date(&self, child: &Child) -> Option<Value> {
        let cached = self.current(child.kind, self.place(child))?;
        cached.live().filter(|_| cached.fingerprint == child.fingerprint())
    }
}

impl ChildCache {
    /// The cache for owners of this kind.
    pub fn of(owner_kind: &'static str, shared: Arc<SharedChildCache>) -> Self {
        Self { owner_kind, shared }
    }

    fn owner(&self, key: &ObjectKey) -> OwnerKey {
        OwnerKey { kind: self.owner_kind, key: key.clone() }
    }

    /// What was noted of a child, if it is as it is wanted now.
    pub fn up_to_date(&self, child: &Child) -> Option<Value> {
        self.shared.states().at(&child.namespace)?.up_to_date(child)
    }

    /// What was noted of a child, if it is still as it was then, whether or not that is wanted now.
    pub fn noted(&self, kind: ChildKind, namespace: &str, name: &str) -> Option<Value> {
        let states = self.shared.states();
        let state = states.at(namespace)?;
        state.current(kind, state.observed.place(kind, namespace, name))?.live()
    }

    /// The same of all these, if all of them are.
    pub fn all_up_to_date<'a>(&self, children: impl Iterator<Item = &'a Child>) -> Option<Snapshot> {
        let states = self.shared.states();
        let entry = |child: &Child| {
            let place = (child.kind, child.namespace.clone(), child.name.clone());
            states.at(&child.namespace)?.up_to_date(child).map(|live| (place, live))
        };
        children.map(entry).collect::<Option<_>>().map(Snapshot)
    }

    /// Notes that a child of this owner is as it is wanted.
    pub fn note(&self, owner: &ObjectKey, child: &Child, live: &Value) {
        self.note_as(owner, child, live, kept(child.kind, live));
    }

    /// Notes whose a child is that is not as it is wanted: its owner must be known when it goes without a word.
    pub fn note_owner(&self, owner: &ObjectKey, child: &Child, live: &Value) {
        self.note_as(owner, child, live, None);
    }

    fn note_as(&self, owner: &ObjectKey, child: &Child, live: &Value, kept: Option<Box<str>>) {
        let mut states = self.shared.states();
        let Some(state) = states.at_mut(&child.namespace) else { return };
        let place = state.place(child);
        let Some(version) =
            live["metadata"]["resourceVersion"].as_str().map(|text| state.observed.version(text))
        else {
            state.children.remove(&place);
            return;
        };
        let (kind, owner, fingerprint) = (child.kind, self.owner(owner), child.fingerprint());
        state.children.insert(place, CachedChild { kind, owner, version, fingerprint, live: kept });
    }

    /// Forgets a child: it is read again.
    pub fn forget(&self, child: &Child) {
        self.shared.with(&child.namespace, |state| {
            let place = state.place(child);
            state.children.remove(&place);
        });
    }

    /// Forgets what is known of the children of an owner.
    pub fn forget_owner(&self, owner: &ObjectKey) {
        let owner = self.owner(owner);
        for state in self.shared.states().0.values_mut() {
            state.children.retain(|_, cached| cached.owner != owner);
        }
    }

    /// Whether there is no such object for certain.
    pub fn is_absent(&self, child: &Child) -> bool {
        self.shared.with(&child.namespace, |state| state.observed.is_absent(child.kind, state.place(child)))
    }

    /// What the watches show of this owner beyond the children that are wanted.
    pub fn unwanted<'a>(
        &self,
        owner: &ObjectKey,
        uid: &str,
        wanted: impl Iterator<Item = &'a Child>,
    ) -> Unwanted {
        let (states, wanted) = (self.shared.states(), wanted.collect::<Vec<_>>());
        let mut all = Unwanted { places: BTreeSet::new(), complete: true };
        for state in states.0.values() {
            let wanted: HashSet<Place> = wanted.iter().map(|child| state.place(child)).collect();
            let beyond = state.observed.beyond(owner, uid, &wanted);
            all.places.extend(beyond.places);
            all.complete &= beyond.complete;
        }
        all
    }
}
