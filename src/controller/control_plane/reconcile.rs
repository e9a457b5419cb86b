//! One pass over one control plane: read it, bring its children to what they should be, ask coderd, write the status.
//! What should be, and what is said about it, is decided elsewhere; this reads, acts and writes.

use super::access::{self, Asked, Owner};
use super::consent::{self, Answer, Consent};
use super::desired::{self, Child, Children, Consumed, Inputs, Source, WorkspaceAccess};
use super::external::{self, External};
use super::probe::{Probe, probe};
use super::status::{self, Coderd, Exposure, Observed, Rollout, Wish, WishState};
use super::sweep::{self, Origin};
use super::{finalizer, references, rollout};
use crate::coderd::{Client, Egress, Retry};
use crate::controller::conditions::conditions;
use crate::controller::drift;
use crate::controller::schedule::Outcome;
use crate::controller::settle::{Settled, settle};
use crate::kubernetes::{CallError, Kube, Target};
use crds::well_known::{annotation, condition, label};
use crds::{CoderControlPlane, CoderControlPlaneSpec, CoderControlPlaneStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, from_value, json};
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;
use webhooks::{Config, Kind, Occasion, Review};

/// How often coderd is asked again when all is well.
const RECHECK: Duration = Duration::from_secs(300);
/// How often something that comes by itself is looked at when nobody tells us.
const SOON: Duration = Duration::from_secs(30);

/// Which control plane.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

impl Key {
    fn target(&self) -> Target<'_> {
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
    kube: Kube,
    config: Config,
    consent: Consent,
    egress: Egress,
    /// Uid and generation for which everything no longer wanted was removed: it is not looked for again.
    swept: Mutex<BTreeMap<Key, (String, i64)>>,
}

/// An object under its pass.
struct Subject {
    key: Key,
    /// As the API server has it.
    object: Value,
    uid: String,
    generation: i64,
    /// With every default in it.
    resolved: CoderControlPlane,
    before: CoderControlPlaneStatus,
}

impl Subject {
    fn origin(&self) -> Origin<'_> {
        Origin { namespace: &self.key.namespace, name: &self.key.name, uid: &self.uid }
    }
}

impl Reconciler {
    /// A reconciler of control planes.
    pub fn new(kube: Kube, config: Config, consent: Consent, egress: Egress) -> Self {
        Self { kube, config, consent, egress, swept: Mutex::default() }
    }

    /// The API server it works with.
    pub fn kube(&self) -> &Kube {
        &self.kube
    }

    /// One pass.
    pub async fn pass(&self, key: Key) -> Outcome {
        match self.try_pass(&key).await {
            Ok(outcome) => outcome,
            Err(error) => {
                // Somebody else was faster: what they wrote is looked at again at once.
                if !error.is_outdated() {
                    tracing::warn!(namespace = key.namespace, name = key.name, %error, "pass failed; it is tried again");
                }
                Outcome::Failed(Duration::ZERO)
            }
        }
    }

    async fn try_pass(&self, key: &Key) -> Result<Outcome, CallError> {
        let Some(object) = self.kube.read(key.target()).await? else {
            self.forget(key);
            return Ok(Outcome::Settled);
        };
        let complete = webhooks::resolved(Kind::ControlPlane, &object, &self.config);
        let text = |path: &str| object.pointer(path).and_then(Value::as_str).unwrap_or_default().to_owned();
        let before = from_value(object["status"].clone()).unwrap_or_default();
        let generation = object["metadata"]["generation"].as_i64().unwrap_or_default();
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
        let subject = Subject { key: key.clone(), object, uid, generation, resolved, before };
        self.reconcile(subject).await
    }

