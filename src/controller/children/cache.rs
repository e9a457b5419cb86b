//! Remembers which children are as we applied them, so that they are not read again, and asks the watches what there is. A child
//! counts as up to date while the version that its watch shows now is the very one we noted: whatever else it shows, or
//! while it shows nothing for certain, the child is read live. It never decides what to do about a child.

use super::fingerprint::Fingerprint;
use super::observed_versions::{ObservedVersions, Place, Unwanted, Version};
use super::{Child, ChildKind};
use crate::controller::identity::ObjectKey;
use crate::kubernetes::Change;
use kube::core::ObjectMeta;
use serde_json::{Value, json};
use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// The cache of all children, by their versions. It is a hint: what a token is sent to, what a pod runs as, and what is
/// about to be deleted, is always read live.
#[derive(Debug, Default)]
pub struct ChildCache(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    observed: ObservedVersions,
    children: HashMap<Place, CachedChild>,
}

/// A child that was as it should be when it was read or applied.
#[derive(Debug)]
struct CachedChild {
    kind: ChildKind,
    owner: ObjectKey,
    version: Version,
    fingerprint: Fingerprint,
    /// What is kept of it, as text; none of one that was not as it should be, or of which there would be too much.
    live: Option<Box<str>>,
}

/// Bytes that are kept of a child.
const LONGEST_KEPT: usize = 4 * 1024;

impl CachedChild {
    fn live(&self) -> Option<Value> {
        serde_json::from_str(self.live.as_ref()?).ok()
    }
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

/// What is kept of a live object: by whom it is controlled, where a Service leads, how far a Deployment has come. Anybody may
/// add labels and references.
fn kept(kind: ChildKind, live: &Value) -> Option<Box<str>> {
    let kept = match kind {
        ChildKind::ServiceAccount => json!({ "metadata": { "ownerReferences": controllers(live) } }),
        ChildKind::Service => {
            let spec = &live["spec"];
            let mut ports = spec["ports"].as_array().into_iter().flatten();
            let plain = ports.find(|port| port["name"] == "http");
            let ports = Vec::from_iter(plain.map(|port| json!({ "name": "http", "port": port["port"] })));
            json!({ "spec": { "type": spec["type"], "selector": spec["selector"], "ports": ports } })
        }
        ChildKind::Deployment => {
            let (spec, pod) = (&live["spec"], &live["spec"]["template"]["spec"]);
            let containers = pod["containers"].as_array().into_iter().flatten();
            let containers = containers.map(|one| json!({ "name": one["name"], "image": one["image"] }));
            let pod = json!({ "serviceAccountName": pod["serviceAccountName"], "containers": Vec::from_iter(containers) });
            json!({ "metadata": { "generation": live["metadata"]["generation"], "ownerReferences": controllers(live) },
                "spec": { "replicas": spec["replicas"], "template": { "spec": pod } }, "status": live["status"] })
        }
        ChildKind::Role
        | ChildKind::RoleBinding
        | ChildKind::Ingress
        | ChildKind::HttpRoute
        | ChildKind::PodDisruptionBudget
        | ChildKind::ServiceMonitor
        | ChildKind::PodMonitor => Value::Null,
    };
    let text = kept.to_string();
    (text.len() <= LONGEST_KEPT).then(|| text.into_boxed_str())
}

/// Who controls an object.
fn controllers(live: &Value) -> Vec<Value> {
    let owners = live["metadata"]["ownerReferences"].as_array().into_iter().flatten();
    let controllers = owners.filter(|owner| owner["controller"] == true);
    controllers.take(1).map(|owner| json!({ "uid": owner["uid"], "controller": true })).collect()
}

impl State {
    fn place(&self, child: &Child) -> Place {
        self.observed.place(child.kind, &child.namespace, &child.name)
    }

    fn up_to_date(&self, child: &Child) -> Option<Value> {
        let cached = self.current(child.kind, self.place(child))?;
        cached.live().filter(|_| cached.fingerprint == child.fingerprint())
    }

    /// What was noted of an object that is still of that version.
    fn current(&self, kind: ChildKind, place: Place) -> Option<&CachedChild> {
        let current = self.observed.current(kind, place)?;
        self.children.get(&place).filter(|cached| cached.version == current)
    }

