//! One reconcile of one provisioner: every step is a file of its name, and this is their order.
//! What should be, and what is said about it, is decided there; nothing is decided here.

use super::apply::apply;
use super::build::build;
use super::dereference::Dereferenced;
use super::key::steps::Wait;
use super::observe::External;
use super::observed::{Observed, Outside};
use super::reasons::Reason;
use super::reconciler::Reconciler;
use super::requeue::{action, is_waiting, sooner};
use super::resolve::resolve;
use super::status::findings;
use crate::controller::attached::apply::Applied;
use crate::controller::attached::outside::AccessStates;
use crate::controller::attached::reconcile::{ReconcileKind, Unfinished};
use crate::controller::attached::reconciler::{Unread, is_ready};
use crate::controller::children::gate::Gate;
use crate::controller::identity::ObjectKey;
use crate::controller::object::{Object, Subject};
use crate::controller::object_writer::Finalizing;
use crate::controller::runtime::deadline::Deadline;
use crate::controller::runtime::schedule::Action;
use crate::controller::status::conditions::Finding;
use crate::controller::status::observed::ObservedObject;
use crds::{CoderProvisioner, CoderProvisionerStatus};
use std::time::{Duration, Instant};

impl ReconcileKind<CoderProvisioner> for Reconciler {
    fn forget_object(&self, key: &ObjectKey) {
        self.forget(key);
        self.forget_daemons(key);
    }

    fn suspended(
        &self,
        object: &Object<CoderProvisioner>,
        complete: &CoderProvisioner,
    ) -> Option<(CoderProvisionerStatus, Reason)> {
        if complete.spec.suspend != Some(true) {
            return None;
        }
        // Nobody counts now, and an autoscaler would follow a number of before.
        self.jobs.forget(&object.key);
        let status = CoderProvisionerStatus { pending_jobs: None, ..object.status.clone() };
        Some((status, Reason::Suspended))
    }

    fn only(object: ObservedObject) -> Vec<Finding> {
        findings(&Observed::only(object, Outside::of(AccessStates::unasked(false))))
    }

    /// The path: dereference, resolve, build, apply, observe, status, write.
    async fn work_on(&self, subject: &Subject<CoderProvisioner>) -> Result<Action, Unfinished> {
        let mut deadline = Deadline::from(Instant::now());
        let mut read = self.dereference(subject, &mut deadline).await?;
        // Before the first key is made, somebody must be there to delete it.
        let object = &subject.object;
        let finalizing = self.writer().set_finalizer(object, true).await?;
        if finalizing == Finalizing::Written {
            return Ok(Action::RequeueAfter(Duration::ZERO));
        }
        let (mut gate, mut applied) = Box::pin(self.apply(subject, &read)).await?;
        // Children that were slow to come must not keep a key from being made: they would be as slow the next time.
        deadline.begin_next(Instant::now());
        let mut external = Box::pin(self.observe(subject, &read, &applied, &mut deadline)).await?;
        external.pending_jobs.get_or_insert_with(|| self.jobs.unanswered(&object.key, None));
        self.note_looked(&object.key, &object.uid);
        self.publish_key_events(object, &external).await;
        let silent = Box::pin(self.replace_silent_pod(subject, &applied, &external)).await;
        // What worked a moment ago is not unready because it could not be asked once, or is not to be asked now.
        let was_ready = is_ready(&object.value);
        let is_first = self.is_first_silence(&object.key, &object.uid, external.is_unanswered);
        if is_first && was_ready && !external.is_news {
            return Ok(Action::BackOff(Duration::ZERO));
        }
        let is_left_alone = external.is_left_alone && was_ready;
        let external = if is_left_alone { external.with_told(object) } else { external };
        // Pods are started with a key once it is proven: at once.
        if external.is_news {
            read = read.with_proven(external.proven());
            (gate, applied) = Box::pin(self.apply(subject, &read)).await?;
        }
        let late = external.keyed.as_ref().is_some_and(|keyed| keyed.is_cut);
        let late = late.then(|| deadline.told(Instant::now())).flatten();
        let mut observed =
            Observed::new(subject, &gate, &applied, external.outside.clone(), &finalizing, late);
        observed.object.problems.unimportant.extend(silent.told);
        observed.unaddressed = read.unaddressed().or_else(|| redirected(&read, &external));
        self.write(subject, &read, &applied, &external, &observed).await?;
        if is_left_alone {
            return Ok(Action::BackOff(external.pause()));
        }
        let pause = self.patience(&object.key, is_waiting(&observed));
        // Only this once was it not known whether pods can follow to another coderd.
        let waits = read.is_left_at_first() && observed.outside.wait == Some(Wait::Rollout);
        let again = if waits { Some(Duration::ZERO) } else { silent.again };
        Ok(sooner(action(&observed, applied.pruned, external.retry, pause), again))
    }
}

impl Reconciler {
    /// Resolves, builds and applies the children.
    async fn apply(
        &self,
        subject: &Subject<CoderProvisioner>,
        read: &Dereferenced,
    ) -> Result<(Gate, Applied), Unread> {
        let provisioner = resolve(&read.complete, read.facts());
        let (children, account) = (build(&provisioner), &provisioner.pods.account.name);
        let listed = (children.all().collect(), children.absent());
        let (work, gate) = self.gated(&subject.object, &provisioner.owner, read, account, listed).await?;
        let applied = apply(&work, &gate, &provisioner, &children).await;
        Ok((gate, applied))
    }
}

/// That daemons are redirected, where none of them came to coderd.
fn redirected(read: &Dereferenced, external: &External) -> Option<String> {
    let has_come = external.outside.daemons.is_some_and(|daemons| daemons > 0);
    read.redirected(external.access_host.as_deref().filter(|_| !has_come)?)
}
