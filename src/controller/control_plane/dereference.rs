//! Reads what a reconcile of a control plane works with, before it changes anything: the Deployment that runs, what the pods
//! consume. What comes of it is decided by pure functions elsewhere.

use super::access::{self, Needs};
use super::build;
use super::provided_url::{gives_access_url, sets_access_url};
use super::reconciler::Reconciler;
use super::resolve::{Facts, owner};
use super::running_values;
use super::subject::Subject;
use crate::controller::children::deployment::{self, FoundDeployment};
use crate::controller::children::drift;
use crate::controller::object::Origin;
use crate::controller::references::{Contents, Reader};
use crate::controller::runtime::deadline::Deadline;
use crate::kubernetes::CallError;
use crds::CoderControlPlane;
use serde_json::{Value, json};
use webhooks::Cause;

/// What was read.
pub(super) struct Dereferenced {
    pub(super) deployment: FoundDeployment,
    /// The object as it is stored, with what runs where it is silent.
    pub(super) given: Value,
    /// The same with every default in it.
    pub(super) complete: CoderControlPlane,
    /// What is said of an image that is lower than the one that runs.
    pub(super) downgrade: Option<Cause>,
    pub(super) contents: Contents,
    /// Whether some `envFrom` gives the address that would be our default.
    pub(super) has_access_url: bool,
    /// What needs the operator's access. Asked once: whoever needs it later causes another reconcile.
    pub(super) needs: Needs,
}

impl Dereferenced {
    /// Whether a token or a license may be sent to coderd in this reconcile.
    pub(super) fn sends_token(&self) -> bool {
        access::sends_token(&self.complete.spec, self.needs)
    }

    pub(super) fn facts<'a>(&'a self, cluster_domain: &'a str) -> Facts<'a> {
        Facts {
            consumed_checksum: self.contents.checksum.as_deref(),
            access_url_from_env_from: self.has_access_url,
            cluster_domain,
        }
    }
}

/// Why nothing is changed.
pub(super) enum Unread {
    /// Something could not be read this time.
    Failed(String),
    /// The object itself cannot be read.
    Unreadable(String),
}

impl From<CallError> for Unread {
    fn from(error: CallError) -> Self {
        Self::Failed(error.to_string())
    }
}

impl Reconciler {
    /// Reads it, and completes the object with what runs.
    pub(super) async fn dereference(
        &self,
        subject: &Subject,
        deadline: &mut Deadline,
    ) -> Result<Dereferenced, Unread> {
        let (object, owner) = (&subject.object, owner(&subject.complete));
        // What its pods consume is compared with all that it has.
        let changes_nothing = object.origin == Origin::Watch && build::consumed(&subject.complete).is_empty();
        let (namespace, name) = (&owner.namespace, &owner.workload);
        let deployment =
            deployment::find(&self.kube, &self.child_cache, namespace, name, changes_nothing).await?;
        let labels = json!(owner.labels());
        let running = deployment.live.as_ref().filter(|live| drift::is_child_of(live, &object.uid, &labels));
        let given = running_values::with_running_values(&object.value, running);
        let downgrade = running_values::downgrade(&object.value, running);
        // Without what runs the default image would count, which nobody asked for.
        let complete = self.complete(&given).map_err(|error| {
            Unread::Unreadable(format!(
                "the object cannot be combined with the values of its running Deployment: {error}"
            ))
        })?;
        let (key, consumed) = (self.checksum_key(), build::consumed(&complete));
        let reader = Reader { kube: &self.kube, key: &key, namespace, spec: &complete.spec };
        let mut has_access_url = false;
        let see = |one: &_, object: &_| has_access_url |= gives_access_url(&complete, one, object);
        let contents = reader.read(&consumed, running, deadline, see).await;
        let contents = contents.map_err(|error| Unread::Failed(error.to_string()))?;
        if let Some(running) = running.filter(|_| !contents.missing.is_empty()) {
            has_access_url = !sets_access_url(running);
        }
        let needs = self.needs(object, &complete.spec);
        Ok(Dereferenced { deployment, given, complete, downgrade, contents, has_access_url, needs })
    }
}
