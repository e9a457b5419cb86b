//! One pass over one control plane: read it, bring its children to what they should be, ask coderd, write the status.
//! What should be, and what is said about it, is decided elsewhere; this reads, acts and writes.

use super::access::{Asked, Needs, Owner};
use super::apply::Applied;
use super::ask::Memory;
use super::break_glass::in_force;
use super::checksum_key::ChecksumKey;
use super::consent::Consent;
use super::dependants::Dependants;
use super::dereference::Unread;
use super::external::{self, External};
use super::finalizer;
use super::pace::outcome;
use super::status::{Coderd, Exposure, Grants, Observed, Rollout, Wish, WishState};
use super::sweep::Origin;
use super::triggers::Abroad;
use crate::coderd::{Client, Egress, Retry};
use crate::controller::deadline::Deadline;
use crate::controller::schedule::Outcome;
use crate::controller::telemetry::{self, Telemetry};
use crate::kubernetes::events::Events;
use crate::kubernetes::{CallError, Kube, Target};
use crds::names::control_plane::workload;
use crds::{CoderControlPlane, CoderControlPlaneStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, from_value};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
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

    pub(super) fn deployment(&self) -> Target<'_> {
        let name = workload(&self.name);
        Target { api_version: "apps/v1", kind: "Deployment", plural: "deployments", name, ..self.target() }
    }

    pub(super) fn service(&self) -> Target<'_> {
        let name = workload(&self.name);
        Target { api_version: "v1", kind: "Service", plural: "services", name, ..self.target() }
    }
}

/// What every pass works with.
pub struct Reconciler {
    pub(super) kube: Kube,
    pub(super) config: Config,
    pub(super) consent: Consent,
    pub(super) egress: Egress,
    pub(super) events: Events,
    pub(super) telemetry: Telemetry,
    /// For what everything no longer wanted was removed: it is not looked for again.
    swept: Mutex<BTreeMap<Key, Swept>>,
    pub(super) memory: Memory,
    checksum_key: Mutex<Arc<ChecksumKey>>,
    pub(super) abroad: Arc<Abroad>,
    pub(super) dependants: Dependants,
}

/// Uid, generation and the request that was made last.
type Swept = (String, i64, Option<String>);

/// An object under its pass.
pub(super) struct Subject {
    pub(super) key: Key,
    /// As the API server has it.
    pub(super) object: Value,
    /// The same with what runs and it does not name; nothing before that is read.
    pub(super) given: Value,
    pub(super) uid: String,
    pub(super) generation: i64,
    /// What the rules say against it.
    pub(super) broken: Vec<String>,
    /// With every default in it.
    pub(super) resolved: CoderControlPlane,
    pub(super) before: CoderControlPlaneStatus,
    /// When the part of this reconcile that is under way has had its time.
    pub(super) deadline: Deadline,
}

impl Subject {
    pub(super) fn origin(&self) -> Origin<'_> {
        Origin { namespace: &self.key.namespace, name: &self.key.name, uid: &self.uid }
    }
}

impl Reconciler {
    /// A reconciler of control planes.
    pub fn new(
        kube: Kube,
        events: Events,
        telemetry: Telemetry,
        config: Config,
        consent: Consent,
        egress: Egress,
        dependants: Dependants,
    ) -> Self {
        let (swept, memory, abroad) = (Mutex::default(), Memory::default(), Arc::default());
        let checksum_key = Mutex::default();
        Self {
            kube,
            config,
            consent,
            egress,
            events,
            telemetry,
            swept,
            memory,
            checksum_key,
            abroad,
            dependants,
        }
    }

    /// Forgets what another leader may have changed meanwhile: the key of the checksums, if its Secret was made anew.
    pub fn begin_term(&self) {
        *self.checksum_key.lock().unwrap_or_else(PoisonError::into_inner) = Arc::default();
    }

