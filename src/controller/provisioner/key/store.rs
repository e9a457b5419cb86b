//! Keeps the record of a provisioner's keys in its status: each change is written by itself, before what it announces is done,
//! and only if nobody else has changed the object since it was read.

use super::record::{Key, Record};
use super::stored::{self, Sealer};
use crate::controller::identity::ObjectKey;
use crate::kubernetes::{CallError, KindName, Kube};
use crds::CoderProvisionerStatus;
use serde_json::{Value, from_value, json};

/// The record, and the object it is kept on.
pub(crate) struct RecordStore<'a> {
    kube: &'a Kube,
    kind: KindName,
    key: &'a ObjectKey,
    sealer: Sealer<'a>,
    /// What is recorded.
    pub record: Record,
    /// The object as it is now.
    pub object: Value,
}

impl<'a> RecordStore<'a> {
    /// The record of an object that was just read.
    pub(crate) fn new(
        kube: &'a Kube,
        kind: KindName,
        key: &'a ObjectKey,
        object: Value,
        sealer: Sealer<'a>,
    ) -> Self {
        let status = status(&object);
        Self { kube, kind, key, sealer, record: stored::read(status.key.as_ref(), sealer), object }
    }

    /// Records something else.
    pub(crate) async fn save(&mut self, record: Record) -> Result<(), CallError> {
        let written = json!(stored::written(&record, self.sealer));
        let version = &self.object["metadata"]["resourceVersion"];
        let change = if self.object["status"].is_object() {
            json!({ "op": "add", "path": "/status/key", "value": written })
        } else {
            json!({ "op": "add", "path": "/status", "value": { "key": written } })
        };
        let operations =
            json!([{ "op": "test", "path": "/metadata/resourceVersion", "value": version }, change]);
        let patch = from_value(operations).unwrap_or_default();
        let version = self.kube.write_status(self.key.target(self.kind), patch).await?;
        self.object["status"]["key"] = written;
        self.object["metadata"]["resourceVersion"] = json!(version);
        self.record = record;
        Ok(())
    }

    /// Whether a key is recorded as pending by the object as it is now, whoever wrote that.
    pub(crate) async fn is_still_pending(&self, key: &Key) -> Result<bool, CallError> {
        let Some(object) = self.kube.read(self.key.target(self.kind)).await? else { return Ok(false) };
        let record = stored::read(status(&object).key.as_ref(), self.sealer);
        Ok(record.pending.as_ref() == Some(key))
    }
}

fn status(object: &Value) -> CoderProvisionerStatus {
    from_value(object["status"].clone()).unwrap_or_default()
}
