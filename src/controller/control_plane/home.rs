//! Brings the children in a control plane's own namespace to what they should be, and notes what stands in the way.
//! One child that cannot be had keeps no other from its place.

use super::desired::{self, Child, Children};
use super::held::{self, Held};
use super::reconcile::{Reconciler, Subject};
use super::runs_as::{self, RunsAs};
use super::status::{Exposure, Observed, Rollout};
use super::{kept, late, rollout};
use crate::controller::drift;
use crate::controller::settle::{Settled, settle, settle_account, settle_over};
use crate::kubernetes::Target;
use crds::names::control_plane::service_account;
use k8s_openapi::jiff::Timestamp;
use serde_json::Value;

/// Pods that are looked at when a rollout is late; more would say the same.
const PODS: u32 = 50;

impl Reconciler {
    /// The account of coderd, and whether it may run as it. It is read now, whatever was said of it before: somebody may
    /// have put another in its place.
    pub(super) async fn settle_service_account(
        &self,
        subject: &Subject,
        children: &Children,
        held: &Held,
        deployment: Option<&Value>,
        observed: &mut Observed,
    ) -> RunsAs {
        let account = service_account(&subject.key.name, &subject.resolved.spec);
        let asked_for = runs_as::is_asked_for(&subject.object, account, &subject.uid, deployment);
        let child = children.service_account.as_ref().filter(|child| !held.has(child));
        let Some(child) = child else {
            // One that is left as it is gives nothing that is not there: the pods and their rights are left as well.
            return RunsAs::Allowed;
        };
        let is_ours =
            |live: &Value| drift::is_child_of(live, &subject.uid, &child.manifest["metadata"]["labels"]);
        let settled = settle_account(&self.kube, child.target(), child.manifest.clone(), is_ours).await;
        let runs_as =
            if asked_for { RunsAs::Allowed } else { runs_as::of_made(account, &subject.uid, &settled) };
        match &runs_as {
            RunsAs::Refused(why) => observed.account = Some(why.clone()),
            RunsAs::Allowed | RunsAs::Unknown => note(&settled, observed),
        }
        runs_as
    }

