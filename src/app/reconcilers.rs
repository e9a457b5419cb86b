//! The work of the controller's lease: the reconcilers, each with a queue of its own, while this replica leads.
//! It wires them; what they do is not known here.

use super::duties::Work;
use super::process::Context;
use crate::controller::control_plane::{ControlPlanes, Dependants, Reconciler, follow, orphans};
use crate::controller::runtime::queue::Queue;
use std::sync::Arc;

/// What the leader does: everything is looked at once, then again whenever something changes.
pub fn work(context: &Context, control_planes: ControlPlanes, dependants: Dependants) -> Work {
    let reconciler = Reconciler::new(
        context.kube.clone(),
        context.events.clone(),
        context.flags.config(),
        context.flags.namespace_consent,
        context.flags.egress(),
        dependants.clone(),
    );
    let reconciler = Arc::new(reconciler);
    let (events, times) = (context.events.clone(), context.flags.orphan_times());
    Box::new(move |stop| {
        let (reconciler, control_planes) = (reconciler.clone(), control_planes.clone());
        let (events, dependants) = (events.clone(), dependants.clone());
        Box::pin(async move {
            reconciler.begin_term();
            let queue = Queue::default();
            let reconciles = queue.run(stop, |key| {
                let reconciler = reconciler.clone();
                async move { reconciler.reconcile(key).await }
            });
            tokio::select! {
                () = reconciles => {}
                () = follow(reconciler.kube(), reconciler.abroad(), dependants, control_planes.clone(), queue.clone()) => {}
                () = orphans::remove(reconciler.kube(), &events, &control_planes, times) => {}
            }
        })
    })
}
