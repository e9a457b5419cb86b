//! Remembers which children are as we applied them, so that they are not read again, and asks the watches what there is. A child
//! counts as good while the version that its watch shows now is the very one we noted: whatever else the watch shows, or
//! while it shows nothing for certain, the child is read live. It never decides what to do about a child.

use super::fingerprint::Fingerprint;
use super::shown::{Place, Shown, Version};
use super::{Child, ChildKind};
use crate::controller::identity::ObjectKey;
use crate::kubernetes::Change;
use kube::core::ObjectMeta;
use serde_json::{Value, json};
use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The children of all objects, as far as we know them. It is a hint: what a token is sent to, what a pod runs as, and what is
/// about to be deleted, is always read live.
#[derive(Debug, Default)]
pub struct Known(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    shown: Shown,
    good: HashMap<Place, Good>,
}

/// A child that was as it should be when it was read or applied.
#[derive(Debug)]
struct Good {
    kind: ChildKind,
    owner: ObjectKey,
    version: Version,
    fingerprint: Fingerprint,
    live: Value,
}

/// Children that were good at one moment: for a reconcile that changes none of them, whatever is shown meanwhile.
#[derive(Debug, Default)]
pub struct Snapshot(HashMap<(ChildKind, String, String), Value>);

impl Snapshot {
    /// What was known of a child.
    pub fn of(&self, child: &Child) -> Option<Value> {
        self.0.get(&(child.kind, child.namespace.clone(), child.name.clone())).cloned()
    }
}

/// Objects that the watches show beyond those that are wanted; comparable and nothing more.
pub(crate) type Unwanted = BTreeSet<Place>;

/// What is kept of a live object: by whom it is controlled, or where a Service leads. Anybody may add labels and references.
fn kept(kind: ChildKind, live: &Value) -> Value {
    match kind {
        ChildKind::ServiceAccount => {
            let mut owners = live["metadata"]["ownerReferences"].as_array().into_iter().flatten();
            let owner = owners.find(|owner| owner["controller"] == true);
            let owner = owner.map(|owner| json!({ "uid": owner["uid"], "controller": true }));
            json!({ "metadata": { "ownerReferences": Vec::from_iter(owner) } })
        }
        ChildKind::Service => {
            let spec = &live["spec"];
            let mut ports = spec["ports"].as_array().into_iter().flatten();
            let plain = ports.find(|port| port["name"] == "http");
            let ports = Vec::from_iter(plain.map(|port| json!({ "name": "http", "port": port["port"] })));
            json!({ "spec": { "type": spec["type"], "selector": spec["selector"], "ports": ports } })
        }
        _ => Value::Null,
    }
}

impl State {
    fn place(&self, child: &Child) -> Place {
        self.shown.place(child.kind, &child.namespace, &child.name)
    }

    fn good(&self, child: &Child) -> Option<&Value> {
        let place = self.place(child);
        let good = self.good.get(&place).filter(|good| good.fingerprint == child.fingerprint())?;
        (self.shown.current(child.kind, place) == Some(good.version)).then_some(&good.live)
    }

    /// Forgets what is there no more.
    fn keep_shown(&mut self, kind: ChildKind) {
        let shown = &self.shown;
        self.good.retain(|place, good| good.kind != kind || !shown.is_absent(kind, *place));
    }
}

impl Known {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What was noted of a child, if it is as it is wanted now.
    pub fn good(&self, child: &Child) -> Option<Value> {
        self.state().good(child).cloned()
    }

