//! Applies the children in a control plane's own namespace, one by one, and returns what became of each.
//! One child that cannot be had keeps no other from its place.

use super::account_use::{self, AccountUse};
use super::dereference::Dereferenced;
use super::gate::Gate;
use super::observed::Exposure;
use super::reasons::Reason;
use super::reconciler::Reconciler;
use super::resolve::owner;
use super::running_values;
use super::subject::Subject;
use super::withheld::{self, Withheld};
use crate::controller::children::apply::{Applier, ChildState, Problems, apply_over};
use crate::controller::children::{Child, ChildKind, drift};
use crate::controller::workload::late;
use crate::controller::workload::rollout::{self, Rollout};
use crate::kubernetes::Target;
use crds::names::control_plane::service_account;
use k8s_openapi::jiff::Timestamp;
use serde_json::Value;
use std::borrow::Cow;

/// Pods that are looked at when a rollout is late; more would say the same.
const PODS: u32 = 50;

/// Whether a live object is this child of this owner.
fn is_ours(subject: &Subject, child: &Child) -> impl Fn(&Value) -> bool {
    |live| drift::is_child_of(live, &subject.object.uid, &child.manifest["metadata"]["labels"])
}

impl Reconciler {
    /// The account of coderd, and whether it may run as it. Before anything is run or granted under it, it is read: a watch
    /// may be late to tell that somebody has put another in its place.
    pub(super) async fn apply_account(
        &self,
        subject: &Subject,
        applier: Applier<'_>,
        child: Option<&Child>,
        read: &Dereferenced,
        withheld: &Withheld,
        problems: &mut Problems,
    ) -> AccountUse {
        let object = &subject.object;
        let account = service_account(&object.key.name, &read.complete.spec);
        let deployment = read.deployment.as_ref();
        let asked_for = account_use::is_asked_for(&object.value, account, &object.uid, deployment);
        let Some(child) = child.filter(|child| !withheld.has(child)) else {
            // One that is left as it is gives nothing that is not there: the pods and their rights are left as well.
            return AccountUse::Allowed;
        };
        let state = applier.create_or_apply(child, is_ours(subject, child)).await;
        let account_use =
            if asked_for { AccountUse::Allowed } else { account_use::of_made(account, &object.uid, &state) };
        if !matches!(account_use, AccountUse::Refused(_)) {
            problems.note(&state);
        }
        account_use
    }

    /// Returns the Service, or why coderd is not asked there. Its ports are left with a Deployment that is left: they are
    /// where the pods of that one listen.
    pub(super) async fn apply_service(
        &self,
        subject: &Subject,
        child: &Child,
        gate: &Gate,
        left: bool,
        read: &Dereferenced,
        problems: &mut Problems,
    ) -> Result<Value, Reason> {
        let (applier, is_withheld) = (self.applier(&subject.object, gate), gate.withheld.has(child));
        if is_withheld || left {
            let live = self.kube.read(child.target()).await.ok().flatten();
            let live = live.filter(|live| drift::is_controlled_by(live, &subject.object.uid));
            if is_withheld
                || live.as_ref().is_some_and(|live| !withheld::listens_alike(live, &child.manifest))
            {
                return live.ok_or(Reason::ServiceUnseen);
            }
        }
        let state = if read.sends_token() {
            // Whoever may change Services could send our token elsewhere: it is read before a token leaves.
            applier.read_and_apply(child, is_ours(subject, child)).await
        } else {
            applier.apply(child, is_ours(subject, child)).await
        };
        problems.note(&state);
        service_to_ask(state)
    }

