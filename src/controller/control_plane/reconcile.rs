//! One pass over one control plane: read it, bring its children to what they should be, ask coderd, write the status.
//! What should be, and what is said about it, is decided elsewhere; this reads, acts and writes.

use super::access::{Asked, Owner};
use super::consent::Consent;
use super::desired::{self, Children, Consumed, Inputs, Source};
use super::external::{self, External};
use super::pace::outcome;
use super::probe::{Probe, left_alone, probe};
use super::report::reconcile_at;
use super::status::{Coderd, Exposure, Grants, Observed, Rollout, Wish, WishState};
use super::sweep::{self, Origin, Wanted};
use super::{finalizer, references, rollout};
use crate::coderd::{Client, Egress, Pause, Retry};
use crate::controller::schedule::Outcome;
use crate::kubernetes::events::Events;
use crate::kubernetes::{CallError, Kube, Target};
use crds::{CoderControlPlane, CoderControlPlaneStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, from_value};
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use webhooks::{Config, Kind, Occasion, Review};

/// Which control plane.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

impl Key {
    pub(super) fn target(&self) -> Target<'_> {
        Target {
            api_version: "coder.com/v1alpha1",
            kind: "CoderControlPlane",
            plural: "codercontrolplanes",
            namespace: &self.namespace,
            name: &self.name,
        }
    }
}

/// What every pass works with.
pub struct Reconciler {
    pub(super) kube: Kube,
    pub(super) config: Config,
    pub(super) consent: Consent,
    pub(super) egress: Egress,
    pub(super) events: Events,
    /// For what everything no longer wanted was removed: it is not looked for again.
    swept: Mutex<BTreeMap<Key, Swept>>,
    /// How long each coderd asked to be left alone.
    /// By uid: another object of the same name has another coderd.
    pauses: Mutex<BTreeMap<String, Pause>>,
}

/// Uid, generation and the request that was made last.
type Swept = (String, i64, Option<String>);

/// An object under its pass.
pub(super) struct Subject {
    pub(super) key: Key,
    /// As the API server has it.
    pub(super) object: Value,
    pub(super) uid: String,
    pub(super) generation: i64,
    /// The defaults in force for it.
    pub(super) config: Config,
    /// With every default in it.
    pub(super) resolved: CoderControlPlane,
    pub(super) before: CoderControlPlaneStatus,
}

impl Subject {
    pub(super) fn origin(&self) -> Origin<'_> {
        Origin { namespace: &self.key.namespace, name: &self.key.name, uid: &self.uid }
    }

    /// Where coderd is reached inside the cluster. Whatever the API server has has a name and a namespace.
    fn url(&self) -> String {
        webhooks::cluster_url(&self.resolved, &self.config.cluster_domain).unwrap_or_default()
    }
}

impl Reconciler {
    /// A reconciler of control planes.
    pub fn new(kube: Kube, events: Events, config: Config, consent: Consent, egress: Egress) -> Self {
        Self { kube, config, consent, egress, events, swept: Mutex::default(), pauses: Mutex::default() }
    }

    /// The API server it works with.
    pub fn kube(&self) -> &Kube {
        &self.kube
    }

    /// One pass.
    pub async fn pass(&self, key: Key) -> Outcome {
        let outcome = match self.try_pass(&key).await {
            Ok(outcome) => outcome,
            Err(error) => {
                // Somebody else was faster: what they wrote is looked at next time.
                if error.is_outdated() {
                    tracing::debug!(
                        namespace = key.namespace,
                        name = key.name,
                        "the object changed meanwhile"
                    );
                } else {
                    tracing::warn!(namespace = key.namespace, name = key.name, %error, "pass failed; it is tried again");
                }
                Outcome::Failed(Duration::ZERO)
            }
        };
        tracing::debug!(namespace = key.namespace, name = key.name, ?outcome, "pass ended");
        outcome
    }

