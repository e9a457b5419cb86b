//! Brings the children in a control plane's own namespace to what they should be, and notes what stands in the way.
//! One child that cannot be had keeps no other from its place.

use super::desired::{Child, Children};
use super::reconcile::{Reconciler, Subject};
use super::rollout;
use super::status::{Exposure, Observed, Rollout};
use crate::controller::drift;
use crate::controller::settle::{Settled, settle};
use serde_json::Value;

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
            self.settle_monitor(subject, monitor).await;
        }
        self.settle_child(subject, &children.service, observed).await
    }

    /// Without the Prometheus operator there is nothing to monitor with, and nothing wrong.
    async fn settle_monitor(&self, subject: &Subject, monitor: &Child) {
        let is_ours = |live: &Value| drift::is_controlled_by(live, &subject.uid);
        match settle(&self.kube, monitor.target(), monitor.manifest.clone(), is_ours).await {
            Settled::InPlace(_) | Settled::Nowhere(_) => {}
            Settled::Conflict(why) | Settled::Refused(why) | Settled::Failed(why) => {
                tracing::warn!(
                    namespace = monitor.namespace,
                    name = monitor.name,
                    why,
                    "ServiceMonitor not applied"
                );
            }
        }
    }

    pub(super) async fn settle_deployment(
        &self,
        subject: &Subject,
        child: &Child,
        observed: &mut Observed,
    ) -> Option<Value> {
        let is_ours = |live: &Value| drift::is_controlled_by(live, &subject.uid);
        match settle(&self.kube, child.target(), child.manifest.clone(), is_ours).await {
            Settled::InPlace(live) => {
                observed.rollout = rollout::rollout(Some(&live));
                return Some(live);
            }
            Settled::Conflict(message) => observed.conflicts.push(message),
            Settled::Refused(message) => observed.refused.push(message),
            Settled::Failed(message) | Settled::Nowhere(message) => observed.failed.push(message),
        }
        observed.rollout = Rollout::Unseen;
        None
    }

    /// Settles a child and notes what stands in its way; returns whether it is in place.
    async fn settle_child(&self, subject: &Subject, child: &Child, observed: &mut Observed) -> bool {
        let is_ours = |live: &Value| drift::is_controlled_by(live, &subject.uid);
        match settle(&self.kube, child.target(), child.manifest.clone(), is_ours).await {
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
        let is_ours = |live: &Value| drift::is_controlled_by(live, &subject.uid);
        observed.exposure = match settle(&self.kube, child.target(), child.manifest.clone(), is_ours).await {
            Settled::InPlace(_) => Exposure::InPlace(kind),
            Settled::Nowhere(_) if kind == "HTTPRoute" => Exposure::NoGatewayApi,
            Settled::Conflict(message) => {
                observed.conflicts.push(message.clone());
                Exposure::Failed(message)
            }
            Settled::Refused(message) | Settled::Nowhere(message) => Exposure::Failed(message),
            Settled::Failed(message) => {
                observed.failed.push(message.clone());
                Exposure::Failed(message)
            }
        };
    }
}
