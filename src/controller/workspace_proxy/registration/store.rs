//! Keeps the record of a proxy's registrations in its status: each change is written by itself, before what it announces is done,
//! and only if nobody else has changed the object since it was read.

use super::record::{Home, Record, Registration};
use super::stored;
use crate::controller::attached::seal::Sealer;
use crate::controller::attached::status_record::StatusRecord;
use crate::kubernetes::CallError;
use crds::well_known::annotation;
use ring::hmac;
use serde_json::{Value, json};
use std::mem::take;

/// The record, and the object it is kept on.
pub(crate) struct RecordStore<'a> {
    field: StatusRecord<'a>,
    sealer: Sealer<'a>,
    /// What is recorded.
    pub record: Record,
    /// Names in its status that the operator cannot prove to have written.
    unsealed: Vec<String>,
}

impl<'a> RecordStore<'a> {
    /// What the field says.
    pub(crate) fn new(field: StatusRecord<'a>, sealer: Sealer<'a>) -> Self {
        let (mut record, unsealed) = stored::read(field.value(), sealer);
        // What was taken over before is not known then: what the annotation names now may be another proxy of that name.
        if !stored::is_whole(field.value(), sealer) {
            let annotation = &field.object["metadata"]["annotations"][annotation::ADOPT_PROXY];
            record.adopted = annotation.as_str().map(str::to_owned);
        }
        Self { field, sealer, record, unsealed }
    }

    /// The object as it is now.
    pub(crate) fn object(&self) -> &Value {
        &self.field.object
    }

    /// What its seals are made with.
    pub(crate) fn sealing(&self) -> &'a hmac::Key {
        self.sealer.key
    }

    /// Records something else.
    pub(crate) async fn save(&mut self, record: Record) -> Result<(), CallError> {
        self.field.save(json!(stored::written(&record, self.sealer))).await?;
        self.record = record;
        Ok(())
    }

    /// Records how registrations are reached of which that was not recorded when they were made.
    pub(crate) async fn locate(&mut self, here: &Home) -> Result<(), CallError> {
        let located = self.record.located(here);
        if located != self.record {
            self.save(located).await?;
        }
        Ok(())
    }

    /// What is written beside a token, so that what was taken over before is known whatever becomes of the status: the seal, and
    /// the name.
    pub(crate) fn adoption(&self) -> Option<String> {
        self.record.adopted.as_ref().map(|name| stored::adoption(name, self.sealer))
    }

    /// Recalls what was taken over before, where the status does not say so any more, from what was written beside tokens.
    pub(crate) fn recall<'t>(&mut self, mut written: impl Iterator<Item = &'t str>) {
        if self.record.adopted.is_none() && self.record.adopting.is_none() {
            self.record.adopted = written.find_map(|text| stored::adopted(text, self.sealer));
        }
    }

    /// Names that stood in the status and that nobody can prove to be ours; each is told once. Of those that are recorded anew
    /// nothing is told.
    pub(crate) fn take_unproven(&mut self) -> Vec<String> {
        let all = take(&mut self.unsealed).into_iter();
        all.filter(|name| !self.record.registrations().any(|one| one.name == *name)).collect()
    }

    /// Whether something is recorded as pending by the object as it is now, whoever wrote that.
    pub(crate) async fn is_still_pending(&self, pending: &Registration) -> Result<bool, CallError> {
        let Some(written) = self.field.now().await? else { return Ok(false) };
        let (record, _) = stored::read(&written, self.sealer);
        Ok(record.pending.as_ref() == Some(pending))
    }
}
