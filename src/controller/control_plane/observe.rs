//! What a control plane has outside of Kubernetes, brought to what it should be in the order in which one needs the other:
//! coderd itself, the operator's access, then the license. It returns what was seen and done, and decides nothing else.

use super::access::{self, AccessContext, Accessed, Needs};
use super::apply::Applied;
use super::ask;
use super::dereference::Dereferenced;
use super::license::{self, Licensed};
use super::observed::{Coderd, ExternalPhase, ExternalState};
use super::reasons::Reason;
use super::reconciler::Reconciler;
use super::subject::{Object, Subject};
use crate::coderd::{Client, Error, Retry};
use crate::control_plane_access::in_force::in_force;
use crate::controller::runtime::deadline::Deadline;
use crate::kubernetes::events::EventDraft;
use crds::{CoderControlPlaneSpec, CoderControlPlaneStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use std::time::Instant;

/// Everything outside.
pub(super) struct External {
    reachability: ask::Reachability,
    accessed: Accessed,
    licensed: Licensed,
    entitlements: Option<Result<(&'static str, &'static str), Error>>,
    /// Why something was left for the next reconcile, if this one had no time for it.
    pub(super) late: Option<String>,
    /// The address of coderd inside the cluster.
    pub(super) url: String,
}

impl Reconciler {
    /// coderd, the operator's access to it, and the license.
    pub(super) async fn observe(
        &self,
        subject: &Subject,
        read: &Dereferenced,
        applied: &Applied,
        deadline: &mut Deadline,
    ) -> External {
        let (service, deployment) = (applied.service.as_ref(), applied.deployment.as_ref());
        let mut complete = read.complete.clone();
        if applied.is_left() {
            complete.spec = in_force(&complete.spec, deployment, service.ok());
        }
        let reachability = self
            .ask_through(subject, &complete, service.map_err(|why| *why), deployment, &applied.rollout)
            .await;
        deadline.ended("asking coderd", Instant::now());
        let url = self.access.url(&complete);
        let client = reachability.client.clone();
        let context = self.access_context(
            subject,
            &complete.spec,
            read.needs,
            client.as_ref(),
            applied.admission_disabled,
            deadline,
        );
        let (accessed, licensed, entitlements, cut) = Box::pin(apply(&context)).await;
        deadline.ended("the operator's access and the license", Instant::now());
        let late = cut.then(|| deadline.told(Instant::now())).flatten();
        External { reachability, accessed, licensed, entitlements, late, url }
    }

    /// What needs the operator's access to a control plane now.
    pub(super) fn needs(&self, object: &Object, spec: &CoderControlPlaneSpec) -> Needs {
        Needs { license: spec.license_secret_ref.is_some(), ..self.dependants.of(&object.key, &object.uid) }
    }

    /// What the operator's access and the license are brought into place with.
    pub(super) fn access_context<'a>(
        &'a self,
        subject: &'a Subject,
        spec: &'a CoderControlPlaneSpec,
        needs: Needs,
        client: Option<&'a Client>,
        admission_disabled: bool,
        deadline: &'a Deadline,
    ) -> AccessContext<'a> {
        let object = &subject.object;
        AccessContext {
            kube: &self.kube,
            egress: &self.access.egress,
            owner: object.owner(),
            spec,
            before: &object.status,
            has_finalizer: object.has_finalizer(),
            needs,
            admission_disabled,
            client,
            now: Timestamp::now(),
            deadline,
        }
    }
}

type Entitlements = Option<Result<(&'static str, &'static str), Error>>;

/// Brings everything outside to what it should be, as far as it goes now; the last tells whether coderd was not asked for
/// everything, because the reconcile had no time left.
///
/// Between two of them the deadline of the reconcile is looked at. Once it has passed coderd is not asked any more, which
/// means what it means of a coderd that is not there: whatever it was seen to have stays as it was told.
async fn apply(context: &AccessContext<'_>) -> (Accessed, Licensed, Entitlements, bool) {
    let is_over = || context.deadline.is_over(Instant::now());
    let mut cut = context.client.is_some() && is_over();
    let mut accessed =
        Box::pin(access::apply(&AccessContext { client: context.client.filter(|_| !cut), ..*context })).await;
    if accessed.client.is_some() && is_over() {
        (accessed.client, cut) = (None, true);
    }
    let namespace = context.owner.namespace;
    let licensed = if context.admission_disabled {
        license::unsent(context.spec, context.before)
    } else {
        license::apply(context.kube, namespace, context.spec, context.before, &accessed, context.now).await
    };
    cut |= context.client.is_some() && is_over();
    let entitlements = license::entitlements(context.client.filter(|_| !cut)).await;
    (accessed, licensed, entitlements, cut)
}