    async fn reconcile(&self, mut subject: Subject) -> Result<Outcome, CallError> {
        let namespace = subject.key.namespace.clone();
        let consumed = desired::consumed(&subject.resolved);
        let gives = |one: &Consumed, keys: &[&str]| gives_access_url(&subject.resolved, one, keys);
        let contents = references::read(&self.kube, &namespace, &consumed, gives).await?;
        let children = desired::children(&Inputs {
            control_plane: &subject.resolved,
            consumed_checksum: contents.checksum.as_deref(),
            access_url_from_env_from: contents.provided,
        });
        let abroad = children.workspace_access.iter().any(|access| access.namespace != namespace);
        if abroad && !finalizer::is_held(&subject.object) {
            // Before the first right abroad is granted, somebody must be there to take it back.
            self.kube.patch(subject.key.target(), finalizer::hold(&subject.object)).await?;
            return Ok(Outcome::After(Duration::ZERO));
        }
        let mut observed = nothing_observed();
        observed.missing = contents.missing;
        self.settle_home(&subject, &children, &mut observed).await;
        let deployment = self.settle_deployment(&subject, &children.deployment, &mut observed).await;
        self.settle_exposure(&subject, &children, &mut observed).await;
        let granted = self.settle_workspaces(&subject, &children, &mut observed).await;
        self.sweep(&subject, &children, &granted).await?;
        let (client, retry) = self.ask_coderd(&subject, deployment.as_ref(), &mut observed).await;
        let external = self.settle_external(&subject, client.as_ref()).await;
        if (abroad || external.hold()) != finalizer::is_held(&subject.object) {
            // Somebody must be there to take back what is granted or made elsewhere, and only then.
            let patch =
                if finalizer::is_held(&subject.object) { finalizer::release } else { finalizer::hold };
            self.kube.patch(subject.key.target(), patch(&subject.object)).await?;
            return Ok(Outcome::After(Duration::ZERO));
        }
        external.observe(&mut observed);
        external.describe(&mut subject.before, &Time(Timestamp::now()));
        let url = desired::cluster_url(&subject.resolved);
        self.describe(&mut subject, &observed, deployment.as_ref(), url, contents.provided);
        let outcome = outcome(&observed, retry, external.retry());
        self.write(&subject.key, &subject.object, subject.before).await?;
        Ok(outcome)
    }

    /// The children in the object's own namespace but the Deployment and the way from outside.
    async fn settle_home(&self, subject: &Subject, children: &Children, observed: &mut Observed) {
        let home =
            [children.service_account.as_ref(), Some(&children.service), children.disruption_budget.as_ref()];
        for child in home.into_iter().flatten() {
            if let Some(trouble) = self.settle_child(subject, child, observed).await {
                observed.failed.push(trouble);
            }
        }
        if let Some(monitor) = &children.service_monitor {
            // Without the Prometheus operator there is nothing to monitor with, and nothing wrong.
            let _ = self.settle_child(subject, monitor, observed).await;
        }
    }

    async fn settle_deployment(
        &self,
        subject: &Subject,
        child: &Child,
        observed: &mut Observed,
    ) -> Option<Value> {
        let is_ours = |live: &Value| drift::is_controlled_by(live, &subject.uid);
        match settle(&self.kube, child.target(), child.manifest.clone(), is_ours).await {
            Settled::InPlace(live) => {
                observed.rollout = rollout::rollout(Some(&live));
                return Some(live);
            }
            Settled::Conflict(message) => observed.conflicts.push(message),
            Settled::Refused(message) => observed.refused.push(message),
            Settled::Failed(message) | Settled::Nowhere(message) => observed.failed.push(message),
        }
        None
    }

    /// Settles a child; what stands in its way for good is noted, and what may pass is returned.
    async fn settle_child(
        &self,
        subject: &Subject,
        child: &Child,
        observed: &mut Observed,
    ) -> Option<String> {
        let is_ours = |live: &Value| drift::is_controlled_by(live, &subject.uid);
        match settle(&self.kube, child.target(), child.manifest.clone(), is_ours).await {
            Settled::InPlace(_) => None,
            Settled::Conflict(message) => {
                observed.conflicts.push(message);
                None
            }
            Settled::Refused(message) => {
                observed.refused.push(message);
                None
            }
            Settled::Failed(message) | Settled::Nowhere(message) => Some(message),
        }
    }

