//! Brings the children of a provisioner to what they should be and prunes what is no longer asked for. It decides what
//! depends on what: nothing runs, and nothing is granted, under an account that is not in place.

use super::build::Children;
use super::resolve::ResolvedProvisioner;
use crate::controller::attached::pruning::Pruning;
use crate::controller::children::account_use::AccountUse;
use crate::controller::children::accounts;
use crate::controller::children::apply::{Applier, Problems};
use crate::controller::children::deployment::{self, FoundDeployment, LatePods};
use crate::controller::children::gate::{self, Gate};
use crate::controller::children::grants::{self, NotGranted, Rights};
use crate::controller::children::pruned::{AskedFor, PruneMemory};
use crate::controller::children::{Child, ChildCache, OwnerState, drift};
use crate::controller::identity::ObjectKey;
use crate::controller::object::Origin;
use crate::controller::workload::rollout::{self, Rollout};
use crate::kubernetes::{CallError, Kube};
use serde_json::{Value, json};
use std::borrow::Cow;

/// What children are applied with: who they belong to, what they should be and what is known of them.
#[derive(Clone, Copy)]
pub(super) struct Work<'a> {
    pub(super) kube: &'a Kube,
    pub(super) cache: &'a ChildCache,
    /// For which objects everything no longer wanted was pruned.
    pub(super) pruned: &'a PruneMemory,
    pub(super) key: &'a ObjectKey,
    pub(super) asked_for: &'a AskedFor,
    pub(super) state: OwnerState<'a>,
    pub(super) resolved: &'a ResolvedProvisioner,
    pub(super) children: &'a Children,
}

/// What stands of the children afterwards.
pub(super) struct Applied {
    /// The Deployment, if there is one and it is ours.
    pub(super) deployment: Option<Value>,
    pub(super) rollout: Rollout,
    /// Why nothing is run as the account that is asked for.
    pub(super) account: Option<String>,
    pub(super) problems: Problems,
    /// Whether the Deployment is what the spec asks for, not one that was left as it was or could not be changed.
    pub(super) is_asked_for: bool,
    /// Whether the Deployment was not applied because it would widen what is allowed.
    pub(super) is_withheld: bool,
    /// Whether nothing is left of what an earlier generation asked for.
    pub(super) pruned: bool,
}

impl Applied {
    /// Whether pods can be started with something else: there are none, or the Deployment was just applied, nothing of it was
    /// withheld or refused, and it can follow the spec (`can_follow`). What was not tried is no proof.
    pub(super) fn may_roll(&self, can_follow: bool) -> bool {
        let Problems { conflicts, refused, failed, unimportant: _ } = &self.problems;
        let is_free = self.account.is_none() && [conflicts, refused, failed].iter().all(|all| all.is_empty());
        is_free && !self.is_withheld && (self.deployment.is_none() || self.is_asked_for && can_follow)
    }
}

/// Finds out what may be applied. Nothing is read where nothing would be applied: nothing is widened then. None where something
/// would be, and the object was not read.
pub(super) async fn gate(
    work: Work<'_>,
    origin: Origin,
    deployment: &FoundDeployment,
) -> Result<Option<Gate>, CallError> {
    let (children, uid) = (work.children, work.state.uid);
    let snapshot =
        gate::unchanged(work.cache, children.all(), deployment).filter(|_| work.pruning().is_done());
    let is_of = |live: &Value, _: &Child| drift::is_controlled_by(live, uid);
    gate::gate(work.kube, &work.key.namespace, origin, snapshot, children.all(), is_of).await
}

/// Applies the children as far as nothing forbids it. Taken apart without `..`: a new child has its place here.
pub(super) async fn apply(work: Work<'_>, gate: &Gate) -> Applied {
    let (applier, withheld) = (work.applier(gate), &gate.withheld);
    let Children { service_account, role, role_binding, deployment, disruption_budget, pod_monitor } =
        work.children;
    let mut problems = Problems::default();
    let account = &work.resolved.pods.account.name;
    let account_use =
        accounts::apply(applier, work.state, account, service_account.as_ref(), withheld, &mut problems)
            .await;
    let is_allowed = account_use == AccountUse::Allowed;
    if let Some(budget) = disruption_budget {
        problems.note(&applier.apply(budget, work.state.is_ours(budget)).await);
    }
    if let Some(monitor) = pod_monitor {
        problems.note_unimportant(applier.apply(monitor, work.state.is_ours(monitor)).await);
    }
    let wanted = deployment.as_ref().filter(|child| is_allowed && !withheld.has(child));
    let (live, rollout) = work.run(applier, wanted, &mut problems).await;
    let is_withheld = deployment.as_ref().is_some_and(|child| withheld.has(child));
    let is_asked_for = wanted.is_some() && rollout != Rollout::Unseen;
    let rolled = is_asked_for && rollout::is_over(live.as_ref(), &rollout);
    if let (Some(role), Some(binding)) = (role, role_binding)
        && is_allowed
        && !withheld.has(role)
        && !withheld.has(binding)
    {
        work.grant(applier, role, binding, rolled, &mut problems).await;
    }
    // What comes to be shown meanwhile is for the next reconcile, which reads whether it may change anything.
    let pruned = gate.snapshot.is_some()
        || work.pruning().prune(is_allowed && rolled, gate.admission_disabled, &mut problems).await;
    Applied {
        deployment: live,
        rollout,
        account: account_use.refusal(),
        problems,
        is_asked_for,
        is_withheld,
        pruned,
    }
}

