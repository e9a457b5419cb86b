//! Keeps the record of a provisioner's keys in its status: each change is written by itself, before what it announces is done,
//! and only if nobody else has changed the object since it was read.

use super::record::{Key, Record};
use super::stored;
use crate::controller::attached::seal::Sealer;
use crate::controller::attached::status_record::StatusRecord;
use crate::controller::identity::ObjectKey;
use crate::kubernetes::{CallError, KindName, Kube};
use crds::well_known::annotation;
use serde_json::{Value, json};
use std::mem::take;

/// The record, and the object it is kept on.
pub(crate) struct RecordStore<'a> {
    stored: StatusRecord<'a>,
    sealer: Sealer<'a>,
    /// What is recorded.
    pub record: Record,
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
        let kept = StatusRecord::new(kube, kind, key, "key", object);
        let status = stored::parsed(kept.value());
        let (mut record, unsealed) =
            (stored::read(status.as_ref(), sealer), stored::unsealed(status.as_ref(), sealer));
        // What was taken over before is not known then: what the annotation names now may be another key of that name.
        if status.as_ref().is_some_and(|status| !stored::is_whole(status, sealer)) {
            let annotation = &kept.object["metadata"]["annotations"][annotation::ADOPT_KEY];
            record.adopted = annotation.as_str().map(str::to_owned);
        }
        Self { stored: kept, sealer, record, unsealed, dropped: Vec::new() }
    }

    /// The object as it is now.
    pub(crate) fn object(&self) -> &Value {
        &self.stored.object
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
        self.stored.save(json!(stored::written(&record, self.sealer))).await?;
        self.record = record;
        // What the Secret proves is recorded anew.
        let lost = take(&mut self.unsealed).into_iter();
        self.dropped.extend(lost.filter(|name| !self.record.keys().any(|key| key.name == *name)));
        Ok(())
    }

    /// Whether a key is recorded as pending by the object as it is now, whoever wrote that.
    pub(crate) async fn is_still_pending(&self, key: &Key) -> Result<bool, CallError> {
        let Some(written) = self.stored.now().await? else { return Ok(false) };
        let record = stored::read(stored::parsed(&written).as_ref(), self.sealer);
        Ok(record.pending.as_ref() == Some(key))
    }
}
