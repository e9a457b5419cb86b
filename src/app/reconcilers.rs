//! The work of the controller's lease: the reconcilers, each with a queue of its own, while this replica leads.
//! It wires them; what they do is not known here.

use super::duties::Work;
use super::process::Context;
use crate::controller::control_plane::{
    ControlPlanes, Dependants, Reconciler, Triggers, follow_dependants, orphans,
};
use crate::controller::runtime::objects;
use crate::controller::runtime::queue::Queue;
use crate::controller::runtime::watches::{self, Follower};
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
            let (kube, abroad) = (reconciler.kube(), reconciler.abroad().clone());
            let triggers = Triggers::new(control_planes.clone(), abroad, kube.namespace(), queue.clone());
            let followers: [Arc<dyn Follower>; 1] = [Arc::new(triggers)];
            // As it was before the first reconcile: whatever changes after that is told.
            let seen = dependants.seen();
            let reconciles = queue.run(stop, |key| {
                let reconciler = reconciler.clone();
                async move { reconciler.reconcile(key).await }
            });
            tokio::select! {
                () = reconciles => {}
                () = watches::follow(kube, Arc::new(followers)) => {}
                () = objects::follow(control_planes.clone(), queue.clone()) => {}
                () = follow_dependants(dependants, seen, control_planes.clone(), queue.clone()) => {}
                () = orphans::remove(kube, &events, &control_planes, times) => {}
            }
        })
    })
}
