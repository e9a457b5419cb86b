//! Reads what a reconcile of a provisioner works with, before it changes anything: the control plane it refers to, the Deployment
//! that runs. What comes of it is decided by pure functions elsewhere.

use super::address::{self, Address, NoAddress, Way};
use super::certificates::{self, Served};
use super::followed_image::{followed, is_open};
use super::key::work::Proven;
use super::observe::place;
use super::public_address::PublicAddress;
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

    /// The same for a coderd that was seen to redirect whoever does not come by this host, where its spec does not say so.
    pub(super) fn redirected(&self, access_host: &str) -> Option<String> {
        let facts = self.facts_of_control_plane.as_ref().filter(|_| !gives_address(&self.complete.spec))?;
        let url = &facts.address.as_ref().ok()?.url;
        let is_welcome = address::authority(url) == Some(access_host);
        let because = "the spec of the control plane does not say so in extraEnv, as values";
        let redirected = || NoAddress::Redirected { host: access_host.to_owned(), because };
        (!is_welcome).then(|| redirected().to_string())
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
            None => {
                let runs = runs.as_ref().map(|runs| runs.image.as_str());
                let found = self.image_of(control_plane, runs).await;
                found.or_else(|error| kept_through(error, runs.map(|image| Some(image.to_owned()))))?
            }
        };
        let facts =
            image.and_then(|image| ControlPlaneFacts::of(control_plane, &image, &self.config.cluster_domain));
        let Some(facts) = facts else { return Ok(None) };
        let namespace = control_plane.metadata.namespace.as_deref().unwrap_or_default();
        match self.certificates(namespace, &facts.tls).await {
            // One that is deleted to be issued anew is back in a moment: what is not there now rolls nobody.
            Ok(secrets)
                if !certificates::are_whole(&secrets, facts.tls.len())
                    && runs.as_ref().is_some_and(|runs| is_of(&facts, runs)) =>
            {
                Ok(Some(as_before(facts, runs)))
            }
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
        for name in secrets.iter().take(certificates::MOST) {
            let secret = self.kube.read(Target::of(SECRET, namespace, name)).await?;
            found.extend(secret.map(|secret| Served::of(name, &secret)));
        }
        Ok(found)
    }

    /// Where daemons find a control plane, by what it serves with and how it is known outside. A certificate that is not there,
    /// or cannot be read, changes nothing, and neither does a Service that cannot be read now.
    async fn address(
        &self,
        control_plane: &CoderControlPlane,
        facts: &ControlPlaneFacts,
        secrets: &[Served],
        runs: Option<&Daemons>,
    ) -> Result<Result<Address, NoAddress>, CallError> {
        let Ok(at_service) = &facts.address else { return Ok(facts.address.clone()) };
        let leaves: Vec<_> = secrets.iter().filter_map(|served| served.leaf.clone()).collect();
        let before = runs.filter(|runs| is_of(facts, runs)).and_then(|runs| runs.address.clone());
        if leaves.is_empty() && !facts.tls.is_empty() {
            return Ok(Ok(before.unwrap_or_else(|| at_service.clone())));
        }
        let public = PublicAddress::of(control_plane, &self.config.cluster_domain);
        let leaves = (!facts.tls.is_empty()).then_some(&leaves[..]);
        let led_by = before.as_ref().and_then(|before| Some(before.alias.as_ref()?.host.as_str()));
        let url = match address::way(&at_service.url, leaves, &public, led_by) {
            Ok(Way::AtService(url)) => return Ok(Ok(Address { url, alias: None })),
            Ok(Way::Through(url)) => url,
            Err(nowhere) => return Ok(Err(nowhere)),
        };
        let namespace = control_plane.metadata.namespace.as_deref().unwrap_or_default();
        let target = Target::of(SERVICE, namespace, service::name(control_plane));
        match self.kube.read(target).await {
            Ok(live) => {
                let trusted = service::trusted(live.as_ref(), control_plane).ok();
                Ok(address::through(trusted, &at_service.url, &url))
            }
            Err(error) => kept_through(error, before.filter(|before| before.url == url).map(Ok)),
        }
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

/// What runs, where something could not be read now.
fn kept_through<T>(error: CallError, runs: Option<T>) -> Result<T, CallError> {
    let Some(kept) = runs else { return Err(error) };
    tracing::warn!(%error, "what daemons have from their control plane could not be read; they stay as they are");
    Ok(kept)
}

/// Whether daemons run that trust what a control plane serves with, and are not known to be another one's.
fn is_of(facts: &ControlPlaneFacts, runs: &Daemons) -> bool {
    let is_here = match (&runs.address, &facts.address) {
        (Some(Address { url, alias: None }), Ok(at_service)) => address::is_at(url, &at_service.url),
        _ => true,
    };
    is_here && runs.trusted == facts.tls
}

/// What daemons have from a control plane whose certificates could not be read: what they had from them.
fn as_before(facts: ControlPlaneFacts, runs: Option<Daemons>) -> ControlPlaneFacts {
    match runs.filter(|runs| is_of(&facts, runs)) {
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