    async fn settle_exposure(&self, subject: &Subject, children: &Children, observed: &mut Observed) {
        let (child, kind) = match (&children.ingress, &children.http_route) {
            (Some(child), _) => (child, "Ingress"),
            (None, Some(child)) => (child, "HTTPRoute"),
            (None, None) => return,
        };
        let is_ours = |live: &Value| drift::is_controlled_by(live, &subject.uid);
        observed.exposure = match settle(&self.kube, child.target(), child.manifest.clone(), is_ours).await {
            Settled::InPlace(_) => Exposure::InPlace(kind),
            Settled::Nowhere(_) if kind == "HTTPRoute" => Exposure::NoGatewayApi,
            Settled::Conflict(message) => {
                observed.conflicts.push(message.clone());
                Exposure::Failed(message)
            }
            Settled::Refused(message) | Settled::Failed(message) | Settled::Nowhere(message) => {
                Exposure::Failed(message)
            }
        };
    }

    /// Grants coderd its rights, namespace by namespace: one that refuses keeps nobody else from his. Those that hold
    /// are returned.
    async fn settle_workspaces<'a>(
        &self,
        subject: &Subject,
        children: &'a Children,
        observed: &mut Observed,
    ) -> Vec<&'a WorkspaceAccess> {
        if children.workspace_access.is_empty() {
            observed.workspaces = None;
            return Vec::new();
        }
        let (mut troubles, mut granted) = (Vec::new(), Vec::new());
        for access in &children.workspace_access {
            match self.settle_workspace(subject, access).await {
                None => granted.push(access),
                Some(trouble) => {
                    // What is there already stays until it is known to be unwanted.
                    if trouble.0 == "Failed" {
                        granted.push(access);
                    }
                    troubles.push(trouble);
                }
            }
        }
        observed.workspaces = Some(troubles);
        granted
    }

    async fn settle_workspace(
        &self,
        subject: &Subject,
        access: &WorkspaceAccess,
    ) -> Option<(&'static str, String)> {
        if let Err(trouble) = self.may_grant(subject, access).await {
            return Some(trouble);
        }
        let origin = subject.origin();
        for child in [&access.role, &access.binding] {
            let is_ours = |live: &Value| sweep::is_grant_of(live, origin) || is_earlier_grant(live, child);
            let place = &access.namespace;
            match settle(&self.kube, child.target(), child.manifest.clone(), is_ours).await {
                Settled::InPlace(_) => {}
                Settled::Conflict(message) => return Some(("ChildConflict", format!("{place}: {message}"))),
                Settled::Refused(message) => return Some(("Refused", format!("{place}: {message}"))),
                Settled::Failed(message) | Settled::Nowhere(message) => {
                    return Some(("Failed", format!("{place}: {message}")));
                }
            }
        }
        None
    }

    async fn may_grant(
        &self,
        subject: &Subject,
        access: &WorkspaceAccess,
    ) -> Result<(), (&'static str, String)> {
        let (from, to) = (&subject.key.namespace, &access.namespace);
        if from == to {
            return Ok(());
        }
        let failed = |error: CallError| ("Failed", format!("{to}: {error}"));
        let target =
            Target { api_version: "v1", kind: "Namespace", plural: "namespaces", namespace: "", name: to };
        let namespace = self.kube.read(target).await.map_err(failed)?;
        let label = namespace
            .as_ref()
            .map(|namespace| namespace["metadata"]["labels"][label::WORKSPACES_FROM].as_str());
        let answer = label.map_or(Answer::Missing, Answer::Label);
        let held = self.kube.read(access.binding.target()).await.map_err(failed)?;
        let granted_before = held.is_some_and(|live| {
            sweep::is_grant_of(&live, subject.origin()) || is_earlier_grant(&live, &access.binding)
        });
        consent::objection(self.consent, from, to, answer, granted_before).map_or(Ok(()), Err)
    }

    /// Removes what an earlier generation asked for, once for each.
    async fn sweep(
        &self,
        subject: &Subject,
        children: &Children,
        granted: &[&WorkspaceAccess],
    ) -> Result<(), CallError> {
        let done = (subject.uid.clone(), subject.generation);
        if self.swept().get(&subject.key) == Some(&done) {
            return Ok(());
        }
        sweep::optional_children(&self.kube, subject.origin(), children).await?;
        let kept = granted.iter().flat_map(|access| [&access.role, &access.binding]);
        sweep::grants(&self.kube, subject.origin(), kept).await?;
        self.swept().insert(subject.key.clone(), done);
        Ok(())
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
        let authorities = self.authorities(subject).await;
        let url = desired::cluster_url(&subject.resolved);
        let Probe { coderd, client, error } = probe(&url, authorities.as_deref(), &self.egress).await;
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
                pems.extend(value.ok().flatten().map(|pem| pem.expose().clone()));
            }
        }
        (!pems.is_empty()).then(|| pems.join("\n"))
    }

    fn describe(
        &self,
        subject: &mut Subject,
        observed: &Observed,
        deployment: Option<&Value>,
        url: String,
        access_url_from_env_from: bool,
    ) {
        let (generation, status) = (subject.generation, &mut subject.before);
        let findings = status::findings(observed);
        status.conditions = conditions(&findings, &status.conditions, generation, &Time(Timestamp::now()));
        status.observed_generation = Some(generation);
        status.last_handled_reconcile_at = reconcile_at(&subject.object);
        let ready = findings
            .iter()
            .any(|finding| finding.about == condition::READY && finding.truth.as_str() == "True");
        status.phase = Some(if ready { "Ready" } else { "Pending" }.to_owned());
        status.replicas = Some(rollout::replicas(deployment));
        status.ready_replicas = Some(rollout::ready_replicas(deployment));
        status.selector = Some(desired::selector(&subject.resolved));
        status.url = Some(url);
        if let Coderd::Answered(version) = &observed.coderd {
            status.version = Some(version.clone());
        }
        let resolved = webhooks::status_resolved(Kind::ControlPlane, &subject.object, &self.config);
        status.resolved = from_value(resolved).ok();
        if access_url_from_env_from && let Some(resolved) = &mut status.resolved {
            resolved.access_url = None;
        }
    }

    async fn write_invalid(
        &self,
        key: &Key,
        object: &Value,
        mut status: CoderControlPlaneStatus,
        generation: i64,
        problems: Vec<String>,
    ) -> Result<Outcome, CallError> {
        let observed = Observed { problems, ..nothing_observed() };
        // What runs goes on running as it was: only the three of kstatus change.
        let findings = status::findings(&observed);
        let summary = conditions(
            findings.get(..3).unwrap_or_default(),
            &status.conditions,
            generation,
            &Time(Timestamp::now()),
        );
        status.conditions.retain(|old| summary.iter().all(|new| new.type_ != old.type_));
        status.conditions.splice(..0, summary);
        status.observed_generation = Some(generation);
        status.phase = Some("Pending".to_owned());
        self.write(key, object, status).await?;
        Ok(Outcome::Settled)
    }

    async fn write_suspended(
        &self,
        key: &Key,
        object: &Value,
        mut status: CoderControlPlaneStatus,
        generation: i64,
    ) -> Result<Outcome, CallError> {
        status.observed_generation = Some(generation);
        status.last_handled_reconcile_at = reconcile_at(object);
        let message = "spec.suspend is true: nothing is changed until it is not";
        let finding = crate::controller::conditions::Finding::yes(condition::SUSPENDED, "Suspended", message);
        let suspended = conditions(&[finding], &status.conditions, generation, &Time(Timestamp::now()));
        status.conditions.retain(|old| old.type_ != condition::SUSPENDED);
        status.conditions.extend(suspended);
        self.write(key, object, status).await?;
        Ok(Outcome::Settled)
    }

    /// Takes back what was granted outside the namespace, then lets the object go.
    async fn finalize(&self, key: &Key, uid: &str, object: &Value) -> Result<Outcome, CallError> {
        if !finalizer::is_held(object) {
            return Ok(Outcome::Settled);
        }
        let origin = Origin { namespace: &key.namespace, name: &key.name, uid };
        sweep::grants(&self.kube, origin, std::iter::empty()).await?;
        let owner = Owner { namespace: &key.namespace, name: &key.name, uid };
        let spec: CoderControlPlaneSpec = from_value(object["spec"].clone()).unwrap_or_default();
        let release = object["metadata"]["annotations"][annotation::RELEASE_EXTERNAL] == "true";
        access::end(&self.kube, &self.egress, owner, &spec, release).await?;
        self.kube.patch(key.target(), finalizer::release(object)).await?;
        self.forget(key);
        Ok(Outcome::Settled)
    }

    /// Writes the status if it differs from what is there.
    async fn write(
        &self,
        key: &Key,
        object: &Value,
        status: CoderControlPlaneStatus,
    ) -> Result<(), CallError> {
        let status = json!(status);
        if object["status"] == status {
            return Ok(());
        }
        let operations = json!([
            {"op": "test", "path": "/metadata/resourceVersion", "value": object["metadata"]["resourceVersion"]},
            {"op": "add", "path": "/status", "value": status},
        ]);
        self.kube.write_status(key.target(), from_value(operations).unwrap_or_default()).await
    }

    fn forget(&self, key: &Key) {
        self.swept().remove(key);
    }

    fn swept(&self) -> std::sync::MutexGuard<'_, BTreeMap<Key, (String, i64)>> {
        self.swept.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

