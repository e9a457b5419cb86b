//! Reads what every kind has that belongs to a control plane before it can be worked on: its Deployment, its spec with what runs of
//! it, what pods read; and holds that with what they have from their control plane. What else is read, and what follows, is for the kind.

use super::address::Words;
use super::attachment::{Attachment, ControlPlaneFacts};
use super::reconciler::{AttachedReconciler, Unread};
use super::secret::{Proven, SecretPlace};
use super::triggers::Concerned;
use crate::controller::children::deployment::{self, FoundDeployment};
use crate::controller::children::{ChildOwner, drift};
use crate::controller::object::{Subject, complete};
use crate::controller::references::Contents;
use crate::controller::runtime::deadline::Deadline;
use kube::core::object::HasSpec;
use serde::Serialize;
use serde_json::{Value, json};

/// What was read of an object.
pub(crate) struct ObjectRead<K> {
    /// The Deployment as it is, whoever it belongs to.
    pub(crate) deployment: FoundDeployment,
    /// The object with every default in it, and with what runs where it is silent.
    pub(crate) complete: K,
    /// What the spec lets pods read.
    pub(crate) contents: Contents,
    /// What pods have from their control plane.
    pub(crate) from_control_plane: Option<ControlPlaneFacts>,
    /// What they have from it once a key or token is proven for it.
    pub(crate) facts_of_control_plane: Option<ControlPlaneFacts>,
    /// The key or token that was proven for it, if one was.
    proven: Option<Proven>,
    /// Whether nobody was asked about that yet since this replica leads.
    is_first_look: bool,
    owner: ChildOwner,
    uid: String,
}

impl<K: Concerned + HasSpec> AttachedReconciler<K>
where
    K::Spec: Serialize + Sync,
{
    /// Reads an object's Deployment, and completes the object with the values of what runs of it; of its control plane nothing is
    /// known yet.
    pub(crate) async fn with_what_runs(
        &self,
        subject: &Subject<K>,
        owner: ChildOwner,
        with_running_values: fn(&Value, Option<&Value>) -> Value,
        deadline: &mut Deadline,
    ) -> Result<ObjectRead<K>, Unread> {
        let (object, namespace) = (&subject.object, &owner.namespace);
        let deployment =
            deployment::find(&self.kube, &self.child_cache, namespace, &owner.workload, false).await?;
        let running = running(&deployment, &owner, &object.uid);
        let complete: K =
            complete(&with_running_values(&object.value, running), &self.config).map_err(|error| {
                Unread::Unreadable(format!(
                    "the object cannot be combined with the values of its running Deployment: {error}"
                ))
            })?;
        let consumed = K::consumed(&complete);
        let contents = self.read_consumed(namespace, complete.spec(), &consumed, running, deadline).await?;
        Ok(ObjectRead {
            is_first_look: !self.has_looked(&object.key, &object.uid),
            uid: object.uid.clone(),
            deployment,
            complete,
            contents,
            from_control_plane: None,
            facts_of_control_plane: None,
            proven: None,
            owner,
        })
    }
}

impl<K> ObjectRead<K> {
    /// The same with what is known of the control plane, and what was proven for it. Pods that run with `runs` keep that until
    /// something is.
    pub(crate) fn with_control_plane(
        self,
        facts: Option<ControlPlaneFacts>,
        proven: Option<Proven>,
        runs: Option<Attachment>,
    ) -> Self {
        let from_control_plane = match (facts.clone(), &proven) {
            (Some(facts), None) => Some(facts.unproven(runs)),
            (facts, _) => facts,
        };
        Self { from_control_plane, facts_of_control_plane: facts, proven, ..self }
    }

    /// The same with a key or token that was proven meanwhile.
    pub(crate) fn with_proven(self, proven: Option<Proven>) -> Self {
        let from_control_plane = self.facts_of_control_plane.clone();
        Self { proven, from_control_plane, is_first_look: false, ..self }
    }

    /// The Deployment, if it is this object's.
    pub(crate) fn running(&self) -> Option<&Value> {
        running(&self.deployment, &self.owner, &self.uid)
    }

    /// Checksum of the key or token that was proven, where the spec wants it in this place.
    pub(crate) fn proven_in(&self, place: &SecretPlace) -> Option<&str> {
        self.proven.as_ref().filter(|proven| proven.place == *place).map(|proven| proven.checksum.as_str())
    }

    /// Whether pods that run can follow the spec to its control plane: it has an address for them, or `gives_address` itself, and
    /// they are not left as they are.
    pub(crate) fn can_follow_to(&self, gives_address: bool) -> bool {
        let facts = self.facts_of_control_plane.as_ref();
        let is_addressed = facts.is_some_and(|facts| facts.address.is_ok()) || gives_address;
        is_addressed && !self.is_left_at_first()
    }

    /// Whether pods that run keep what they have from another control plane until a key or token is proven for the one that is
    /// asked for.
    pub(crate) fn is_moving(&self) -> bool {
        self.from_control_plane != self.facts_of_control_plane
    }

    /// Whether pods that run are left as they are, because nobody was asked yet since this replica leads.
    pub(crate) fn is_left_at_first(&self) -> bool {
        self.is_first_look && self.running().is_some()
    }

    /// Why pods cannot be led to their control plane, if somebody has to mend it.
    pub(crate) fn unaddressed_but_for(&self, gives_address: bool, words: Words) -> Option<String> {
        let facts = self.facts_of_control_plane.as_ref()?;
        facts.address.as_ref().err().filter(|_| !gives_address)?.told(words)
    }
}

/// The Deployment of the owner of this uid, if what was found is its own.
fn running<'a>(found: &'a FoundDeployment, owner: &ChildOwner, uid: &str) -> Option<&'a Value> {
    let labels = json!(owner.labels());
    found.live.as_ref().filter(|live| drift::is_child_of(live, uid, &labels))
}
