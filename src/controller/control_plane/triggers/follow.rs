//! Follows everything that can make a control plane due, and leaves wishes in the queue.
//! It never looks into an object: what concerns whom is decided one level above.

use super::abroad::{Abroad, Owner};
use super::records::Records;
use super::{Changed, concerns, optional};
use crate::controller::control_plane::dependants::{self, Dependants};
use crate::controller::control_plane::desired::{HTTP_ROUTE, SERVICE_MONITOR, Source};
use crate::controller::control_plane::reconcile::Key;
use crate::controller::queue::Queue;
use crate::controller::schedule::Namespaced;
use crate::kubernetes::{Change, Kept, KindName, Kube, Reflected, Selection, Sight};
use crds::CoderControlPlane;
use crds::well_known::{MANAGER, annotation, label};
use futures::StreamExt;
use futures::stream::BoxStream;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Secret, Service, ServiceAccount};
use k8s_openapi::api::networking::v1::Ingress;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use kube::Resource;
use kube::core::ObjectMeta;
use kube::runtime::watcher;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use tokio::task::JoinSet;

const fn built_in<K: k8s_openapi::Resource>() -> KindName {
    [K::API_VERSION, K::KIND, K::URL_PATH_SEGMENT]
}

/// The kinds of children that every cluster knows.
const CHILDREN: [KindName; 7] = [
    built_in::<Deployment>(),
    built_in::<Service>(),
    built_in::<ServiceAccount>(),
    built_in::<Role>(),
    built_in::<RoleBinding>(),
    built_in::<Ingress>(),
    built_in::<PodDisruptionBudget>(),
];

/// Those that a cluster knows when somebody has defined them.
const OPTIONAL: [KindName; 2] = [HTTP_ROUTE, SERVICE_MONITOR];

/// The control planes of the cluster.
pub type ControlPlanes = Reflected<Kept<CoderControlPlane>>;

/// Follows until it is dropped.
pub async fn follow(
    kube: &Kube,
    abroad: &Arc<Abroad>,
    dependants: Dependants,
    control_planes: ControlPlanes,
    queue: Queue<Key>,
) {
    // As it was before the first pass: whatever changes after that is told.
    let seen = dependants.seen();
    let ours = Selection::Labelled(format!("{}={MANAGER}", label::MANAGED_BY));
    let everything = Selection::All;
    let mut followed = JoinSet::new();
    for kind in OPTIONAL {
        let (kube, control_planes) = (kube.clone(), control_planes.clone());
        followed.spawn(optional::follow(kube, kind, ours.clone(), control_planes, queue.clone()));
    }
    let mut hear = |changes: Changes, changed| {
        let (records, abroad) = (Records::of(kube.namespace()), abroad.clone());
        followed.spawn(listen(changes, changed, records, abroad, control_planes.clone(), queue.clone()));
    };
    for kind in CHILDREN {
        hear(kube.changes_of(kind, &ours).boxed(), Changed::Child);
    }
    hear(kube.changes::<Secret>(&everything).boxed(), Changed::Consumed(Source::Secret));
    hear(kube.changes::<ConfigMap>(&everything).boxed(), Changed::Consumed(Source::ConfigMap));
    hear(kube.changes::<Namespace>(&everything).boxed(), Changed::Namespace);
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
    queue: Queue<Key>,
) {
    let mut listed = false;
    while let Some(sight) = changes.next().await {
        match sight {
            Ok(Sight::Changed(change)) => {
                wish_for_refused(&abroad.note(changed, &change), &control_planes, &queue);
                let lost = changed == Changed::Consumed(Source::Secret) && records.is_lost(&change);
                wish(if lost { Changed::Record } else { changed }, &change, &control_planes, &queue);
            }
            // Nobody tells what went while the watch was broken and had to list again: everybody may have lost something.
            Ok(Sight::Listed) => {
                if std::mem::replace(&mut listed, true) {
                    control_planes.all().iter().for_each(|object| queue.wish(Key::of(object.meta())));
                }
            }
            Err(error) => tracing::warn!(?changed, %error, "watch failed; it is tried again"),
        }
    }
}

