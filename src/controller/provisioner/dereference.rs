//! Reads what a reconcile of a provisioner works with, before it changes anything: the control plane it refers to, the Deployment
//! that runs. What comes of it is decided by pure functions elsewhere.

use super::observe::place;
use super::reconciler::Reconciler;
use super::resolve::{Facts, gives_address, owner};
use super::running_values;
use crate::control_plane_access::control_planes::{self, Found};
use crate::controller::attached::address::{self, NoAddress, Words};
use crate::controller::attached::dereference::ObjectRead;
use crate::controller::attached::facts::FactsReader;
use crate::controller::attached::reconciler::Unread;
use crate::controller::attached::secret::Proven;
use crate::controller::object::Subject;
use crate::controller::runtime::deadline::Deadline;
use crds::CoderProvisioner;
use std::ops::Deref;

/// How daemons are spoken of.
const WORDS: Words = Words { pods: "daemons", give: "set CODER_URL in spec.extraEnv" };

/// What was read.
pub(super) struct Dereferenced {
    object: ObjectRead<CoderProvisioner>,
    /// The control plane that it refers to.
    pub(super) control_plane: Found,
}

impl Deref for Dereferenced {
    type Target = ObjectRead<CoderProvisioner>;

    fn deref(&self) -> &Self::Target {
        &self.object
    }
}

impl Dereferenced {
    /// What daemons are built from. A key counts only where the spec wants it and where it was proven. As long as it is not
    /// known whether one works, what runs is left as it is, so that it is rolled once.
    pub(super) fn facts(&self) -> Facts<'_> {
        if self.is_left_at_first() {
            return Facts::NONE;
        }
        Facts {
            control_plane: self.from_control_plane.as_ref(),
            key_checksum: self.proven_in(&place(&self.complete)),
            running: self.running(),
            consumed_checksum: self.contents.checksum.as_deref(),
        }
    }

    /// Whether daemons that run can follow the spec to its control plane.
    pub(super) fn can_follow(&self) -> bool {
        self.can_follow_to(gives_address(&self.complete.spec))
    }

    /// Why daemons cannot be led to their control plane, if somebody has to mend it.
    pub(super) fn unaddressed(&self) -> Option<String> {
        self.unaddressed_but_for(gives_address(&self.complete.spec), WORDS)
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
        Self { object: self.object.with_proven(proven), ..self }
    }
}

impl Reconciler {
    /// Reads it, and completes the object with what runs.
    pub(super) async fn dereference(
        &self,
        subject: &Subject<CoderProvisioner>,
        deadline: &mut Deadline,
    ) -> Result<Dereferenced, Unread> {
        let (key, values) = (&subject.object.key, running_values::with_running_values);
        let read = self.with_what_runs(subject, owner(&subject.complete), values, deadline).await?;
        let spec = &read.complete.spec;
        let name = spec.control_plane_ref.name.trim();
        let control_plane = control_planes::named(&self.control_planes, &key.namespace, name);
        let runs = read.running().and_then(running_values::daemons).map(|runs| runs.attachment);
        let (mut proven, mut facts) = (None, None);
        if let Found::There(there) = &control_plane {
            let uid = there.metadata.uid.as_deref().unwrap_or_default();
            proven = self.proven(key, &subject.object.uid, uid);
            let named = spec.image.clone().filter(|image| !image.is_empty());
            let reader = FactsReader { kube: &self.kube, cluster_domain: &self.config.cluster_domain };
            facts = reader.read(there, named, runs.as_ref()).await?;
        }
        Ok(Dereferenced { object: read.with_control_plane(facts, proven, runs), control_plane })
    }
}