    async fn try_pass(&self, key: &Key) -> Result<Outcome, CallError> {
        let Some(object) = self.kube.read(key.target()).await? else {
            self.forget(key);
            return Ok(Outcome::Settled);
        };
        let text = |path: &str| object.pointer(path).and_then(Value::as_str).unwrap_or_default().to_owned();
        let before: CoderControlPlaneStatus = from_value(object["status"].clone()).unwrap_or_default();
        let generation = object["metadata"]["generation"].as_i64().unwrap_or_default();
        let config = defaults(&self.config, &before);
        let complete = webhooks::resolved(Kind::ControlPlane, &object, &config);
        let uid = text("/metadata/uid");
        if !object["metadata"]["deletionTimestamp"].is_null() {
            return self.finalize(key, &uid, &object).await;
        }
        let resolved = match from_value::<CoderControlPlane>(complete) {
            Ok(resolved) => resolved,
            Err(error) => {
                let problems = vec![format!("the object cannot be read: {error}")];
                return self.write_invalid(key, &object, before, generation, problems).await;
            }
        };
        if resolved.spec.suspend == Some(true) {
            return self.write_suspended(key, &object, before, generation).await;
        }
        let review = Review { kind: Kind::ControlPlane, object: &object, occasion: Occasion::Stored };
        let causes = webhooks::validate(&review).causes;
        if !causes.is_empty() {
            let problems = causes.iter().map(webhooks::Cause::line).collect();
            return self.write_invalid(key, &object, before, generation, problems).await;
        }
        let subject = Subject { key: key.clone(), object, uid, generation, config, resolved, before };
        self.reconcile(subject).await
    }

    async fn reconcile(&self, mut subject: Subject) -> Result<Outcome, CallError> {
        let namespace = subject.key.namespace.clone();
        let consumed = desired::consumed(&subject.resolved);
        let gives = |one: &Consumed, keys: &[&str]| gives_access_url(&subject.resolved, one, keys);
        let name = &subject.key.name;
        let contents = match references::read(&self.kube, &namespace, name, &consumed, gives).await {
            Ok(contents) => contents,
            Err(error) => return self.write_unread(subject, &error).await,
        };
        let children = desired::children(&Inputs {
            control_plane: &subject.resolved,
            consumed_checksum: contents.checksum.as_deref(),
            access_url_from_env_from: contents.provided,
            cluster_domain: &subject.config.cluster_domain,
        });
        let abroad = children.workspace_access.iter().any(|access| access.namespace != namespace);
        let mut observed = nothing_observed();
        observed.missing = contents.missing;
        // Before the first right abroad is granted, somebody must be there to take it back.
        if abroad && self.mark(&subject, true, &mut observed).await? {
            return Ok(Outcome::After(Duration::ZERO));
        }
        let service_is_ours = self.settle_home(&subject, &children, &mut observed).await;
        let deployment = self.settle_deployment(&subject, &children.deployment, &mut observed).await;
        self.settle_exposure(&subject, &children, &mut observed).await;
        let in_place = self.settle_workspaces(&subject, &children, &mut observed).await;
        let swept = self.sweep(&subject, &children, &in_place, &mut observed).await;
        let (client, retry) = if service_is_ours {
            self.ask_coderd(&subject, deployment.as_ref(), &mut observed).await
        } else {
            // Whoever answers there is not our coderd: nothing is asked, and above all no token is sent.
            observed.coderd = Coderd::NotAsked("ServiceNotOurs");
            (None, None)
        };
        let external = self.settle_external(&subject, client.as_ref()).await;
        // Recorded where they were done, so that they are never done, and told, twice.
        self.tell(&subject.key, &subject.uid, &external.deeds()).await;
        // Somebody must be there to take back what is granted or made elsewhere, until nothing of it is left.
        let hold = abroad || external.hold() || (finalizer::is_held(&subject.object) && !swept);
        if self.mark(&subject, hold, &mut observed).await? {
            return Ok(Outcome::After(Duration::ZERO));
        }
        external.observe(&mut observed);
        external.describe(&mut subject.before, &Time(Timestamp::now()));
        let url = subject.url();
        self.describe(&mut subject, &observed, deployment.as_ref(), url, contents.provided);
        let outcome = outcome(&observed, swept, retry, external.retry());
        self.write(&subject.key, &subject.object, subject.before).await?;
        Ok(outcome)
    }

