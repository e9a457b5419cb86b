//! Remembers which children are as we applied them, by uid, version and fingerprint, so that they are not read again, and
//! which children there are at all, so that nothing is looked for that is not there. It follows the watches: whatever they
//! show that is not the version we noted is forgotten, and then read live. It never decides what to do about a child.

use super::{Child, ChildKind, drift};
use crate::controller::identity::ObjectKey;
use crate::kubernetes::Change;
use kube::core::ObjectMeta;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The children of all objects, as far as we know them. It is a hint: what a token is sent to, and what is about to be
/// deleted, is always read live.
#[derive(Debug, Default)]
pub struct Known(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// Those that are as we applied them.
    good: BTreeMap<Place, Good>,
    /// Those that the watches show, with whom they belong to, and the same by owner.
    there: BTreeMap<Place, Belongs>,
    of: BTreeMap<By, BTreeSet<Place>>,
    /// The kinds of which everything has been listed.
    listed: BTreeSet<ChildKind>,
}

/// Kind, namespace and name.
type Place = (ChildKind, String, String);

#[derive(Debug)]
struct Good {
    owner: ObjectKey,
    version: String,
    fingerprint: String,
    /// What is asked of it besides that it is there.
    live: Value,
    /// Whether it needs no proof: it was noted, or a list has shown it, since the last verification began.
    verified: bool,
}

/// By what an owner is known.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum By {
    /// It is the controller of the child.
    Uid(String),
    /// The labels of the child name it.
    Labels(ObjectKey),
}

/// Whom a child belongs to.
type Belongs = Vec<By>;

fn belongs(metadata: &ObjectMeta) -> Belongs {
    let mut owners = metadata.owner_references.iter().flatten();
    let uid = owners.find(|owner| owner.controller == Some(true)).map(|owner| By::Uid(owner.uid.clone()));
    uid.into_iter().chain(ObjectKey::of_labels(metadata).map(By::Labels)).collect()
}

impl State {
    /// Takes a child out of what is there.
    fn remove(&mut self, place: &Place) {
        for by in self.there.remove(place).into_iter().flatten() {
            if let Some(places) = self.of.get_mut(&by) {
                places.remove(place);
                if places.is_empty() {
                    self.of.remove(&by);
                }
            }
        }
    }

    fn insert(&mut self, place: Place, belongs: Belongs) {
        if self.there.get(&place) == Some(&belongs) {
            return;
        }
        self.remove(&place);
        for by in &belongs {
            self.of.entry(by.clone()).or_default().insert(place.clone());
        }
        self.there.insert(place, belongs);
    }
}

fn place(child: &Child) -> Place {
    (child.kind, child.namespace.clone(), child.name.clone())
}

/// What is kept of a live object: by whom it is controlled, and of a Service where it leads.
fn kept(kind: ChildKind, live: &Value) -> Value {
    let metadata = &live["metadata"];
    let mut kept = json!({ "metadata": { "uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"],
        "labels": metadata["labels"], "ownerReferences": metadata["ownerReferences"] } });
    if kind == ChildKind::Service {
        kept["spec"] = json!({ "type": live["spec"]["type"], "selector": live["spec"]["selector"],
            "ports": live["spec"]["ports"] });
    }
    kept
}

impl Known {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What was noted of a child, if it is still as it is wanted now.
    pub fn good(&self, child: &Child) -> Option<Value> {
        let state = self.state();
        let good = state.good.get(&place(child))?;
        (good.fingerprint == child.fingerprint()).then(|| good.live.clone())
    }

    /// Whether a child is known to be as it is wanted now.
    pub fn is_good(&self, child: &Child) -> bool {
        let state = self.state();
        state.good.get(&place(child)).is_some_and(|good| good.fingerprint == child.fingerprint())
    }

    /// Notes that a child of this owner is as it is wanted.
    pub fn note(&self, owner: &ObjectKey, child: &Child, live: &Value) {
        let (Some(version), Some(fingerprint)) =
            (live["metadata"]["resourceVersion"].as_str(), drift::fingerprint_on(live))
        else {
            return self.forget(child);
        };
        let (owner, live_kept) = (owner.clone(), kept(child.kind, live));
        let (version, fingerprint) = (version.to_owned(), fingerprint.to_owned());
        let good = Good { owner, version, fingerprint, live: live_kept, verified: true };
        self.state().good.insert(place(child), good);
    }

