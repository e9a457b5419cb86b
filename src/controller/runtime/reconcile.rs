//! Runs one reconcile of an object, whichever kind it is: under its telemetry, and again later if it failed.
//! What a reconcile does is not known here.

use super::object_reader::ObjectReader;
use super::schedule::Action;
use super::telemetry::Telemetry;
use crate::controller::identity::ObjectKey;
use crate::controller::object::ReconciledKind;
use crate::kubernetes::CallError;
use std::time::Duration;

/// Runs it. After a failure the object is read: what the watch has of it may be what failed.
pub(crate) async fn run<K: ReconciledKind>(
    objects: &ObjectReader<K>,
    telemetry: &Telemetry,
    key: &ObjectKey,
    reconcile: impl Future<Output = Result<Action, CallError>>,
) -> Action {
    let reconcile_or_back_off = async {
        let action = match reconcile.await {
            Ok(action) => action,
            Err(error) => {
                // Somebody else was faster: what they wrote is looked at next time.
                if error.is_outdated() {
                    tracing::debug!("the object changed meanwhile");
                } else {
                    tracing::warn!(%error, "reconcile failed; it is tried again");
                }
                objects.forget(key);
                Action::BackOff(Duration::ZERO)
            }
        };
        tracing::debug!(?action, "reconcile ended");
        action
    };
    telemetry.observed(&key.namespace, &key.name, reconcile_or_back_off).await
}