    /// The children in the object's own namespace but the account, the Deployment and the way from outside. Returns the
    /// Service, or why coderd is not asked there. Its ports are left with a Deployment that is left: they are where the pods
    /// of that one listen.
    pub(super) async fn settle_home(
        &self,
        subject: &Subject,
        children: &Children,
        held: &Held,
        left: bool,
        observed: &mut Observed,
    ) -> Result<Value, &'static str> {
        if let Some(budget) = &children.disruption_budget {
            note(&self.settle_at_home(subject, budget).await, observed);
        }
        if let Some(monitor) = &children.service_monitor {
            self.settle_monitor(subject, monitor, observed).await;
        }
        let is_held = held.has(&children.service);
        if is_held || left {
            let live = self.kube.read(children.service.target()).await.ok().flatten();
            let live = live.filter(|live| drift::is_controlled_by(live, &subject.uid));
            let wanted = &children.service.manifest;
            if is_held || live.as_ref().is_some_and(|live| !held::listens_alike(live, wanted)) {
                return live.ok_or("ServiceUnseen");
            }
        }
        let settled = self.settle_at_home(subject, &children.service).await;
        note(&settled, observed);
        service_to_ask(settled)
    }

    /// Without the Prometheus operator there is nothing to monitor with, and nothing wrong. coderd runs without it, too,
    /// so that Ready only tells of it.
    async fn settle_monitor(&self, subject: &Subject, monitor: &Child, observed: &mut Observed) {
        match self.settle_at_home(subject, monitor).await {
            Settled::InPlace(_) | Settled::Nowhere(_) => {}
            Settled::Conflict(why) | Settled::Refused(why, _) | Settled::Failed(why, _) => {
                observed.unimportant.push(why);
            }
        }
    }

    async fn settle_at_home(&self, subject: &Subject, child: &Child) -> Settled {
        let is_ours =
            |live: &Value| drift::is_child_of(live, &subject.uid, &child.manifest["metadata"]["labels"]);
        settle(&self.kube, child.target(), child.manifest.clone(), is_ours).await
    }

    /// Returns the Deployment that is there if it is ours: a coderd whose change is refused is asked all the same.
    pub(super) async fn settle_deployment(
        &self,
        subject: &Subject,
        child: &Child,
        mut live: Option<Value>,
        observed: &mut Observed,
    ) -> Option<Value> {
        let mut manifest = child.manifest.clone();
        if let Some(read) = &live
            && !drift::holds(read, &drift::fingerprinted(manifest.clone()))
            && let Ok(Some(now)) = self.kube.read(child.target()).await
        {
            kept::keep_replicas(&subject.object, &mut manifest, &now);
            live = Some(now);
        }
        let is_ours =
            |live: &Value| drift::is_child_of(live, &subject.uid, &child.manifest["metadata"]["labels"]);
        let settled = settle_over(&self.kube, child.target(), live, manifest, is_ours).await;
        note(&settled, observed);
        observed.rollout = match &settled {
            Settled::InPlace(live) => self.looked_into(subject, rollout::rollout(Some(live))).await,
            _ => Rollout::Unseen,
        };
        settled.ours()
    }

    /// Returns the Deployment that is there if it is ours, and leaves it as it is.
    pub(super) fn leave_deployment(
        &self,
        subject: &Subject,
        live: Option<Value>,
        observed: &mut Observed,
    ) -> Option<Value> {
        let live = live.filter(|live| drift::is_controlled_by(live, &subject.uid));
        observed.rollout = live.as_ref().map_or(Rollout::Unseen, |live| rollout::rollout(Some(live)));
        live
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
                late::unseen()
            }
        }
    }

    pub(super) async fn settle_exposure(
        &self,
        subject: &Subject,
        children: &Children,
        held: &Held,
        observed: &mut Observed,
    ) {
        let (child, kind) = match (&children.ingress, &children.http_route) {
            (Some(child), _) => (child, "Ingress"),
            (None, Some(child)) => (child, "HTTPRoute"),
            (None, None) => return,
        };
        if held.has(child) {
            let message =
                format!("no {kind} is made or changed while admission is disabled; Ready says what to do");
            observed.exposure = Exposure::Held(message);
            return;
        }
        let settled = self.settle_at_home(subject, child).await;
        if kind == "HTTPRoute" && matches!(settled, Settled::Nowhere(_)) {
            observed.exposure = Exposure::NoGatewayApi;
            return;
        }
        note(&settled, observed);
        observed.exposure = match settled {
            Settled::InPlace(_) => Exposure::InPlace(kind),
            Settled::Conflict(message)
            | Settled::Refused(message, _)
            | Settled::Failed(message, _)
            | Settled::Nowhere(message) => Exposure::Failed(message),
        };
    }
}

/// Notes what stands in the way of a child.
fn note(settled: &Settled, observed: &mut Observed) {
    match settled {
        Settled::InPlace(_) => {}
        Settled::Conflict(message) => observed.conflicts.push(message.clone()),
        Settled::Refused(message, _) => observed.refused.push(message.clone()),
        Settled::Failed(message, _) | Settled::Nowhere(message) => observed.failed.push(message.clone()),
    }
}

/// Decides whether coderd is asked at its Service: whoever answers at somebody else's is not our coderd, so that above
/// all no token is sent there. One of ours whose change is refused is as good as before.
fn service_to_ask(settled: Settled) -> Result<Value, &'static str> {
    let unknown = match &settled {
        Settled::Conflict(_) => "ServiceNotOurs",
        _ => "ServiceUnseen",
    };
    settled.ours().ok_or(unknown)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn coderd_is_asked_where_the_service_is_ours_although_it_could_not_be_changed() {
        let live = json!({"kind": "Service"});
        let refused = Settled::Refused("a policy".to_owned(), Some(live.clone()));
        assert_eq!(service_to_ask(refused), Ok(live));
        assert_eq!(service_to_ask(Settled::Refused("quota".to_owned(), None)), Err("ServiceUnseen"));
        assert_eq!(service_to_ask(Settled::Conflict("not ours".to_owned())), Err("ServiceNotOurs"));
    }
}