    /// The key of the checksums, as it was read in this term.
    pub(super) fn checksum_key(&self) -> Arc<ChecksumKey> {
        self.checksum_key.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// What whoever follows the cluster tells it of rights in other namespaces.
    pub fn abroad(&self) -> &Arc<Abroad> {
        &self.abroad
    }

    /// The API server it works with.
    pub fn kube(&self) -> &Kube {
        &self.kube
    }

    /// One pass.
    pub async fn pass(&self, key: Key) -> Outcome {
        self.telemetry.observed(&key.namespace, &key.name, self.settled_pass(&key)).await
    }

    async fn settled_pass(&self, key: &Key) -> Outcome {
        let outcome = match self.try_pass(key).await {
            Ok(outcome) => outcome,
            Err(error) => {
                // Somebody else was faster: what they wrote is looked at next time.
                if error.is_outdated() {
                    tracing::debug!("the object changed meanwhile");
                } else {
                    tracing::warn!(%error, "pass failed; it is tried again");
                }
                Outcome::Failed(Duration::ZERO)
            }
        };
        tracing::debug!(?outcome, "pass ended");
        outcome
    }

    async fn try_pass(&self, key: &Key) -> Result<Outcome, CallError> {
        let deadline = Deadline::from(Instant::now());
        let Some(object) = self.kube.read(key.target()).await? else {
            self.forget(key);
            return Ok(Outcome::Settled);
        };
        let text = |path: &str| object.pointer(path).and_then(Value::as_str).unwrap_or_default().to_owned();
        let before: CoderControlPlaneStatus = from_value(object["status"].clone()).unwrap_or_default();
        let generation = object["metadata"]["generation"].as_i64().unwrap_or_default();
        telemetry::of_generation(generation);
        let uid = text("/metadata/uid");
        if !object["metadata"]["deletionTimestamp"].is_null() {
            return self.finalize(key, &uid, &object).await;
        }
        // Whoever refuses owes nothing to the spec: not that it can be read, and not that it is in force.
        let honoured = self.honour_refusals(key, &uid).await;
        let outcome = self.look_at(key, object, uid, generation, before, deadline).await?;
        Ok(if honoured { outcome } else { Outcome::Failed(Duration::ZERO) })
    }

    async fn look_at(
        &self,
        key: &Key,
        object: Value,
        uid: String,
        generation: i64,
        before: CoderControlPlaneStatus,
        deadline: Deadline,
    ) -> Result<Outcome, CallError> {
        let resolved = match self.resolved(&object) {
            Ok(resolved) => resolved,
            Err(error) => {
                let why = format!("the object cannot be read: {error}");
                return self.write_unreadable(key, &object, before, generation, why).await;
            }
        };
        if resolved.spec.suspend == Some(true) {
            let (key, given, broken) = (key.clone(), Value::Null, Vec::new());
            let subject = Subject { key, object, given, uid, generation, broken, resolved, before, deadline };
            return self.keep_suspended(subject).await;
        }
        let broken = broken_rules(&object);
        let (key, given) = (key.clone(), Value::Null);
        let subject = Subject { key, object, given, uid, generation, broken, resolved, before, deadline };
        self.reconcile(subject).await
    }

    /// Where coderd is reached inside the cluster. Whatever the API server has has a name and a namespace.
    pub(super) fn url(&self, subject: &Subject) -> String {
        webhooks::cluster_url(&subject.resolved, &self.config.cluster_domain).unwrap_or_default()
    }

    /// The object with every default in it.
    pub(super) fn resolved(&self, object: &Value) -> Result<CoderControlPlane, serde_json::Error> {
        from_value(webhooks::resolved(Kind::ControlPlane, object, &self.config))
    }

    async fn reconcile(&self, mut subject: Subject) -> Result<Outcome, CallError> {
        let read = match self.dereference(&mut subject).await {
            Ok(read) => read,
            Err(Unread::Failed(why)) => return self.write_unread(subject, why).await,
            Err(Unread::Unreadable(why)) => {
                let Subject { key, object, before, generation, .. } = subject;
                return self.write_unreadable(&key, &object, before, generation, why).await;
            }
        };
        let mut observed = nothing_observed();
        observed.missing.clone_from(&read.contents.missing);
        observed.broken.clone_from(&subject.broken);
        observed.held = read.held.told(&subject.key.namespace);
        // Before the first right abroad is granted, somebody must be there to take it back.
        let (abroad, provided) = (read.children.reach_beyond(&subject.key.namespace), read.contents.provided);
        if abroad && self.mark(&subject, true, &mut observed).await? {
            return Ok(Outcome::After(Duration::ZERO));
        }
        let applied = self.apply(&subject, read, &mut observed).await;
        // Children that were slow to come must not keep a token from being renewed, or a license from being uploaded: they
        // would be as slow the next time.
        subject.deadline.begin_next(Instant::now());
        if applied.is_left() {
            let (deployment, service) = (applied.deployment.as_ref(), applied.service.as_ref().ok());
            subject.resolved.spec = in_force(&subject.resolved.spec, deployment, service);
        }
        let (external, retry) = self.settle_external(&mut subject, &applied, &mut observed).await;
        // Recorded where they were done, so that they are never done, and told, twice.
        self.tell(&subject.key, &subject.uid, &external.deeds()).await;
        // Somebody must be there to take back what is granted or made elsewhere, until nothing of it is left.
        let hold = abroad || external.hold() || (finalizer::is_held(&subject.object) && !applied.pruned);
        if self.mark(&subject, hold, &mut observed).await? {
            return Ok(Outcome::After(Duration::ZERO));
        }
        external.observe(&mut observed);
        external.describe(&mut subject.before, &Time(Timestamp::now()));
        let url = self.url(&subject);
        self.describe(&mut subject, &observed, applied.deployment.as_ref(), url, provided);
        let outcome = outcome(&observed, applied.pruned, retry, external.retry());
        self.write(&subject.key, &subject.object, subject.before).await?;
        Ok(outcome)
    }

    /// coderd, the operator's access to it, and the license.
    async fn settle_external(
        &self,
        subject: &mut Subject,
        applied: &Applied,
        observed: &mut Observed,
    ) -> (External, Option<Retry>) {
        let (service, deployment) =
            (applied.service.as_ref().map_err(|why| *why), applied.deployment.as_ref());
        let (client, retry) = self.ask_through(subject, service, deployment, observed).await;
        subject.deadline.ended("asking coderd", Instant::now());
        let external = external::settle(&self.asked(subject, client.as_ref(), applied.frozen)).await;
        subject.deadline.ended("the operator's access and the license", Instant::now());
        observed.late = external.is_cut().then(|| subject.deadline.told(Instant::now())).flatten();
        (external, retry)
    }

    /// Nothing is changed while it is unknown what the pods consume.
    async fn write_unread(&self, subject: Subject, why: String) -> Result<Outcome, CallError> {
        let observed = Observed { failed: vec![why], ..nothing_observed() };
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
            Ok(_) => Ok(true),
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

    /// What the operator's access and the license are settled with.
    pub(super) fn asked<'a>(
        &'a self,
        subject: &'a Subject,
        client: Option<&'a Client>,
        frozen: bool,
    ) -> Asked<'a> {
        let license = subject.resolved.spec.license_secret_ref.is_some();
        Asked {
            kube: &self.kube,
            egress: &self.egress,
            owner: Owner { namespace: &subject.key.namespace, name: &subject.key.name, uid: &subject.uid },
            spec: &subject.resolved.spec,
            before: &subject.before,
            held: finalizer::is_held(&subject.object),
            needs: Needs { license, ..self.dependants.of(&subject.key) },
            frozen,
            client,
            now: Timestamp::now(),
            deadline: &subject.deadline,
        }
    }

