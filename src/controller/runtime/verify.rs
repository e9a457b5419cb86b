//! Lists what objects and children there are every now and then, so that a lost event of a watch is healed within that time:
//! whatever the list shows otherwise is told as if the watch had. It reads metadata; what is wrong is found by a reconcile.

use super::object_reader::ObjectReader;
use super::queue::Queue;
use super::watches::WatchHandlers;
use crate::controller::children::{ChildCache, ChildKind};
use crate::controller::identity::ObjectKey;
use crate::controller::object::ReconciledKind;
use crate::kubernetes::{CallError, Change, Kube, Target};
use crds::well_known::{MANAGER, label};
use std::time::Duration;

/// Verifies until it is dropped.
pub(crate) async fn follow(
    kube: &Kube,
    cache: &ChildCache,
    handlers: &WatchHandlers,
    queue: &Queue<ObjectKey>,
    interval: Duration,
) {
    loop {
        tokio::time::sleep(interval).await;
        for kind in ChildKind::ALL.iter().copied().filter(|kind| cache.is_followed(*kind)) {
            match verify(kube, cache, handlers, kind).await {
                Ok(()) => cache.end_verification(kind).into_iter().for_each(|key| queue.enqueue(key)),
                Err(error) => {
                    // Until a list or the watch has told, children of this kind are read.
                    cache.doubt(kind);
                    tracing::warn!(kind = kind.as_str(), %error, "children could not be verified; it is tried again")
                }
            }
        }
    }
}

/// The same for the objects of a kind of ours.
pub(crate) async fn follow_objects<K: ReconciledKind>(
    objects: &ObjectReader<K>,
    queue: &Queue<ObjectKey>,
    interval: Duration,
) {
    loop {
        tokio::time::sleep(interval).await;
        if let Err(error) = objects.verify(queue).await {
            // Until a list has told, objects are read.
            objects.forget_all();
            tracing::warn!(%error, "objects could not be verified; it is tried again");
        }
    }
}

async fn verify(
    kube: &Kube,
    cache: &ChildCache,
    handlers: &WatchHandlers,
    kind: ChildKind,
) -> Result<(), CallError> {
    cache.begin_verification(kind);
    let ours = format!("{}={MANAGER}", label::MANAGED_BY);
    let all = Target::of(kind.names(), "", "");
    let look = |metadata| {
        if cache.verify(kind, &metadata) {
            let change = Change { metadata, gone: false };
            handlers.iter().for_each(|one| one.found(kind, &change));
        }
    };
    kube.labelled_metadata(all, &ours, look).await
}
