//! Keeps what is recorded of things in coderd in one field of an object's status: each change is written by itself, before what
//! it announces is done, and only if nobody else has changed the object since it was read. What is written is decided elsewhere.

use crate::controller::identity::ObjectKey;
use crate::kubernetes::{CallError, KindName, Kube};
use serde_json::{Value, from_value, json};

/// A field of the status of an object.
pub(crate) struct StatusRecord<'a> {
    kube: &'a Kube,
    kind: KindName,
    key: &'a ObjectKey,
    /// Its name.
    field: &'static str,
    /// The object as it is now.
    pub object: Value,
}

impl<'a> StatusRecord<'a> {
    /// That of an object that was just read.
    pub(crate) fn new(
        kube: &'a Kube,
        kind: KindName,
        key: &'a ObjectKey,
        field: &'static str,
        object: Value,
    ) -> Self {
        Self { kube, kind, key, field, object }
    }

    /// What it says.
    pub(crate) fn value(&self) -> &Value {
        &self.object["status"][self.field]
    }

    /// What it says on the API server now, whoever wrote that; nothing if the object is gone.
    pub(crate) async fn now(&self) -> Result<Option<Value>, CallError> {
        let object = self.kube.read(self.key.target(self.kind)).await?;
        Ok(object.map(|object| object["status"][self.field].clone()))
    }

    /// Writes something else.
    pub(crate) async fn save(&mut self, written: Value) -> Result<(), CallError> {
        let version = &self.object["metadata"]["resourceVersion"];
        let change = if self.object["status"].is_object() {
            json!({ "op": "add", "path": format!("/status/{}", self.field), "value": written })
        } else {
            json!({ "op": "add", "path": "/status", "value": { self.field: written } })
        };
        let operations =
            json!([{ "op": "test", "path": "/metadata/resourceVersion", "value": version }, change]);
        let patch = from_value(operations).unwrap_or_default();
        let version = self.kube.write_status(self.key.target(self.kind), patch).await?;
        self.object["status"][self.field] = written;
        self.object["metadata"]["resourceVersion"] = json!(version);
        Ok(())
    }
}
