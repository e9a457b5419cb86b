//! Asks coderd, if somebody is there to answer, and remembers between reconciles whether it did. What is made of the answer is decided in `probe`.

use super::observed::Coderd;
use super::probe::{Probe, judged, left_alone, probe};
use super::reasons::Reason;
use super::reconciler::Reconciler;
use super::subject::Subject;
use crate::coderd::{Client, Retry};
use crate::control_plane_access::service::{self, Refusal, Told};
use crate::control_plane_access::trust;
use crate::controller::identity::ObjectKey;
use crate::controller::workload::rollout::{self, Rollout};
use crds::CoderControlPlane;
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

/// What is remembered of each coderd between reconciles. Another object of the same name has another coderd, which its uid
/// tells. A restart forgets it.
#[derive(Default)]
pub(super) struct Memory {
    /// The uids of those whose last question failed.
    failing: Mutex<BTreeMap<ObjectKey, String>>,
}

impl Memory {
    /// Notes whether a question failed; returns whether the one before it did.
    fn failed(&self, key: &ObjectKey, uid: &str, failed: bool) -> bool {
        let mut failing = self.failing.lock().unwrap_or_else(PoisonError::into_inner);
        let before = failing.remove(key);
        if failed {
            failing.insert(key.clone(), uid.to_owned());
        }
        before.is_some_and(|before| before == uid)
    }

    /// Forgets all of them: a term begins.
    pub(super) fn clear(&self) {
        self.failing.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// Forgets an object that is gone.
    pub(super) fn forget(&self, key: &ObjectKey) {
        self.failing.lock().unwrap_or_else(PoisonError::into_inner).remove(key);
    }
}

/// What came of asking coderd.
pub(super) struct Reachability {
    /// What it said.
    pub(super) coderd: Coderd,
    /// The way to it, if it answered.
    pub(super) client: Option<Client>,
    /// When to ask again, if it did not answer all.
    pub(super) retry: Option<Retry>,
}

impl Reachability {
    fn nothing(coderd: Coderd) -> Self {
        Self { coderd, client: None, retry: None }
    }
}

impl Reconciler {
    /// Asks coderd through a Service of ours that was just read, if it leads to our pods: whoever answers elsewhere
    /// is not our coderd. Then nothing is asked, and above all no token is sent. `complete` is what the pods that run have.
    pub(super) async fn ask_through(
        &self,
        subject: &Subject,
        complete: &CoderControlPlane,
        found: Result<&Value, Reason>,
        deployment: Option<&Value>,
        rollout: &Rollout,
    ) -> Reachability {
        match found {
            Ok(found) if service::leads_to_pods(found, complete) => {}
            Ok(_) => {
                let message = Told(Refusal::Changed, service::name(complete)).to_string();
                return Reachability::nothing(Coderd::Unreachable(Reason::ServiceChanged, message));
            }
            Err(why) => return Reachability::nothing(Coderd::NotProbed(why)),
        }
        if rollout::ready_replicas(deployment) == 0 {
            let why =
                if *rollout == Rollout::ScaledToZero { Reason::ScaledToZero } else { Reason::NoReplicaReady };
            return Reachability::nothing(Coderd::NotProbed(why));
        }
        let (uid, before) = (&subject.object.uid, &subject.object.status);
        let hold = self.access.holds.of(uid);
        if let Some(left) = hold.left(Instant::now())
            && let Some(coderd) = left_alone(before)
        {
            return Reachability { coderd, client: None, retry: Some(Retry::After(left)) };
        }
        let trust = match trust::read(&self.kube, &subject.object.key.namespace, &complete.spec).await {
            Ok(trust) => trust,
            Err(why) => return Reachability::nothing(Coderd::Unreachable(Reason::Misconfigured, why)),
        };
        let url = self.access.url(complete);
        let Probe { coderd, client, error } = probe(&url, trust, &self.access.egress, hold).await;
        let again = self.memory.failed(&subject.object.key, uid, matches!(coderd, Coderd::Unreachable(..)));
        Reachability {
            coderd: judged(coderd, before, again),
            client,
            retry: error.map(|error| error.retry()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_that_fails_is_remembered_until_one_does_not() {
        let memory = Memory::default();
        let key = |name: &str| ObjectKey { namespace: "team".to_owned(), name: name.to_owned() };
        let failed = |name: &str, uid: &str, failed| memory.failed(&key(name), uid, failed);
        assert!(!failed("a", "1", false) && !failed("a", "1", true));
        assert!(!failed("b", "2", true), "another one's");
        assert!(failed("a", "1", true) && failed("a", "1", true) && failed("a", "1", false));
        assert!(!failed("a", "1", true) && !failed("a", "3", true), "another object of this name");
        memory.forget(&key("a"));
        assert!(!failed("a", "3", true));
    }
}