    /// The same of all these, if all of them are.
    pub fn all_good<'a>(&self, children: impl Iterator<Item = &'a Child>) -> Option<Snapshot> {
        let state = self.state();
        let entry = |child: &Child| {
            let place = (child.kind, child.namespace.clone(), child.name.clone());
            state.good(child).map(|live| (place, live.clone()))
        };
        children.map(entry).collect::<Option<_>>().map(Snapshot)
    }

    /// Notes that a child of this owner is as it is wanted.
    pub fn note(&self, owner: &ObjectKey, child: &Child, live: &Value) {
        let mut state = self.state();
        let place = state.place(child);
        let Some(version) =
            live["metadata"]["resourceVersion"].as_str().map(|text| state.shown.version(text))
        else {
            state.good.remove(&place);
            return;
        };
        let (kind, owner, fingerprint) = (child.kind, owner.clone(), child.fingerprint());
        state.good.insert(place, Good { kind, owner, version, fingerprint, live: kept(kind, live) });
    }

    /// Forgets a child: it is read again.
    pub fn forget(&self, child: &Child) {
        let mut state = self.state();
        let place = state.place(child);
        state.good.remove(&place);
    }

    /// Forgets what is known of the children of an owner.
    pub fn forget_owner(&self, owner: &ObjectKey) {
        self.state().good.retain(|_, good| good.owner != *owner);
    }

    /// Forgets everything: another leader may have changed it.
    pub fn forget_all(&self) {
        *self.state() = State::default();
    }

    /// Takes note of what a watch shows; returns whose child it was that is another now: it may not say so any more.
    pub fn seen(&self, kind: ChildKind, change: &Change) -> Option<ObjectKey> {
        let mut state = self.state();
        let place = state.shown.show(kind, &change.metadata, change.gone)?;
        let version = state.shown.version(change.metadata.resource_version.as_deref().unwrap_or_default());
        let good = state.good.get(&place).filter(|good| change.gone || good.version != version)?;
        let owner = good.owner.clone();
        if change.gone {
            state.good.remove(&place);
        }
        Some(owner)
    }

    /// Takes note that a watch begins to show everything of a kind.
    pub fn begin_list(&self, kind: ChildKind) {
        self.state().shown.begin_list(kind);
    }

    /// Takes note that everything of a kind has been shown.
    pub fn end_list(&self, kind: ChildKind) {
        let mut state = self.state();
        state.shown.end_list(kind);
        state.keep_shown(kind);
    }

    /// Takes note that the watch of a kind fails.
    pub fn doubt(&self, kind: ChildKind) {
        self.state().shown.doubt(kind);
    }

    /// Takes note that the cluster does not serve a kind; returns whether it did.
    pub fn unserved(&self, kind: ChildKind) -> bool {
        let mut state = self.state();
        state.good.retain(|_, good| good.kind != kind);
        state.shown.unserved(kind)
    }

    /// Whether there is no such object for certain.
    pub fn is_absent(&self, child: &Child) -> bool {
        let state = self.state();
        state.shown.is_absent(child.kind, state.place(child))
    }

    /// What the watches show of this owner beyond the children that are wanted. None while nobody can tell.
    pub fn unwanted<'a>(
        &self,
        owner: &ObjectKey,
        uid: &str,
        wanted: impl Iterator<Item = &'a Child>,
    ) -> Option<Unwanted> {
        let state = self.state();
        let wanted: HashSet<Place> = wanted.map(|child| state.place(child)).collect();
        state.shown.beyond(owner, uid, &wanted)
    }

    /// Whether there is something to verify of a kind.
    pub fn is_followed(&self, kind: ChildKind) -> bool {
        self.state().shown.is_followed(kind)
    }

    /// Begins to verify a kind by a list of all there is.
    pub fn begin_verification(&self, kind: ChildKind) {
        self.state().shown.begin_verification(kind);
    }

    /// Whether the list shows an object otherwise than the watch has.
    pub fn is_news(&self, kind: ChildKind, metadata: &ObjectMeta) -> bool {
        self.state().shown.is_news(kind, metadata)
    }

    /// Ends the verification; returns whose children are gone without a word of the watch.
    pub fn end_verification(&self, kind: ChildKind) -> BTreeSet<ObjectKey> {
        let mut state = self.state();
        let lost = state.shown.end_verification(kind);
        lost.iter().filter_map(|place| state.good.remove(place)).map(|good| good.owner).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::from_value;

    const KIND: ChildKind = ChildKind::ServiceAccount;

    fn owner() -> ObjectKey {
        ObjectKey { namespace: "team".to_owned(), name: "coder".to_owned() }
    }

    fn child(value: &str) -> Child {
        let manifest =
            json!({ "metadata": { "name": "coder", "namespace": "team" }, "spec": { "a": value } });
        Child::new(KIND, "team", "coder", manifest)
    }

    /// The child as the API server has it at a version.
    fn live(child: &Child, version: &str) -> Value {
        let mut live = child.wanted();
        live["metadata"]["resourceVersion"] = json!(version);
        live["metadata"]["labels"] = json!({ "of": "others" });
        live["metadata"]["ownerReferences"] =
            json!([{ "uid": "other", "name": "x" }, { "uid": "u", "name": "coder", "controller": true }]);
        live
    }

    fn change(version: &str, gone: bool) -> Change {
        let metadata = json!({ "name": "coder", "namespace": "team", "resourceVersion": version });
        Change { metadata: from_value(metadata).unwrap(), gone }
    }

    fn listed() -> Known {
        let known = Known::default();
        known.end_list(KIND);
        known
    }

    #[test]
    fn a_child_is_good_while_the_watch_shows_the_version_we_noted_and_nothing_else_is_wanted() {
        let (known, one) = (listed(), child("1"));
        known.note(&owner(), &one, &live(&one, "7"));
        assert_eq!(known.good(&one), None, "the watch has not shown it yet");
        known.seen(KIND, &change("7", false));
        assert_eq!(
            known.good(&one),
            Some(json!({ "metadata": { "ownerReferences": [{ "uid": "u", "controller": true }] } })),
            "nothing else is kept of it"
        );
        assert_eq!(known.good(&child("2")), None, "something else is wanted");
        assert_eq!(known.seen(KIND, &change("8", false)), Some(owner()), "somebody else wrote it");
        assert_eq!(known.good(&one), None);
        known.note(&owner(), &one, &live(&one, "9"));
        assert_eq!(known.seen(KIND, &change("9", false)), None, "we wrote it");
        assert!(known.good(&one).is_some());
        assert_eq!(known.seen(KIND, &change("10", true)), Some(owner()), "it is gone");
        assert_eq!(known.good(&one), None);
    }

    #[test]
    fn a_note_that_comes_after_the_watch_has_shown_more_counts_for_nothing() {
        let (known, one) = (listed(), child("1"));
        known.seen(KIND, &change("8", false));
        known.note(&owner(), &one, &live(&one, "7"));
        assert_eq!(known.good(&one), None);
        known.seen(KIND, &change("9", true));
        known.note(&owner(), &one, &live(&one, "8"));
        assert_eq!(known.good(&one), None);
    }

    #[test]
    fn nothing_counts_while_the_watch_of_its_kind_has_not_listed_or_fails() {
        let (known, one) = (Known::default(), child("1"));
        known.note(&owner(), &one, &live(&one, "7"));
        known.begin_list(KIND);
        known.seen(KIND, &change("7", false));
        assert_eq!(known.good(&one), None);
        known.end_list(KIND);
        assert!(known.good(&one).is_some() && known.all_good([&one].into_iter()).is_some());
        known.doubt(KIND);
        assert!(known.good(&one).is_none() && known.all_good([&one].into_iter()).is_none());
        known.seen(KIND, &change("7", false));
        assert!(known.good(&one).is_some(), "it goes on");
        known.forget_owner(&owner());
        assert_eq!(known.good(&one), None);
        known.note(&owner(), &one, &live(&one, "7"));
        known.begin_list(KIND);
        known.end_list(KIND);
        assert!(known.state().good.is_empty(), "it went while the watch was broken");
    }

    #[test]
    fn a_verification_tells_whose_children_are_gone_without_a_word() {
        let (known, one) = (listed(), child("1"));
        known.note(&owner(), &one, &live(&one, "7"));
        known.seen(KIND, &change("7", false));
        known.begin_verification(KIND);
        assert!(!known.is_news(KIND, &change("7", false).metadata));
        assert!(known.end_verification(KIND).is_empty() && known.good(&one).is_some());
        known.begin_verification(KIND);
        assert!(known.is_news(KIND, &change("8", false).metadata), "an event was lost");
        assert!(known.end_verification(KIND).is_empty());
        known.begin_verification(KIND);
        assert_eq!(known.end_verification(KIND), [owner()].into());
        assert_eq!(known.good(&one), None);
    }

    #[test]
    fn a_snapshot_stays_what_it_was() {
        let (known, one) = (listed(), child("1"));
        known.note(&owner(), &one, &live(&one, "7"));
        known.seen(KIND, &change("7", false));
        let snapshot = known.all_good([&one].into_iter()).unwrap();
        known.seen(KIND, &change("8", true));
        assert!(known.good(&one).is_none() && snapshot.of(&one).is_some());
    }
}
