//! Takes back what a control plane that is going has outside its namespace, then lets it go; what fails is told on it.
//! It never removes what is not this object's, and lets go only after everything that must be taken back is.

use super::access::{self, Deed, Owner};
use super::finalizer;
use super::reconcile::{Key, Reconciler};
use super::sweep::{self, Origin};
use crate::controller::schedule::Outcome;
use crate::kubernetes::CallError;
use crate::kubernetes::events::News;
use crds::CoderControlPlaneSpec;
use crds::well_known::annotation;
use serde_json::{Value, from_value};

impl Reconciler {
    /// One pass over an object that is being deleted.
    pub(super) async fn finalize(&self, key: &Key, uid: &str, object: &Value) -> Result<Outcome, CallError> {
        if !finalizer::is_held(object) {
            return Ok(Outcome::Settled);
        }
        if let Err(error) = self.take_back(key, uid, object).await {
            // Whoever waits for the deletion looks at the object, not at our log.
            if let Err(unwritten) = self.write_cleanup_failed(key, object, &error).await {
                tracing::debug!(%unwritten, "why the object is held could not be written");
            }
            return Err(error);
        }
        self.kube.patch(key.target(), finalizer::release(object)).await?;
        self.forget(key);
        Ok(Outcome::Settled)
    }

    async fn take_back(&self, key: &Key, uid: &str, object: &Value) -> Result<(), CallError> {
        let origin = Origin { namespace: &key.namespace, name: &key.name, uid };
        sweep::grants(&self.kube, origin, std::iter::empty()).await?;
        let owner = Owner { namespace: &key.namespace, name: &key.name, uid };
        let spec: CoderControlPlaneSpec = from_value(object["spec"].clone()).unwrap_or_default();
        let release = object["metadata"]["annotations"][annotation::RELEASE_EXTERNAL] == "true";
        let deeds = access::end(&self.kube, &self.egress, owner, &spec, release).await?;
        let news: Vec<News> = deeds.iter().map(Deed::news).collect();
        self.tell(key, uid, &news).await;
        Ok(())
    }
}
