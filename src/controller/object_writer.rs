//! Writes what we write of an object that Git applies: its status and our finalizer, nothing else; and tells what changed.
//! What the status says, and whether the finalizer is needed, is decided by its kind.

use super::object::{Object, ReconciledKind};
use super::runtime::object_reader::ObjectReader;
use super::runtime::telemetry::Telemetry;
use super::status::reasons::{KindReason, SharedReason};
use super::status::transitions;
use crate::kubernetes::events::{EventDraft, Events};
use crate::kubernetes::{CallError, Kube};
use crds::KindStatus;
use json_patch::Patch;
use k8s_openapi::api::core::v1::ObjectReference;
use serde_json::{Value, from_value, json};

/// What became of our finalizer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Finalizing {
    /// It is as it must be.
    Unchanged,
    /// The object was changed: what was read of it is out of date.
    Written,
    /// The API server does not let us.
    Refused(String),
    /// It did not work this time.
    Failed(String),
}

/// Who writes to the objects of a kind.
pub(crate) struct ObjectWriter<'a, K: ReconciledKind> {
    /// The API server.
    pub(crate) kube: &'a Kube,
    /// Is told of every write, so that the watch never stands in for what we wrote.
    pub(crate) objects: &'a ObjectReader<K>,
    pub(crate) events: &'a Events,
    pub(crate) telemetry: &'a Telemetry,
}

impl<K: ReconciledKind> ObjectWriter<'_, K> {
    /// Writes the status if it differs from what is there, then tells what changed, and `more`: in this order a crash between
    /// loses an Event and never repeats one. It fails if the object changed since it was read.
    pub(crate) async fn write_status(
        &self,
        object: &Object<K>,
        after: &K::Status,
        more: &[EventDraft],
    ) -> Result<(), CallError> {
        let (status, conditions) = (json!(after), after.conditions());
        if object.value["status"] == status {
            self.telemetry.conditions(&object.key.namespace, &object.key.name, conditions);
            return Ok(());
        }
        let written = self.kube.write_status(object.target(), status_patch(&object.value, &status)).await?;
        self.objects.written(&object.key, written.as_deref());
        self.telemetry.conditions(&object.key.namespace, &object.key.name, conditions);
        let resumed = K::Reason::from(SharedReason::Resumed).into();
        let before = object.status.conditions();
        let drafts = transitions::event_drafts(before, conditions, K::Reason::meaning, resumed);
        self.publish(object, &drafts).await;
        self.publish(object, more).await;
        Ok(())
    }

    /// Publishes Events about an object.
    pub(crate) async fn publish(&self, object: &Object<K>, drafts: &[EventDraft]) {
        let about = reference(object);
        for one in drafts {
            self.events.publish(one, &about).await;
        }
    }

    /// Brings our finalizer to what it must be. A refusal is told: whatever can be done without it is done.
    pub(crate) async fn set_finalizer(
        &self,
        object: &Object<K>,
        needed: bool,
    ) -> Result<Finalizing, CallError> {
        let finalizer = K::FINALIZER;
        if needed == object.has_finalizer() {
            return Ok(Finalizing::Unchanged);
        }
        let patch = if needed { finalizer.add(&object.value) } else { finalizer.remove(&object.value) };
        match self.kube.patch(object.target(), patch).await {
            Ok(after) if finalizer.is_on(&after) == needed => {
                self.objects.forget(&object.key);
                Ok(Finalizing::Written)
            }
            Ok(_) => Ok(Finalizing::Refused(finalizer.refusal(&UNDONE))),
            Err(error) if error.is_outdated() => Err(error),
            Err(error) if error.is_refused() => Ok(Finalizing::Refused(finalizer.refusal(&error))),
            Err(error) => Ok(Finalizing::Failed(error.to_string())),
        }
    }

    /// Lets go of an object that is being deleted; returns why it is held all the same, if it is.
    pub(crate) async fn release(&self, object: &Object<K>) -> Result<Option<String>, CallError> {
        match self.kube.patch(object.target(), K::FINALIZER.remove(&object.value)).await {
            Ok(after) => Ok(K::FINALIZER.is_on(&after).then(|| K::FINALIZER.refusal(&UNDONE))),
            Err(error) if error.is_refused() && !error.is_outdated() => {
                Ok(Some(K::FINALIZER.refusal(&error)))
            }
            Err(error) => Err(error),
        }
    }
}

/// Why a finalizer is not as we wrote it.
const UNDONE: &str = "a policy of the cluster undoes the change";

/// The patch that replaces a status; it fails if the object changed since it was read.
fn status_patch(object: &Value, status: &Value) -> Patch {
    let version = &object["metadata"]["resourceVersion"];
    let operations = json!([
        {"op": "test", "path": "/metadata/resourceVersion", "value": version},
        {"op": "add", "path": "/status", "value": status},
    ]);
    from_value(operations).unwrap_or_default()
}

/// The object as Events name it.
fn reference<K: ReconciledKind>(object: &Object<K>) -> ObjectReference {
    let [api_version, kind, _] = K::NAME;
    ObjectReference {
        api_version: Some(api_version.to_owned()),
        kind: Some(kind.to_owned()),
        namespace: Some(object.key.namespace.clone()),
        name: Some(object.key.name.clone()),
        uid: Some(object.uid.clone()),
        ..ObjectReference::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_is_written_over_the_version_that_was_read_and_no_other() {
        let read = json!({ "metadata": { "resourceVersion": "7" } });
        let patch = status_patch(&read, &json!({ "phase": "Ready" }));
        let mut stored = read;
        json_patch::patch(&mut stored, &patch).unwrap();
        assert_eq!(stored["status"], json!({ "phase": "Ready" }), "there was none");
        stored["metadata"]["resourceVersion"] = json!("8");
        assert!(json_patch::patch(&mut stored, &patch).is_err(), "somebody else was faster");
    }
}
