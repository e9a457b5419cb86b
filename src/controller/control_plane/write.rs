//! Writes the status of a control plane, and only if it differs from what is there.
//! What it says is decided in `status`.

use super::dereference::Unread;
use super::observed::Observed;
use super::reasons::Reason;
use super::reconciler::Reconciler;
use super::status::{self, handled};
use super::subject::Object;
use super::{KIND, access, license};
use crate::controller::runtime::schedule::Action;
use crate::controller::status::conditions::{Finding, conditions};
use crate::controller::status::reasons::Class;
use crate::controller::status::transitions;
use crate::kubernetes::CallError;
use crate::kubernetes::events::EventDraft;
use crds::CoderControlPlaneStatus;
use crds::well_known::condition;
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use serde_json::{from_value, json};
use std::time::Duration;

impl Reconciler {
    /// Nothing is changed while it is unknown what the pods consume.
    pub(super) async fn write_unread(&self, object: &Object, unread: Unread) -> Result<Action, CallError> {
        match unread {
            Unread::Unreadable(why) => self.write_unreadable(object, why).await,
            Unread::Failed(why) => {
                let observed = Observed { failed: vec![why], ..Observed::nothing() };
                self.write_summary(object, object.status.clone(), &observed).await?;
                Ok(Action::BackOff(Duration::ZERO))
            }
        }
    }

    pub(super) async fn write_unreadable(&self, object: &Object, why: String) -> Result<Action, CallError> {
        let mut status = object.status.clone();
        let mut observed = Observed { unreadable: Some(why), ..Observed::nothing() };
        if let Some(access) = access::not_renewed(&status) {
            observed.access = access;
            status.operator_access_ready = None;
        }
        self.write_summary(object, status, &observed).await?;
        Ok(Action::AwaitChange)
    }

    /// Writes only the three of kstatus, and what cannot be kept of an object that cannot be read: what runs goes on
    /// running as it was.
    async fn write_summary(
        &self,
        object: &Object,
        mut status: CoderControlPlaneStatus,
        observed: &Observed,
    ) -> Result<(), CallError> {
        let mut findings = status::findings(observed);
        let summarises =
            |type_: &str| [condition::READY, condition::RECONCILING, condition::STALLED].contains(&type_);
        let unread = |type_: &str| {
            type_ == condition::SPEC_ACCEPTED
                || type_ == condition::OPERATOR_ACCESS_READY && observed.access.reason == access::NOT_RENEWED
        };
        findings.retain(|finding| {
            summarises(finding.type_) || observed.unreadable.is_some() && unread(finding.type_)
        });
        let summary = conditions(&findings, &status.conditions, object.generation, &Time(Timestamp::now()));
        // Whoever is told what is wrong with an object knows that it is no longer suspended.
        status.conditions.retain(|old| {
            old.type_ != condition::SUSPENDED && summary.iter().all(|new| new.type_ != old.type_)
        });
        status.conditions.splice(..0, summary);
        handled(&mut status, object, false);
        self.write(object, status).await
    }

    /// Writes that it is suspended, and what was found out all the same.
    pub(super) async fn write_suspended(
        &self,
        object: &Object,
        mut status: CoderControlPlaneStatus,
        found: Vec<Finding>,
    ) -> Result<(), CallError> {
        status.observed_generation = Some(object.generation);
        status.last_handled_reconcile_at = object.reconcile_at();
        let message = "reconciliation is suspended by spec.suspend; nothing is changed until it is removed";
        let mut findings = vec![Finding::yes(condition::SUSPENDED, Reason::Suspended, message)];
        findings.extend(found);
        let new = conditions(&findings, &status.conditions, object.generation, &Time(Timestamp::now()));
        status.conditions.retain(|old| new.iter().all(|new| new.type_ != old.type_));
        status.conditions.extend(new);
        self.write(object, status).await
    }

    /// Says on an object that is going why it is still there.
    pub(super) async fn write_cleanup_failed(&self, object: &Object, why: &str) -> Result<(), CallError> {
        let mut status = object.status.clone();
        let (reason, message) = (Reason::CleanupFailed, format!("{why}; it is tried again"));
        let findings = [
            Finding::no(condition::READY, reason, &*message),
            Finding::yes(condition::RECONCILING, reason, &*message),
            Finding::no(condition::STALLED, Reason::Progressing, "it is being worked on"),
            Finding::no(condition::CLEANED_UP, reason, message),
        ];
        let new = conditions(&findings, &status.conditions, object.generation, &Time(Timestamp::now()));
        status.conditions.retain(|old| new.iter().all(|new| new.type_ != old.type_));
        status.conditions.splice(..0, new);
        handled(&mut status, object, false);
        self.write(object, status).await
    }

    /// Writes the status if it differs from what is there, then tells what changed: in this order a crash between loses
    /// an Event and never repeats one.
    pub(super) async fn write(
        &self,
        object: &Object,
        after: CoderControlPlaneStatus,
    ) -> Result<(), CallError> {
        let status = json!(after);
        if object.value["status"] == status {
            self.telemetry.conditions(&object.key.namespace, &object.key.name, &after.conditions);
            return Ok(());
        }
        let version = &object.value["metadata"]["resourceVersion"];
        let operations = json!([
            {"op": "test", "path": "/metadata/resourceVersion", "value": version},
            {"op": "add", "path": "/status", "value": status},
        ]);
        self.kube.write_status(object.target(), from_value(operations).unwrap_or_default()).await?;
        self.telemetry.conditions(&object.key.namespace, &object.key.name, &after.conditions);
        let mut drafts = transitions::event_drafts(&object.status.conditions, &after.conditions, is_progress);
        drafts.extend(license::event_drafts(&object.status, &after));
        self.publish_events(object, &drafts).await;
        Ok(())
    }

    /// Publishes Events about a control plane.
    pub(super) async fn publish_events(&self, object: &Object, drafts: &[EventDraft]) {
        let [api_version, kind, _] = KIND;
        let about = ObjectReference {
            api_version: Some(api_version.to_owned()),
            kind: Some(kind.to_owned()),
            namespace: Some(object.key.namespace.clone()),
            name: Some(object.key.name.clone()),
            uid: Some(object.uid.clone()),
            ..ObjectReference::default()
        };
        for one in drafts {
            self.events.publish(one, &about).await;
        }
    }
}

fn is_progress(reason: &str) -> bool {
    Reason::parse(reason).is_some_and(|reason| reason.class() == Class::Progress)
}
