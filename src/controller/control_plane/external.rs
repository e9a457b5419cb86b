//! What a control plane has outside of Kubernetes, settled in the order in which one needs the other: the operator's
//! access, then the license. It decides nothing of its own but what a control plane without pods can be asked for.

use super::access::{self, Accessed, Asked};
use super::license::{self, Licensed};
use super::status::{Coderd, Observed, Wish, WishState};
use crate::coderd::{Error, Retry};
use crate::kubernetes::events::News;
use crds::CoderControlPlaneStatus;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use std::time::Instant;

/// Everything outside.
pub struct External {
    accessed: Accessed,
    licensed: Licensed,
    entitlements: Option<Result<(&'static str, &'static str), Error>>,
    /// Whether coderd was not asked for everything, because the reconcile had no time left.
    cut: bool,
}

/// Brings everything outside to what it should be, as far as it goes now.
///
/// Between two of them the deadline of the reconcile is looked at. Once it has passed coderd is not asked any more, which
/// means what it means of a coderd that is not there: whatever it was seen to have stays as it was told.
pub async fn settle(asked: &Asked<'_>) -> External {
    let is_over = || asked.deadline.is_over(Instant::now());
    let mut cut = asked.client.is_some() && is_over();
    let mut accessed = access::settle(&Asked { client: asked.client.filter(|_| !cut), ..*asked }).await;
    if accessed.client.is_some() && is_over() {
        (accessed.client, cut) = (None, true);
    }
    let namespace = asked.owner.namespace;
    let licensed = if asked.frozen {
        license::unsent(asked.spec, asked.before)
    } else {
        license::settle(asked.kube, namespace, asked.spec, asked.before, &accessed, asked.now).await
    };
    cut |= asked.client.is_some() && is_over();
    let entitlements = license::entitlements(asked.client.filter(|_| !cut)).await;
    External { accessed, licensed, entitlements, cut }
}

impl External {
    /// Whether our finalizer must be on the object.
    pub fn hold(&self) -> bool {
        self.accessed.hold
    }

    /// Whether something was left for the next reconcile.
    pub fn is_cut(&self) -> bool {
        self.cut
    }

    /// When to try again, if something failed.
    pub fn retry(&self) -> Option<Retry> {
        let entitlements = self.entitlements.as_ref().and_then(|answer| answer.as_ref().err());
        // Without them everything works: nobody is asked more often for their sake.
        let entitlements = entitlements.map(Error::retry).filter(|retry| *retry != Retry::WhenChanged);
        later(later(self.accessed.retry, self.licensed.retry), entitlements)
    }

    /// What was done about tokens.
    pub fn deeds(&self) -> Vec<News> {
        self.accessed.deeds.iter().map(access::Deed::news).collect()
    }

    /// Notes it for the conditions.
    pub fn observe(&self, observed: &mut Observed) {
        let stopped = observed.coderd == Coderd::NotAsked("ScaledToZero");
        if let (Coderd::Answered { trouble, .. }, Some(Err(error))) =
            (&mut observed.coderd, &self.entitlements)
        {
            *trouble = Some(format!("{error}; what is shown of its license is from before"));
        }
        observed.access = while_stopped(stopped, &self.accessed.wish);
        observed.access_needed = self.accessed.needed;
        observed.license = self.licensed.wish.clone();
        if stopped && observed.license.state == WishState::Pending {
            observed.license.message = format!("no replicas are asked for; {}", self.licensed.wish.message);
        }
    }

    /// Writes it into the status.
    pub fn describe(&self, status: &mut CoderControlPlaneStatus, now: &Time) {
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

/// Nobody waits for access that cannot come while no replicas are asked for.
fn while_stopped(stopped: bool, wish: &Wish) -> Wish {
    if stopped && wish.state == WishState::Pending {
        return Wish { state: WishState::NotAsked, reason: "ScaledToZero", message: wish.message.clone() };
    }
    wish.clone()
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
