//! Reads what a reconcile of a provisioner works with, before it changes anything: the control plane it refers to, the Deployment
//! that runs. What comes of it is decided by pure functions elsewhere.

use super::address::{self, Address, Name, NoAddress};
use super::certificates::{self, Served};
use super::followed_image::{followed, is_open};
use super::key::work::Proven;
use super::observe::place;
use super::reconciler::Reconciler;
use super::resolve::{ControlPlaneFacts, Daemons, Facts, gives_address, owner};
use super::running_values;
use crate::control_plane_access::control_planes::{self, Found};
use crate::control_plane_access::service;
use crate::controller::children::deployment::{self, FoundDeployment};
use crate::controller::children::{ChildKind, drift};
use crate::controller::object::{Subject, complete};
use crate::kubernetes::{CallError, KindName, Target};
use crds::{CoderControlPlane, CoderProvisioner};
use serde_json::{Value, json};

const SERVICE: KindName = ["v1", "Service", "services"];
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
        if self.is_left_at_first() {
            return Facts { control_plane: None, key_checksum: None, running: None };
        }
        Facts {
            control_plane: self.from_control_plane.as_ref(),
            key_checksum: proven.map(|proven| proven.checksum.as_str()),
            running: self.running(),
        }
    }

    /// Whether daemons that run can follow the spec to its control plane: it has an address for them, and they are not left as
    /// they are because coderd was not asked yet.
    pub(super) fn can_follow(&self) -> bool {
        let facts = self.facts_of_control_plane.as_ref();
        let is_addressed =
            facts.is_some_and(|facts| facts.address.is_ok()) || gives_address(&self.complete.spec);
        is_addressed && !self.is_left_at_first()
    }

    /// Whether daemons that run are left as they are, because coderd was not asked yet since this replica leads.
    pub(super) fn is_left_at_first(&self) -> bool {
        self.is_first_look && self.running().is_some()
    }

    /// Why daemons cannot be led to their control plane, if somebody has to mend it.
    pub(super) fn unaddressed(&self) -> Option<String> {
        let facts = self.facts_of_control_plane.as_ref()?;
        facts.address.as_ref().err().filter(|_| !gives_address(&self.complete.spec))?.told()
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
            facts_of_control_plane = self.facts_of(there, &complete, running).await?;
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
        complete: &CoderProvisioner,
        running: Option<&Value>,
    ) -> Result<Option<ControlPlaneFacts>, CallError> {
        let runs = running.and_then(running_values::daemons);
        let named = complete.spec.image.clone().filter(|image| !image.is_empty());
        let image = match named {
            Some(image) => Some(image),
            None => self.image_of(control_plane, runs.as_ref().map(|runs| runs.image.as_str())).await?,
        };
        let facts =
            image.and_then(|image| ControlPlaneFacts::of(control_plane, &image, &self.config.cluster_domain));
        let Some(facts) = facts else { return Ok(None) };
        let namespace = control_plane.metadata.namespace.as_deref().unwrap_or_default();
        match self.certificates(namespace, &facts.tls).await {
            Ok(secrets) => {
                let address = self.address(control_plane, &facts, &secrets, runs.as_ref()).await?;
                let certificates = certificates::checksum(&secrets);
                Ok(Some(ControlPlaneFacts { address, certificates, ..facts }))
            }
            // What could not be read now rolls nobody.
            Err(error) => {
                tracing::warn!(%error, "what daemons trust could not be read; they stay as they are");
                Ok(Some(as_before(facts, runs)))
            }
        }
    }

    /// What is kept of the Secrets that a control plane serves with, as far as they are there: one is read when the one before
    /// it is gone.
    async fn certificates(&self, namespace: &str, secrets: &[String]) -> Result<Vec<Served>, CallError> {
        let mut found = Vec::new();
        for name in secrets.iter().take(MOST_CERTIFICATES) {
            let secret = self.kube.read(Target::of(SECRET, namespace, name)).await?;
            found.extend(secret.map(|secret| Served::of(name, &secret)));
        }
        Ok(found)
    }

    /// Where daemons find a control plane, by what it serves with. A certificate that is not there, or cannot be read, changes
    /// nothing.
    async fn address(
        &self,
        control_plane: &CoderControlPlane,
        facts: &ControlPlaneFacts,
        secrets: &[Served],
        runs: Option<&Daemons>,
    ) -> Result<Result<Address, NoAddress>, CallError> {
        let at_service = match &facts.address {
            Ok(at_service) if !facts.tls.is_empty() => at_service,
            known => return Ok(known.clone()),
        };
        let host = address::host(&at_service.url).unwrap_or_default();
        let leaves: Vec<_> = secrets.iter().filter_map(|served| served.leaf.clone()).collect();
        if leaves.is_empty() {
            let before = runs.filter(|runs| runs.trusted == facts.tls).and_then(|runs| runs.address.clone());
            return Ok(Ok(before.unwrap_or_else(|| at_service.clone())));
        }
        let name = match address::name(&leaves, host, public_host(control_plane)) {
            Name::OfService => return Ok(Ok(at_service.clone())),
            Name::Nobody => return Ok(Err(NoAddress::Unnamed { host: host.to_owned() })),
            Name::OfCertificate(name) => name,
        };
        let namespace = control_plane.metadata.namespace.as_deref().unwrap_or_default();
        let target = Target::of(SERVICE, namespace, service::name(control_plane));
        let live = self.kube.read(target).await?;
        let trusted = service::trusted(live.as_ref(), control_plane).ok();
        Ok(address::through(trusted, &at_service.url, &name))
    }

    /// The image that daemons of a control plane have from it.
    async fn image_of(
        &self,
        control_plane: &CoderControlPlane,
        runs: Option<&str>,
    ) -> Result<Option<String>, CallError> {
        let asked = control_plane.spec.image.as_deref().filter(|image| !image.is_empty());
        if !is_open(asked, runs) {
            return Ok(asked.map(str::to_owned));
        }
        let metadata = &control_plane.metadata;
        let namespace = metadata.namespace.as_deref().unwrap_or_default();
        let target = Target::of(ChildKind::Deployment.names(), namespace, service::name(control_plane));
        let uid = metadata.uid.as_deref().unwrap_or_default();
        let live = self.kube.read(target).await?.filter(|live| drift::is_controlled_by(live, uid));
        Ok(followed(asked, live.as_ref(), runs))
    }
}

