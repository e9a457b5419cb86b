//! One pass over a suspended control plane: the operator's token is renewed, or it is said that it ended.
//! Nothing else is changed, and nothing is made that was not there before.

use super::access;
use super::pace::{RECHECK, REFUSED};
use super::reconcile::{Key, Reconciler, Subject, nothing_observed};
use crate::coderd::{Client, Retry};
use crate::controller::drift;
use crate::controller::schedule::Outcome;
use crate::kubernetes::events::News;
use crate::kubernetes::{CallError, Target};
use crds::names::control_plane::workload;
use std::time::Duration;

impl Reconciler {
    /// Keeps the token of a suspended object.
    pub(super) async fn keep_suspended(&self, mut subject: Subject) -> Result<Outcome, CallError> {
        if !access::is_kept(&self.asked(&subject, None)).await? {
            return self.write_suspended(subject, None).await.map(|()| Outcome::Settled);
        }
        let client = self.client_of_suspended(&subject).await?;
        let accessed = access::renew(&self.asked(&subject, client.as_ref())).await;
        let news: Vec<News> = accessed.deeds.iter().map(access::Deed::news).collect();
        self.tell(&subject.key, &subject.uid, &news).await;
        accessed.describe(&mut subject.before);
        let outcome = outcome(accessed.retry);
        self.write_suspended(subject, Some(&accessed.wish)).await?;
        Ok(outcome)
    }

    /// coderd, if its Service is ours and it answers there.
    async fn client_of_suspended(&self, subject: &Subject) -> Result<Option<Client>, CallError> {
        let Key { namespace, name } = &subject.key;
        let name = workload(name);
        let service = Target { api_version: "v1", kind: "Service", plural: "services", namespace, name };
        let deployment =
            Target { api_version: "apps/v1", kind: "Deployment", plural: "deployments", namespace, name };
        let ours = self.kube.read(service).await?.filter(|live| drift::is_controlled_by(live, &subject.uid));
        if ours.is_none() {
            // Whoever answers there is not our coderd.
            return Ok(None);
        }
        let deployment = self.kube.read(deployment).await?;
        let (client, _) = self.ask_coderd(subject, deployment.as_ref(), &mut nothing_observed()).await;
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
