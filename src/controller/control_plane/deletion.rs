//! Takes back what a control plane that is going has outside its namespace, then lets it go; what fails is told on it.
//! It never removes what is not this object's, and lets go only after everything that must be taken back is.

use super::access::{self, Deed, Owner};
use super::finalizer;
use super::reconcile::{Key, Reconciler};
use super::sweep::{self, Origin, Wanted};
use crate::controller::schedule::Outcome;
use crate::kubernetes::events::News;
use crate::kubernetes::{CallError, Target};
use crds::CoderControlPlaneSpec;
use crds::well_known::annotation;
use serde_json::{Value, from_value};
use std::time::Duration;

impl Reconciler {
    /// One pass over an object that is being deleted.
    pub(super) async fn finalize(&self, key: &Key, uid: &str, object: &Value) -> Result<Outcome, CallError> {
        if !finalizer::is_held(object) {
            return Ok(Outcome::Settled);
        }
        match self.let_go(key, uid, object).await {
            Ok(None) => {
                self.forget(key);
                Ok(Outcome::Settled)
            }
            Ok(Some(left)) => {
                self.tell_cleanup_failed(key, object, &left).await;
                Ok(Outcome::Failed(Duration::ZERO))
            }
            Err(error) => {
                if !error.is_outdated() {
                    self.tell_cleanup_failed(key, object, &error.to_string()).await;
                }
                Err(error)
            }
        }
    }

    /// Whoever waits for the deletion looks at the object, not at our log.
    async fn tell_cleanup_failed(&self, key: &Key, object: &Value, why: &str) {
        if let Err(unwritten) = self.write_cleanup_failed(key, object, why).await {
            tracing::debug!(%unwritten, "why the object is held could not be written");
        }
    }

    /// Takes everything back and lets the object go, unless something is left, which is returned.
    async fn let_go(&self, key: &Key, uid: &str, object: &Value) -> Result<Option<String>, CallError> {
        let origin = Origin { namespace: &key.namespace, name: &key.name, uid };
        let mut left = sweep::grants(&self.kube, origin, Wanted::NOTHING).await?;
        left.stuck.extend(self.take_back(key, uid, object).await?);
        if left.is_nothing() {
            self.kube.patch(key.target(), finalizer::release(object)).await?;
        }
        Ok(left.told())
    }

    /// Takes back the operator's access; what of it is still there is returned.
    async fn take_back(&self, key: &Key, uid: &str, object: &Value) -> Result<Option<String>, CallError> {
        let owner = Owner { namespace: &key.namespace, name: &key.name, uid };
        let spec: CoderControlPlaneSpec = from_value(object["spec"].clone()).unwrap_or_default();
        let release = object["metadata"]["annotations"][annotation::RELEASE_EXTERNAL] == "true";
        let deeds = access::end(&self.kube, &self.egress, owner, &spec, release).await?;
        let news: Vec<News> = deeds.iter().map(Deed::news).collect();
        self.tell(key, uid, &news).await;
        let (namespace, name) = (self.kube.namespace(), owner.secret());
        let secret = Target { api_version: "v1", kind: "Secret", plural: "secrets", namespace, name: &name };
        let again = self.kube.read(secret).await?;
        let ours = again.filter(|again| again["metadata"]["annotations"][access::OWNER_UID] == uid);
        Ok(ours.map(|_| format!("Secret {namespace}/{name}")))
    }
}
