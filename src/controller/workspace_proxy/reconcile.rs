//! One reconcile of one workspace proxy: every step is a file of its name, and this is their order.
//! What should be, and what is said about it, is decided there; nothing is decided here.

use super::apply::{Applied, Work};
use super::build::build;
use super::dereference::Dereferenced;
use super::observed::Observed;
use super::reasons::Reason;
use super::reconciler::Reconciler;
use super::requeue::{action, is_waiting};
use super::resolve::resolve;
use super::way::Way;
use super::write::only;
use crate::coderd::Retry;
use crate::controller::attached::pruning::Pruning;
use crate::controller::attached::reconciler::is_ready;
use crate::controller::children::OwnerState;
use crate::controller::children::gate::Gate;
use crate::controller::identity::ObjectKey;
use crate::controller::object::{Subject, broken_rules, complete};
use crate::controller::object_writer::Finalizing;
use crate::controller::runtime::deadline::Deadline;
use crate::controller::runtime::schedule::Action;
use crate::controller::runtime::{reconcile, telemetry};
use crate::kubernetes::CallError;
use crds::CoderWorkspaceProxy;
use std::time::{Duration, Instant};

impl Reconciler {
    /// One reconcile.
    pub(crate) async fn reconcile(&self, key: ObjectKey) -> Action {
        // On the heap, and so are its steps: all of them together are too much for the stack of a worker.
        let reconcile = Box::pin(self.try_reconcile(&key));
        reconcile::run(&self.objects, &self.telemetry, &key, reconcile).await
    }

    async fn try_reconcile(&self, key: &ObjectKey) -> Result<Action, CallError> {
        // Registrations are recorded in the status: each reconcile begins with the newest.
        let Some(object) = self.objects.read(key).await? else {
            self.forget(key);
            return Ok(Action::AwaitChange);
        };
        telemetry::of_generation(object.generation);
        self.requests.begin(key, object.request(), &self.child_cache);
        if object.is_deleting() {
            return Box::pin(self.finalize(&object)).await;
        }
        match complete::<CoderWorkspaceProxy>(&object.value, &self.config) {
            Err(error) => {
                self.write_unreadable(&object, format!("the object cannot be read: {error}"), only).await
            }
            Ok(complete) if complete.spec.suspend == Some(true) => {
                self.write_suspended(&object, object.status.clone(), Reason::Suspended).await
            }
            Ok(complete) => {
                let broken = broken_rules::<CoderWorkspaceProxy>(&object.value);
                Box::pin(self.work_on(&Subject { object, complete, broken })).await
            }
        }
    }

    /// The path: dereference, resolve, build, apply, observe, status, write.
    async fn work_on(&self, subject: &Subject<CoderWorkspaceProxy>) -> Result<Action, CallError> {
        let mut deadline = Deadline::from(Instant::now());
        let object = &subject.object;
        let read = match self.dereference(subject).await {
            Ok(read) => read,
            Err(unread) => return self.write_unread(&subject.object, unread, only).await,
        };
        // Before anything is registered, somebody must be there to remove it.
        let is_recorded = !object.value["status"]["registration"].is_null();
        let needs_finalizer = Way::of(&read.complete.spec).registers() || is_recorded;
        let finalizing = self.writer().set_finalizer(object, needs_finalizer).await?;
        if finalizing == Finalizing::Written {
            return Ok(Action::RequeueAfter(Duration::ZERO));
        }
        let (gate, applied) = match Box::pin(self.apply(subject, &read)).await {
            Ok(applied) => applied,
            Err(error) => return self.write_failed(object, error.to_string(), only).await,
        };
        // Children that were slow to come must not keep a proxy from being registered: they would be as slow the next time.
        deadline.begin_next(Instant::now());
        let external = Box::pin(self.observe(subject, &read, &applied, &mut deadline)).await?;
        self.note_looked(&object.key, &object.uid);
        self.publish_events(object, &external).await;
        // What worked a moment ago is not unready because it could not be asked once.
        let is_unanswered = matches!(external.retry, Some(Retry::Backoff | Retry::After(_)));
        let is_first = self.is_first_silence(&object.key, &object.uid, is_unanswered);
        if is_first && is_ready(&object.value) && !external.is_news {
            return Ok(Action::BackOff(Duration::ZERO));
        }
        let external = external.unless_left_alone(object);
        // Pods are started with a token once it is proven: at once.
        let (read, gate, applied) = if external.is_news {
            let read = read.with_proven(external.proven.clone());
            match Box::pin(self.apply(subject, &read)).await {
                Ok((gate, applied)) => (read, gate, applied),
                Err(error) => return self.write_failed(object, error.to_string(), only).await,
            }
        } else {
            (read, gate, applied)
        };
        let late = external.is_cut.then(|| deadline.told(Instant::now())).flatten();
        let mut observed = Observed::new(subject, &gate, &applied, &external, &finalizing, late);
        observed.unaddressed = read.unaddressed();
        self.write(subject, &read, &applied, &external, &observed).await?;
        let pause = self.patience(&object.key, is_waiting(&observed));
        Ok(action(&observed, applied.pruned, external.retry, pause))
    }

    /// Resolves, builds and applies the children.
    async fn apply(
        &self,
        subject: &Subject<CoderWorkspaceProxy>,
        read: &Dereferenced,
    ) -> Result<(Gate, Applied), CallError> {
        let (object, resolved) = (&subject.object, resolve(&read.complete, read.facts()));
        let (children, asked_for) = (build(&resolved), object.asked_for());
        let pruning = Pruning {
            kube: &self.kube,
            cache: &self.child_cache,
            pruned: &self.pruned,
            key: &object.key,
            asked_for: &asked_for,
            uid: &object.uid,
            workload: &resolved.owner.workload,
            account: &resolved.pods.account.name,
            makes_account: children.service_account.is_some(),
            children: children.all().collect(),
            absent: children.absent(),
        };
        let deployment = read.deployment.live.as_ref();
        let state = OwnerState { object: &object.value, uid: &object.uid, deployment };
        let work = Work { pruning, state, resolved: &resolved, children: &children };
        // Only an object of the watch is let through nowhere, and this one was read.
        let gate = work.gate(object.origin, &read.deployment).await?.unwrap_or_default();
        let applied = work.apply(&gate).await;
        Ok((gate, applied))
    }
}