    /// Forgets a child: it is read again.
    pub fn forget(&self, child: &Child) {
        self.state().good.remove(&place(child));
    }

    /// Forgets everything: another leader may have changed it, or a watch had to begin anew.
    pub fn forget_all(&self) {
        *self.state() = State::default();
    }

    /// Takes note of what a watch shows.
    pub fn seen(&self, kind: ChildKind, change: &Change) {
        let metadata = &change.metadata;
        let (Some(namespace), Some(name)) = (&metadata.namespace, &metadata.name) else { return };
        let place = (kind, namespace.clone(), name.clone());
        let mut state = self.state();
        let other = |good: &Good| Some(&good.version) != metadata.resource_version.as_ref();
        if change.gone || state.good.get(&place).is_some_and(other) {
            state.good.remove(&place);
        }
        if change.gone {
            state.remove(&place);
        } else {
            state.insert(place, belongs(metadata));
        }
    }

    /// Takes note that everything of a kind has been shown.
    pub fn listed(&self, kind: ChildKind) {
        self.state().listed.insert(kind);
    }

    /// Takes note that a watch had to list a kind again: what went meanwhile is told by nobody.
    pub fn relisted(&self, kind: ChildKind) {
        self.state().good.retain(|(one, ..), _| *one != kind);
    }

    /// Whether the watches, which have shown everything of its kind, show no object of this name.
    pub fn is_absent(&self, child: &Child) -> bool {
        let state = self.state();
        state.listed.contains(&child.kind) && !state.there.contains_key(&place(child))
    }

    /// Takes note that the cluster serves a kind no more.
    pub fn unserved(&self, kind: ChildKind) {
        let mut state = self.state();
        state.good.retain(|(one, ..), _| *one != kind);
        let gone: Vec<Place> = state.there.keys().filter(|(one, ..)| *one == kind).cloned().collect();
        gone.iter().for_each(|place| state.remove(place));
        state.listed.remove(&kind);
    }

    /// Whether the watches show no child of this owner beyond those that are wanted. While a kind that every cluster has is
    /// not listed yet, nobody can tell.
    pub fn has_only(&self, owner: &ObjectKey, uid: &str, wanted: &[&Child]) -> bool {
        let state = self.state();
        let complete = ChildKind::ALL
            .iter()
            .filter(|kind| kind.presence() == super::Presence::Always)
            .all(|kind| state.listed.contains(kind));
        let wanted: BTreeSet<Place> = wanted.iter().map(|child| place(child)).collect();
        let owners = [By::Uid(uid.to_owned()), By::Labels(owner.labelled())];
        let mut places = owners.iter().filter_map(|by| state.of.get(by)).flatten();
        complete && places.all(|place| wanted.contains(place))
    }

    /// Begins to verify a kind against a list; what is noted from now on needs no proof.
    pub fn begin_verifying(&self, kind: ChildKind) {
        let mut state = self.state();
        state
            .good
            .iter_mut()
            .filter(|((one, ..), _)| *one == kind)
            .for_each(|(_, good)| good.verified = false);
    }

    /// Takes note of an object that the list shows.
    pub fn verify(&self, kind: ChildKind, metadata: &ObjectMeta) {
        let (Some(namespace), Some(name)) = (&metadata.namespace, &metadata.name) else { return };
        if let Some(good) = self.state().good.get_mut(&(kind, namespace.clone(), name.clone())) {
            good.verified = Some(&good.version) == metadata.resource_version.as_ref();
        }
    }