    pub(super) fn forget(&self, key: &Key) {
        let known = self.swept().remove(key);
        if let Some((uid, ..)) = known {
            self.memory.forget(&uid);
        }
    }

    pub(super) fn swept(&self) -> MutexGuard<'_, BTreeMap<Key, Swept>> {
        self.swept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The rules that an object breaks as it is stored. It was let through, perhaps before there were rules, and is worked
/// on all the same.
fn broken_rules(object: &Value) -> Vec<String> {
    let review = Review { kind: Kind::ControlPlane, object, occasion: Occasion::Stored };
    webhooks::validate(&review).causes.iter().map(webhooks::Cause::line).collect()
}

pub(super) fn nothing_observed() -> Observed {
    let not_asked = |what: &str| Wish {
        state: WishState::NotAsked,
        reason: "NotRequested",
        message: format!("{what} is not asked for"),
    };
    Observed {
        unreadable: None,
        broken: Vec::new(),
        account: None,
        held: None,
        conflicts: Vec::new(),
        refused: Vec::new(),
        failed: Vec::new(),
        unimportant: Vec::new(),
        missing: Vec::new(),
        rollout: Rollout::Absent,
        exposure: Exposure::NotAsked,
        finalizer: None,
        workspaces: Some(Grants::default()),
        coderd: Coderd::NotAsked("NoReplicaReady"),
        access: not_asked("access of the operator"),
        access_needed: false,
        license: not_asked("a license"),
        late: None,
    }
}
