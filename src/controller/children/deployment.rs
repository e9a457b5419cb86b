//! Brings a Deployment to what it should be, or leaves it as it is, and finds out how far its rollout has come.
//! It never undoes what an autoscaler decided while the spec leaves the number of replicas open.

use super::apply::{Applier, ChildState, apply_over};
use super::{Child, ChildCache, ChildKind, OwnerState};
use crate::controller::workload::rollout::{self, Rollout};
use crate::controller::workload::{late, running};
use crate::kubernetes::{CallError, Kube, Target};
use k8s_openapi::jiff::Timestamp;
use serde_json::Value;
use std::borrow::Cow;

/// Pods that are looked at when a rollout is late; more would say the same.
const PODS: u32 = 50;

/// The Deployment of the name that ours has, as it is before anything is changed, whoever it belongs to.
#[derive(Debug, Clone, Default)]
pub(crate) struct FoundDeployment {
    /// None if there is none.
    pub(crate) live: Option<Value>,
    /// Whether that is only what was noted of it: enough to tell how far it is, and not to change it.
    pub(crate) is_noted: bool,
}

/// Reads it. What was noted of it is enough for a reconcile that `changes_nothing`.
pub(crate) async fn find(
    kube: &Kube,
    cache: &ChildCache,
    namespace: &str,
    name: &str,
    changes_nothing: bool,
) -> Result<FoundDeployment, CallError> {
    let kind = ChildKind::Deployment;
    if changes_nothing && let Some(noted) = cache.noted(kind, namespace, name) {
        return Ok(FoundDeployment { live: Some(noted), is_noted: true });
    }
    let live = kube.read(Target::of(kind.names(), namespace, name)).await?;
    Ok(FoundDeployment { live, is_noted: false })
}

/// How the pods of a Deployment are found and judged when it is late.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LatePods<'a> {
    /// Their selector.
    pub(crate) selector: &'a str,
    /// What may keep pods of this kind that run.
    pub(crate) hint: Option<&'a str>,
}

/// Returns what became of it, and how far it is.
pub(crate) async fn apply(
    applier: Applier<'_>,
    owner: OwnerState<'_>,
    child: &Child,
    pods: LatePods<'_>,
) -> (ChildState, Rollout) {
    if let Some(live) = applier.confirmed(child) {
        let rollout = looked_into(applier.kube, &child.namespace, pods, rollout::rollout(Some(&live))).await;
        return (ChildState::InPlace(live), rollout);
    }
    let (mut live, mut child) = (owner.deployment.cloned(), Cow::Borrowed(child));
    if let Some(seen) = &live
        && !child.is_held_by(seen)
        && let Ok(Some(now)) = applier.kube.read(child.target()).await
    {
        if let Some(manifest) = running::with_replicas(owner.object, &child.manifest, &now) {
            child = Cow::Owned(Child::new(child.kind, &child.namespace, &child.name, manifest));
        }
        live = Some(now);
    }
    let state = apply_over(applier.kube, &child, live, owner.is_ours(&child)).await;
    let rollout = match &state {
        ChildState::InPlace(live) => {
            applier.note_deployment(&child, live);
            looked_into(applier.kube, &child.namespace, pods, rollout::rollout(Some(live))).await
        }
        _ => Rollout::Unseen,
    };
    (state, rollout)
}

/// Returns the Deployment that is there if it is ours, and leaves it as it is.
pub(crate) fn leave(owner: OwnerState<'_>) -> (Option<Value>, Rollout) {
    let live = owner.running().cloned();
    let rollout = live.as_ref().map_or(Rollout::Unseen, |live| rollout::rollout(Some(live)));
    (live, rollout)
}

/// Whether a rollout that Kubernetes gave up waiting for is only slow: its pods tell.
async fn looked_into(kube: &Kube, namespace: &str, late: LatePods<'_>, rollout: Rollout) -> Rollout {
    let Rollout::Stuck(_) = rollout else { return rollout };
    match kube.some_pods(namespace, late.selector, PODS, |pod| Some(pod.clone())).await {
        Ok(pods) => late::judge(&pods, Timestamp::now(), late.hint),
        Err(error) => {
            tracing::warn!(%error, "the pods of a late rollout could not be looked at");
            late::unseen()
        }
    }
}