impl<'a> Work<'a> {
    fn applier(self, gate: &'a Gate) -> Applier<'a> {
        Applier { kube: self.kube, cache: self.cache, owner: self.key, snapshot: gate.snapshot.as_ref() }
    }

    /// Returns the Deployment that is there if it is ours, and how far it is. Where none may be applied, one that runs is
    /// left as it is.
    async fn run(
        self,
        applier: Applier<'_>,
        wanted: Option<&Child>,
        problems: &mut Problems,
    ) -> (Option<Value>, Rollout) {
        let Some(child) = wanted else { return deployment::leave(self.state) };
        let selector = self.resolved.owner.selector_text();
        let pods = LatePods { selector: &selector, hint: None };
        let (state, rollout) = deployment::apply(applier, self.state, child, pods).await;
        problems.note(&state);
        (state.ours(), rollout)
    }

    /// Gives the account its rights.
    async fn grant(
        self,
        applier: Applier<'_>,
        role: &Child,
        binding: &Child,
        rolled: bool,
        problems: &mut Problems,
    ) {
        let binding = self.still_bound(applier, binding, rolled).await;
        let rights =
            Rights { holder: "this provisioner", place: &self.key.namespace, role, binding: &binding };
        let (uid, labels) = (self.state.uid, json!(self.resolved.owner.labels()));
        let is_ours = |live: &Value, _: &Child| drift::is_child_of(live, uid, &labels);
        match grants::apply(applier, rights, is_ours).await {
            Ok(None) => {}
            Ok(Some(note)) => problems.unimportant.push(note),
            Err(NotGranted::Conflict(message)) => problems.conflicts.push(message),
            Err(NotGranted::Refused(message)) => problems.refused.push(message),
            Err(NotGranted::Failed(message)) => problems.failed.push(message),
        }
    }

    /// The RoleBinding, with the accounts it is bound to now as long as daemons may run as one of them: builds that are
    /// under way finish with the rights they began with.
    async fn still_bound<'c>(self, applier: Applier<'_>, binding: &'c Child, rolled: bool) -> Cow<'c, Child> {
        let is_known = applier.snapshot.is_some()
            || self.cache.is_absent(binding)
            || self.cache.up_to_date(binding).is_some();
        if rolled || is_known {
            return Cow::Borrowed(binding);
        }
        // One that cannot be read now cannot be changed either.
        let live = self.kube.read(binding.target()).await.ok().flatten();
        let live = live.filter(|live| drift::is_controlled_by(live, self.state.uid));
        match live.and_then(|live| with_accounts_of(&live, &binding.manifest)) {
            Some(manifest) => {
                Cow::Owned(Child::new(binding.kind, &binding.namespace, &binding.name, manifest))
            }
            None => Cow::Borrowed(binding),
        }
    }

    /// What is pruned.
    fn pruning(self) -> Pruning<'a> {
        Pruning {
            kube: self.kube,
            cache: self.cache,
            pruned: self.pruned,
            key: self.key,
            asked_for: self.asked_for,
            uid: self.state.uid,
            workload: &self.resolved.owner.workload,
            account: &self.resolved.pods.account.name,
            makes_account: self.children.service_account.is_some(),
            children: self.children.all().collect(),
            absent: self.children.absent(),
        }
    }
}

/// The manifest of a RoleBinding with the accounts that a live one has besides; none if it has no other.
fn with_accounts_of(live: &Value, manifest: &Value) -> Option<Value> {
    let subjects = |binding: &Value| binding["subjects"].as_array().cloned().unwrap_or_default();
    let home = &manifest["metadata"]["namespace"];
    let is_account = |one: &Value| one["kind"] == "ServiceAccount" && one["namespace"] == *home;
    let wanted = subjects(manifest);
    let former: Vec<Value> = subjects(live)
        .into_iter()
        .filter(|one| is_account(one) && !wanted.iter().any(|wanted| wanted["name"] == one["name"]))
        .collect();
    (!former.is_empty()).then(|| {
        let mut manifest = manifest.clone();
        manifest["subjects"] = json!([wanted, former].concat());
        manifest
    })
}

#[cfg(test)]
mod tests {
    use super::super::build::fixtures::Provisioner;
    use super::*;

    #[test]
    fn pods_may_roll_only_where_it_was_just_shown_that_they_can() {
        let applied = |runs: bool, is_asked_for: bool| Applied {
            deployment: runs.then(|| json!({})),
            rollout: Rollout::Complete(1),
            account: None,
            problems: Problems::default(),
            is_asked_for,
            is_withheld: false,
            pruned: true,
        };
        assert!(applied(true, true).may_roll(true) && applied(false, false).may_roll(false), "nothing runs");
        assert!(!applied(true, true).may_roll(false), "it has no address to follow to");
        assert!(!applied(true, false).may_roll(true), "it was left alone, as in the first look of a term");
        assert!(!Applied { is_withheld: true, ..applied(true, true) }.may_roll(true));
        let mut conflict = applied(true, true);
        conflict.problems.conflicts.push("x".to_owned());
        assert!(!conflict.may_roll(true));
    }

    #[test]
    fn a_binding_keeps_the_accounts_of_daemons_that_still_run() {
        let binding = |name: &str| {
            let account = json!({"name": name});
            Provisioner::test().with("serviceAccount", account).children().role_binding.unwrap().manifest
        };
        let (old, new) = (binding("old"), binding("new"));
        let kept = with_accounts_of(&old, &new).unwrap();
        let account = |name: &str| json!({"kind": "ServiceAccount", "name": name, "namespace": "ns"});
        assert_eq!(kept["subjects"], json!([account("new"), account("old")]));
        assert_eq!(with_accounts_of(&new, &new), None);
        let mut foreign = old.clone();
        foreign["subjects"] = json!([{"kind": "User", "name": "eve"}, {"kind": "ServiceAccount", "name": "x", "namespace": "y"}]);
        assert_eq!(with_accounts_of(&foreign, &new), None, "no daemon runs as one of these");
    }
}
