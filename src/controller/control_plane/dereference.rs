//! Reads what a reconcile of a control plane works with, before it changes anything: the Deployment that runs, what the pods
//! consume. What comes of it is decided by pure functions elsewhere.

use super::access::{self, Needs};
use super::build;
use super::reconciler::Reconciler;
use super::references::{self, Contents, ReadError};
use super::resolve::{Facts, owner};
use super::running_values;
use super::subject::Subject;
use crate::controller::children::deployment::{self, FoundDeployment};
use crate::controller::children::drift;
use crate::controller::object::Origin;
use crate::controller::runtime::deadline::Deadline;
use crate::kubernetes::CallError;
use crds::CoderControlPlane;
use serde_json::{Value, json};
use std::time::Instant;
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
            access_url_from_env_from: self.contents.provided,
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
        let key = self.checksum_key();
        let contents = match references::read(&self.kube, &key, &complete, running, deadline).await {
            Ok(contents) => contents,
            Err(error @ ReadError::OutOfTime) => {
                deadline.ended("reading what it refers to", Instant::now());
                return Err(Unread::Failed(
                    deadline.told(Instant::now()).unwrap_or_else(|| error.to_string()),
                ));
            }
            Err(error) => return Err(Unread::Failed(error.to_string())),
        };
        let needs = self.needs(object, &complete.spec);
        Ok(Dereferenced { deployment, given, complete, downgrade, contents, needs })
    }
}
