//! The work of the controller's lease: the reconcilers, each with a queue of its own, while this replica leads.
//! It wires them; what they do is not known here.

use super::leader_tasks::Work;
use super::process::Context;
use crate::coderd::{Egress, Observer};
use crate::controller::control_plane::{
    ControlPlanes, Dependants, Reconciler, Triggers, follow_dependants, orphans,
};
use crate::controller::runtime::objects;
use crate::controller::runtime::queue::Queue;
use crate::controller::runtime::telemetry::Telemetry;
use crate::controller::runtime::verify;
use crate::controller::runtime::watches::{self, WatchHandler, WatchHandlers};
use crate::serving::metrics::{CoderdRequest, Metrics};
use std::sync::Arc;

/// As metrics and logs call it.
const CONTROL_PLANE: &str = "CoderControlPlane";

/// What the leader does: everything is looked at once, then again whenever something changes.
pub(super) fn work(context: &Context, control_planes: ControlPlanes, dependants: Dependants) -> Work {
    let telemetry = Telemetry::new(CONTROL_PLANE, context.metrics.clone());
    let reconciler = Reconciler::new(
        context.kube.clone(),
        context.events.clone(),
        telemetry.clone(),
        context.flags.config(),
        context.flags.namespace_consent,
        Egress { observer: observer(&context.metrics), ..context.flags.egress() },
        dependants.clone(),
    );
    let reconciler = Arc::new(reconciler);
    let (events, times) = (context.events.clone(), context.flags.orphan_times());
    let interval = context.flags.verify_interval;
    Box::new(move |stop| {
        let (reconciler, control_planes) = (reconciler.clone(), control_planes.clone());
        let (events, dependants, telemetry) = (events.clone(), dependants.clone(), telemetry.clone());
        Box::pin(async move {
            reconciler.begin_term();
            let queue = Queue::default();
            let there = control_planes.clone();
            let _shown =
                telemetry.show(&queue, move |namespace, name| there.named(namespace, name).is_some());
            let (kube, grant_index) = (reconciler.kube(), reconciler.grant_index().clone());
            let known = reconciler.known().clone();
            let triggers = Triggers::new(
                control_planes.clone(),
                grant_index,
                known.clone(),
                kube.namespace(),
                queue.clone(),
            );
            let handlers: WatchHandlers = Arc::new([Arc::new(triggers) as Arc<dyn WatchHandler>]);
            // As it was before the first reconcile: whatever changes after that is told.
            let seen = dependants.seen();
            let reconciles = queue.run(stop, |key| {
                let reconciler = reconciler.clone();
                async move { reconciler.reconcile(key).await }
            });
            tokio::select! {
                () = reconciles => {}
                () = watches::follow(kube, handlers.clone()) => {}
                () = verify::follow(kube, &known, &handlers, &queue, interval) => {}
                () = objects::follow(control_planes.clone(), queue.clone(), |key| reconciler.forget(key)) => {}
                () = follow_dependants(dependants, seen, control_planes.clone(), queue.clone()) => {}
                () = orphans::remove(kube, &events, &control_planes, times) => {}
            }
        })
    })
}

/// Counts every request to coderd.
fn observer(metrics: &Metrics) -> Observer {
    let durations = metrics.coderd_request_duration.clone();
    Observer::new(move |operation, ended, took| {
        let labels = CoderdRequest { operation: operation.name(), result: ended.name() };
        durations.get_or_create(&labels).observe(took.as_secs_f64());
    })
}