    /// Forgets what is there no more; returns whose it was.
    fn keep_shown(&mut self, kind: ChildKind) -> BTreeSet<ObjectKey> {
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

impl ChildCache {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What was noted of a child, if it is as it is wanted now.
    pub fn up_to_date(&self, child: &Child) -> Option<Value> {
        self.state().up_to_date(child)
    }

    /// What was noted of a child, if it is still as it was then, whether or not that is wanted now.
    pub fn noted(&self, kind: ChildKind, namespace: &str, name: &str) -> Option<Value> {
        let state = self.state();
        state.current(kind, state.observed.place(kind, namespace, name))?.live()
    }

    /// The same of all these, if all of them are.
    pub fn all_up_to_date<'a>(&self, children: impl Iterator<Item = &'a Child>) -> Option<Snapshot> {
        let state = self.state();
        let entry = |child: &Child| {
            let place = (child.kind, child.namespace.clone(), child.name.clone());
            state.up_to_date(child).map(|live| (place, live))
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
        let mut state = self.state();
        let place = state.place(child);
        let Some(version) =
            live["metadata"]["resourceVersion"].as_str().map(|text| state.observed.version(text))
        else {
            state.children.remove(&place);
            return;
        };
        let (kind, owner, fingerprint) = (child.kind, owner.clone(), child.fingerprint());
        state.children.insert(place, CachedChild { kind, owner, version, fingerprint, live: kept });
    }

    /// Forgets a child: it is read again.
    pub fn forget(&self, child: &Child) {
        let mut state = self.state();
        let place = state.place(child);
        state.children.remove(&place);
    }

    /// Forgets what is known of the children of an owner.
    pub fn forget_owner(&self, owner: &ObjectKey) {
        self.state().children.retain(|_, cached| cached.owner != *owner);
    }

    /// Forgets everything: another leader may have changed it.
    pub fn forget_all(&self) {
        *self.state() = State::default();
    }

    /// Takes note of what a watch shows; returns whose child it was that is another now: it may not say so any more.
    pub fn seen(&self, kind: ChildKind, change: &Change) -> Option<ObjectKey> {
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
    pub fn end_list(&self, kind: ChildKind) -> BTreeSet<ObjectKey> {
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

    /// Whether there is no such object for certain.
    pub fn is_absent(&self, child: &Child) -> bool {
        let state = self.state();
        state.observed.is_absent(child.kind, state.place(child))
    }

    /// What the watches show of this owner beyond the children that are wanted.
    pub fn unwanted<'a>(
        &self,
        owner: &ObjectKey,
        uid: &str,
        wanted: impl Iterator<Item = &'a Child>,
    ) -> Unwanted {
        let state = self.state();
        let wanted: HashSet<Place> = wanted.map(|child| state.place(child)).collect();
        state.observed.beyond(owner, uid, &wanted)
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
    pub fn end_verification(&self, kind: ChildKind) -> BTreeSet<ObjectKey> {
        let mut state = self.state();
        let lost = state.observed.end_verification(kind, Instant::now());
        lost.iter().filter_map(|place| state.children.remove(place)).map(|cached| cached.owner).collect()
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

    fn listed() -> ChildCache {
        let cache = ChildCache::default();
        cache.end_list(KIND);
        cache
    }

    #[test]
    fn a_child_is_good_while_the_watch_shows_the_version_we_noted_and_nothing_else_is_wanted() {
        let (cache, one) = (listed(), child("1"));
        cache.note(&owner(), &one, &live(&one, "7"));
        assert_eq!(cache.up_to_date(&one), None, "the watch has not shown it yet");
        cache.seen(KIND, &change("7", false));
        assert_eq!(
            cache.up_to_date(&one),
            Some(json!({ "metadata": { "ownerReferences": [{ "uid": "u", "controller": true }] } })),
            "nothing else is kept of it"
        );
        assert_eq!(cache.up_to_date(&child("2")), None, "something else is wanted");
        assert_eq!(cache.seen(KIND, &change("8", false)), Some(owner()), "somebody else wrote it");
        assert_eq!(cache.up_to_date(&one), None);
        cache.note(&owner(), &one, &live(&one, "9"));
        assert_eq!(cache.seen(KIND, &change("9", false)), None, "we wrote it");
        assert!(cache.up_to_date(&one).is_some());
        assert_eq!(cache.seen(KIND, &change("10", true)), Some(owner()), "it is gone");
        assert_eq!(cache.up_to_date(&one), None);
    }

    #[test]
    fn a_note_that_comes_after_the_watch_has_shown_more_counts_for_nothing() {
        let (cache, one) = (listed(), child("1"));
        cache.seen(KIND, &change("8", false));
        cache.note(&owner(), &one, &live(&one, "7"));
        assert_eq!(cache.up_to_date(&one), None);
        cache.seen(KIND, &change("9", true));
        cache.note(&owner(), &one, &live(&one, "8"));
        assert_eq!(cache.up_to_date(&one), None);
    }

    #[test]
    fn nothing_counts_while_the_watch_of_its_kind_has_not_listed_or_fails() {
        let (cache, one) = (ChildCache::default(), child("1"));
        cache.note(&owner(), &one, &live(&one, "7"));
        cache.begin_list(KIND);
        cache.seen(KIND, &change("7", false));
        assert_eq!(cache.up_to_date(&one), None);
        cache.end_list(KIND);
        assert!(cache.up_to_date(&one).is_some() && cache.all_up_to_date([&one].into_iter()).is_some());
        cache.doubt(KIND);
        assert!(cache.up_to_date(&one).is_none() && cache.all_up_to_date([&one].into_iter()).is_none());
        cache.seen(KIND, &change("7", false));
        assert!(cache.up_to_date(&one).is_some(), "it goes on");
        cache.forget_owner(&owner());
        assert_eq!(cache.up_to_date(&one), None);
        cache.note(&owner(), &one, &live(&one, "7"));
        cache.begin_list(KIND);
        assert_eq!(cache.end_list(KIND), [owner()].into(), "it went while the watch was broken");
        assert!(cache.state().children.is_empty());
    }

    #[test]
    fn a_verification_tells_whose_children_are_gone_without_a_word() {
        let (cache, one) = (listed(), child("1"));
        cache.note(&owner(), &one, &live(&one, "7"));
        cache.seen(KIND, &change("7", false));
        cache.begin_verification(KIND);
        assert!(!cache.verify(KIND, &change("7", false).metadata));
        assert!(cache.end_verification(KIND).is_empty() && cache.up_to_date(&one).is_some());
        cache.begin_verification(KIND);
        assert!(cache.verify(KIND, &change("8", false).metadata), "an event was lost");
        assert!(cache.end_verification(KIND).is_empty() && cache.up_to_date(&one).is_none());
        cache.begin_verification(KIND);
        assert_eq!(cache.end_verification(KIND), [owner()].into());
        assert_eq!(cache.up_to_date(&one), None);
    }

    #[test]
    fn of_a_deployment_it_is_kept_what_runs_and_how_far_it_is() {
        let status = json!({ "readyReplicas": 1, "conditions": [{ "type": "Progressing", "reason": "R" }] });
        let owner = json!({ "uid": "u", "name": "coder", "controller": true });
        let deployment = |image: &str| {
            json!({ "metadata": { "generation": 3, "managedFields": [{}], "ownerReferences": [owner] },
                "spec": { "replicas": 1, "selector": {}, "template": { "spec": { "serviceAccountName": "coder", "volumes": [],
                    "containers": [{ "name": "coder", "image": image, "env": [{ "name": "A", "value": "secret" }] }] } } },
                "status": status })
        };
        let kept = |image: &str| super::kept(ChildKind::Deployment, &deployment(image));
        let text = kept("coder:v2").unwrap();
        let pod = json!({ "serviceAccountName": "coder", "containers": [{ "name": "coder", "image": "coder:v2" }] });
        let expected = json!({ "metadata": { "generation": 3, "ownerReferences": [{ "uid": "u", "controller": true }] },
            "spec": { "replicas": 1, "template": { "spec": pod } }, "status": status });
        assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), expected);
        assert_eq!(kept(&"x".repeat(LONGEST_KEPT)), None, "one of which there would be too much is read");
    }

    #[test]
    fn what_was_noted_counts_for_its_version_and_what_is_not_as_wanted_is_not_good() {
        let (cache, one) = (listed(), child("1"));
        let noted = |cache: &ChildCache| cache.noted(KIND, "team", "coder");
        cache.note(&owner(), &one, &live(&one, "7"));
        assert_eq!(noted(&cache), None, "the watch has not shown it yet");
        cache.seen(KIND, &change("7", false));
        assert!(noted(&cache).is_some() && noted(&cache) == cache.up_to_date(&one));
        cache.note_owner(&owner(), &one, &live(&one, "7"));
        assert!(noted(&cache).is_none() && cache.up_to_date(&one).is_none());
        assert_eq!(cache.seen(KIND, &change("8", true)), Some(owner()), "its owner is known");
    }

    #[test]
    fn a_snapshot_stays_what_it_was() {
        let (cache, one) = (listed(), child("1"));
        cache.note(&owner(), &one, &live(&one, "7"));
        cache.seen(KIND, &change("7", false));
        let snapshot = cache.all_up_to_date([&one].into_iter()).unwrap();
        cache.seen(KIND, &change("8", true));
        assert!(cache.up_to_date(&one).is_none() && snapshot.of(&one).is_some());
    }
}
