//! Reads what a reconcile of a provisioner works with, before it changes anything: the control plane it refers to, the Deployment
//! that runs. What comes of it is decided by pure functions elsewhere.

use super::build;
use super::observe::place;
use super::reconciler::Reconciler;
use super::resolve::{Facts, gives_address, owner};
use super::running_values;
use crate::control_plane_access::control_planes::{self, Found};
use crate::controller::attached::address::{self, NoAddress, Words};
use crate::controller::attached::attachment::ControlPlaneFacts;
use crate::controller::attached::dereference::running;
use crate::controller::attached::facts::FactsReader;
use crate::controller::attached::reconciler::Unread;
use crate::controller::attached::secret::Proven;
use crate::controller::children::deployment::FoundDeployment;
use crate::controller::children::drift;
use crate::controller::object::Subject;
use crate::controller::references::Contents;
use crate::controller::runtime::deadline::Deadline;
use crds::CoderProvisioner;
use serde_json::{Value, json};

/// How daemons are spoken of.
const WORDS: Words = Words { pods: "daemons", give: "set CODER_URL in spec.extraEnv" };

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
    /// What the spec lets pods read.
    pub(super) contents: Contents,
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
            return Facts::NONE;
        }
        Facts {
            control_plane: self.from_control_plane.as_ref(),
            key_checksum: proven.map(|proven| proven.checksum.as_str()),
            running: self.running(),
            consumed_checksum: self.contents.checksum.as_deref(),
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

    /// Whether pods that run keep what they have from another control plane until a key is proven for the one that is asked for.
    pub(super) fn is_moving(&self) -> bool {
        self.from_control_plane != self.facts_of_control_plane
    }

    /// Whether daemons that run are left as they are, because coderd was not asked yet since this replica leads.
    pub(super) fn is_left_at_first(&self) -> bool {
        self.is_first_look && self.running().is_some()
    }

    /// Why daemons cannot be led to their control plane, if somebody has to mend it.
    pub(super) fn unaddressed(&self) -> Option<String> {
        let facts = self.facts_of_control_plane.as_ref()?;
        facts.address.as_ref().err().filter(|_| !gives_address(&self.complete.spec))?.told(WORDS)
    }

    /// The same for a coderd that was seen to redirect whoever does not come by this host, where its spec does not say so.
    pub(super) fn redirected(&self, access_host: &str) -> Option<String> {
        let facts = self.facts_of_control_plane.as_ref().filter(|_| !gives_address(&self.complete.spec))?;
        let url = &facts.address.as_ref().ok()?.url;
        let is_welcome = address::authority(url) == Some(access_host);
        let because = "the spec of the control plane does not say so in extraEnv, as values";
        let redirected = NoAddress::Redirected { host: access_host.to_owned(), because };
        redirected.told(WORDS).filter(|_| !is_welcome)
    }

    /// The same with a key that was proven meanwhile.
    pub(super) fn with_proven(self, proven: Option<Proven>) -> Self {
        let from_control_plane = self.facts_of_control_plane.clone();
        Self { proven, from_control_plane, is_first_look: false, ..self }
    }
}

impl Reconciler {
    /// Reads it, and completes the object with what runs.
    pub(super) async fn dereference(
        &self,
        subject: &Subject<CoderProvisioner>,
        deadline: &mut Deadline,
    ) -> Result<Dereferenced, Unread> {
        let (object, owner) = (&subject.object, owner(&subject.complete));
        let values = running_values::with_running_values;
        let (deployment, complete) = self.with_what_runs(object, &owner, values).await?;
        let running = running(&deployment, &owner, &object.uid);
        let consumed = build::consumed(&complete);
        let contents =
            self.read_consumed(&owner.namespace, &complete.spec, &consumed, running, deadline).await?;
        let name = complete.spec.control_plane_ref.name.trim();
        let control_plane = control_planes::named(&self.control_planes, &object.key.namespace, name);
        let (mut proven, mut facts_of_control_plane) = (None, None);
        if let Found::There(there) = &control_plane {
            let uid = there.metadata.uid.as_deref().unwrap_or_default();
            proven = self.proven(&object.key, &object.uid, uid);
            let named = complete.spec.image.clone().filter(|image| !image.is_empty());
            let runs = running.and_then(running_values::daemons).map(|runs| runs.attachment);
            let reader = FactsReader { kube: &self.kube, cluster_domain: &self.config.cluster_domain };
            facts_of_control_plane = reader.read(there, named, runs.as_ref()).await?;
        }
        let runs = || running.and_then(running_values::daemons).map(|runs| runs.attachment);
        let from_control_plane = match (facts_of_control_plane.clone(), &proven) {
            (Some(facts), None) => Some(facts.unproven(runs())),
            (facts, _) => facts,
        };
        let (uid, is_first_look) = (object.uid.clone(), !self.has_looked(&object.key, &object.uid));
        Ok(Dereferenced {
            deployment,
            complete,
            control_plane,
            from_control_plane,
            facts_of_control_plane,
            proven,
            contents,
            is_first_look,
            uid,
        })
    }
}
