//! Lists what children there are every now and then, so that a lost event of a watch is healed within that time.
//! It reads names and versions; what is wrong is found by a reconcile.

use super::queue::Queue;
use crate::controller::children::{ChildKind, Known, Presence};
use crate::controller::identity::ObjectKey;
use crate::kubernetes::{CallError, Kube, Target};
use crds::well_known::{MANAGER, label};
use std::time::Duration;

/// Verifies until it is dropped.
pub async fn follow(kube: &Kube, known: &Known, queue: &Queue<ObjectKey>, interval: Duration) {
    loop {
        tokio::time::sleep(interval).await;
        for kind in ChildKind::ALL.iter().copied().filter(|kind| kind.presence() == Presence::Always) {
            match verify(kube, known, kind).await {
                Ok(()) => known.end_verifying(kind).into_iter().for_each(|key| queue.enqueue(key)),
                Err(error) => {
                    tracing::warn!(kind = kind.as_str(), %error, "children could not be verified; it is tried again")
                }
            }
        }
    }
}

async fn verify(kube: &Kube, known: &Known, kind: ChildKind) -> Result<(), CallError> {
    known.begin_verifying(kind);
    let ours = format!("{}={MANAGER}", label::MANAGED_BY);
    let all = Target::of(kind.names(), "", "");
    kube.labelled_metadata(all, &ours, |metadata| known.verify(kind, &metadata)).await
}