/// The public name of a control plane, if its spec says it.
fn public_host(control_plane: &CoderControlPlane) -> Option<&str> {
    let mut variables = control_plane.spec.extra_env.iter();
    let url = variables.rfind(|variable| variable.name == webhooks::ACCESS_URL)?;
    address::host(url.value.as_deref()?)
}

/// What daemons have from a control plane whose certificates could not be read: what they had from them.
fn as_before(facts: ControlPlaneFacts, runs: Option<Daemons>) -> ControlPlaneFacts {
    match runs.filter(|runs| runs.trusted == facts.tls) {
        Some(runs) => ControlPlaneFacts {
            address: runs.address.map_or(facts.address, Ok),
            certificates: runs.certificates,
            ..facts
        },
        None => facts,
    }
}

/// What daemons have from a control plane. As long as no key is proven for it, those that run for another one keep the address,
/// the image and the trust that go with the key they have.
fn kept(facts: ControlPlaneFacts, is_proven: bool, running: Option<&Value>) -> ControlPlaneFacts {
    let runs = running.filter(|_| !is_proven).and_then(running_values::daemons);
    match runs.filter(|runs| runs.address.as_ref() != facts.address.as_ref().ok()) {
        Some(runs) => ControlPlaneFacts {
            image: runs.image,
            address: runs.address.map_or(facts.address, Ok),
            tls: runs.trusted,
            certificates: runs.certificates,
        },
        None => facts,
    }
}
