//! One pass over a suspended control plane: the operator's token is renewed, or it is said that it ended.
//! Nothing else is changed, and nothing is made that was not there before.

use super::access;
use super::break_glass::in_force;
use super::pace::{RECHECK, REFUSED};
use super::reconcile::{Reconciler, Subject, nothing_observed};
use super::rollout;
use super::status::{self, Observed};
use crate::coderd::{Client, Retry};
use crate::controller::drift;
use crate::controller::schedule::Outcome;
use crate::kubernetes::CallError;
use crate::kubernetes::events::News;
use crds::well_known::condition;
use std::time::Duration;

impl Reconciler {
    /// Keeps the token of a suspended object.
    pub(super) async fn keep_suspended(&self, mut subject: Subject) -> Result<Outcome, CallError> {
        let frozen = self.is_admission_disabled(&subject.key.namespace).await?;
        if frozen {
            let live = self.kube.read(subject.key.deployment()).await?;
            let live = live.filter(|live| drift::is_controlled_by(live, &subject.uid));
            let service = self.kube.read(subject.key.service()).await?;
            let service = service.filter(|live| drift::is_controlled_by(live, &subject.uid));
            subject.resolved.spec = in_force(&subject.resolved.spec, live.as_ref(), service.as_ref());
        }
        if !access::is_kept(&self.asked(&subject, None, frozen)).await? {
            let lost = access::not_kept(&subject.resolved.spec, &subject.before);
            lost.iter().for_each(|lost| lost.describe(&mut subject.before));
            let findings = lost.iter().map(|lost| status::wish(condition::OPERATOR_ACCESS_READY, &lost.wish));
            let findings = findings.collect();
            return self.write_suspended(subject, findings).await.map(|()| Outcome::Settled);
        }
        let mut observed = nothing_observed();
        let client = self.client_of_suspended(&subject, &mut observed).await?;
        let accessed = access::renew(&self.asked(&subject, client.as_ref(), frozen)).await;
        let news: Vec<News> = accessed.deeds.iter().map(access::Deed::news).collect();
        self.tell(&subject.key, &subject.uid, &news).await;
        accessed.describe(&mut subject.before);
        let outcome = outcome(accessed.retry);
        let access = status::wish(condition::OPERATOR_ACCESS_READY, &accessed.wish);
        self.write_suspended(subject, vec![access, status::coderd(&observed.coderd)]).await?;
        Ok(outcome)
    }

    /// coderd, if its Service is ours and it answers there.
    async fn client_of_suspended(
        &self,
        subject: &Subject,
        observed: &mut Observed,
    ) -> Result<Option<Client>, CallError> {
        let (service, deployment) = (subject.key.service(), subject.key.deployment());
        let ours = self.kube.read(service).await?.filter(|live| drift::is_controlled_by(live, &subject.uid));
        let deployment = self.kube.read(deployment).await?;
        observed.rollout = rollout::rollout(deployment.as_ref());
        let (client, _) = self
            .ask_through(subject, ours.as_ref().ok_or("ServiceNotOurs"), deployment.as_ref(), observed)
            .await;
        Ok(client)
    }
}

/// When to look again: a token is renewed long before it ends.
fn outcome(retry: Option<Retry>) -> Outcome {
    match retry {
        Some(Retry::After(pause)) => Outcome::Failed(pause),
        Some(Retry::Backoff) => Outcome::Failed(Duration::ZERO),
        Some(Retry::WhenChanged) => Outcome::After(REFUSED),
        None => Outcome::After(RECHECK),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_that_is_kept_is_looked_at_again() {
        assert_eq!(outcome(None), Outcome::After(RECHECK));
        assert_eq!(outcome(Some(Retry::Backoff)), Outcome::Failed(Duration::ZERO));
        assert_eq!(outcome(Some(Retry::WhenChanged)), Outcome::After(REFUSED));
    }
}
