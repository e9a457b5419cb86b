//! Takes what the one set of watches shows to the kinds it concerns: the shared cache is told once, whoever owned what changed hears
//! of it by its kind, and each kind decides what else concerns its objects. It keeps nothing itself.

use super::Changed;
use crate::controller::children::{ChildKind, SharedChildCache};
use crate::controller::identity::{ObjectKey, OwnerKey};
use crate::kubernetes::Change;
use kube::core::ObjectMeta;
use std::sync::Arc;

/// A kind of ours that is told of changes.
pub(crate) trait WatchHandler: Send + Sync + 'static {
    /// Which kind it is.
    fn kind(&self) -> &'static str;
    /// Enqueues one object: a child of it is another now, or gone, and may not say so.
    fn enqueue_owner(&self, key: ObjectKey);
    /// Enqueues the objects that a change concerns.
    fn changed(&self, changed: Changed, change: &Change);
    /// The same for a child that a list shows and a watch has not.
    fn found(&self, kind: ChildKind, change: &Change);
    /// Enqueues every object: nobody tells what went while a watch was broken and had to list again.
    fn enqueue_all(&self);
    /// Enqueues the objects that ask for a kind that the cluster lacked and serves now, or the other way round.
    fn enqueue_asking_for(&self, kind: ChildKind);
}

/// Who is told of what the watches show.
pub(crate) struct Router {
    children: Arc<SharedChildCache>,
    handlers: Vec<Box<dyn WatchHandler>>,
}

impl Router {
    /// One that tells these kinds.
    pub(crate) fn new(children: Arc<SharedChildCache>, handlers: Vec<Box<dyn WatchHandler>>) -> Self {
        Self { children, handlers }
    }

    /// What is known of children, whoever owns them.
    pub(crate) fn children(&self) -> &SharedChildCache {
        &self.children
    }

    /// Enqueues these objects, each with its kind.
    pub(crate) fn enqueue(&self, owners: impl IntoIterator<Item = OwnerKey>) {
        for OwnerKey { kind, key } in owners {
            if let Some(handler) = self.handlers.iter().find(|one| one.kind() == kind) {
                handler.enqueue_owner(key);
            }
        }
    }

    /// Something changed.
    pub(crate) fn changed(&self, changed: Changed, change: &Change) {
        if let Changed::Child(kind) = changed {
            // Whoever changed it may have taken off what says whose it is.
            self.enqueue(self.children.seen(kind, change));
        }
        self.handlers.iter().for_each(|one| one.changed(changed, change));
    }

    /// A list shows a child that no watch has shown like that.
    pub(crate) fn found(&self, kind: ChildKind, metadata: ObjectMeta) {
        let change = Change { metadata, gone: false };
        self.handlers.iter().for_each(|one| one.found(kind, &change));
    }

    /// Everything that there is of a child's kind in a place is about to be told, from nothing.
    pub(super) fn listing(&self, place: &str, kind: ChildKind) {
        self.children.begin_list(place, kind);
    }

    /// Everything that there is of it has been told.
    pub(super) fn listed(&self, place: &str, kind: ChildKind) {
        self.enqueue(self.children.end_list(place, kind));
    }

    /// A watch was broken and has listed again.
    pub(super) fn relisted(&self) {
        self.handlers.iter().for_each(|one| one.enqueue_all());
    }

    /// The watch of a child's kind fails.
    pub(super) fn doubted(&self, place: &str, kind: ChildKind) {
        self.children.doubt(place, kind);
    }

    /// The cluster serves a kind that it may lack.
    pub(super) fn served(&self, kind: ChildKind) {
        self.handlers.iter().for_each(|one| one.enqueue_asking_for(kind));
    }

    /// The cluster does not serve a kind, or no longer does.
    pub(super) fn unserved(&self, place: &str, kind: ChildKind) {
        if self.children.unserved(place, kind) {
            self.served(kind);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::controller::children::{Child, ChildCache};
    use serde_json::{from_value, json};
    use std::sync::Mutex;

    const KIND: ChildKind = ChildKind::Service;

    /// What was enqueued, with the kind of whoever did it.
    type Enqueued = Arc<Mutex<Vec<(&'static str, String)>>>;

    /// A kind that notes what it is told.
    struct Noting(&'static str, Enqueued);

    impl Noting {
        fn note(&self, what: &str) {
            self.1.lock().unwrap().push((self.0, what.to_owned()));
        }
    }

    impl WatchHandler for Noting {
        fn kind(&self) -> &'static str {
            self.0
        }

        fn enqueue_owner(&self, key: ObjectKey) {
            self.note(&key.name);
        }

        fn changed(&self, _: Changed, _: &Change) {
            self.note("changed");
        }

        fn found(&self, _: ChildKind, _: &Change) {
            self.note("found");
        }

        fn enqueue_all(&self) {
            self.note("all");
        }

        fn enqueue_asking_for(&self, _: ChildKind) {
            self.note("asking");
        }
    }

    fn change(version: &str, gone: bool) -> Change {
        let metadata = json!({ "name": "coder", "namespace": "team", "resourceVersion": version });
        Change { metadata: from_value(metadata).unwrap(), gone }
    }

    #[test]
    fn every_kind_is_told_and_the_owner_of_a_child_by_its_kind() {
        let (shared, enqueued): (Arc<SharedChildCache>, Enqueued) = Default::default();
        let handlers: Vec<Box<dyn WatchHandler>> =
            ["A", "B"].map(|kind| Box::new(Noting(kind, enqueued.clone())) as _).into();
        let router = Router::new(shared.clone(), handlers);
        let told = || std::mem::take(&mut *enqueued.lock().unwrap());
        let by = |told: &[(&'static str, &str)]| -> Vec<(&'static str, String)> {
            told.iter().map(|(kind, what)| (*kind, (*what).to_owned())).collect()
        };
        router.listing("", KIND);
        router.listed("", KIND);
        let child = Child::new(KIND, "team", "coder", json!({}));
        let owner = ObjectKey { namespace: "team".to_owned(), name: "mine".to_owned() };
        let live = json!({ "metadata": { "resourceVersion": "1" } });
        ChildCache::of("B", shared.clone()).note(&owner, &child, &live);
        assert_eq!(told(), by(&[]));
        router.changed(Changed::Child(KIND), &change("2", false));
        assert_eq!(told(), by(&[("B", "mine"), ("A", "changed"), ("B", "changed")]));
        router.changed(Changed::Namespace, &change("3", false));
        assert_eq!(told(), by(&[("A", "changed"), ("B", "changed")]));
        router.listing("", KIND);
        router.listed("", KIND);
        assert_eq!(told(), by(&[("B", "mine")]), "it went while the watch was broken");
        router.unserved("", KIND);
        assert_eq!(told(), by(&[("A", "asking"), ("B", "asking")]), "it was served");
        router.unserved("", KIND);
        assert_eq!(told(), by(&[]));
        router.relisted();
        assert_eq!(told(), by(&[("A", "all"), ("B", "all")]));
    }
}
