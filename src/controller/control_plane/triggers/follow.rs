//! Follows everything that can make a control plane due, and enqueues it.
//! It never looks into an object: what concerns whom is decided one level above.

use super::abroad::Abroad;
use super::records::Records;
use super::{Changed, concerns, optional};
use crate::controller::children::{ChildKind, Presence};
use crate::controller::control_plane::dependants::{self, Dependants};
use crate::controller::identity::ObjectKey;
use crate::controller::runtime::queue::Queue;
use crate::controller::runtime::schedule::Namespaced;
use crate::controller::workload::consumed::Source;
use crate::kubernetes::{Change, Kept, Kube, Reflected, Selection, Sight};
use crds::CoderControlPlane;
use crds::well_known::{MANAGER, annotation, label};
use futures::StreamExt;
use futures::stream::BoxStream;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Secret};
use kube::Resource;
use kube::core::ObjectMeta;
use kube::runtime::watcher;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use tokio::task::JoinSet;

/// The control planes of the cluster.
pub type ControlPlanes = Reflected<Kept<CoderControlPlane>>;

/// Follows until it is dropped.
pub async fn follow(
    kube: &Kube,
    abroad: &Arc<Abroad>,
    dependants: Dependants,
    control_planes: ControlPlanes,
    queue: Queue<ObjectKey>,
) {
    // As it was before the first pass: whatever changes after that is told.
    let seen = dependants.seen();
    let ours = Selection::Labelled(format!("{}={MANAGER}", label::MANAGED_BY));
    let everything = Selection::All;
    let mut followed = JoinSet::new();
    let mut hear = |changes: Changes, changed| {
        let (records, abroad) = (Records::of(kube.namespace()), abroad.clone());
        followed.spawn(listen(changes, changed, records, abroad, control_planes.clone(), queue.clone()));
    };
    let (always, optional): (Vec<ChildKind>, Vec<ChildKind>) =
        ChildKind::ALL.iter().partition(|kind| kind.presence() == Presence::Always);
    for kind in always {
        hear(kube.changes_of(kind.names(), &ours).boxed(), Changed::Child);
    }
    hear(kube.changes::<Secret>(&everything).boxed(), Changed::Consumed(Source::Secret));
    hear(kube.changes::<ConfigMap>(&everything).boxed(), Changed::Consumed(Source::ConfigMap));
    hear(kube.changes::<Namespace>(&everything).boxed(), Changed::Namespace);
    for kind in optional {
        let (kube, control_planes) = (kube.clone(), control_planes.clone());
        followed.spawn(optional::follow(kube, kind, ours.clone(), control_planes, queue.clone()));
    }
    followed.spawn(listen_to_dependants(dependants, seen, control_planes.clone(), queue.clone()));
    followed.spawn(listen_to_objects(control_planes, queue));
    // None of them ends by itself: if one does, the duty starts anew with all of them. Dropping this ends them all.
    if let Some(Err(error)) = followed.join_next().await {
        tracing::error!(%error, "a watch of the reconciler failed");
    }
}

type Changes = BoxStream<'static, watcher::Result<Sight>>;

async fn listen(
    mut changes: Changes,
    changed: Changed,
    mut records: Records,
    abroad: Arc<Abroad>,
    control_planes: ControlPlanes,
    queue: Queue<ObjectKey>,
) {
    while let Some(sight) = changes.next().await {
        match sight {
            Ok(Sight::Changed(change)) => {
                enqueue_refused(&abroad.note(changed, &change), &control_planes, &queue);
                let lost = changed == Changed::Consumed(Source::Secret) && records.is_lost(&change);
                enqueue(if lost { Changed::Record } else { changed }, &change, &control_planes, &queue);
            }
            Ok(Sight::Listed) => {}
            Err(error) => tracing::warn!(?changed, %error, "watch failed; it is tried again"),
        }
    }
}

/// Asks for a pass of every control plane that a change concerns.
pub(super) fn enqueue(
    changed: Changed,
    change: &Change,
    control_planes: &ControlPlanes,
    queue: &Queue<ObjectKey>,
) {
    for control_plane in candidates(changed, change, control_planes) {
        if concerns(changed, change, &control_plane) {
            queue.enqueue(ObjectKey::of(control_plane.meta()));
        }
    }
}

/// Asks for a pass of whoever has rights where they are refused, also if its spec does not say so or cannot be read.
fn enqueue_refused(owners: &[ObjectKey], control_planes: &ControlPlanes, queue: &Queue<ObjectKey>) {
    if owners.is_empty() {
        return;
    }
    let keys = control_planes.all().into_iter().map(|object| ObjectKey::of(object.meta()));
    keys.filter(|key| owners.contains(&key.labelled())).for_each(|key| queue.enqueue(key));
}

type Seen = Arc<Kept<CoderControlPlane>>;

/// The control planes that a change may concern. A child names its owner, and only that one is looked at: looking at
/// each for every change of a child would cost the square of their number. What is consumed may belong to anybody.
fn candidates(changed: Changed, change: &Change, control_planes: &ControlPlanes) -> Vec<Seen> {
    let mut owners = change.metadata.owner_references.iter().flatten();
    match (changed, owners.find(|owner| owner.controller == Some(true))) {
        (Changed::Child, Some(owner)) => {
            let namespace = change.metadata.namespace.as_deref().unwrap_or_default();
            control_planes.named(namespace, &owner.name).into_iter().collect()
        }
        _ => control_planes.all(),
    }
}

