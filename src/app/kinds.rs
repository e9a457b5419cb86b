//! The watches of the process: one per kind, shared by everything that reads it.
//! A required kind gates readiness until its first list is complete; an optional one never does.

use super::process::{Context, Fatal, Running};
use crate::control_plane_access::control_planes::ControlPlanes;
use crate::controller::control_plane::Dependants;
use crate::kubernetes::{Kept, Objects, Reflected, Selection, refusal};
use crate::serving::metrics::Named;
use crds::{CoderControlPlane, CoderProvisioner, CoderWorkspaceProxy};
use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::APIService;
use kube::Resource;
use kube::runtime::watcher;
use serde::de::DeserializeOwned;
use std::fmt::Debug;

/// Follows the three kinds the reconcilers need.
pub(super) fn follow(
    context: &Context,
    running: &mut Running,
    api_services: Reflected<APIService>,
) -> (ControlPlanes, Dependants) {
    let kube = &context.kube;
    let control_planes =
        require(context, running, "CoderControlPlane", kube.watched::<Kept<CoderControlPlane>>());
    let provisioners =
        require(context, running, "CoderProvisioner", kube.watched::<Kept<CoderProvisioner>>());
    let proxies =
        require(context, running, "CoderWorkspaceProxy", kube.watched::<Kept<CoderWorkspaceProxy>>());
    (control_planes, Dependants { provisioners, proxies, api_services })
}

fn require<K>(
    context: &Context,
    running: &mut Running,
    kind: &'static str,
    objects: Vec<Objects<K>>,
) -> Reflected<K>
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + Sync + 'static,
{
    let gate = context.readiness.gate(kind);
    gate.close("its first list");
    let (refused, mut refusals) = tokio::sync::watch::channel(String::new());
    let on_error = move |error: &watcher::Error| {
        if let Some(refusal) = refusal(error) {
            refused.send_replace(refusal);
        }
    };
    let reflected = reflect_with(context, running, kind, objects, &Selection::All, on_error);
    let (unfollow, listed) = (context.unfollow.clone(), reflected.clone());
    running.followers.spawn(async move {
        loop {
            // Nobody else opens or closes the gate: what is refused later is not its matter.
            tokio::select! {
                biased;
                synced = listed.synced() => {
                    if synced {
                        gate.open();
                    }
                    break;
                }
                Ok(()) = refusals.changed() => {
                    gate.close(format!("its first list: {}", *refusals.borrow_and_update()));
                }
            }
        }
        unfollow.cancelled().await;
        Ok::<_, Fatal>(())
    });
    reflected
}

/// Follows objects of a kind for whoever reads the handle.
pub(super) fn reflect<K>(
    context: &Context,
    running: &mut Running,
    kind: &'static str,
    objects: Vec<Objects<K>>,
    selection: &Selection,
) -> Reflected<K>
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + Sync + 'static,
{
    reflect_with(context, running, kind, objects, selection, |_| ())
}

/// The same; `on_failure` hears of every list or watch that failed.
fn reflect_with<K>(
    context: &Context,
    running: &mut Running,
    kind: &'static str,
    objects: Vec<Objects<K>>,
    selection: &Selection,
    on_failure: impl Fn(&watcher::Error) + Send + Sync + 'static,
) -> Reflected<K>
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + Sync + 'static,
{
    let errors = context.metrics.watch_errors.get_or_create(&Named { name: kind }).clone();
    let on_error = move |error: &watcher::Error| {
        errors.inc();
        on_failure(error);
        tracing::warn!(kind, %error, "list or watch failed; it is tried again");
    };
    let (reflected, following) = Reflected::follow(objects, selection, context.unfollow.clone(), on_error);
    running.followers.spawn(async move {
        following.await;
        Ok::<_, Fatal>(())
    });
    reflected
}
