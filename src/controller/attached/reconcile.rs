//! How a reconcile begins of any kind that belongs to a control plane: its object is read, and is going, unreadable, suspended or
//! worked on. What is done with it is for the kind.

use super::ending::{self, DeleteKind};
use super::reconciler::{AttachedKind, AttachedReconciler, Unread};
use crate::controller::identity::ObjectKey;
use crate::controller::object::{Object, Subject, broken_rules, complete};
use crate::controller::runtime::schedule::Action;
use crate::controller::runtime::{reconcile, telemetry};
use crate::controller::status::conditions::Finding;
use crate::controller::status::observed::ObservedObject;
use crate::kubernetes::CallError;
use std::ops::Deref;

/// A kind's own part of a reconcile.
pub(crate) trait ReconcileKind<K: AttachedKind>:
    DeleteKind<K> + Deref<Target = AttachedReconciler<K>> + Send + Sync + 'static
{
    /// Forgets an object that is gone.
    fn forget_object(&self, key: &ObjectKey) {
        self.forget(key);
    }

    /// What the status of a suspended object says, and why; none of one that is not suspended.
    fn suspended(&self, object: &Object<K>, complete: &K) -> Option<(K::Status, K::Reason)>;

    /// What is said of an object of which nothing but this was found out.
    fn only(object: ObservedObject) -> Vec<Finding>;

    /// The path: dereference, resolve, build, apply, observe, status, write.
    fn work_on(&self, subject: &Subject<K>) -> impl Future<Output = Result<Action, Unfinished>> + Send;
}

/// Why a reconcile did not come to its end.
pub(crate) enum Unfinished {
    /// What it works with could not be read: that is told on the object.
    Unread(Unread),
    /// A call failed.
    Failed(CallError),
}

impl From<Unread> for Unfinished {
    fn from(unread: Unread) -> Self {
        Self::Unread(unread)
    }
}

impl From<CallError> for Unfinished {
    fn from(error: CallError) -> Self {
        Self::Failed(error)
    }
}

/// One reconcile.
pub(crate) async fn reconcile<K: AttachedKind, R: ReconcileKind<K>>(
    reconciler: &R,
    key: ObjectKey,
) -> Action {
    // On the heap, and so are its steps: all of them together are too much for the stack of a worker.
    let reconcile = Box::pin(try_reconcile(reconciler, &key));
    reconcile::run(&reconciler.objects, &reconciler.telemetry, &key, reconcile).await
}

async fn try_reconcile<K: AttachedKind, R: ReconcileKind<K>>(
    reconciler: &R,
    key: &ObjectKey,
) -> Result<Action, CallError> {
    // What was made in coderd is recorded in the status: each reconcile begins with the newest.
    let Some(object) = reconciler.objects.read(key).await? else {
        reconciler.forget_object(key);
        return Ok(Action::AwaitChange);
    };
    telemetry::of_generation(object.generation);
    reconciler.requests.begin(key, object.request(), &reconciler.child_cache);
    if object.is_deleting() {
        return Box::pin(ending::delete(reconciler, &object)).await;
    }
    let complete: K = match complete(&object.value, &reconciler.config) {
        Ok(complete) => complete,
        Err(error) => {
            let why = format!("the object cannot be read; correct its manifest: {error}");
            return reconciler.write_unreadable(&object, why, R::only).await;
        }
    };
    if let Some((status, reason)) = reconciler.suspended(&object, &complete) {
        return reconciler.write_suspended(&object, status, reason).await;
    }
    let broken = broken_rules::<K>(&object.value);
    let subject = Subject { object, complete, broken };
    match Box::pin(reconciler.work_on(&subject)).await {
        Ok(action) => Ok(action),
        Err(Unfinished::Unread(unread)) => reconciler.write_unread(&subject.object, unread, R::only).await,
        Err(Unfinished::Failed(error)) => Err(error),
    }
}
