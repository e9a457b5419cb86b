//! Reads what a reconcile of a provisioner works with, before it changes anything: the control plane it refers to, the Deployment
//! that runs. What comes of it is decided by pure functions elsewhere.

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
use crate::kubernetes::{CallError, Target};
use crds::names::control_plane::workload;
use crds::{CoderControlPlane, CoderProvisioner};
use serde_json::{Value, json};

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
    /// The image of the control plane.
    image: Option<String>,
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
    pub(super) fn with_proven(self, proven: Option<Proven>, cluster_domain: &str) -> Self {
        let from_control_plane = match (&self.control_plane, &self.image) {
            (Found::There(there), Some(image)) => ControlPlaneFacts::of(there, image, cluster_domain),
            _ => self.from_control_plane.clone(),
        };
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
        let (mut proven, mut image, mut from_control_plane) = (None, None, None);
        if let Found::There(there) = &control_plane {
            let uid = there.metadata.uid.as_deref().unwrap_or_default();
            proven = self.proven(&object.key, &object.uid, uid);
            image = self.image_of(there).await?;
            let facts = image
                .as_ref()
                .and_then(|image| ControlPlaneFacts::of(there, image, &self.config.cluster_domain));
            from_control_plane = facts.map(|facts| kept(facts, proven.is_some(), running));
        }
        let (uid, is_first_look) = (object.uid.clone(), !self.has_looked(&object.key, &object.uid));
        Ok(Dereferenced {
            deployment,
            complete,
            control_plane,
            from_control_plane,
            image,
            proven,
            is_first_look,
            uid,
        })
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
        Some(runs) => ControlPlaneFacts { image: runs.image, url: runs.url, tls: runs.trusted },
        None => facts,
    }
}
