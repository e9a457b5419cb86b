//! Keeps the record of a provisioner's keys in its status: each change is written by itself, before what it announces is done,
//! and only if nobody else has changed the object since it was read.

use super::record::{Key, Record};
use super::stored::{self, Sealer};
use crate::controller::identity::ObjectKey;
use crate::kubernetes::{CallError, KindName, Kube};
use crds::well_known::annotation;
use serde_json::{Value, from_value, json};
use std::mem::take;

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
    /// Keys in its status that the operator cannot prove to have written: they are gone from it with the next write.
    unsealed: Vec<String>,
    /// Those that are gone from it.
    dropped: Vec<String>,
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
        let status = stored::parsed(&object["status"]["key"]);
        let (mut record, unsealed) =
            (stored::read(status.as_ref(), sealer), stored::unsealed(status.as_ref(), sealer));
        // What was taken over before is not known then: what the annotation names now may be another key of that name.
        if status.as_ref().is_some_and(|status| !stored::is_whole(status, sealer)) {
            let annotation = &object["metadata"]["annotations"][annotation::ADOPT_KEY];
            record.adopted = annotation.as_str().map(str::to_owned);
        }
        Self { kube, kind, key, sealer, record, object, unsealed, dropped: Vec::new() }
    }

    /// What its seals are made with.
    pub(crate) fn sealer(&self) -> Sealer<'a> {
        self.sealer
    }

    /// Keys that were in the status and are not any more, because nobody can prove whose they are; each is told once.
    pub(crate) fn take_dropped(&mut self) -> Vec<String> {
        take(&mut self.dropped)
    }

    /// The same when the object goes, with those that are still in it.
    pub(crate) fn take_unproven(&mut self) -> Vec<String> {
        let mut all = self.take_dropped();
        all.extend(take(&mut self.unsealed));
        all
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
        // What the Secret proves is recorded anew.
        let lost = take(&mut self.unsealed).into_iter();
        self.dropped.extend(lost.filter(|name| !self.record.keys().any(|key| key.name == *name)));
        Ok(())
    }

    /// Whether a key is recorded as pending by the object as it is now, whoever wrote that.
    pub(crate) async fn is_still_pending(&self, key: &Key) -> Result<bool, CallError> {
        let Some(object) = self.kube.read(self.key.target(self.kind)).await? else { return Ok(false) };
        let record = stored::read(stored::parsed(&object["status"]["key"]).as_ref(), self.sealer);
        Ok(record.pending.as_ref() == Some(key))
    }
}
