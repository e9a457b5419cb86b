//! Brings the children in a control plane's own namespace to what they should be, and notes what stands in the way.
//! One child that cannot be had keeps no other from its place.

use super::desired::{self, Child, Children};
use super::reconcile::{Reconciler, Subject};
use super::status::{Exposure, Observed, Rollout};
use super::{late, rollout};
use crate::controller::drift;
use crate::controller::settle::{Settled, settle, settle_over};
use crate::kubernetes::Target;
use k8s_openapi::jiff::Timestamp;
use serde_json::Value;

/// Pods that are looked at when a rollout is late; more would say the same.
const PODS: u32 = 50;

impl Reconciler {
    /// The children in the object's own namespace but the Deployment and the way from outside. Returns whether the
    /// Service is ours: what answers at somebody else's is not our coderd.
    pub(super) async fn settle_home(
        &self,
        subject: &Subject,
        children: &Children,
        observed: &mut Observed,
    ) -> bool {
        for child in [&children.service_account, &children.disruption_budget].into_iter().flatten() {
            self.settle_child(subject, child, observed).await;
        }
        if let Some(monitor) = &children.service_monitor {
            self.settle_monitor(subject, monitor, observed).await;
        }
        self.settle_child(subject, &children.service, observed).await
    }

    /// Without the Prometheus operator there is nothing to monitor with, and nothing wrong. coderd runs without it, too,
    /// so that Ready only tells of it.
    async fn settle_monitor(&self, subject: &Subject, monitor: &Child, observed: &mut Observed) {
        match self.settle_at_home(subject, monitor).await {
            Settled::InPlace(_) | Settled::Nowhere(_) => {}
            Settled::Conflict(why) | Settled::Refused(why) | Settled::Failed(why) => {
                observed.unimportant.push(why);
            }
        }
    }

    async fn settle_at_home(&self, subject: &Subject, child: &Child) -> Settled {
        let is_ours =
            |live: &Value| drift::is_child_of(live, &subject.uid, &child.manifest["metadata"]["labels"]);
        settle(&self.kube, child.target(), child.manifest.clone(), is_ours).await
    }

    pub(super) async fn settle_deployment(
        &self,
        subject: &Subject,
        child: &Child,
        live: Option<Value>,
        observed: &mut Observed,
    ) -> Option<Value> {
        let is_ours =
            |live: &Value| drift::is_child_of(live, &subject.uid, &child.manifest["metadata"]["labels"]);
        match settle_over(&self.kube, child.target(), live, child.manifest.clone(), is_ours).await {
            Settled::InPlace(live) => {
                observed.rollout = self.looked_into(subject, rollout::rollout(Some(&live))).await;
                return Some(live);
            }
            Settled::Conflict(message) => observed.conflicts.push(message),
            Settled::Refused(message) => observed.refused.push(message),
            Settled::Failed(message) | Settled::Nowhere(message) => observed.failed.push(message),
        }
        observed.rollout = Rollout::Unseen;
        None
    }

    /// Whether a rollout that Kubernetes gave up waiting for is only slow: its pods tell.
    async fn looked_into(&self, subject: &Subject, rollout: Rollout) -> Rollout {
        let Rollout::Stuck(_) = rollout else { return rollout };
        let namespace = &subject.key.namespace;
        let pods = Target { api_version: "v1", kind: "Pod", plural: "pods", namespace, name: "" };
        let selector = desired::selector(&subject.resolved);
        match self.kube.some_labelled(pods, &selector, PODS).await {
            Ok(pods) => late::judge(&pods, Timestamp::now()),
            Err(error) => {
                tracing::warn!(%error, "the pods of a late rollout could not be looked at");
                rollout
            }
        }
    }

    /// Settles a child and notes what stands in its way; returns whether it is in place.
    async fn settle_child(&self, subject: &Subject, child: &Child, observed: &mut Observed) -> bool {
        match self.settle_at_home(subject, child).await {
            Settled::InPlace(_) => return true,
            Settled::Conflict(message) => observed.conflicts.push(message),
            Settled::Refused(message) => observed.refused.push(message),
            Settled::Failed(message) | Settled::Nowhere(message) => observed.failed.push(message),
        }
        false
    }

    pub(super) async fn settle_exposure(
        &self,
        subject: &Subject,
        children: &Children,
        observed: &mut Observed,
    ) {
        let (child, kind) = match (&children.ingress, &children.http_route) {
            (Some(child), _) => (child, "Ingress"),
            (None, Some(child)) => (child, "HTTPRoute"),
            (None, None) => return,
        };
        observed.exposure = match self.settle_at_home(subject, child).await {
            Settled::InPlace(_) => Exposure::InPlace(kind),
            Settled::Nowhere(_) if kind == "HTTPRoute" => Exposure::NoGatewayApi,
            Settled::Conflict(message) => {
                observed.conflicts.push(message.clone());
                Exposure::Failed(message)
            }
            Settled::Refused(message) => {
                observed.refused.push(message.clone());
                Exposure::Failed(message)
            }
            Settled::Failed(message) | Settled::Nowhere(message) => {
                observed.failed.push(message.clone());
                Exposure::Failed(message)
            }
        };
    }
}
