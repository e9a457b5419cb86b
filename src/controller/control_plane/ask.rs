//! Asks coderd, if somebody is there to answer, and remembers between passes whether it did and whether it asked to be
//! left alone. What is made of the answer is decided in `probe`.

use super::probe::{Probe, Trust, judged, left_alone, probe};
use super::reconcile::{Reconciler, Subject};
use super::references::decoded;
use super::rollout;
use super::status::{Coderd, Observed, Rollout};
use crate::coderd::{Client, Pause, Retry};
use crate::kubernetes::Target;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

/// What is remembered of each coderd between passes, by the uid of its object: another object of the same name has
/// another coderd. A restart forgets it.
#[derive(Default)]
pub(super) struct Memory {
    /// How long it asked to be left alone.
    pauses: Mutex<BTreeMap<String, Pause>>,
    /// Those whose last question failed.
    faltered: Mutex<BTreeSet<String>>,
}

impl Memory {
    /// How long the coderd of this object asked to be left alone.
    fn pause(&self, uid: &str) -> Pause {
        let mut pauses = self.pauses.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        pauses.retain(|_, pause| !pause.is_idle(now));
        pauses.entry(uid.to_owned()).or_default().clone()
    }

    /// Notes whether a question failed; returns whether the one before it did.
    fn failed(&self, uid: &str, failed: bool) -> bool {
        let mut faltered = self.faltered.lock().unwrap_or_else(PoisonError::into_inner);
        if failed { !faltered.insert(uid.to_owned()) } else { faltered.remove(uid) }
    }

    /// Forgets an object that is gone.
    pub(super) fn forget(&self, uid: &str) {
        self.failed(uid, false);
    }
}

impl Reconciler {
    /// Asks coderd, if somebody is there to answer, and returns it, or when to ask again.
    pub(super) async fn ask_coderd(
        &self,
        subject: &Subject,
        deployment: Option<&Value>,
        observed: &mut Observed,
    ) -> (Option<Client>, Option<Retry>) {
        if rollout::ready_replicas(deployment) == 0 {
            let why =
                if observed.rollout == Rollout::ScaledToZero { "ScaledToZero" } else { "NoReplicaReady" };
            observed.coderd = Coderd::NotAsked(why);
            return (None, None);
        }
        let pause = self.memory.pause(&subject.uid);
        if let Some(left) = pause.left(Instant::now())
            && let Some(coderd) = left_alone(&subject.before)
        {
            observed.coderd = coderd;
            return (None, Some(Retry::After(left)));
        }
        let trust = self.trust(subject).await;
        let url = self.url(subject);
        let Probe { coderd, client, error } = probe(&url, trust, &self.egress, pause).await;
        let again = self.memory.failed(&subject.uid, matches!(coderd, Coderd::Silent(..)));
        observed.coderd = judged(coderd, &subject.before, again);
        (client, error.map(|error| error.retry()))
    }

    /// What coderd serves with, as its own Secrets tell, one read each.
    async fn trust(&self, subject: &Subject) -> Trust {
        let names = subject.resolved.spec.tls.iter().flat_map(|tls| &tls.secret_names);
        let (mut certificates, mut authorities) = (Vec::new(), Vec::new());
        for name in names.map(|name| name.trim()).filter(|name| !name.is_empty()) {
            let namespace = &subject.key.namespace;
            let target = Target { api_version: "v1", kind: "Secret", plural: "secrets", namespace, name };
            match self.kube.read(target).await {
                Ok(secret) => {
                    let pem = |key: &str| decoded(&secret.as_ref()?["data"][key]);
                    certificates.extend(pem("tls.crt"));
                    authorities.extend(pem("ca.crt").filter(|pem| !pem.trim().is_empty()));
                }
                // Without it the handshake fails, and the status says so; the log says why.
                Err(error) => tracing::warn!(%error, "a certificate of coderd could not be read"),
            }
        }
        Trust { certificates, authorities: (!authorities.is_empty()).then(|| authorities.join("\n")) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_that_fails_is_remembered_until_one_does_not() {
        let memory = Memory::default();
        assert!(!memory.failed("a", false) && !memory.failed("a", true));
        assert!(!memory.failed("b", true), "another one's");
        assert!(memory.failed("a", true) && memory.failed("a", true) && memory.failed("a", false));
        assert!(!memory.failed("a", true));
        memory.forget("a");
        assert!(!memory.failed("a", true));
    }
}
