//! Writes the status of a control plane, and only if it differs from what is there.
//! What it says is decided in `status`.

use super::reconcile::{Key, Reconciler, Subject, nothing_observed};
use super::rollout;
use super::status::{self, Coderd, Observed};
use super::{access, desired, kept, license};
use crate::controller::conditions::{Finding, conditions};
use crate::controller::schedule::Outcome;
use crate::controller::transitions;
use crate::kubernetes::CallError;
use crate::kubernetes::events::News;
use crds::CoderControlPlaneStatus;
use crds::well_known::{annotation, condition};
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, from_value, json};
use webhooks::Kind;

impl Reconciler {
    pub(super) fn describe(
        &self,
        subject: &mut Subject,
        observed: &Observed,
        deployment: Option<&Value>,
        url: String,
        access_url_from_env_from: bool,
    ) {
        let (generation, status) = (subject.generation, &mut subject.before);
        let findings = status::findings(observed);
        status.conditions = conditions(&findings, &status.conditions, generation, &Time(Timestamp::now()));
        status.observed_generation = Some(generation);
        status.last_handled_reconcile_at = reconcile_at(&subject.object);
        let ready = findings
            .iter()
            .any(|finding| finding.about == condition::READY && finding.truth.as_str() == "True");
        status.phase = Some(if ready { "Ready" } else { "Pending" }.to_owned());
        if deployment.is_some() {
            status.replicas = Some(rollout::replicas(deployment));
            status.ready_replicas = Some(rollout::ready_replicas(deployment));
        }
        status.selector = Some(desired::selector(&subject.resolved));
        status.url = Some(url);
        if let Coderd::Answered { version: Some(version), .. } = &observed.coderd {
            status.version = Some(version.clone());
        }
        let resolved = webhooks::status_resolved(Kind::ControlPlane, &subject.given, &self.config);
        status.resolved = from_value(resolved).ok();
        if let Some(resolved) = &mut status.resolved {
            resolved.image_defaulted = kept::names_no_image(&subject.object).then_some(true);
            if access_url_from_env_from {
                resolved.access_url = None;
            }
        }
    }

    pub(super) async fn write_unreadable(
        &self,
        key: &Key,
        object: &Value,
        mut status: CoderControlPlaneStatus,
        generation: i64,
        why: String,
    ) -> Result<Outcome, CallError> {
        let mut observed = Observed { unreadable: Some(why), ..nothing_observed() };
        if let Some(access) = access::not_renewed(&status) {
            observed.access = access;
            status.operator_access_ready = None;
        }
        self.write_summary(key, object, status, generation, &observed).await?;
        Ok(Outcome::Settled)
    }

    /// Writes only the three of kstatus, and what cannot be kept of an object that cannot be read: what runs goes on
    /// running as it was.
    pub(super) async fn write_summary(
        &self,
        key: &Key,
        object: &Value,
        mut status: CoderControlPlaneStatus,
        generation: i64,
        observed: &Observed,
    ) -> Result<(), CallError> {
        let mut findings = status::findings(observed);
        let summarises =
            |about: &str| [condition::READY, condition::RECONCILING, condition::STALLED].contains(&about);
        let unread = |about: &str| {
            about == condition::SPEC_ACCEPTED
                || about == condition::OPERATOR_ACCESS_READY && observed.access.reason == access::NOT_RENEWED
        };
        findings.retain(|finding| {
            summarises(finding.about) || observed.unreadable.is_some() && unread(finding.about)
        });
        let summary = conditions(&findings, &status.conditions, generation, &Time(Timestamp::now()));
        // Whoever is told what is wrong with an object knows that it is no longer suspended.
        status.conditions.retain(|old| {
            old.type_ != condition::SUSPENDED && summary.iter().all(|new| new.type_ != old.type_)
        });
        status.conditions.splice(..0, summary);
        status.observed_generation = Some(generation);
        status.last_handled_reconcile_at = reconcile_at(object);
        status.phase = Some("Pending".to_owned());
        self.write(key, object, status).await
    }

