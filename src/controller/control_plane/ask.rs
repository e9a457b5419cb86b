//! Asks coderd, if somebody is there to answer, and remembers between passes whether it did and whether it asked to be
//! left alone. What is made of the answer is decided in `probe`.

use super::probe::{Probe, Trust, judged, left_alone, probe};
use super::reasons::Reason;
use super::reconciler::Reconciler;
use super::references::decoded;
use super::resolve::owner;
use super::status::Coderd;
use super::subject::Subject;
use crate::coderd::{Client, LARGEST_PEM, Pause, Retry};
use crate::controller::workload::rollout::{self, Rollout};
use crate::kubernetes::Target;
use crds::CoderControlPlane;
use serde_json::{Value, json};
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

/// What came of asking coderd.
pub(super) struct Asked {
    /// What it said.
    pub(super) coderd: Coderd,
    /// The way to it, if it answered.
    pub(super) client: Option<Client>,
    /// When to ask again, if it did not answer all.
    pub(super) retry: Option<Retry>,
}

impl Asked {
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
        service: Result<&Value, Reason>,
        deployment: Option<&Value>,
        rollout: &Rollout,
    ) -> Asked {
        let owner = owner(complete);
        match service {
            Ok(service) if leads_to_coderd(service, &json!(owner.labels())) => {}
            Ok(_) => return Asked::nothing(service_changed(&owner.workload)),
            Err(why) => return Asked::nothing(Coderd::NotAsked(why)),
        }
        if rollout::ready_replicas(deployment) == 0 {
            let why =
                if *rollout == Rollout::ScaledToZero { Reason::ScaledToZero } else { Reason::NoReplicaReady };
            return Asked::nothing(Coderd::NotAsked(why));
        }
        let (uid, before) = (&subject.object.uid, &subject.object.status);
        let pause = self.memory.pause(uid);
        if let Some(left) = pause.left(Instant::now())
            && let Some(coderd) = left_alone(before)
        {
            return Asked { coderd, client: None, retry: Some(Retry::After(left)) };
        }
        let trust = match self.trust(complete, &owner.namespace).await {
            Ok(trust) => trust,
            Err(why) => return Asked::nothing(Coderd::Silent(Reason::Misconfigured, why)),
        };
        let url = self.url(complete);
        let Probe { coderd, client, error } = probe(&url, trust, &self.egress, pause).await;
        let again = self.memory.failed(uid, matches!(coderd, Coderd::Silent(..)));
        Asked { coderd: judged(coderd, before, again), client, retry: error.map(|error| error.retry()) }
    }

    /// Where coderd is reached inside the cluster. Whatever the API server has has a name and a namespace.
    fn url(&self, complete: &CoderControlPlane) -> String {
        webhooks::cluster_url(complete, &self.config.cluster_domain).unwrap_or_default()
    }

    /// What coderd serves with, as its own Secrets tell, one read each; or which of them cannot be used.
    async fn trust(&self, complete: &CoderControlPlane, namespace: &str) -> Result<Trust, String> {
        let names = complete.spec.tls.iter().flat_map(|tls| &tls.secret_names);
        let mut trust = Trust::default();
        for name in names.map(|name| name.trim()).filter(|name| !name.is_empty()).take(MOST_CERTIFICATES) {
            let target = Target { api_version: "v1", kind: "Secret", plural: "secrets", namespace, name };
            match self.kube.read(target).await {
                Ok(Some(secret)) => trust_too(&mut trust, name, &secret)?,
                Ok(None) => {}
                // Without it the handshake fails, and the status says so; the log says why.
                Err(error) => tracing::warn!(%error, "a certificate of coderd could not be read"),
            }
        }
        Ok(trust)
    }
}

/// Secrets with certificates of coderd that are read for each question. It has one for each of its names, and answers us
/// with the first that fits.
const MOST_CERTIFICATES: usize = 8;

