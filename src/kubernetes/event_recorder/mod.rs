//! Sends Events to the API server: a new one is created, one that happens again within minutes is counted on the first.
//! Which of the two is decided in `series`; it never looks at what an Event says, and never tries twice what failed.

mod series;

use super::Kube;
use super::objects::{CallError, WRITE_LIMIT, within};
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::api::events::v1::{Event, EventSeries};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use k8s_openapi::jiff::Timestamp;
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Client};
use ring::digest::{Context, SHA256};
use serde_json::json;
use series::{Identity, Recent, Step};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Where Events about objects without a namespace are kept.
const OF_THE_CLUSTER: &str = "default";

/// What an Event says. Two that agree in all of it, about the same object, are one that happened twice.
#[derive(Debug, Clone, Copy)]
pub(super) struct Said<'a> {
    /// `Normal` or `Warning`.
    pub(super) type_: &'static str,
    /// Why, as one word.
    pub(super) reason: &'a str,
    /// What was done, or what it is about.
    pub(super) action: &'a str,
    /// For a person.
    pub(super) note: &'a str,
}

impl Said<'_> {
    /// What tells an Event from others: fixed in size, so that what is remembered does not grow with what was said.
    fn identity(&self, about: &ObjectReference) -> Identity {
        let mut context = Context::new(&SHA256);
        let optional = [&about.api_version, &about.kind, &about.namespace, &about.name, &about.uid];
        let about = optional.into_iter().map(|text| text.as_deref().unwrap_or_default());
        for text in about.chain([self.type_, self.reason, self.action, self.note]) {
            context.update(&text.len().to_le_bytes());
            context.update(text.as_bytes());
        }
        let mut identity = Identity::default();
        identity.copy_from_slice(context.finish().as_ref());
        identity
    }
}

/// The one recorder of a process.
pub(super) struct Recorder {
    client: Client,
    controller: String,
    instance: String,
    recent: Mutex<Recent>,
}

impl Recorder {
    /// A recorder that reports as `controller`; `instance` tells replicas apart.
    pub(super) fn new(kube: &Kube, controller: &str, instance: &str) -> Self {
        let (controller, instance) = (controller.to_owned(), instance.to_owned());
        Self { client: kube.calls.clone(), controller, instance, recent: Mutex::default() }
    }

    /// Sends an Event, or counts it on the one that said the same.
    pub(super) async fn publish(&self, said: Said<'_>, about: &ObjectReference) -> Result<(), CallError> {
        let (identity, now) = (said.identity(about), Timestamp::now());
        let subject = about.name.as_deref().unwrap_or_default();
        let step = self.recent().next(identity, subject, now);
        let counts = matches!(step, Step::Count { .. });
        let sent = self.send(step, &said, about, now).await;
        let sent = match sent {
            // Somebody has deleted it, or it is still on its way to the API server: it is told anew.
            Err(error) if counts && error.is_not_found() => {
                self.recent().forget(&identity);
                let step = self.recent().next(identity, subject, Timestamp::now());
                self.send(step, &said, about, now).await
            }
            sent => sent,
        };
        if sent.is_err() {
            // What is not there cannot be counted on.
            self.recent().forget(&identity);
        }
        sent
    }

    async fn send(
        &self,
        step: Step,
        said: &Said<'_>,
        about: &ObjectReference,
        now: Timestamp,
    ) -> Result<(), CallError> {
        let namespace = about.namespace.as_deref().unwrap_or(OF_THE_CLUSTER);
        let events: Api<Event> = Api::namespaced(self.client.clone(), namespace);
        let operation = || format!("record Event {}", said.reason);
        match step {
            Step::Create { name } => {
                let event = self.event(name, namespace, said, about, now);
                let params = PostParams::default();
                within(WRITE_LIMIT, operation, events.create(&params, &event)).await.map(drop)
            }
            Step::Count { name, count } => {
                let series = EventSeries { count, last_observed_time: MicroTime(now) };
                let (params, patch) = (PatchParams::default(), Patch::Merge(json!({ "series": series })));
                within(WRITE_LIMIT, operation, events.patch(&name, &params, &patch)).await.map(drop)
            }
        }
    }

    fn event(
        &self,
        name: String,
        namespace: &str,
        said: &Said<'_>,
        about: &ObjectReference,
        now: Timestamp,
    ) -> Event {
        Event {
            metadata: ObjectMeta {
                namespace: Some(namespace.to_owned()),
                name: Some(name),
                ..ObjectMeta::default()
            },
            event_time: Some(MicroTime(now)),
            type_: Some(said.type_.to_owned()),
            reason: Some(said.reason.to_owned()),
            action: Some(said.action.to_owned()),
            note: Some(said.note.to_owned()),
            regarding: Some(about.clone()),
            reporting_controller: Some(self.controller.clone()),
            reporting_instance: Some(self.instance.clone()),
            ..Event::default()
        }
    }

    fn recent(&self) -> MutexGuard<'_, Recent> {
        self.recent.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAID: Said<'_> = Said { type_: "Normal", reason: "Available", action: "Ready", note: "it is up" };

    fn about(uid: &str) -> ObjectReference {
        ObjectReference { uid: Some(uid.to_owned()), ..ObjectReference::default() }
    }

    #[test]
    fn what_differs_in_anything_is_another_event() {
        let one = SAID.identity(&about("a"));
        assert_eq!(one, SAID.identity(&about("a")));
        assert_ne!(one, SAID.identity(&about("b")));
        for other in [
            Said { type_: "Warning", ..SAID },
            Said { reason: "Unavailable", ..SAID },
            Said { action: "Stalled", ..SAID },
            Said { note: "it is down", ..SAID },
            // The same letters in all, cut elsewhere.
            Said { reason: "AvailableR", action: "eady", ..SAID },
        ] {
            assert_ne!(one, other.identity(&about("a")), "{other:?}");
        }
    }
}
