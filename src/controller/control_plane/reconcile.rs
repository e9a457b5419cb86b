//! One reconcile of one control plane: every step is a file of its name, and this is their order.
//! What should be, and what is said about it, is decided there; nothing is decided here.

use super::access;
use super::build::build;
use super::helm_release;
use super::observed::Observed;
use super::reconciler::Reconciler;
use super::requeue::action;
use super::resolve::resolve;
use super::status::status;
use super::subject::{Object, Subject};
use crate::controller::identity::ObjectKey;
use crate::controller::object::{self, broken_rules};
use crate::controller::object_writer::Finalizing;
use crate::controller::runtime::deadline::Deadline;
use crate::controller::runtime::schedule::Action;
use crate::controller::runtime::{reconcile, telemetry};
use crate::kubernetes::CallError;
use crds::CoderControlPlane;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use serde_json::Value;
use std::time::{Duration, Instant};
use webhooks::Verdict;

impl Reconciler {
    /// One reconcile.
    pub(crate) async fn reconcile(&self, key: ObjectKey) -> Action {
        // On the heap, and so are its steps: all of them together are too much for the stack of a worker.
        let attempt = Box::pin(self.try_reconcile(&key));
        reconcile::run(&self.objects, &self.telemetry, &key, attempt).await
    }

    async fn try_reconcile(&self, key: &ObjectKey) -> Result<Action, CallError> {
        if let Some(object) = self.objects.watched(key)
            && let Some(action) = unless_outdated(Box::pin(self.confirm(object)).await)?
        {
            return Ok(action);
        }
        let deadline = Deadline::from(Instant::now());
        let Some(object) = self.objects.read(key).await? else {
            self.forget(key);
            return Ok(Action::AwaitChange);
        };
        telemetry::of_generation(object.generation);
        self.requests.begin(key, object.request(), &self.child_cache);
        if object.is_deleting() {
            return Box::pin(self.finalize(&object)).await;
        }
        // Whoever refuses owes nothing to the spec: not that it can be read, and not that it is in force.
        let honoured = self.honour_refusals(&object).await;
        let action = match self.complete(&object.value) {
            Err(error) => {
                self.write_unreadable(
                    &object,
                    format!("the object cannot be read; correct its manifest: {error}"),
                )
                .await?
            }
            Ok(complete) if complete.spec.suspend == Some(true) => {
                let subject = Subject { object, complete, broken: Verdict::default() };
                Box::pin(self.keep_suspended(&subject, deadline)).await?
            }
            Ok(complete) => {
                let broken = broken_rules::<CoderControlPlane>(&object.value);
                let worked_on =
                    Box::pin(self.work_on(&Subject { object, complete, broken }, deadline)).await?;
                // One that was read is enough for all of it.
                worked_on.unwrap_or(Action::BackOff(Duration::ZERO))
            }
        };
        Ok(if honoured { action } else { Action::BackOff(Duration::ZERO) })
    }

    /// Takes the path with an object that a watch has shown. None where there is anything to do besides asking coderd and
    /// writing the status: then the object is read.
    async fn confirm(&self, object: Object) -> Result<Option<Action>, CallError> {
        telemetry::of_generation(object.generation);
        let Ok(complete) = self.complete(&object.value) else { return Ok(None) };
        let sends_token = access::sends_token(&complete.spec, self.needs(&object, &complete.spec));
        let refused = !self.grant_index.refused(&object.key).is_empty();
        let adopts = helm_release::asked_for(&object).is_some();
        if complete.spec.suspend == Some(true) || object.has_finalizer() || sends_token || refused || adopts {
            return Ok(None);
        }
        let broken = broken_rules::<CoderControlPlane>(&object.value);
        self.work_on(&Subject { object, complete, broken }, Deadline::from(Instant::now())).await
    }

    /// The path: dereference, resolve, build, apply, observe, status, write. None if the object has to be read for it.
    async fn work_on(&self, subject: &Subject, mut deadline: Deadline) -> Result<Option<Action>, CallError> {
        let read = match Box::pin(self.dereference(subject, &mut deadline)).await {
            Ok(read) => read,
            Err(unread) => return self.write_unread(&subject.object, unread).await.map(Some),
        };
        let resolved = resolve(&read.complete, read.facts(&self.config.cluster_domain));
        let children = build(&resolved);
        let gate = match self.gate(subject, &children, &read).await {
            Ok(Some(gate)) => gate,
            Ok(None) => return Ok(None),
            Err(error) => return self.write_unread(&subject.object, error.into()).await.map(Some),
        };
        // Before the first right in another namespace is granted, somebody must be there to take it back.
        let reaches_beyond = children.reach_beyond(&subject.object.key.namespace);
        let writer = self.writer();
        let mut finalizing =
            writer.set_finalizer(&subject.object, reaches_beyond || subject.object.has_finalizer()).await?;
        if finalizing == Finalizing::Written {
            return Ok(Some(Action::RequeueAfter(Duration::ZERO)));
        }
        let applied = Box::pin(self.apply(subject, &children, &read, &gate)).await;
        // Children that were slow to come must not keep a token from being renewed, or a license from being uploaded: they
        // would be as slow the next time.
        deadline.begin_next(Instant::now());
        let external = Box::pin(self.observe(subject, &read, &applied, &mut deadline)).await;
        // Recorded where they were done, so that they are never done, and told, twice.
        writer.publish(&subject.object, &external.token_events()).await;
        // Somebody must be there to take back what is granted or made elsewhere, until nothing of it is left.
        let needs_finalizer = reaches_beyond
            || external.needs_finalizer()
            || (subject.object.has_finalizer() && !applied.pruned);
        if !matches!(finalizing, Finalizing::Refused(_)) {
            finalizing = writer.set_finalizer(&subject.object, needs_finalizer).await?;
        }
        if finalizing == Finalizing::Written {
            return Ok(Some(Action::RequeueAfter(Duration::ZERO)));
        }
        let observed = Observed::new(subject, &read, &gate.withheld, &applied, &external, &finalizing);
        let now = Time(Timestamp::now());
        let status = status(subject, &read, &applied, &external, &observed, &self.config, &now);
        self.write(&subject.object, status).await?;
        Ok(Some(action(&observed, applied.pruned, external.unanswered(), external.retry())))
    }

    /// The object with every default in it.
    pub(super) fn complete(&self, object: &Value) -> Result<CoderControlPlane, serde_json::Error> {
        object::complete(object, &self.config)
    }
}

/// What a reconcile with an object of the watch came to. None if the API server has a newer one: that is read at once, since
/// nobody has failed.
fn unless_outdated(confirmed: Result<Option<Action>, CallError>) -> Result<Option<Action>, CallError> {
    match confirmed {
        Err(error) if error.is_outdated() => Ok(None),
        confirmed => confirmed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kube::core::Status;

    #[test]
    fn a_status_that_was_made_for_an_older_object_of_the_watch_is_no_failure() {
        let refused = |code: u16, reason: &str| {
            let status = Status::failure("refused", reason).with_code(code);
            let source = Box::new(kube::Error::Api(Box::new(status)));
            Err(CallError::Failed { operation: "write".to_owned(), source })
        };
        assert!(matches!(unless_outdated(refused(409, "Conflict")), Ok(None)), "it is read");
        assert!(
            matches!(unless_outdated(refused(422, "Invalid")), Ok(None)),
            "a failed test of a JSON patch"
        );
        assert!(unless_outdated(refused(500, "InternalError")).is_err());
        assert!(matches!(unless_outdated(Ok(Some(Action::AwaitChange))), Ok(Some(Action::AwaitChange))));
    }
}
