//! Lists what children there are every now and then, so that a lost event of a watch is healed within that time: whatever the
//! list shows otherwise is told as if the watch had. It reads metadata; what is wrong is found by a reconcile.

use super::queue::Queue;
use super::watches::WatchHandlers;
use crate::controller::children::{ChildKind, Known};
use crate::controller::identity::ObjectKey;
use crate::kubernetes::{CallError, Change, Kube, Target};
use crds::well_known::{MANAGER, label};
use std::time::Duration;

/// Verifies until it is dropped.
pub(crate) async fn follow(
    kube: &Kube,
    known: &Known,
    handlers: &WatchHandlers,
    queue: &Queue<ObjectKey>,
    interval: Duration,
) {
    loop {
        tokio::time::sleep(interval).await;
        for kind in ChildKind::ALL.iter().copied().filter(|kind| known.is_followed(*kind)) {
            match verify(kube, known, handlers, kind).await {
                Ok(()) => known.end_verification(kind).into_iter().for_each(|key| queue.enqueue(key)),
                Err(error) => {
                    // Until a list or the watch has told, children of this kind are read.
                    known.doubt(kind);
                    tracing::warn!(kind = kind.as_str(), %error, "children could not be verified; it is tried again")
                }
            }
        }
    }
}

async fn verify(
    kube: &Kube,
    known: &Known,
    handlers: &WatchHandlers,
    kind: ChildKind,
) -> Result<(), CallError> {
    known.begin_verification(kind);
    let ours = format!("{}={MANAGER}", label::MANAGED_BY);
    let all = Target::of(kind.names(), "", "");
    let look = |metadata| {
        if known.verify(kind, &metadata) {
            let change = Change { metadata, gone: false };
            handlers.iter().for_each(|one| one.found(kind, &change));
        }
    };
    kube.labelled_metadata(all, &ours, look).await
}
