//! Finds out what every deletion of an object asks that has something in coderd: whether that is to be left there, and whether its
//! control plane is gone. What follows is decided by the kind.

use super::coderds::CONTROL_PLANE;
use super::reconciler::AttachedReconciler;
use crate::controller::object::{Object, ReconciledKind};
use crate::kubernetes::{CallError, KindName, Target};
use crds::shared::DeletionPolicy;
use crds::well_known::annotation;
use serde_json::from_value;

const NAMESPACE: KindName = ["v1", "Namespace", "namespaces"];

/// Whether what an object has in coderd is left there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Release {
    /// It goes before the object does.
    No,
    /// The spec or an annotation says so.
    Asked,
    /// The namespace goes, with its coderd; nothing may hold it up.
    Namespace,
}

impl<K: ReconciledKind> AttachedReconciler<K> {
    /// Whether what an object has in coderd is left, for whatever cause.
    pub(crate) async fn is_released(&self, object: &Object<K>) -> Result<bool, CallError> {
        Ok(self.release(object).await? != Release::No)
    }

    /// Whether, and why, what an object has in coderd is left.
    pub(crate) async fn release(&self, object: &Object<K>) -> Result<Release, CallError> {
        // Whatever else of the spec cannot be read.
        let policy = from_value(object.value["spec"]["deletionPolicy"].clone()).ok();
        if policy == Some(DeletionPolicy::Orphan)
            || object.annotation(annotation::RELEASE_EXTERNAL) == Some("true")
        {
            return Ok(Release::Asked);
        }
        let namespace = self.kube.read(Target::of(NAMESPACE, "", &object.key.namespace)).await?;
        let goes = namespace.is_none_or(|namespace| !namespace["metadata"]["deletionTimestamp"].is_null());
        Ok(if goes { Release::Namespace } else { Release::No })
    }

    /// Whether the API server has no control plane of this name beside the object.
    pub(crate) async fn is_control_plane_gone(
        &self,
        object: &Object<K>,
        name: &str,
    ) -> Result<bool, CallError> {
        let target = Target::of(CONTROL_PLANE, &object.key.namespace, name);
        Ok(self.kube.read(target).await?.is_none())
    }
}