/// Adds what a Secret with a certificate of coderd holds. What is too large is not even decoded: its author decides how
/// much there is, and we pay for it.
fn trust_too(trust: &mut Trust, name: &str, secret: &Value) -> Result<(), String> {
    let pem = |key: &str| -> Result<Option<String>, String> {
        let value = &secret["data"][key];
        if value.as_str().is_some_and(|encoded| encoded.len() / 4 * 3 > LARGEST_PEM + 3) {
            let most = LARGEST_PEM / 1024;
            return Err(format!(
                "{key} of Secret {name} in spec.tls.secretNames is larger than {most} KiB; put only the certificates \
                 that coderd needs into it"
            ));
        }
        Ok(decoded(value).filter(|pem| !pem.is_blank()).map(|pem| pem.expose().clone()))
    };
    let (certificate, authorities) = (pem("tls.crt")?, pem("ca.crt")?);
    trust.certificates.extend(certificate);
    if let Some(more) = authorities {
        trust.authorities =
            Some(trust.authorities.take().map_or(more.clone(), |all| format!("{all}\n{more}")));
    }
    Ok(())
}

/// Whether a Service leads to the pods of this control plane and nowhere else. Whoever may change Services could send us,
/// and our token with us, to somebody else.
fn leads_to_coderd(service: &Value, labels: &Value) -> bool {
    let spec = &service["spec"];
    let inside = ["ClusterIP", "NodePort", "LoadBalancer"].iter().any(|kind| spec["type"] == *kind);
    // An external name is only heeded with that type, and stays behind when ours is put back.
    inside && spec["selector"] == *labels
}

/// What is said where it does not.
fn service_changed(name: &str) -> Coderd {
    let message = format!(
        "coderd is not asked, and no token is sent: somebody changed the type or the selector of Service {name}; undo \
         that, or end spec.suspend, so that the operator does"
    );
    Coderd::Silent(Reason::ServiceChanged, message)
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

    fn secret(certificate: &str, authority: &str) -> Value {
        let encoded = |text: &str| json!(k8s_openapi::ByteString(text.as_bytes().to_vec()));
        json!({ "data": { "tls.crt": encoded(certificate), "ca.crt": encoded(authority) } })
    }

    #[test]
    fn certificates_of_a_sound_size_are_read_and_larger_ones_are_told_with_their_secret() {
        let mut trust = Trust::default();
        trust_too(&mut trust, "one", &secret("a", " ")).unwrap();
        trust_too(&mut trust, "two", &secret("b", "c")).unwrap();
        trust_too(&mut trust, "three", &secret("", "d")).unwrap();
        let all = Trust {
            certificates: vec!["a".to_owned(), "b".to_owned()],
            authorities: Some("c\nd".to_owned()),
        };
        assert_eq!(trust, all);
        let large = "x".repeat(LARGEST_PEM + 10);
        for (key, large) in [("tls.crt", secret(&large, "")), ("ca.crt", secret("", &large))] {
            let why = trust_too(&mut trust, "mine", &large).unwrap_err();
            assert!(why.starts_with(&format!("{key} of Secret mine ")) && why.len() <= 300, "{why}");
        }
        assert_eq!(trust, all, "nothing of them is kept");
        assert!(trust_too(&mut trust, "full", &secret(&"x".repeat(LARGEST_PEM), "")).is_ok());
    }

    #[test]
    fn only_a_service_that_leads_to_our_pods_is_asked() {
        let labels = json!({ "app": "coder" });
        let leads = |spec: Value| leads_to_coderd(&json!({ "spec": spec }), &labels);
        for kind in ["ClusterIP", "NodePort", "LoadBalancer"] {
            assert!(leads(json!({ "type": kind, "selector": { "app": "coder" } })), "{kind}");
            let mended =
                json!({ "type": kind, "externalName": "evil.example.com", "selector": { "app": "coder" } });
            assert!(leads(mended), "{kind}: the API server leaves the name behind");
        }
        for attack in [
            json!({ "type": "ExternalName", "externalName": "evil.example.com", "selector": { "app": "coder" } }),
            json!({ "type": "ClusterIP", "selector": { "app": "evil" } }),
            json!({ "type": "ClusterIP", "selector": { "app": "coder", "evil": "yes" } }),
            json!({ "type": "ClusterIP", "selector": {} }),
            json!({ "type": "ClusterIP" }),
            json!({ "selector": { "app": "coder" } }),
        ] {
            assert!(!leads(attack.clone()), "{attack}");
        }
    }
}