/// What makes a pass of an object necessary: not its status, which is ours.
#[derive(PartialEq, Eq)]
struct Wanted {
    uid: Option<String>,
    generation: Option<i64>,
    deleting: bool,
    finalizers: Vec<String>,
    reconcile_at: Option<String>,
    allowed_downgrade: Option<String>,
}

impl Wanted {
    fn of(metadata: &ObjectMeta) -> Self {
        let annotation = |name: &str| metadata.annotations.as_ref()?.get(name).cloned();
        Self {
            uid: metadata.uid.clone(),
            generation: metadata.generation,
            deleting: metadata.deletion_timestamp.is_some(),
            finalizers: metadata.finalizers.clone().unwrap_or_default(),
            reconcile_at: annotation(annotation::RECONCILE_AT),
            allowed_downgrade: annotation(annotation::ALLOW_DOWNGRADE),
        }
    }
}

async fn listen_to_objects(mut control_planes: ControlPlanes, queue: Queue<ObjectKey>) {
    let mut seen = LastSeen::default();
    if !control_planes.synced().await {
        return;
    }
    loop {
        let (news, gone) = seen.update(control_planes.all());
        news.into_iter().for_each(|key| queue.enqueue(key));
        gone.iter().for_each(|key| queue.forget(key));
        control_planes.changed().await;
    }
}

/// Asks for a pass of every control plane whose access is needed otherwise than before.
async fn listen_to_dependants(
    mut dependants: Dependants,
    mut before: dependants::Seen,
    control_planes: ControlPlanes,
    queue: Queue<ObjectKey>,
) {
    loop {
        dependants.changed().await;
        let now = dependants.seen();
        if now != before {
            let keys = control_planes.all().into_iter().map(|object| entry(&object).0);
            keys.filter(|key| now.of(key) != before.of(key)).for_each(|key| queue.enqueue(key));
        }
        before = now;
    }
}

/// The objects as they were seen last.
#[derive(Default)]
struct LastSeen {
    /// By address: one that did not change is still the same allocation, so that only those that did are looked into.
    objects: HashMap<usize, Seen>,
    wanted: BTreeMap<ObjectKey, Wanted>,
}

impl LastSeen {
    /// Takes over what there is now; returns what is wanted differently and what is gone.
    fn update(&mut self, now: Vec<Seen>) -> (Vec<ObjectKey>, Vec<ObjectKey>) {
        let mut news = Vec::new();
        for object in now.iter().filter(|object| !self.objects.contains_key(&Arc::as_ptr(object).addr())) {
            let (key, wanted) = entry(object);
            if self.wanted.get(&key) != Some(&wanted) {
                self.wanted.insert(key.clone(), wanted);
                news.push(key);
            }
        }
        let mut gone = Vec::new();
        if self.wanted.len() > now.len() {
            let there: BTreeSet<ObjectKey> = now.iter().map(|object| ObjectKey::of(object.meta())).collect();
            gone.extend(self.wanted.keys().filter(|key| !there.contains(*key)).cloned());
            self.wanted.retain(|key, _| there.contains(key));
        }
        self.objects = now.into_iter().map(|object| (Arc::as_ptr(&object).addr(), object)).collect();
        (news, gone)
    }
}

fn entry(object: &Kept<CoderControlPlane>) -> (ObjectKey, Wanted) {
    // One that our types cannot read still has a name; its pass says what is wrong with it.
    let metadata = object.meta();
    (ObjectKey::of(metadata), Wanted::of(metadata))
}

impl Namespaced for ObjectKey {
    fn namespace(&self) -> &str {
        &self.namespace
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{from_str, json};

    fn object(name: &str, generation: i64) -> Seen {
        let object = json!({"metadata": {"name": name, "namespace": "team", "uid": name, "generation": generation}, "spec": {}});
        Arc::new(from_str(&object.to_string()).unwrap())
    }

    fn names(keys: Vec<ObjectKey>) -> Vec<String> {
        keys.into_iter().map(|key| key.name).collect()
    }

    #[test]
    fn only_what_is_wanted_differently_is_news_and_what_is_gone_is_told() {
        let mut seen = LastSeen::default();
        let (a, b) = (object("a", 1), object("b", 1));
        assert_eq!(names(seen.update(vec![a.clone(), b.clone()]).0), ["a", "b"]);
        assert_eq!(names(seen.update(vec![b.clone(), a.clone()]).0), Vec::<String>::new());
        let same = object("a", 1);
        assert_eq!(names(seen.update(vec![same.clone(), b]).0), Vec::<String>::new(), "its status only");
        let (news, gone) = seen.update(vec![same.clone(), object("c", 1)]);
        assert_eq!((names(news), names(gone)), (vec!["c".to_owned()], vec!["b".to_owned()]));
        assert_eq!(names(seen.update(vec![object("a", 2)]).0), ["a"]);
        let (news, gone) = seen.update(vec![object("a", 2), object("b", 1)]);
        assert_eq!((names(news), names(gone)), (vec!["b".to_owned()], Vec::new()), "it came back");
    }
}
