//! Follows everything that can make a control plane due, and leaves wishes in the queue.
//! It never looks into an object: what concerns whom is decided one level above.

use super::{Changed, concerns, owner};
use crate::controller::control_plane::desired::Source;
use crate::controller::control_plane::reconcile::Key;
use crate::controller::queue::Queue;
use crate::kubernetes::{Kube, Reflected, Selection};
use crds::CoderControlPlane;
use crds::well_known::{MANAGER, annotation, label};
use futures::{Stream, StreamExt};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Secret, Service, ServiceAccount};
use k8s_openapi::api::networking::v1::Ingress;
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use kube::ResourceExt;
use kube::core::{DeserializeGuard, ObjectMeta};
use kube::runtime::watcher;
use std::collections::BTreeMap;
use tokio::task::JoinSet;

/// The control planes of the cluster.
pub type ControlPlanes = Reflected<DeserializeGuard<CoderControlPlane>>;

/// Follows until it is dropped.
pub async fn follow(kube: &Kube, control_planes: ControlPlanes, queue: Queue<Key>) {
    let ours = Selection::Labelled(format!("{}={MANAGER}", label::MANAGED_BY));
    let everything = Selection::All;
    let mut followed = JoinSet::new();
    let mut hear = |changes: Changes, changed| {
        followed.spawn(listen(changes, changed, control_planes.clone(), queue.clone()));
    };
    hear(kube.changes::<Deployment>(&ours).boxed(), Changed::Child);
    hear(kube.changes::<Service>(&ours).boxed(), Changed::Child);
    hear(kube.changes::<ServiceAccount>(&ours).boxed(), Changed::Child);
    hear(kube.changes::<Role>(&ours).boxed(), Changed::Child);
    hear(kube.changes::<RoleBinding>(&ours).boxed(), Changed::Child);
    hear(kube.changes::<Ingress>(&ours).boxed(), Changed::Child);
    hear(kube.changes::<Secret>(&everything).boxed(), Changed::Consumed(Source::Secret));
    hear(kube.changes::<ConfigMap>(&everything).boxed(), Changed::Consumed(Source::ConfigMap));
    hear(kube.changes::<Namespace>(&everything).boxed(), Changed::Namespace);
    followed.spawn(listen_to_objects(control_planes, queue));
    // None of them ends by itself; dropping this ends them all.
    while followed.join_next().await.is_some() {}
}

type Changes = std::pin::Pin<Box<dyn Stream<Item = Result<ObjectMeta, watcher::Error>> + Send>>;

async fn listen(mut changes: Changes, changed: Changed, control_planes: ControlPlanes, queue: Queue<Key>) {
    while let Some(change) = changes.next().await {
        let metadata = match change {
            Ok(metadata) => metadata,
            Err(error) => {
                tracing::warn!(?changed, %error, "watch failed; it is tried again");
                continue;
            }
        };
        if changed == Changed::Child {
            owner(&metadata).into_iter().for_each(|key| queue.wish(key));
            continue;
        }
        for control_plane in control_planes.all() {
            if let Ok(control_plane) = &control_plane.0
                && concerns(changed, &metadata, control_plane)
            {
                queue.wish(Key::of(control_plane));
            }
        }
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
}

impl Wanted {
    fn of(metadata: &ObjectMeta) -> Self {
        let annotations = metadata.annotations.as_ref();
        Self {
            uid: metadata.uid.clone(),
            generation: metadata.generation,
            deleting: metadata.deletion_timestamp.is_some(),
            finalizers: metadata.finalizers.clone().unwrap_or_default(),
            reconcile_at: annotations.and_then(|all| all.get(annotation::RECONCILE_AT)).cloned(),
        }
    }
}

async fn listen_to_objects(mut control_planes: ControlPlanes, queue: Queue<Key>) {
    let mut seen: BTreeMap<Key, Wanted> = BTreeMap::new();
    if !control_planes.synced().await {
        return;
    }
    loop {
        let now: BTreeMap<Key, Wanted> = control_planes.all().iter().map(|object| entry(object)).collect();
        for (key, wanted) in &now {
            if seen.get(key) != Some(wanted) {
                queue.wish(key.clone());
            }
        }
        seen.keys().filter(|key| !now.contains_key(*key)).for_each(|key| queue.forget(key));
        seen = now;
        control_planes.changed().await;
    }
}

fn entry(object: &DeserializeGuard<CoderControlPlane>) -> (Key, Wanted) {
    // One that our types cannot read still has a name; its pass says what is wrong with it.
    let metadata = match &object.0 {
        Ok(control_plane) => &control_plane.metadata,
        Err(unreadable) => &unreadable.metadata,
    };
    let key = Key {
        namespace: metadata.namespace.clone().unwrap_or_default(),
        name: metadata.name.clone().unwrap_or_default(),
    };
    (key, Wanted::of(metadata))
}

impl Key {
    /// The key of an object.
    pub fn of(control_plane: &CoderControlPlane) -> Self {
        Self { namespace: control_plane.namespace().unwrap_or_default(), name: control_plane.name_any() }
    }
}