    /// Nothing is changed while it is unknown what the pods consume.
    async fn write_unread(&self, subject: Subject, error: &CallError) -> Result<Outcome, CallError> {
        let observed = Observed { failed: vec![error.to_string()], ..nothing_observed() };
        let Subject { key, object, before, generation, .. } = subject;
        self.write_summary(&key, &object, before, generation, &observed).await?;
        Ok(Outcome::Failed(Duration::ZERO))
    }

    /// Brings our finalizer to what it must be; returns whether the object was changed. A refusal is noted: whatever can
    /// be done without it is done.
    async fn mark(&self, subject: &Subject, hold: bool, observed: &mut Observed) -> Result<bool, CallError> {
        if hold == finalizer::is_held(&subject.object) || observed.finalizer.is_some() {
            return Ok(false);
        }
        let patch = if hold { finalizer::hold } else { finalizer::release };
        match self.kube.patch(subject.key.target(), patch(&subject.object)).await {
            Ok(()) => Ok(true),
            Err(error) if error.is_outdated() => Err(error),
            Err(error) if error.is_refused() => {
                observed.finalizer = Some(finalizer::refusal(&error));
                Ok(false)
            }
            Err(error) => {
                observed.failed.push(error.to_string());
                Ok(false)
            }
        }
    }

    /// Removes what an earlier generation asked for, once for each and whenever it is asked for; returns whether nothing
    /// of it is left.
    async fn sweep(
        &self,
        subject: &Subject,
        children: &Children,
        in_place: &[&str],
        observed: &mut Observed,
    ) -> bool {
        let done = (subject.uid.clone(), subject.generation, reconcile_at(&subject.object));
        if self.swept().get(&subject.key) == Some(&done) {
            return true;
        }
        let rolled = matches!(observed.rollout, Rollout::Complete(_) | Rollout::ScaledToZero);
        let wanted = Wanted { access: &children.workspace_access, in_place, rolled };
        match self.remove_unwanted(subject, children, wanted, observed).await {
            Ok(true) => {
                self.swept().insert(subject.key.clone(), done);
                true
            }
            Ok(false) => false,
            Err(error) => {
                observed.failed.push(error.to_string());
                false
            }
        }
    }

    async fn remove_unwanted(
        &self,
        subject: &Subject,
        children: &Children,
        wanted: Wanted<'_>,
        observed: &mut Observed,
    ) -> Result<bool, CallError> {
        sweep::optional_children(&self.kube, subject.origin(), children).await?;
        let left = sweep::grants(&self.kube, subject.origin(), wanted).await?;
        observed.failed.extend(left.told());
        let accounts = self.settle_accounts(subject, children, wanted.rolled).await?;
        Ok(left.is_nothing() && accounts)
    }

    /// Asks coderd, if somebody is there to answer, and returns it, or when to ask again.
    async fn ask_coderd(
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
        let pause = self.pause(&subject.uid);
        if let Some(left) = pause.left(Instant::now())
            && let Some(coderd) = left_alone(&subject.before)
        {
            observed.coderd = coderd;
            return (None, Some(Retry::After(left)));
        }
        let authorities = self.authorities(subject).await;
        let url = subject.url();
        let Probe { coderd, client, error } = probe(&url, authorities.as_deref(), &self.egress, pause).await;
        observed.coderd = coderd;
        (client, error.map(|error| error.retry()))
    }

