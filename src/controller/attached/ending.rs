//! The deletion of an object that has something in coderd, as far as it is the same for every kind: whether that is to be left there,
//! whether its control plane is gone, how it is let go and how held. What is taken back, and when, is decided by the kind.

use super::coderds::CONTROL_PLANE;
use super::outside::AccessReason;
use super::reconcile::ReconcileKind;
use super::reconciler::{AttachedKind, AttachedReconciler};
use crate::controller::identity::ObjectKey;
use crate::controller::object::{Object, ReconciledKind};
use crate::controller::runtime::schedule::Action;
use crate::kubernetes::events::EventDraft;
use crate::kubernetes::{CallError, KindName, Target};
use crds::shared::DeletionPolicy;
use crds::well_known::annotation;
use ring::hmac;
use serde_json::from_value;
use std::time::Duration;

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

/// A kind's own part of a deletion.
pub(crate) trait DeleteKind<K: AttachedKind> {
    /// Forgets what is not to be told any more of an object that is going.
    fn note_going(&self, _key: &ObjectKey) {}

    /// What is told of the things in coderd that the status of an object names, where they are left there, whoever wrote it.
    fn named(object: &Object<K>) -> Vec<EventDraft>;

    /// What is said of an object that stays for this cause, with the way out.
    fn held(why: &str) -> String;

    /// Takes back what an object that is being deleted has in coderd, then lets it go; `sealing` is the key of its records.
    fn delete(
        &self,
        object: &Object<K>,
        sealing: &hmac::Key,
    ) -> impl Future<Output = Result<Action, CallError>> + Send;
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

/// One reconcile of an object that is being deleted.
pub(super) async fn delete<K: AttachedKind, R: ReconcileKind<K>>(
    reconciler: &R,
    object: &Object<K>,
) -> Result<Action, CallError> {
    if !object.has_finalizer() {
        return Ok(Action::AwaitChange);
    }
    reconciler.note_going(&object.key);
    let checksum_key = reconciler.checksum_key();
    match checksum_key.get(&reconciler.kube).await {
        Ok(sealing) => reconciler.delete(object, sealing).await,
        // What is left anyway is only named, for which it need not be known whose it is.
        Err(_) if reconciler.is_released(object).await? => {
            let_go(reconciler, object, &R::named(object)).await
        }
        Err(error) => hold(reconciler, object, &error.to_string()).await,
    }
}

/// Tells what is left behind, and lets an object go.
pub(crate) async fn let_go<K: AttachedKind, R: ReconcileKind<K>>(
    reconciler: &R,
    object: &Object<K>,
    told: &[EventDraft],
) -> Result<Action, CallError> {
    reconciler.writer().publish(object, told).await;
    if reconciler.let_finalizer_go(object).await? {
        reconciler.forget_object(&object.key);
        return Ok(Action::AwaitChange);
    }
    Ok(Action::BackOff(Duration::ZERO))
}

/// Says why an object that is going is still there, and tries again later.
pub(crate) async fn hold<K: AttachedKind, R: ReconcileKind<K>>(
    reconciler: &R,
    object: &Object<K>,
    why: &str,
) -> Result<Action, CallError> {
    reconciler.tell_held(object, AccessReason::CleanupFailed.into(), &R::held(why)).await?;
    Ok(Action::BackOff(Duration::ZERO))
}
