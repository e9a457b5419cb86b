//! Reads what a reconcile of a provisioner works with, before it changes anything: the control plane it refers to, the Deployment
//! that runs. What comes of it is decided by pure functions elsewhere.

use super::certificates;
use super::key::work::Proven;
use super::observe::place;
use super::reconciler::Reconciler;
use super::resolve::{ControlPlaneFacts, Facts, owner};
use super::running_values;
use crate::control_plane_access::control_planes::{self, Found};
use crate::control_plane_access::in_force::container;
use crate::controller::children::deployment::{self, FoundDeployment};
use crate::controller::children::{ChildKind, drift};
use crate::controller::object::{Subject, complete};
use crate::kubernetes::{CallError, KindName, Target};
use crds::names::control_plane::workload;
use crds::{CoderControlPlane, CoderProvisioner};
use serde_json::{Value, json};

const SECRET: KindName = ["v1", "Secret", "secrets"];
/// Secrets with certificates that are read: the control plane is reached by no more of them either.
const MOST_CERTIFICATES: usize = 8;

/// What was read.
pub(super) struct Dereferenced {
    /// The Deployment as it is, whoever it belongs to.
    pub(super) deployment: FoundDeployment,
    /// The object with every default in it, and with what runs where it is silent.
    pub(super) complete: CoderProvisioner,
    /// The control plane that it refers to.
    pub(super) control_plane: Found,
    /// What daemons have from it.
    pub(super) from_control_plane: Option<ControlPlaneFacts>,
    /// What daemons have from it once a key is proven for it.
    facts_of_control_plane: Option<ControlPlaneFacts>,
    /// The key that was proven for it, if one was.
    pub(super) proven: Option<Proven>,
    /// Whether coderd was not asked about the key yet since this replica leads.
    is_first_look: bool,
    uid: String,
}

impl Dereferenced {
    /// The Deployment, if it is this object's.
    pub(super) fn running(&self) -> Option<&Value> {
        let labels = json!(owner(&self.complete).labels());
        self.deployment.live.as_ref().filter(|live| drift::is_child_of(live, &self.uid, &labels))
    }

    /// What daemons are built from. A key counts only where the spec wants it and where it was proven. As long as it is not
    /// known whether one works, what runs is left as it is, so that it is rolled once.
    pub(super) fn facts(&self) -> Facts<'_> {
        let proven = self.proven.as_ref().filter(|proven| proven.place == place(&self.complete));
        if self.is_first_look && self.running().is_some() {
            return Facts { control_plane: None, key_checksum: None, running: None };
        }
        Facts {
            control_plane: self.from_control_plane.as_ref(),
            key_checksum: proven.map(|proven| proven.checksum.as_str()),
            running: self.running(),
        }
    }

    /// The same with a key that was proven meanwhile.
    pub(super) fn with_proven(self, proven: Option<Proven>) -> Self {
        let from_control_plane = self.facts_of_control_plane.clone();
        Self { proven, from_control_plane, is_first_look: false, ..self }
    }
}

/// Why nothing is changed.
pub(super) enum Unread {
    /// Something could not be read this time.
    Failed(CallError),
    /// The object itself cannot be read.
    Unreadable(String),
}

impl From<CallError> for Unread {
    fn from(error: CallError) -> Self {
        Self::Failed(error)
    }
}