    /// Returns the Deployment that is there if it is ours, and how far it is: a coderd whose change is refused is asked all
    /// the same.
    pub(super) async fn apply_deployment(
        &self,
        subject: &Subject,
        child: &Child,
        read: &Dereferenced,
        problems: &mut Problems,
    ) -> (Option<Value>, Rollout) {
        let (mut live, mut child) = (read.deployment.clone(), Cow::Borrowed(child));
        if let Some(seen) = &live
            && !child.is_held_by(seen)
            && let Ok(Some(now)) = self.kube.read(child.target()).await
        {
            if let Some(manifest) =
                running_values::with_replicas(&subject.object.value, &child.manifest, &now)
            {
                child = Cow::Owned(Child::new(child.kind, &child.namespace, &child.name, manifest));
            }
            live = Some(now);
        }
        let state = apply_over(&self.kube, &child, live, is_ours(subject, &child)).await;
        problems.note(&state);
        if let ChildState::InPlace(live) = &state {
            // It is read in every reconcile; but whose it was must be known when it goes without a word.
            self.known.note(&subject.object.key, &child, live);
        }
        let rollout = match &state {
            ChildState::InPlace(live) => self.looked_into(subject, rollout::rollout(Some(live))).await,
            _ => Rollout::Unseen,
        };
        let deployment = state.ours();
        self.remember_versions(deployment.as_ref(), child.target(), &read.contents).await;
        (deployment, rollout)
    }

    /// Returns the Deployment that is there if it is ours, and leaves it as it is.
    pub(super) fn leave_deployment(
        &self,
        subject: &Subject,
        live: Option<&Value>,
    ) -> (Option<Value>, Rollout) {
        let live = live.filter(|live| drift::is_controlled_by(live, &subject.object.uid)).cloned();
        let rollout = live.as_ref().map_or(Rollout::Unseen, |live| rollout::rollout(Some(live)));
        (live, rollout)
    }

    /// Whether a rollout that Kubernetes gave up waiting for is only slow: its pods tell.
    async fn looked_into(&self, subject: &Subject, rollout: Rollout) -> Rollout {
        let Rollout::Stuck(_) = rollout else { return rollout };
        let namespace = &subject.object.key.namespace;
        let pods = Target { api_version: "v1", kind: "Pod", plural: "pods", namespace, name: "" };
        let selector = owner(&subject.complete).selector_text();
        match self.kube.some_labelled(pods, &selector, PODS).await {
            Ok(pods) => late::judge(&pods, Timestamp::now()),
            Err(error) => {
                tracing::warn!(%error, "the pods of a late rollout could not be looked at");
                late::unseen()
            }
        }
    }
}

/// A child of which nothing but its place matters.
pub(super) async fn apply_child(subject: &Subject, applier: Applier<'_>, child: &Child) -> ChildState {
    applier.apply(child, is_ours(subject, child)).await
}

/// The Ingress or HTTPRoute, if one is asked for.
pub(super) async fn apply_exposure(
    subject: &Subject,
    applier: Applier<'_>,
    child: Option<&Child>,
    withheld: &Withheld,
    problems: &mut Problems,
) -> Exposure {
    let Some(child) = child else { return Exposure::NotRequested };
    let kind = child.kind.as_str();
    if withheld.has(child) {
        let message =
            format!("no {kind} is created or changed while admission is disabled; see Ready for the fix");
        return Exposure::Withheld(message);
    }
    let state = apply_child(subject, applier, child).await;
    if child.kind == ChildKind::HttpRoute && matches!(state, ChildState::KindMissing(_)) {
        return Exposure::NoGatewayApi;
    }
    problems.note(&state);
    match state {
        ChildState::InPlace(_) => Exposure::InPlace(kind),
        ChildState::Conflict(message)
        | ChildState::Refused(message, _)
        | ChildState::Failed(message, _)
        | ChildState::KindMissing(message) => Exposure::Failed(message),
    }
}

/// Decides whether coderd is asked at its Service: whoever answers at somebody else's is not our coderd, so that above
/// all no token is sent there. One of ours whose change is refused is as good as before.
fn service_to_ask(state: ChildState) -> Result<Value, Reason> {
    let unknown = match &state {
        ChildState::Conflict(_) => Reason::ServiceNotOurs,
        _ => Reason::ServiceUnseen,
    };
    state.ours().ok_or(unknown)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn coderd_is_asked_where_the_service_is_ours_although_it_could_not_be_changed() {
        let live = json!({"kind": "Service"});
        let refused = ChildState::Refused("a policy".to_owned(), Some(live.clone()));
        assert_eq!(service_to_ask(refused), Ok(live));
        assert_eq!(service_to_ask(ChildState::Refused("quota".to_owned(), None)), Err(Reason::ServiceUnseen));
        assert_eq!(service_to_ask(ChildState::Conflict("not ours".to_owned())), Err(Reason::ServiceNotOurs));
    }
}