impl External {
    /// Whether our finalizer must be on the object.
    pub(super) fn needs_finalizer(&self) -> bool {
        self.accessed.needs_finalizer
    }

    /// When to ask coderd again, if it did not answer all.
    pub(super) fn unanswered(&self) -> Option<Retry> {
        self.reachability.retry
    }

    /// When to try again, if something failed.
    pub(super) fn retry(&self) -> Option<Retry> {
        let entitlements = self.entitlements.as_ref().and_then(|answer| answer.as_ref().err());
        // Without them everything works: nobody is asked more often for their sake.
        let entitlements = entitlements.map(Error::retry).filter(|retry| *retry != Retry::WhenChanged);
        later(later(self.accessed.retry, self.licensed.retry), entitlements)
    }

    /// What was done about tokens.
    pub(super) fn token_events(&self) -> Vec<EventDraft> {
        self.accessed.token_events.iter().map(access::TokenEvent::draft).collect()
    }

    /// What coderd said.
    pub(super) fn coderd(&self) -> Coderd {
        match (&self.reachability.coderd, &self.entitlements) {
            (Coderd::Answered { version, deployment_id, .. }, Some(Err(error))) => {
                let trouble = Some(format!("{error}; what is shown of its license is from before"));
                Coderd::Answered { version: version.clone(), deployment_id: deployment_id.clone(), trouble }
            }
            (coderd, _) => coderd.clone(),
        }
    }

    fn is_stopped(&self) -> bool {
        self.reachability.coderd == Coderd::NotProbed(Reason::ScaledToZero)
    }

    /// The operator's access. Nobody waits for access that cannot come while no replicas are requested.
    pub(super) fn access(&self) -> ExternalState {
        let state = self.accessed.state.clone();
        if self.is_stopped() && state.phase == ExternalPhase::Pending {
            return ExternalState {
                phase: ExternalPhase::NotRequested,
                reason: Reason::ScaledToZero,
                ..state
            };
        }
        state
    }

    /// Whether something cannot be done without access.
    pub(super) fn access_needed(&self) -> bool {
        self.accessed.needed
    }

    /// The license.
    pub(super) fn license(&self) -> ExternalState {
        let mut state = self.licensed.state.clone();
        if self.is_stopped() && state.phase == ExternalPhase::Pending {
            state.message = format!("no replicas are requested; {}", state.message);
        }
        state
    }

    /// Writes it into a status.
    pub(super) fn describe(&self, status: &mut CoderControlPlaneStatus, now: &Time) {
        self.accessed.describe(status);
        self.licensed.describe(status, now);
        let entitlements = self.entitlements.as_ref().and_then(|answer| answer.as_ref().ok());
        license::describe_entitlements(status, entitlements.copied(), now);
    }
}

/// When to try again for the sake of both: the longer pause counts, since it was asked for.
fn later(one: Option<Retry>, other: Option<Retry>) -> Option<Retry> {
    match (one, other) {
        (Some(Retry::After(one)), Some(Retry::After(other))) => Some(Retry::After(one.max(other))),
        (Some(Retry::After(pause)), _) | (_, Some(Retry::After(pause))) => Some(Retry::After(pause)),
        (Some(Retry::Backoff), _) | (_, Some(Retry::Backoff)) => Some(Retry::Backoff),
        (one, other) => one.or(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_pause_that_was_asked_for_counts_more_than_hurry_and_hurry_more_than_rest() {
        let after = |seconds| Some(Retry::After(Duration::from_secs(seconds)));
        let (hurry, rest) = (Some(Retry::Backoff), Some(Retry::WhenChanged));
        for (one, other, both) in [
            (after(3), after(7), after(7)),
            (after(3), hurry, after(3)),
            (after(3), rest, after(3)),
            (hurry, rest, hurry),
            (hurry, None, hurry),
            (rest, None, rest),
            (None, None, None),
        ] {
            assert_eq!((later(one, other), later(other, one)), (both, both), "{one:?} {other:?}");
        }
    }
}