impl Reconciler {
    /// Reads it, and completes the object with what runs.
    pub(super) async fn dereference(
        &self,
        subject: &Subject<CoderProvisioner>,
    ) -> Result<Dereferenced, Unread> {
        let (object, owner) = (&subject.object, owner(&subject.complete));
        let (namespace, name) = (&owner.namespace, &owner.workload);
        let deployment = deployment::find(&self.kube, &self.child_cache, namespace, name, false).await?;
        let labels = json!(owner.labels());
        let running = deployment.live.as_ref().filter(|live| drift::is_child_of(live, &object.uid, &labels));
        let given = running_values::with_running_values(&object.value, running);
        let complete: CoderProvisioner = complete(&given, &self.config).map_err(|error| {
            Unread::Unreadable(format!(
                "the object cannot be combined with the values of its running Deployment: {error}"
            ))
        })?;
        let name = complete.spec.control_plane_ref.name.trim();
        let control_plane = control_planes::named(&self.control_planes, &object.key.namespace, name);
        let (mut proven, mut facts_of_control_plane) = (None, None);
        if let Found::There(there) = &control_plane {
            let uid = there.metadata.uid.as_deref().unwrap_or_default();
            proven = self.proven(&object.key, &object.uid, uid);
            facts_of_control_plane = self.facts_of(there, running).await?;
        }
        let from_control_plane =
            facts_of_control_plane.clone().map(|facts| kept(facts, proven.is_some(), running));
        let (uid, is_first_look) = (object.uid.clone(), !self.has_looked(&object.key, &object.uid));
        Ok(Dereferenced {
            deployment,
            complete,
            control_plane,
            from_control_plane,
            facts_of_control_plane,
            proven,
            is_first_look,
            uid,
        })
    }

    /// What daemons have from a control plane.
    async fn facts_of(
        &self,
        control_plane: &CoderControlPlane,
        running: Option<&Value>,
    ) -> Result<Option<ControlPlaneFacts>, CallError> {
        let Some(image) = self.image_of(control_plane).await? else { return Ok(None) };
        let facts = ControlPlaneFacts::of(control_plane, &image, &self.config.cluster_domain);
        let Some(facts) = facts else { return Ok(None) };
        let namespace = control_plane.metadata.namespace.as_deref().unwrap_or_default();
        let certificates = match self.certificates(namespace, &facts.tls).await {
            Ok(certificates) => certificates,
            // What could not be read now rolls nobody.
            Err(error) => {
                tracing::warn!(%error, "what daemons trust could not be read; they stay as they are");
                running.and_then(running_values::daemons).and_then(|runs| runs.certificates)
            }
        };
        Ok(Some(ControlPlaneFacts { certificates, ..facts }))
    }

    /// What changes when daemons have to trust something else.
    async fn certificates(&self, namespace: &str, secrets: &[String]) -> Result<Option<String>, CallError> {
        let mut found = Vec::new();
        for name in secrets.iter().take(MOST_CERTIFICATES) {
            let secret = self.kube.read(Target::of(SECRET, namespace, name)).await?;
            found.extend(secret.map(|secret| (name.as_str(), secret)));
        }
        Ok(certificates::checksum(found.iter().map(|(name, secret)| (*name, secret))))
    }

    /// The image of a control plane: what it asks for, else what it runs.
    async fn image_of(&self, control_plane: &CoderControlPlane) -> Result<Option<String>, CallError> {
        if let Some(image) = control_plane.spec.image.as_ref().filter(|image| !image.is_empty()) {
            return Ok(Some(image.clone()));
        }
        let metadata = &control_plane.metadata;
        let (namespace, name) = (metadata.namespace.as_deref(), metadata.name.as_deref().unwrap_or_default());
        let names = ChildKind::Deployment.names();
        let live = self.kube.read(Target::of(names, namespace.unwrap_or_default(), workload(name))).await?;
        let uid = metadata.uid.as_deref().unwrap_or_default();
        let live = live.filter(|live| drift::is_controlled_by(live, uid));
        Ok(live
            .as_ref()
            .and_then(container)
            .and_then(|container| container["image"].as_str())
            .map(str::to_owned))
    }
}

/// What daemons have from a control plane. As long as no key is proven for it, those that run for another one keep the address,
/// the image and the trust that go with the key they have.
fn kept(facts: ControlPlaneFacts, is_proven: bool, running: Option<&Value>) -> ControlPlaneFacts {
    let runs = running.filter(|_| !is_proven).and_then(running_values::daemons);
    match runs.filter(|runs| runs.url != facts.url) {
        Some(runs) => ControlPlaneFacts {
            image: runs.image,
            url: runs.url,
            tls: runs.trusted,
            certificates: runs.certificates,
        },
        None => facts,
    }
}
