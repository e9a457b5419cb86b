//! Brings the children of a workspace proxy to what they should be and prunes what is no longer asked for. It decides what depends
//! on what: nothing runs under an account that is not in place.

use super::build::Children;
use super::resolve::ResolvedProxy;
use crate::controller::attached::pruning::Pruning;
use crate::controller::children::account_use::AccountUse;
use crate::controller::children::apply::{Applier, Problems};
use crate::controller::children::deployment::{self, FoundDeployment, LatePods};
use crate::controller::children::exposure::{self, Exposure};
use crate::controller::children::gate::{self, Gate};
use crate::controller::children::{Child, OwnerState, accounts, drift, withheld};
use crate::controller::object::Origin;
use crate::controller::workload::rollout::{self, Rollout};
use crate::kubernetes::CallError;
use serde_json::Value;

/// What may keep a proxy that runs from being ready.
const ABSENCE: &str = "A proxy restarts about once a minute while its control plane does not answer";

/// What children are applied with: who they belong to, what they should be and what is known of them.
pub(super) struct Work<'a> {
    pub(super) pruning: Pruning<'a>,
    pub(super) state: OwnerState<'a>,
    pub(super) resolved: &'a ResolvedProxy,
    pub(super) children: &'a Children,
}

/// What stands of the children afterwards.
pub(super) struct Applied {
    /// The Deployment, if there is one and it is ours.
    pub(super) deployment: Option<Value>,
    pub(super) rollout: Rollout,
    pub(super) exposure: Exposure,
    /// Why nothing is run as the account that is asked for.
    pub(super) account: Option<String>,
    pub(super) problems: Problems,
    /// Whether the Deployment is what the spec asks for, not one that was left as it was or could not be changed.
    pub(super) is_asked_for: bool,
    /// Whether nothing of the Deployment was withheld or refused.
    is_free: bool,
    /// Whether nothing is left of what an earlier generation asked for.
    pub(super) pruned: bool,
}

impl Applied {
    /// Whether pods can be started with something else: there are none, or the Deployment was just applied, nothing of it was
    /// withheld or refused, and it can follow the spec (`can_follow`). What was not tried is no proof.
    pub(super) fn may_roll(&self, can_follow: bool) -> bool {
        self.is_free && (self.deployment.is_none() || self.is_asked_for && can_follow)
    }
}

impl Work<'_> {
    /// Finds out what may be applied. Nothing is read where nothing would be applied: nothing is widened then.
    pub(super) async fn gate(
        &self,
        origin: Origin,
        deployment: &FoundDeployment,
    ) -> Result<Option<Gate>, CallError> {
        let Pruning { kube, cache, key, uid, .. } = &self.pruning;
        let snapshot = gate::unchanged(cache, self.children.all(), deployment);
        let snapshot = snapshot.filter(|_| self.pruning.is_done());
        let is_of = |live: &Value, _: &Child| drift::is_controlled_by(live, uid);
        gate::gate(kube, &key.namespace, origin, snapshot, self.children.all(), is_of).await
    }

    /// Applies the children as far as nothing forbids it. Taken apart without `..`: a new child has its place here.
    pub(super) async fn apply(&self, gate: &Gate) -> Applied {
        let (applier, withheld, state) = (self.applier(gate), &gate.withheld, self.state);
        let Children {
            service_account,
            deployment,
            service,
            ingress,
            http_route,
            disruption_budget,
            service_monitor,
        } = self.children;
        let mut problems = Problems::default();
        let account = &self.resolved.pods.account.name;
        let account_use =
            accounts::apply(applier, state, account, service_account.as_ref(), withheld, &mut problems).await;
        let is_allowed = account_use == AccountUse::Allowed;
        if let Some(budget) = disruption_budget {
            problems.note(&applier.apply(budget, state.is_ours(budget)).await);
        }
        if let Some(monitor) = service_monitor {
            problems.note_unimportant(applier.apply(monitor, state.is_ours(monitor)).await);
        }
        let wanted = deployment.as_ref().filter(|child| is_allowed && !withheld.has(child));
        let is_left = wanted.is_none() && state.running().is_some();
        self.front(applier, service, withheld.has(service), is_left, &mut problems).await;
        let (live, rollout) = self.run(applier, wanted, &mut problems).await;
        let is_asked_for = wanted.is_some() && rollout != Rollout::Unseen;
        let exposed = ingress.as_ref().or(http_route.as_ref());
        let ours = |live: &Value, child: &Child| state.is_ours(child)(live);
        let exposure = exposure::apply(applier, exposed, withheld, ours, &mut problems).await;
        let rolled = is_asked_for && rollout::is_over(live.as_ref(), &rollout);
        // What comes to be shown meanwhile is for the next reconcile, which reads whether it may change anything.
        let pruned = gate.snapshot.is_some()
            || self.pruning.prune(is_allowed && rolled, gate.admission_disabled, &mut problems).await;
        let is_withheld = deployment.as_ref().is_some_and(|child| withheld.has(child));
        let Problems { conflicts, refused, failed, unimportant: _ } = &problems;
        let is_free = [conflicts, refused, failed].iter().all(|all| all.is_empty());
        Applied {
            deployment: live,
            rollout,
            exposure,
            account: account_use.refusal(),
            is_free: is_allowed && !is_withheld && is_free,
            problems,
            is_asked_for,
            pruned,
        }
    }

    fn applier<'b>(&'b self, gate: &'b Gate) -> Applier<'b> {
        let Pruning { kube, cache, key, .. } = &self.pruning;
        Applier { kube, cache, owner: key, snapshot: gate.snapshot.as_ref() }
    }

    /// The Service. Its ports are left with a Deployment that is left: they are where the pods of that one listen.
    async fn front(
        &self,
        applier: Applier<'_>,
        child: &Child,
        is_withheld: bool,
        is_left: bool,
        problems: &mut Problems,
    ) {
        if is_withheld {
            return;
        }
        if is_left {
            let live = applier.kube.read(child.target()).await.ok().flatten();
            let live = live.filter(|live| drift::is_controlled_by(live, self.state.uid));
            if live.is_some_and(|live| !withheld::listens_alike(&live, &child.manifest)) {
                return;
            }
        }
        problems.note(&applier.apply(child, self.state.is_ours(child)).await);
    }

    /// Returns the Deployment that is there if it is ours, and how far it is. Where none may be applied, one that runs is left as
    /// it is.
    async fn run(
        &self,
        applier: Applier<'_>,
        wanted: Option<&Child>,
        problems: &mut Problems,
    ) -> (Option<Value>, Rollout) {
        let Some(child) = wanted else { return deployment::leave(self.state) };
        let selector = self.resolved.owner.selector_text();
        let pods = LatePods { selector: &selector, hint: Some(ABSENCE) };
        let (state, rollout) = deployment::apply(applier, self.state, child, pods).await;
        problems.note(&state);
        (state.ours(), rollout)
    }
}
