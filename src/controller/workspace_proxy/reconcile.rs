//! One reconcile of one workspace proxy: every step is a file of its name, and this is their order.
//! What should be, and what is said about it, is decided there; nothing is decided here.

use super::apply::{ABSENCE, apply};
use super::build::build;
use super::dereference::Dereferenced;
use super::observed::{Observed, Outside};
use super::reasons::Reason;
use super::reconciler::Reconciler;
use super::registration::stored::has_registrations;
use super::requeue::{action, is_waiting};
use super::resolve::resolve;
use super::status::findings;
use super::way::Way;
use crate::coderd::Retry;
use crate::controller::attached::apply::Applied;
use crate::controller::attached::outside::AccessStates;
use crate::controller::attached::reconcile::{ReconcileKind, Unfinished};
use crate::controller::attached::reconciler::{Unread, is_ready};
use crate::controller::children::gate::Gate;
use crate::controller::object::{Object, Subject};
use crate::controller::object_writer::Finalizing;
use crate::controller::runtime::deadline::Deadline;
use crate::controller::runtime::schedule::Action;
use crate::controller::status::conditions::Finding;
use crate::controller::status::observed::ObservedObject;
use crds::{CoderWorkspaceProxy, CoderWorkspaceProxyStatus};
use std::time::{Duration, Instant};

impl ReconcileKind<CoderWorkspaceProxy> for Reconciler {
    fn suspended(
        &self,
        object: &Object<CoderWorkspaceProxy>,
        complete: &CoderWorkspaceProxy,
    ) -> Option<(CoderWorkspaceProxyStatus, Reason)> {
        (complete.spec.suspend == Some(true)).then(|| (object.status.clone(), Reason::Suspended))
    }

    fn only(object: ObservedObject) -> Vec<Finding> {
        findings(&Observed::only(object, Outside::of(AccessStates::unasked(false))))
    }

    /// The path: dereference, resolve, build, apply, observe, status, write.
    async fn work_on(&self, subject: &Subject<CoderWorkspaceProxy>) -> Result<Action, Unfinished> {
        let mut deadline = Deadline::from(Instant::now());
        let object = &subject.object;
        let mut read = self.dereference(subject, &mut deadline).await?;
        // Before anything is registered, somebody must be there to remove it.
        let is_recorded = has_registrations(&object.value["status"]["registration"]);
        let needs_finalizer = Way::of(&read.complete.spec).registers() || is_recorded;
        let finalizing = self.writer().set_finalizer(object, needs_finalizer).await?;
        if finalizing == Finalizing::Written {
            return Ok(Action::RequeueAfter(Duration::ZERO));
        }
        let (mut gate, mut applied) = Box::pin(self.apply(subject, &read)).await?;
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
        if external.is_news {
            read = read.with_proven(external.proven.clone());
            (gate, applied) = Box::pin(self.apply(subject, &read)).await?;
        }
        let late = external.is_cut.then(|| deadline.told(Instant::now())).flatten();
        let mut observed =
            Observed::new(subject, &gate, &applied, external.outside.clone(), &finalizing, late);
        observed.unaddressed = read.unaddressed();
        self.write(subject, &read, &applied, &external, &observed).await?;
        let pause = self.patience(&object.key, is_waiting(&observed));
        Ok(action(&observed, applied.pruned, external.retry, pause))
    }
}

impl Reconciler {
    /// Resolves, builds and applies the children.
    async fn apply(
        &self,
        subject: &Subject<CoderWorkspaceProxy>,
        read: &Dereferenced,
    ) -> Result<(Gate, Applied), Unread> {
        let proxy = resolve(&read.complete, read.facts());
        let (children, account) = (build(&proxy), &proxy.pods.account.name);
        let listed = (children.all().collect(), children.absent());
        let (work, gate) = self.gated(&subject.object, &proxy.owner, read, account, listed).await?;
        let applied = apply(&work.with_hint(ABSENCE), &gate, &children).await;
        Ok((gate, applied))
    }
}