    /// The operator's access and the licence.
    async fn settle_external(&self, subject: &Subject, client: Option<&Client>) -> External {
        let asked = Asked {
            kube: &self.kube,
            egress: &self.egress,
            owner: Owner { namespace: &subject.key.namespace, name: &subject.key.name, uid: &subject.uid },
            spec: &subject.resolved.spec,
            before: &subject.before,
            held: finalizer::is_held(&subject.object),
            client,
            now: Timestamp::now(),
        };
        external::settle(&asked).await
    }

    /// What to trust besides the public authorities: what coderd serves with, as its own Secret tells.
    async fn authorities(&self, subject: &Subject) -> Option<String> {
        let tls = subject.resolved.spec.tls.as_ref()?;
        let mut pems = Vec::new();
        for name in &tls.secret_names {
            for key in ["ca.crt", "tls.crt"] {
                let value =
                    references::secret_value(&self.kube, &subject.key.namespace, name.trim(), key).await;
                match value {
                    Ok(pem) => pems.extend(pem.map(|pem| pem.expose().clone())),
                    // Without it the handshake fails, and the status says so; the log says why.
                    Err(error) => tracing::warn!(%error, "a certificate of coderd could not be read"),
                }
            }
        }
        (!pems.is_empty()).then(|| pems.join("\n"))
    }

    pub(super) fn forget(&self, key: &Key) {
        self.swept().remove(key);
    }

    /// How long the coderd of this object asked to be left alone.
    fn pause(&self, uid: &str) -> Pause {
        let mut pauses = self.pauses.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        pauses.retain(|_, pause| !pause.is_idle(now));
        pauses.entry(uid.to_owned()).or_default().clone()
    }

    fn swept(&self) -> MutexGuard<'_, BTreeMap<Key, Swept>> {
        self.swept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The defaults in force: an image that was chosen because the spec names none stays. Otherwise an upgrade of the operator
/// would be one of coderd, which migrates its database and has no way back.
fn defaults(config: &Config, before: &CoderControlPlaneStatus) -> Config {
    let chosen = before.resolved.as_ref().filter(|resolved| resolved.image_defaulted == Some(true));
    match chosen.and_then(|resolved| resolved.image.clone()) {
        Some(default_image) => Config { default_image, ..config.clone() },
        None => config.clone(),
    }
}

/// Whether some `envFrom` of this source gives the address that would be our default.
fn gives_access_url(control_plane: &CoderControlPlane, one: &Consumed, keys: &[&str]) -> bool {
    control_plane.spec.env_from.iter().any(|source| {
        let name = match one.kind {
            Source::Secret => source.secret_ref.as_ref().map(|reference| &reference.name),
            Source::ConfigMap => source.config_map_ref.as_ref().map(|reference| &reference.name),
        };
        name == Some(&one.name)
            && desired::provides_access_url(source.prefix.as_deref(), keys.iter().copied())
    })
}

pub(super) fn nothing_observed() -> Observed {
    let not_asked = |what: &str| Wish {
        state: WishState::NotAsked,
        reason: "NotRequested",
        message: format!("{what} is not asked for"),
    };
    Observed {
        problems: Vec::new(),
        conflicts: Vec::new(),
        refused: Vec::new(),
        failed: Vec::new(),
        missing: Vec::new(),
        rollout: Rollout::Absent,
        exposure: Exposure::NotAsked,
        finalizer: None,
        workspaces: Some(Grants::default()),
        coderd: Coderd::NotAsked("NoReplicaReady"),
        access: not_asked("access of the operator"),
        access_needed: false,
        license: not_asked("a licence"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_default_image_stays_and_one_that_was_named_does_not() {
        let config = Config { default_image: "new".to_owned(), ..Config::default() };
        let image = |resolved: Value| {
            let before = from_value(json!({ "resolved": resolved })).unwrap();
            defaults(&config, &before).default_image
        };
        assert_eq!(image(json!({ "image": "old", "imageDefaulted": true })), "old");
        assert_eq!(image(json!({ "image": "named" })), "new");
        assert_eq!(image(Value::Null), "new");
    }
}
