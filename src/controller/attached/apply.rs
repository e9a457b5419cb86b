//! Applies what every kind has that belongs to a control plane: an account, one Deployment and what goes with it; and says what
//! stands afterwards. What else a kind consists of, and in which order it comes, is said by the kind.

use super::dereference::ObjectRead;
use super::pruning::Pruning;
use super::reconciler::AttachedReconciler;
use crate::controller::children::account_use::AccountUse;
use crate::controller::children::apply::{Applier, Problems};
use crate::controller::children::deployment::{self, FoundDeployment, LatePods};
use crate::controller::children::exposure::Exposure;
use crate::controller::children::gate::{self, Gate};
use crate::controller::children::{Child, ChildKind, ChildOwner, OwnerState, accounts, drift};
use crate::controller::object::{Object, Origin, ReconciledKind, Subject};
use crate::controller::object_writer::Finalizing;
use crate::controller::references::Contents;
use crate::controller::status::observed::ObservedObject;
use crate::controller::workload::rollout::{self, Rollout};
use crate::kubernetes::CallError;
use serde_json::Value;

/// What children are applied with: who they belong to, and what is known of them.
pub(crate) struct Work<'a> {
    pub(crate) pruning: Pruning<'a>,
    pub(crate) state: OwnerState<'a>,
    /// What selects the pods.
    pub(crate) selector: String,
    /// What may keep pods from being ready, besides what they say themselves.
    pub(crate) hint: Option<&'static str>,
    /// What the spec lets pods read.
    contents: Option<&'a Contents>,
}

/// The children that every kind has, as the kind builds them.
#[derive(Clone, Copy)]
pub(crate) struct PodChildren<'a> {
    pub(crate) service_account: Option<&'a Child>,
    pub(crate) deployment: Option<&'a Child>,
    pub(crate) disruption_budget: Option<&'a Child>,
    /// ServiceMonitor or PodMonitor.
    pub(crate) monitor: Option<&'a Child>,
}

/// What stands of the children afterwards.
pub(crate) struct Applied {
    /// The Deployment, if there is one and it is ours.
    pub(crate) deployment: Option<Value>,
    pub(crate) rollout: Rollout,
    /// The way from outside, for a kind that has one.
    pub(crate) exposure: Exposure,
    /// Why nothing is run as the account that is asked for.
    pub(crate) account: Option<String>,
    pub(crate) problems: Problems,
    /// Secrets and ConfigMaps that pods would read and that are not there.
    missing: Vec<String>,
    /// Whether the Deployment is what the spec asks for, not one that was left as it was or could not be changed.
    pub(crate) is_asked_for: bool,
    /// Whether nothing was withheld or refused that pods need.
    is_free: bool,
    /// Whether nothing is left of what an earlier generation asked for.
    pub(crate) pruned: bool,
}

impl Applied {
    /// Whether pods can be started with something else: there are none, or the Deployment was just applied, nothing of it was
    /// withheld or refused, and it can follow the spec (`can_follow`). What was not tried is no proof.
    pub(crate) fn may_roll(&self, can_follow: bool) -> bool {
        self.is_free && (self.deployment.is_none() || self.is_asked_for && can_follow)
    }

    /// What is observed of the object: what the steps of a reconcile returned.
    pub(crate) fn observed<K: ReconciledKind>(
        &self,
        subject: &Subject<K>,
        gate: &Gate,
        finalizing: &Finalizing,
        late: Option<String>,
    ) -> ObservedObject {
        let object = ObservedObject {
            unreadable: None,
            broken: subject.broken.clone(),
            account: self.account.clone(),
            withheld: gate.withheld.told(&subject.object.key.namespace),
            problems: self.problems.clone(),
            rollout: self.rollout.clone(),
            missing: self.missing.clone(),
            unread: None,
            finalizer: None,
            late,
        };
        object.with_finalizer(finalizing)
    }

