//! One pass over one control plane: read it, bring its children to what they should be, ask coderd, write the status.
//! What should be, and what is said about it, is decided elsewhere; this reads, acts and writes.

use super::access::{Asked, Needs, Owner};
use super::ask::Memory;
use super::break_glass::in_force;
use super::consent::Consent;
use super::dependants::Dependants;
use super::desired::{self, Children, Inputs};
use super::external;
use super::held::Held;
use super::home::Applied;
use super::pace::outcome;
use super::references::Contents;
use super::report::reconcile_at;
use super::status::{Coderd, Exposure, Grants, Observed, Rollout, Wish, WishState};
use super::sweep::{self, Origin, Wanted};
use super::triggers::Abroad;
use super::{finalizer, kept, references};
use crate::coderd::{Client, Egress};
use crate::controller::drift;
use crate::controller::schedule::Outcome;
use crate::kubernetes::events::Events;
use crate::kubernetes::{CallError, Kube, Target};
use crds::names::control_plane::workload;
use crds::{CoderControlPlane, CoderControlPlaneStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, from_value, json};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
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
    pub(super) memory: Memory,
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
    /// The same with what runs and it does not name.
    pub(super) given: Value,
    pub(super) uid: String,
    pub(super) generation: i64,
    /// What the rules say against it.
    pub(super) broken: Vec<String>,
    /// With every default in it.
    pub(super) resolved: CoderControlPlane,
    pub(super) before: CoderControlPlaneStatus,
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
        config: Config,
        consent: Consent,
        egress: Egress,
        dependants: Dependants,
    ) -> Self {
        let (swept, memory, abroad) = (Mutex::default(), Memory::default(), Arc::default());
        Self { kube, config, consent, egress, events, swept, memory, abroad, dependants }
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
        let uid = text("/metadata/uid");
        if !object["metadata"]["deletionTimestamp"].is_null() {
            return self.finalize(key, &uid, &object).await;
        }
        // Whoever refuses owes nothing to the spec: not that it can be read, and not that it is in force.
        let honoured = self.honour_refusals(key, &uid).await;
        let outcome = self.look_at(key, object, uid, generation, before).await?;
        Ok(if honoured { outcome } else { Outcome::Failed(Duration::ZERO) })
    }

    async fn look_at(
        &self,
        key: &Key,
        object: Value,
        uid: String,
        generation: i64,
        before: CoderControlPlaneStatus,
    ) -> Result<Outcome, CallError> {
        let resolved = match self.resolved(&object) {
            Ok(resolved) => resolved,
            Err(error) => {
                let why = format!("the object cannot be read: {error}");
                return self.write_unreadable(key, &object, before, generation, why).await;
            }
        };
        if resolved.spec.suspend == Some(true) {
            let (key, given, broken) = (key.clone(), object.clone(), Vec::new());
            let subject = Subject { key, object, given, uid, generation, broken, resolved, before };
            return self.keep_suspended(subject).await;
        }
        let broken = broken_rules(&object);
        let (key, given) = (key.clone(), object.clone());
        let subject = Subject { key, object, given, uid, generation, broken, resolved, before };
        self.reconcile(subject).await
    }

    /// Where coderd is reached inside the cluster. Whatever the API server has has a name and a namespace.
    pub(super) fn url(&self, subject: &Subject) -> String {
        webhooks::cluster_url(&subject.resolved, &self.config.cluster_domain).unwrap_or_default()
    }

    /// The object with every default in it.
    fn resolved(&self, object: &Value) -> Result<CoderControlPlane, serde_json::Error> {
        from_value(webhooks::resolved(Kind::ControlPlane, object, &self.config))
    }

    async fn reconcile(&self, mut subject: Subject) -> Result<Outcome, CallError> {
        let namespace = subject.key.namespace.clone();
        let live = match self.kube.read(subject.key.deployment()).await {
            Ok(live) => live,
            Err(error) => return self.write_unread(subject, &error).await,
        };
        let labels = json!(desired::labels(&subject.resolved));
        let running = live.as_ref().filter(|live| drift::is_child_of(live, &subject.uid, &labels));
        subject.given = kept::with_what_runs(&subject.object, running);
        subject.broken.extend(kept::downgrade(&subject.object, running));
        subject.resolved = match self.resolved(&subject.given) {
            Ok(resolved) => resolved,
            // Without what runs the default image would count, which nobody asked for.
            Err(error) => {
                let Subject { key, object, before, generation, .. } = subject;
                let why = format!("the object cannot be read with what runs: {error}");
                return self.write_unreadable(&key, &object, before, generation, why).await;
            }
        };
        let (contents, children, held) = match self.children(&subject, running).await {
            Ok(read) => read,
            Err(error) => return self.write_unread(subject, &error).await,
        };
        let abroad = children.workspace_access.iter().any(|access| access.namespace != namespace);
        let mut observed = nothing_observed();
        observed.missing = contents.missing;
        observed.broken.clone_from(&subject.broken);
        observed.held = held.as_ref().and_then(|held| held.told(&namespace));
        let (frozen, held) = (held.is_some(), held.unwrap_or_default());
        // Before the first right abroad is granted, somebody must be there to take it back.
        if abroad && self.mark(&subject, true, &mut observed).await? {
            return Ok(Outcome::After(Duration::ZERO));
        }
        let Applied { service, deployment, current, in_place } =
            self.settle_children(&subject, &children, &held, live, &mut observed).await;
        let rolled = current && matches!(observed.rollout, Rollout::Complete(_) | Rollout::ScaledToZero);
        let wanted = Wanted { access: &children.workspace_access, in_place: &in_place, rolled };
        let swept = self.sweep(&subject, &children, wanted, frozen, &mut observed).await;
        let service = service.as_ref().map_err(|why| *why);
        let (client, retry) = self.ask_through(&subject, service, deployment.as_ref(), &mut observed).await;
        let in_force = (frozen && !current).then(|| in_force(&subject.resolved.spec, deployment.as_ref()));
        let mut asked = self.asked(&subject, client.as_ref(), frozen);
        asked.spec = in_force.as_ref().unwrap_or(asked.spec);
        let external = external::settle(&asked).await;
        // Recorded where they were done, so that they are never done, and told, twice.
        self.tell(&subject.key, &subject.uid, &external.deeds()).await;
        // Somebody must be there to take back what is granted or made elsewhere, until nothing of it is left.
        let hold = abroad || external.hold() || (finalizer::is_held(&subject.object) && !swept);
        if self.mark(&subject, hold, &mut observed).await? {
            return Ok(Outcome::After(Duration::ZERO));
        }
        external.observe(&mut observed);
        external.describe(&mut subject.before, &Time(Timestamp::now()));
        let url = self.url(&subject);
        self.describe(&mut subject, &observed, deployment.as_ref(), url, contents.provided);
        let outcome = outcome(&observed, swept, retry, external.retry());
        self.write(&subject.key, &subject.object, subject.before).await?;
        Ok(outcome)
    }

    /// The children it should have, what its pods consume, and what is held back; `running` is the Deployment that is
    /// there.
    async fn children(
        &self,
        subject: &Subject,
        running: Option<&Value>,
    ) -> Result<(Contents, Children, Option<Held>), CallError> {
        let contents = references::read(&self.kube, &subject.resolved, running).await?;
        let children = desired::children(&Inputs {
            control_plane: &subject.resolved,
            consumed_checksum: contents.checksum.as_deref(),
            access_url_from_env_from: contents.provided,
            cluster_domain: &self.config.cluster_domain,
        });
        let held = self.held(subject, &children).await?;
        Ok((contents, children, held))
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

    /// Removes what an earlier generation asked for, once for each and whenever it is asked for; returns whether nothing
    /// of it is left.
    async fn sweep(
        &self,
        subject: &Subject,
        children: &Children,
        wanted: Wanted<'_>,
        frozen: bool,
        observed: &mut Observed,
    ) -> bool {
        let done = (subject.uid.clone(), subject.generation, reconcile_at(&subject.object));
        if self.swept().get(&subject.key) == Some(&done) {
            return true;
        }
        match self.remove_unwanted(subject, children, wanted, frozen, observed).await {
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
        frozen: bool,
        observed: &mut Observed,
    ) -> Result<bool, CallError> {
        let exposed = matches!(observed.exposure, Exposure::InPlace(_) | Exposure::NotAsked);
        sweep::optional_children(&self.kube, subject.origin(), children, exposed).await?;
        let left = sweep::grants(&self.kube, subject.origin(), wanted).await?;
        observed.failed.extend(left.told());
        // Who has an account is left as it is with the account.
        let accounts = !frozen && self.settle_accounts(subject, children, wanted.rolled).await?;
        Ok(left.is_nothing() && accounts && exposed)
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
            needs: Needs { license, ..self.dependants.seen().of(&subject.key) },
            frozen,
            client,
            now: Timestamp::now(),
        }
    }

    pub(super) fn forget(&self, key: &Key) {
        let known = self.swept().remove(key);
        if let Some((uid, ..)) = known {
            self.memory.forget(&uid);
        }
    }

    fn swept(&self) -> MutexGuard<'_, BTreeMap<Key, Swept>> {
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
    }
}
