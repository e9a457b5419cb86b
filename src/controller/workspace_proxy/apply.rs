//! Brings the children of a workspace proxy to what they should be and prunes what is no longer asked for. It decides what depends
//! on what: nothing runs under an account that is not in place.

use super::build::Children;
use crate::controller::attached::apply::{Applied, Applying, PodChildren, Work};
use crate::controller::children::gate::Gate;
use crate::controller::children::{Child, drift, exposure, withheld};
use crate::controller::workload::serving::ServingChildren;
use serde_json::Value;

/// What may keep a proxy that runs from being ready.
pub(super) const ABSENCE: &str =
    "A proxy restarts about once a minute while its control plane does not answer";

/// Applies the children as far as nothing forbids it. Taken apart without `..`: a new child has its place here.
pub(super) async fn apply(work: &Work<'_>, gate: &Gate, children: &Children) -> Applied {
    let Children { service_account, deployment, serving } = children;
    let ServingChildren { service, ingress, http_route, disruption_budget, service_monitor } = serving;
    let pods = PodChildren {
        service_account: service_account.as_ref(),
        deployment: deployment.as_ref(),
        disruption_budget: disruption_budget.as_ref(),
        monitor: service_monitor.as_ref(),
    };
    let mut applying = work.begin(gate, pods).await;
    apply_service(&mut applying, service).await;
    let running = applying.run().await;
    let exposed = ingress.as_ref().or(http_route.as_ref());
    let ours = |live: &Value, child: &Child| work.state.is_ours(child)(live);
    let (applier, problems) = (applying.applier, &mut applying.problems);
    let exposure = exposure::apply(applier, exposed, &gate.withheld, ours, problems).await;
    applying.finish(running, exposure).await
}

/// The Service. Its ports are left with a Deployment that is left: they are where the pods of that one listen.
async fn apply_service(applying: &mut Applying<'_>, child: &Child) {
    if applying.gate.withheld.has(child) {
        return;
    }
    let (applier, state) = (applying.applier, applying.work.state);
    if applying.wanted().is_none() && state.running().is_some() {
        let live = applier.kube.read(child.target()).await.ok().flatten();
        let live = live.filter(|live| drift::is_controlled_by(live, state.uid));
        if live.is_some_and(|live| !withheld::listens_alike(&live, &child.manifest)) {
            return;
        }
    }
    applying.problems.note(&applier.apply(child, state.is_ours(child)).await);
}