    /// Pods that are ready.
    pub(crate) fn ready_replicas(&self) -> i32 {
        rollout::ready_replicas(self.deployment.as_ref())
    }
}

/// An apply that is under way.
pub(crate) struct Applying<'a> {
    pub(crate) work: &'a Work<'a>,
    pub(crate) gate: &'a Gate,
    pub(crate) applier: Applier<'a>,
    pub(crate) problems: Problems,
    account: AccountUse,
    /// The Deployment that should be there, whether it may be applied or not.
    asked_for: Option<&'a Child>,
}

/// The Deployment after it was applied or left.
pub(crate) struct Running {
    pub(crate) live: Option<Value>,
    pub(crate) rollout: Rollout,
    is_asked_for: bool,
}

impl Running {
    /// Whether every pod is one of the Deployment that is asked for.
    pub(crate) fn is_rolled(&self) -> bool {
        self.is_asked_for && rollout::is_over(self.live.as_ref(), &self.rollout)
    }
}

impl<K: ReconciledKind> AttachedReconciler<K> {
    /// What the children of an object are applied with: all there should be, and the kinds of which there should be none.
    fn work<'a>(
        &'a self,
        object: &'a Object<K>,
        owner: &'a ChildOwner,
        deployment: &'a FoundDeployment,
        account: &'a str,
        (children, absent): (Vec<&'a Child>, Vec<ChildKind>),
    ) -> Work<'a> {
        let pruning = Pruning {
            kube: &self.kube,
            cache: &self.child_cache,
            pruned: &self.pruned,
            key: &object.key,
            asked_for: object.asked_for(),
            uid: &object.uid,
            workload: &owner.workload,
            account,
            makes_account: children.iter().any(|child| child.kind == ChildKind::ServiceAccount),
            children,
            absent,
        };
        let live = deployment.live.as_ref();
        let state = OwnerState { object: &object.value, uid: &object.uid, deployment: live };
        Work { pruning, state, selector: owner.selector_text(), hint: None, contents: None }
    }
}

impl<K: ReconciledKind> AttachedReconciler<K> {
    /// The same for an object that was read, with what of it may be applied.
    pub(crate) async fn gated<'a>(
        &'a self,
        object: &'a Object<K>,
        owner: &'a ChildOwner,
        read: &'a ObjectRead<K>,
        account: &'a str,
        listed: (Vec<&'a Child>, Vec<ChildKind>),
    ) -> Result<(Work<'a>, Gate), CallError> {
        let work = self.work(object, owner, &read.deployment, account, listed);
        let work = Work { contents: Some(&read.contents), ..work };
        // Only an object of the watch is let through nowhere, and this one was read.
        let gate = work.gate(object.origin, &read.deployment).await?.unwrap_or_default();
        Ok((work, gate))
    }
}

impl<'a> Work<'a> {
    /// The same, with something that may keep pods from being ready.
    pub(crate) fn with_hint(self, hint: &'static str) -> Self {
        Self { hint: Some(hint), ..self }
    }

    /// Finds out what may be applied. Nothing is read where nothing would be applied: nothing is widened then. None where something
    /// would be, and the object was not read.
    async fn gate(&self, origin: Origin, deployment: &FoundDeployment) -> Result<Option<Gate>, CallError> {
        let Pruning { kube, cache, key, uid, children, .. } = &self.pruning;
        let snapshot = gate::unchanged(cache, children.iter().copied(), deployment);
        let snapshot = snapshot.filter(|_| self.pruning.is_done());
        let is_of = |live: &Value, _: &Child| drift::is_controlled_by(live, uid);
        gate::gate(kube, &key.namespace, origin, snapshot, children.iter().copied(), is_of).await
    }

