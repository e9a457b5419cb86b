//! Reads what every kind has that belongs to a control plane before it can be worked on: its Deployment, and its spec with what runs
//! of it. What else is read, and what follows, is for the kind.

use super::reconciler::{AttachedReconciler, Unread};
use crate::controller::children::deployment::{self, FoundDeployment};
use crate::controller::children::{ChildOwner, drift};
use crate::controller::object::{Object, ReconciledKind, complete};
use serde_json::{Value, json};

impl<K: ReconciledKind> AttachedReconciler<K> {
    /// The Deployment of an object, and the object completed with the values of what runs of it.
    pub(crate) async fn with_what_runs(
        &self,
        object: &Object<K>,
        owner: &ChildOwner,
        with_running_values: fn(&Value, Option<&Value>) -> Value,
    ) -> Result<(FoundDeployment, K), Unread> {
        let (namespace, name) = (&owner.namespace, &owner.workload);
        let deployment = deployment::find(&self.kube, &self.child_cache, namespace, name, false).await?;
        let given = with_running_values(&object.value, running(&deployment, owner, &object.uid));
        let complete = complete(&given, &self.config).map_err(|error| {
            Unread::Unreadable(format!(
                "the object cannot be combined with the values of its running Deployment: {error}"
            ))
        })?;
        Ok((deployment, complete))
    }
}

/// The Deployment of the owner of this uid, if what was found is its own.
pub(crate) fn running<'a>(found: &'a FoundDeployment, owner: &ChildOwner, uid: &str) -> Option<&'a Value> {
    let labels = json!(owner.labels());
    found.live.as_ref().filter(|live| drift::is_child_of(live, uid, &labels))
}
