//! Brings the children in a control plane's own namespace to what they should be, and notes what stands in the way.
//! One child that cannot be had keeps no other from its place.

use super::desired::{Child, Children};
use super::reconcile::{Reconciler, Subject};
use super::rollout;
use super::status::{Exposure, Observed};
use crate::controller::drift;
use crate::controller::settle::{Settled, settle};
use serde_json::Value;

impl Reconciler {
    /// The children in the object's own namespace but the Deployment and the way from outside.
    pub(super) async fn settle_home(&self, subject: &Subject, children: &Children, observed: &mut Observed) {
        let home =
            [children.service_account.as_ref(), Some(&children.service), children.disruption_budget.as_ref()];
        for child in home.into_iter().flatten() {
            if let Some(trouble) = self.settle_child(subject, child, observed).await {
                observed.failed.push(trouble);
            }
        }
        if let Some(monitor) = &children.service_monitor {
            // Without the Prometheus operator there is nothing to monitor with, and nothing wrong.
            let _ = self.settle_child(subject, monitor, observed).await;
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
        None
    }

    /// Settles a child; what stands in its way for good is noted, and what may pass is returned.
    async fn settle_child(
        &self,
        subject: &Subject,
        child: &Child,
        observed: &mut Observed,
    ) -> Option<String> {
        let is_ours = |live: &Value| drift::is_controlled_by(live, &subject.uid);
        match settle(&self.kube, child.target(), child.manifest.clone(), is_ours).await {
            Settled::InPlace(_) => None,
            Settled::Conflict(message) => {
                observed.conflicts.push(message);
                None
            }
            Settled::Refused(message) => {
                observed.refused.push(message);
                None
            }
            Settled::Failed(message) | Settled::Nowhere(message) => Some(message),
        }
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
            Settled::Refused(message) | Settled::Failed(message) | Settled::Nowhere(message) => {
                Exposure::Failed(message)
            }
        };
    }
}
