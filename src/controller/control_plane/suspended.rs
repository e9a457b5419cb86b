//! One reconcile of a suspended control plane: the operator's token is renewed, or it is said that it ended.
//! Nothing else is changed, and nothing is made that was not there before.

use super::access;
use super::observed::Coderd;
use super::reasons::Reason;
use super::reconciler::Reconciler;
use super::requeue::RECHECK;
use super::resolve::owner;
use super::status;
use super::subject::Subject;
use crate::coderd::{Client, Retry};
use crate::control_plane_access::admission::is_admission_disabled;
use crate::control_plane_access::in_force::in_force;
use crate::controller::children::{ChildKind, drift};
use crate::controller::runtime::deadline::Deadline;
use crate::controller::runtime::schedule::{Action, REFUSED};
use crate::controller::workload::rollout;
use crate::kubernetes::events::EventDraft;
use crate::kubernetes::{CallError, Target};
use crds::CoderControlPlane;
use crds::well_known::condition;
use serde_json::Value;
use std::time::Duration;

impl Reconciler {
    /// Keeps the token of a suspended object.
    pub(super) async fn keep_suspended(
        &self,
        subject: &Subject,
        deadline: Deadline,
    ) -> Result<Action, CallError> {
        let (object, mut complete) = (&subject.object, subject.complete.clone());
        let admission_disabled = is_admission_disabled(&self.kube, &object.key.namespace).await?;
        if admission_disabled {
            let live = self.ours(subject, ChildKind::Deployment).await?;
            let service = self.ours(subject, ChildKind::Service).await?;
            complete.spec = in_force(&complete.spec, live.as_ref(), service.as_ref());
        }
        let mut status = object.status.clone();
        let needs = self.needs(object, &complete.spec);
        if !access::is_kept(&self.access_context(
            subject,
            &complete.spec,
            needs,
            None,
            admission_disabled,
            &deadline,
        ))
        .await?
        {
            let lost = access::not_kept(&complete.spec, &status);
            lost.iter().for_each(|lost| lost.describe(&mut status));
            let findings =
                lost.iter().map(|lost| status::external(condition::OPERATOR_ACCESS_READY, &lost.state));
            let findings = findings.collect();
            return self.write_suspended(object, status, findings).await.map(|()| Action::AwaitChange);
        }
        let (coderd, client) = self.client_of_suspended(subject, &complete).await?;
        let context = self.access_context(
            subject,
            &complete.spec,
            needs,
            client.as_ref(),
            admission_disabled,
            &deadline,
        );
        let accessed = access::renew(&context).await;
        let drafts: Vec<EventDraft> = accessed.token_events.iter().map(access::TokenEvent::draft).collect();
        self.writer().publish(object, &drafts).await;
        accessed.describe(&mut status);
        let action = action(accessed.retry);
        let access = status::external(condition::OPERATOR_ACCESS_READY, &accessed.state);
        self.write_suspended(object, status, vec![access, status::coderd(&coderd)]).await?;
        Ok(action)
    }

    /// A child called like the Deployment, if it is there and this object controls it.
    async fn ours(&self, subject: &Subject, kind: ChildKind) -> Result<Option<Value>, CallError> {
        let owner = owner(&subject.complete);
        let live = self.kube.read(Target::of(kind.names(), &owner.namespace, &owner.workload)).await?;
        Ok(live.filter(|live| drift::is_controlled_by(live, &subject.object.uid)))
    }

    /// coderd, if its Service is ours and it answers there.
    async fn client_of_suspended(
        &self,
        subject: &Subject,
        complete: &CoderControlPlane,
    ) -> Result<(Coderd, Option<Client>), CallError> {
        let service = self.ours(subject, ChildKind::Service).await?;
        let owner = owner(complete);
        let deployment = Target::of(ChildKind::Deployment.names(), &owner.namespace, &owner.workload);
        let deployment = self.kube.read(deployment).await?;
        let rollout = rollout::rollout(deployment.as_ref());
        let service = service.as_ref().ok_or(Reason::ServiceNotOurs);
        let reachability = self.ask_through(subject, complete, service, deployment.as_ref(), &rollout).await;
        Ok((reachability.coderd, reachability.client))
    }
}

/// When to look again: a token is renewed long before it ends.
fn action(retry: Option<Retry>) -> Action {
    match retry {
        Some(Retry::After(pause)) => Action::BackOff(pause),
        Some(Retry::Backoff) => Action::BackOff(Duration::ZERO),
        Some(Retry::WhenChanged) => Action::RequeueAfter(REFUSED),
        None => Action::RequeueAfter(RECHECK),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_that_is_kept_is_looked_at_again() {
        assert_eq!(action(None), Action::RequeueAfter(RECHECK));
        assert_eq!(action(Some(Retry::Backoff)), Action::BackOff(Duration::ZERO));
        assert_eq!(action(Some(Retry::WhenChanged)), Action::RequeueAfter(REFUSED));
    }
}