/// Whether a Role or RoleBinding without the mark of a uid was made for a control plane of this name before.
fn is_earlier_grant(live: &Value, child: &Child) -> bool {
    let labels = |object: &Value, name: &str| object["metadata"]["labels"][name].clone();
    let unmarked = live["metadata"]["annotations"][annotation::WORKSPACE_RBAC_OWNER_UID].is_null();
    let same = |name| labels(live, name).is_string() && labels(live, name) == labels(&child.manifest, name);
    unmarked
        && [label::CONTROL_PLANE, label::CONTROL_PLANE_NAMESPACE, label::MANAGED_BY].into_iter().all(same)
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

fn reconcile_at(object: &Value) -> Option<String> {
    object["metadata"]["annotations"][annotation::RECONCILE_AT].as_str().map(str::to_owned)
}

fn nothing_observed() -> Observed {
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
        workspaces: Some(Vec::new()),
        coderd: Coderd::NotAsked("NoReplicaReady"),
        access: not_asked("access of the operator"),
        access_needed: false,
        license: not_asked("a licence"),
    }
}

/// When to look again.
fn outcome(observed: &Observed, retry: Option<Retry>, external: Option<Retry>) -> Outcome {
    if !observed.failed.is_empty() {
        return Outcome::Failed(Duration::ZERO);
    }
    let silent = matches!(observed.coderd, Coderd::Silent(_));
    match external.filter(|_| !silent) {
        Some(Retry::After(pause)) => return Outcome::Failed(pause),
        Some(Retry::Backoff) => return Outcome::Failed(Duration::ZERO),
        Some(Retry::WhenChanged) | None => {}
    }
    match (&observed.coderd, retry) {
        (Coderd::Silent(_), Some(Retry::After(pause))) => Outcome::Failed(pause),
        (Coderd::Silent(_), _) => Outcome::Failed(Duration::ZERO),
        _ if observed.exposure == Exposure::NoGatewayApi => Outcome::After(RECHECK),
        // Watches tell of rollouts; the timer is for a watch that was cut.
        _ if matches!(observed.rollout, Rollout::UnderWay(_) | Rollout::Absent) => Outcome::After(SOON),
        _ => Outcome::After(RECHECK),
    }
}