/// Asks for a pass of every control plane that a change concerns.
pub(super) fn wish(changed: Changed, change: &Change, control_planes: &ControlPlanes, queue: &Queue<Key>) {
    for control_plane in candidates(changed, change, control_planes) {
        if concerns(changed, change, &control_plane) {
            queue.wish(Key::of(control_plane.meta()));
        }
    }
}

/// Asks for a pass of whoever has rights where they are refused, also if its spec does not say so or cannot be read.
fn wish_for_refused(owners: &[Owner], control_planes: &ControlPlanes, queue: &Queue<Key>) {
    if owners.is_empty() {
        return;
    }
    let keys = control_planes.all().into_iter().map(|object| Key::of(object.meta()));
    keys.filter(|key| owners.iter().any(|owner| owner.is(key))).for_each(|key| queue.wish(key));
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

async fn listen_to_objects(mut control_planes: ControlPlanes, queue: Queue<Key>) {
    let mut seen = LastSeen::default();
    if !control_planes.synced().await {
        return;
    }
    loop {
        let (news, gone) = seen.update(control_planes.all());
        news.into_iter().for_each(|key| queue.wish(key));
        gone.iter().for_each(|key| queue.forget(key));
        control_planes.changed().await;
    }
}

/// Asks for a pass of every control plane whose access is needed otherwise than before.
async fn listen_to_dependants(
    mut dependants: Dependants,
    mut before: dependants::Seen,
    control_planes: ControlPlanes,
    queue: Queue<Key>,
) {
    loop {
        dependants.changed().await;
        let now = dependants.seen();
        if now != before {
            let keys = control_planes.all().into_iter().map(|object| entry(&object).0);
            keys.filter(|key| now.of(key) != before.of(key)).for_each(|key| queue.wish(key));
        }
        before = now;
    }
}

/// The objects as they were seen last.
#[derive(Default)]
struct LastSeen {
    /// By address: one that did not change is still the same allocation, so that only those that did are looked into.
    objects: HashMap<usize, Seen>,
    wanted: BTreeMap<Key, Wanted>,
}

impl LastSeen {
    /// Takes over what there is now; returns what is wanted differently and what is gone.
    fn update(&mut self, now: Vec<Seen>) -> (Vec<Key>, Vec<Key>) {
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
            let there: BTreeSet<Key> = now.iter().map(|object| Key::of(object.meta())).collect();
            gone.extend(self.wanted.keys().filter(|key| !there.contains(*key)).cloned());
            self.wanted.retain(|key, _| there.contains(key));
        }
        self.objects = now.into_iter().map(|object| (Arc::as_ptr(&object).addr(), object)).collect();
        (news, gone)
    }
}

fn entry(object: &Kept<CoderControlPlane>) -> (Key, Wanted) {
    // One that our types cannot read still has a name; its pass says what is wrong with it.
    let metadata = object.meta();
    (Key::of(metadata), Wanted::of(metadata))
}

impl Namespaced for Key {
    fn namespace(&self) -> &str {
        &self.namespace
    }
}

impl Key {
    /// The key of an object.
    pub fn of(metadata: &ObjectMeta) -> Self {
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        Self { namespace: text(&metadata.namespace), name: text(&metadata.name) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::controller::control_plane::desired::given::ControlPlane;
    use serde_json::{from_str, json};

    fn object(name: &str, generation: i64) -> Seen {
        let object = json!({"metadata": {"name": name, "namespace": "team", "uid": name, "generation": generation}, "spec": {}});
        Arc::new(from_str(&object.to_string()).unwrap())
    }

    fn names(keys: Vec<Key>) -> Vec<String> {
        keys.into_iter().map(|key| key.name).collect()
    }

    #[test]
    fn every_kind_of_child_is_followed() {
        let gateway = json!({"gateway": {"host": "coder.example.com", "parentRefs": [{"name": "edge"}]}});
        let everything = ControlPlane::test().with_everything();
        let all: BTreeSet<KindName> = [everything, ControlPlane::test().with("expose", gateway)]
            .iter()
            .flat_map(|plane| {
                let children = plane.children();
                let kinds = children.all().map(|child| [child.api_version, child.kind, child.plural]);
                kinds.collect::<Vec<_>>()
            })
            .collect();
        let followed: BTreeSet<KindName> = CHILDREN.into_iter().chain(OPTIONAL).collect();
        assert_eq!(all, followed, "what is made, and what is watched");
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