    /// Writes that it is suspended, and what was found out all the same.
    pub(super) async fn write_suspended(
        &self,
        subject: Subject,
        found: Vec<Finding>,
    ) -> Result<(), CallError> {
        let Subject { key, object, generation, before: mut status, .. } = subject;
        status.observed_generation = Some(generation);
        status.last_handled_reconcile_at = reconcile_at(&object);
        let message = "reconciliation is suspended by spec.suspend; nothing is changed until it is removed";
        let mut findings = vec![Finding::yes(condition::SUSPENDED, "Suspended", message)];
        findings.extend(found);
        let new = conditions(&findings, &status.conditions, generation, &Time(Timestamp::now()));
        status.conditions.retain(|old| new.iter().all(|new| new.type_ != old.type_));
        status.conditions.extend(new);
        self.write(&key, &object, status).await
    }

    /// Says on an object that is going why it is still there.
    pub(super) async fn write_cleanup_failed(
        &self,
        key: &Key,
        object: &Value,
        why: &str,
    ) -> Result<(), CallError> {
        let mut status: CoderControlPlaneStatus = from_value(object["status"].clone()).unwrap_or_default();
        let generation = object["metadata"]["generation"].as_i64().unwrap_or_default();
        let (reason, message) = ("CleanupFailed", format!("{why}; it is tried again"));
        let findings = [
            Finding::no(condition::READY, reason, &*message),
            Finding::yes(condition::RECONCILING, reason, &*message),
            Finding::no(condition::STALLED, "Progressing", "it is being worked on"),
            Finding::no(condition::CLEANED_UP, reason, message),
        ];
        let new = conditions(&findings, &status.conditions, generation, &Time(Timestamp::now()));
        status.conditions.retain(|old| new.iter().all(|new| new.type_ != old.type_));
        status.conditions.splice(..0, new);
        status.observed_generation = Some(generation);
        status.last_handled_reconcile_at = reconcile_at(object);
        status.phase = Some("Pending".to_owned());
        self.write(key, object, status).await
    }

    /// Writes the status if it differs from what is there, then tells what changed: in this order a crash between loses
    /// an Event and never repeats one.
    pub(super) async fn write(
        &self,
        key: &Key,
        object: &Value,
        after: CoderControlPlaneStatus,
    ) -> Result<(), CallError> {
        let status = json!(after);
        if object["status"] == status {
            self.telemetry.conditions(&key.namespace, &key.name, &after.conditions);
            return Ok(());
        }
        let operations = json!([
            {"op": "test", "path": "/metadata/resourceVersion", "value": object["metadata"]["resourceVersion"]},
            {"op": "add", "path": "/status", "value": status},
        ]);
        self.kube.write_status(key.target(), from_value(operations).unwrap_or_default()).await?;
        self.telemetry.conditions(&key.namespace, &key.name, &after.conditions);
        let before: CoderControlPlaneStatus = from_value(object["status"].clone()).unwrap_or_default();
        let mut news = transitions::news(&before.conditions, &after.conditions);
        news.extend(license::news(&before, &after));
        self.tell(key, object["metadata"]["uid"].as_str().unwrap_or_default(), &news).await;
        Ok(())
    }

    /// Publishes Events about a control plane.
    pub(super) async fn tell(&self, key: &Key, uid: &str, news: &[News]) {
        let target = key.target();
        let about = ObjectReference {
            api_version: Some(target.api_version.to_owned()),
            kind: Some(target.kind.to_owned()),
            namespace: Some(key.namespace.clone()),
            name: Some(key.name.clone()),
            uid: Some(uid.to_owned()),
            ..ObjectReference::default()
        };
        for one in news {
            self.events.publish(one, &about).await;
        }
    }
}

/// What the object was last asked to be looked at for.
pub(super) fn reconcile_at(object: &Value) -> Option<String> {
    object["metadata"]["annotations"][annotation::RECONCILE_AT].as_str().map(str::to_owned)
}