    /// Forgets what the list did not show as it was noted, and returns whose it was: a watch has lost an event.
    pub fn end_verifying(&self, kind: ChildKind) -> BTreeSet<ObjectKey> {
        let mut lost = BTreeSet::new();
        self.state().good.retain(|(one, ..), good| {
            let keep = *one != kind || good.verified;
            if !keep {
                lost.insert(good.owner.clone());
            }
            keep
        });
        lost
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::from_value;

    fn owner() -> ObjectKey {
        ObjectKey { namespace: "team".to_owned(), name: "coder".to_owned() }
    }

    fn child(kind: ChildKind, value: &str) -> Child {
        let manifest =
            json!({ "metadata": { "name": "coder", "namespace": "team" }, "spec": { "a": value } });
        Child::new(kind, "team", "coder", manifest)
    }

    /// The child as the API server has it at a version.
    fn live(child: &Child, version: &str) -> Value {
        let mut live = child.wanted();
        live["metadata"]["uid"] = json!("u");
        live["metadata"]["resourceVersion"] = json!(version);
        live
    }

    fn change(version: &str, gone: bool) -> Change {
        let metadata = json!({ "name": "coder", "namespace": "team", "resourceVersion": version,
            "ownerReferences": [{ "apiVersion": "v1", "kind": "X", "name": "coder", "uid": "o", "controller": true }] });
        Change { metadata: from_value(metadata).unwrap(), gone }
    }

    #[test]
    fn a_child_is_good_while_the_watch_shows_the_version_we_noted_and_nothing_else_is_wanted() {
        let (known, one, kind) = (Known::default(), child(ChildKind::Role, "1"), ChildKind::Role);
        assert_eq!(known.good(&one), None);
        known.note(&owner(), &one, &live(&one, "7"));
        known.seen(kind, &change("7", false));
        assert_eq!(known.good(&one).unwrap()["metadata"]["uid"], "u");
        assert_eq!(known.good(&child(kind, "2")), None, "something else is wanted");
        known.seen(kind, &change("8", false));
        assert_eq!(known.good(&one), None, "somebody else wrote it");
        known.note(&owner(), &one, &live(&one, "9"));
        known.seen(kind, &change("9", true));
        assert_eq!(known.good(&one), None, "it is gone");
        known.note(&owner(), &one, &live(&one, "9"));
        known.forget_all();
        assert_eq!(known.good(&one), None);
        known.note(&owner(), &one, &json!({ "metadata": { "resourceVersion": "1" } }));
        assert_eq!(known.good(&one), None, "one without our fingerprint is read each time");
    }

    #[test]
    fn an_object_is_absent_once_its_kind_is_listed_without_it() {
        let (known, one, kind) = (Known::default(), child(ChildKind::Role, "1"), ChildKind::Role);
        assert!(!known.is_absent(&one), "nobody can tell yet");
        known.listed(kind);
        assert!(known.is_absent(&one));
        known.seen(kind, &change("7", false));
        assert!(!known.is_absent(&one));
        known.seen(kind, &change("8", true));
        assert!(known.is_absent(&one));
        known.forget_all();
        assert!(!known.is_absent(&one), "it is listed anew");
    }

    #[test]
    fn a_list_forgets_what_a_watch_has_missed_and_says_whose_it_was() {
        let (known, one, kind) = (Known::default(), child(ChildKind::Role, "1"), ChildKind::Role);
        known.note(&owner(), &one, &live(&one, "7"));
        known.begin_verifying(kind);
        known.verify(kind, &change("7", false).metadata);
        assert!(known.end_verifying(kind).is_empty() && known.good(&one).is_some());
        known.begin_verifying(kind);
        known.verify(kind, &change("8", false).metadata);
        assert_eq!(known.end_verifying(kind), [owner()].into(), "an event was lost");
        assert_eq!(known.good(&one), None);
        known.begin_verifying(kind);
        known.note(&owner(), &one, &live(&one, "9"));
        assert!(known.end_verifying(kind).is_empty(), "what is noted meanwhile needs no proof");
        known.begin_verifying(ChildKind::Service);
        assert!(known.end_verifying(ChildKind::Service).is_empty() && known.good(&one).is_some());
    }

    #[test]
    fn whether_something_is_left_is_told_once_every_kind_is_listed() {
        let (known, one) = (Known::default(), child(ChildKind::Role, "1"));
        known.seen(ChildKind::Role, &change("7", false));
        assert!(!known.has_only(&owner(), "o", &[&one]), "nobody can tell yet");
        ChildKind::ALL.iter().for_each(|kind| known.listed(*kind));
        assert!(known.has_only(&owner(), "o", &[&one]) && !known.has_only(&owner(), "o", &[]));
        assert!(known.has_only(&owner(), "other", &[]), "another one's");
        known.seen(ChildKind::Role, &change("8", true));
        assert!(known.has_only(&owner(), "o", &[]));
        let mut labelled = change("9", false);
        labelled.metadata.owner_references = None;
        labelled.metadata.labels = from_value(json!({ "coder.com/control-plane": "coder",
            "coder.com/control-plane-namespace": "team" }))
        .unwrap();
        known.seen(ChildKind::RoleBinding, &labelled);
        assert!(!known.has_only(&owner(), "o", &[]), "one in another namespace is found by its labels");
        known.unserved(ChildKind::RoleBinding);
        assert!(!known.has_only(&owner(), "o", &[]), "nobody can tell again");
    }
}