    /// Applies the account and what pods do not wait for.
    pub(crate) async fn begin(&'a self, gate: &'a Gate, children: PodChildren<'a>) -> Applying<'a> {
        let Pruning { kube, cache, key, .. } = &self.pruning;
        let applier = Applier { kube, cache, owner: key, snapshot: gate.snapshot.as_ref() };
        let PodChildren { service_account, deployment, disruption_budget, monitor } = children;
        let (mut problems, name) = (Problems::default(), self.pruning.account);
        let withheld = &gate.withheld;
        let account =
            accounts::apply(applier, self.state, name, service_account, withheld, &mut problems).await;
        if let Some(budget) = disruption_budget {
            problems.note(&applier.apply(budget, self.state.is_ours(budget)).await);
        }
        if let Some(monitor) = monitor {
            problems.note_unimportant(applier.apply(monitor, self.state.is_ours(monitor)).await);
        }
        Applying { work: self, gate, applier, problems, account, asked_for: deployment }
    }
}

impl<'a> Applying<'a> {
    /// Whether pods may run as their account.
    pub(crate) fn is_allowed(&self) -> bool {
        self.account == AccountUse::Allowed
    }

    /// The Deployment, unless something keeps it from being applied.
    pub(crate) fn wanted(&self) -> Option<&'a Child> {
        self.asked_for.filter(|child| self.is_allowed() && !self.gate.withheld.has(child))
    }

    /// Applies the Deployment. Where none may be applied, one that runs is left as it is.
    pub(crate) async fn run(&mut self) -> Running {
        let state = self.work.state;
        let Some(child) = self.wanted() else {
            let (live, rollout) = deployment::leave(state);
            return Running { live, rollout, is_asked_for: false };
        };
        let pods = LatePods { selector: &self.work.selector, hint: self.work.hint };
        let (applied, rollout) = deployment::apply(self.applier, state, child, pods).await;
        self.problems.note(&applied);
        let (live, is_asked_for) = (applied.ours(), rollout != Rollout::Unseen);
        if let Some(contents) = self.work.contents {
            contents.remember_versions(self.applier.kube, live.as_ref(), child.target()).await;
        }
        Running { live, rollout, is_asked_for }
    }

    /// Prunes what is no longer asked for, and says what stands.
    pub(crate) async fn finish(mut self, running: Running, exposure: Exposure) -> Applied {
        let Gate { snapshot, admission_disabled, withheld, .. } = self.gate;
        let is_rolled = self.is_allowed() && running.is_rolled();
        // What comes to be shown meanwhile is for the next reconcile, which reads whether it may change anything.
        let pruned = snapshot.is_some()
            || self.work.pruning.prune(is_rolled, *admission_disabled, &mut self.problems).await;
        let is_withheld = self.asked_for.is_some_and(|child| withheld.has(child));
        let Running { live, rollout, is_asked_for } = running;
        Applied {
            deployment: live,
            rollout,
            exposure,
            is_free: self.is_allowed() && !is_withheld && !self.problems.are_serious(),
            account: self.account.refusal(),
            problems: self.problems,
            missing: self.work.contents.map(|contents| contents.missing.clone()).unwrap_or_default(),
            is_asked_for,
            pruned,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn pods_may_roll_only_where_it_was_just_shown_that_they_can() {
        let applied = |runs: bool, is_asked_for: bool, is_free: bool| Applied {
            deployment: runs.then(|| json!({})),
            rollout: Rollout::Complete(1),
            exposure: Exposure::NotRequested,
            account: None,
            problems: Problems::default(),
            missing: Vec::new(),
            is_asked_for,
            is_free,
            pruned: true,
        };
        assert!(applied(true, true, true).may_roll(true));
        assert!(applied(false, false, true).may_roll(false), "nothing runs");
        assert!(!applied(true, true, true).may_roll(false), "it has no address to follow to");
        assert!(
            !applied(true, false, true).may_roll(true),
            "it was left alone, as in the first look of a term"
        );
        assert!(!applied(true, true, false).may_roll(true) && !applied(false, true, false).may_roll(true));
    }
}
