//! One reconcile of one control plane: every step is a file of its name, and this is their order.
//! What should be, and what is said about it, is decided there; nothing is decided here.

use super::KIND;
use super::build::build;
use super::observed::Observed;
use super::reconciler::Reconciler;
use super::requeue::action;
use super::resolve::resolve;
use super::status::status;
use super::subject::{FINALIZER, Object, Subject};
use crate::controller::identity::ObjectKey;
use crate::controller::runtime::deadline::Deadline;
use crate::controller::runtime::schedule::Action;
use crate::controller::runtime::telemetry;
use crate::kubernetes::CallError;
use crds::CoderControlPlane;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, from_value};
use std::time::{Duration, Instant};
use webhooks::{Cause, Kind, Operation};

/// What became of our finalizer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Finalizing {
    /// It is as it must be.
    Unchanged,
    /// The object was changed: what was read of it is out of date.
    Written,
    /// The API server does not let us.
    Refused(String),
    /// It did not work this time.
    Failed(String),
}

impl Reconciler {
    /// One reconcile.
    pub(crate) async fn reconcile(&self, key: ObjectKey) -> Action {
        // On the heap, and so are its steps: all of them together are too much for the stack of a worker.
        let reconcile = Box::pin(self.reconcile_or_back_off(&key));
        self.telemetry.observed(&key.namespace, &key.name, reconcile).await
    }

    async fn reconcile_or_back_off(&self, key: &ObjectKey) -> Action {
        let action = match self.try_reconcile(key).await {
            Ok(action) => action,
            Err(error) => {
                // Somebody else was faster: what they wrote is looked at next time.
                if error.is_outdated() {
                    tracing::debug!("the object changed meanwhile");
                } else {
                    tracing::warn!(%error, "reconcile failed; it is tried again");
                }
                Action::BackOff(Duration::ZERO)
            }
        };
        tracing::debug!(?action, "reconcile ended");
        action
    }

    async fn try_reconcile(&self, key: &ObjectKey) -> Result<Action, CallError> {
        let deadline = Deadline::from(Instant::now());
        let Some(value) = self.kube.read(key.target(KIND)).await? else {
            self.forget(key);
            return Ok(Action::AwaitChange);
        };
        let object = Object::new(key.clone(), value);
        telemetry::of_generation(object.generation);
        self.begin_request(&object);
        if object.is_deleting() {
            return Box::pin(self.finalize(&object)).await;
        }
        // Whoever refuses owes nothing to the spec: not that it can be read, and not that it is in force.
        let honoured = self.honour_refusals(&object).await;
        let action = match self.complete(&object.value) {
            Err(error) => {
                self.write_unreadable(&object, format!("the object cannot be read: {error}")).await?
            }
            Ok(complete) if complete.spec.suspend == Some(true) => {
                let subject = Subject { object, complete, broken: Vec::new() };
                Box::pin(self.keep_suspended(&subject, deadline)).await?
            }
            Ok(complete) => {
                let broken = broken_rules(&object.value);
                Box::pin(self.work_on(&Subject { object, complete, broken }, deadline)).await?
            }
        };
        Ok(if honoured { action } else { Action::BackOff(Duration::ZERO) })
    }

    /// The path: dereference, resolve, build, apply, observe, status, write.
    async fn work_on(&self, subject: &Subject, mut deadline: Deadline) -> Result<Action, CallError> {
        let read = match Box::pin(self.dereference(subject, &mut deadline)).await {
            Ok(read) => read,
            Err(unread) => return self.write_unread(&subject.object, unread).await,
        };
        let resolved = resolve(&read.complete, read.facts(&self.config.cluster_domain));
        let children = build(&resolved);
        let gate = match self.gate(subject, &children, &read).await {
            Ok(gate) => gate,
            Err(error) => return self.write_unread(&subject.object, error.into()).await,
        };
        // Before the first right in another namespace is granted, somebody must be there to take it back.
        let reaches_beyond = children.reach_beyond(&subject.object.key.namespace);
        let mut finalizing =
            self.finalizer(&subject.object, reaches_beyond || subject.object.has_finalizer()).await?;
        if finalizing == Finalizing::Written {
            return Ok(Action::RequeueAfter(Duration::ZERO));
        }
        let applied = Box::pin(self.apply(subject, &children, &read, &gate)).await;
        // Children that were slow to come must not keep a token from being renewed, or a license from being uploaded: they
        // would be as slow the next time.
        deadline.begin_next(Instant::now());
        let external = Box::pin(self.observe(subject, &read, &applied, &mut deadline)).await;
        // Recorded where they were done, so that they are never done, and told, twice.
        self.publish_events(&subject.object, &external.token_events()).await;
        // Somebody must be there to take back what is granted or made elsewhere, until nothing of it is left.
        let needs_finalizer = reaches_beyond
            || external.needs_finalizer()
            || (subject.object.has_finalizer() && !applied.pruned);
        if !matches!(finalizing, Finalizing::Refused(_)) {
            finalizing = self.finalizer(&subject.object, needs_finalizer).await?;
        }
        if finalizing == Finalizing::Written {
            return Ok(Action::RequeueAfter(Duration::ZERO));
        }
        let observed = Observed::new(subject, &read, &gate.withheld, &applied, &external, &finalizing);
        let now = Time(Timestamp::now());
        let status = status(subject, &read, &applied, &external, &observed, &self.config, &now);
        self.write(&subject.object, status).await?;
        Ok(action(&observed, applied.pruned, external.unanswered(), external.retry()))
    }

    /// The object with every default in it.
    pub(super) fn complete(&self, object: &Value) -> Result<CoderControlPlane, serde_json::Error> {
        from_value(webhooks::resolved(Kind::ControlPlane, object, &self.config))
    }

    /// Brings our finalizer to what it must be. A refusal is told: whatever can be done without it is done.
    async fn finalizer(&self, object: &Object, needs_finalizer: bool) -> Result<Finalizing, CallError> {
        if needs_finalizer == object.has_finalizer() {
            return Ok(Finalizing::Unchanged);
        }
        let patch =
            if needs_finalizer { FINALIZER.add(&object.value) } else { FINALIZER.remove(&object.value) };
        match self.kube.patch(object.target(), patch).await {
            Ok(after) if FINALIZER.is_on(&after) == needs_finalizer => Ok(Finalizing::Written),
            Ok(_) => Ok(Finalizing::Refused(FINALIZER.refusal(&"a policy of the cluster undoes the change"))),
            Err(error) if error.is_outdated() => Err(error),
            Err(error) if error.is_refused() => Ok(Finalizing::Refused(FINALIZER.refusal(&error))),
            Err(error) => Ok(Finalizing::Failed(error.to_string())),
        }
    }
}

/// The rules that an object breaks as it is stored. It was let through, perhaps before there were rules, and is worked
/// on all the same.
fn broken_rules(object: &Value) -> Vec<Cause> {
    webhooks::validate(Kind::ControlPlane, object, Operation::Reconcile).causes
}
