//! Brings the children of a control plane to what they should be and prunes what is no longer asked for. It decides what
//! depends on what: nothing runs, and nothing is granted, under an account that is not in place.

use super::apply_children::{apply_beside, is_ours, owner_state};
use super::build::{Children, WorkspaceAccess};
use super::dereference::Dereferenced;
use super::gate::Gate;
use super::grants::Trouble;
use super::helm_release::Adoption;
use super::observed::Grants;
use super::prune::{self, Left, Wanted};
use super::reasons::Reason;
use super::reconciler::Reconciler;
use super::subject::{Object, Subject};
use crate::controller::children::account_use::AccountUse;
use crate::controller::children::accounts::{self, AccountWanted};
use crate::controller::children::apply::Problems;
use crate::controller::children::deployment::leave;
use crate::controller::children::exposure::{self, Exposure};
use crate::controller::children::withheld::Withheld;
use crate::controller::children::{Child, Unwanted};
use crate::controller::workload::rollout::Rollout;
use crate::controller::workload::serving::ServingChildren;
use crate::kubernetes::CallError;
use crds::names::control_plane::service_account as service_account_name;
use serde_json::Value;

/// What stands of the children afterwards.
pub(super) struct Applied {
    /// The Service, or why no token goes through it.
    pub(super) service: Result<Value, Reason>,
    pub(super) deployment: Option<Value>,
    pub(super) rollout: Rollout,
    pub(super) exposure: Exposure,
    /// The permissions of coderd; none where they are off.
    pub(super) grants: Option<Grants>,
    /// Why nothing is run as the account that is asked for.
    pub(super) account: Option<String>,
    pub(super) problems: Problems,
    /// Whether the Deployment is what the spec asks for, not one that was left as it was or could not be changed.
    pub(super) is_asked_for: bool,
    /// Whether admission is disabled.
    pub(super) admission_disabled: bool,
    /// Whether nothing is left of what an earlier generation asked for.
    pub(super) pruned: bool,
    /// How far a Helm release is taken over.
    pub(super) adoption: Adoption,
}

impl Applied {
    /// Whether pods go on with an earlier spec, for whatever reason. While admission is disabled nothing of a spec is in
    /// force that no pods run with; else a spec whose first Deployment is still to come is taken as it is.
    pub(super) fn is_left(&self) -> bool {
        !self.is_asked_for && (self.admission_disabled || self.deployment.is_some())
    }
}

/// Where what is no longer wanted is looked for, and what may be done about it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Look {
    /// In all namespaces.
    pub(super) everywhere: bool,
    /// Whether the way in from outside that is asked for stands.
    exposed: bool,
    /// Whether admission is disabled.
    pub(super) admission_disabled: bool,
}

impl Reconciler {
    /// Applies the children as far as nothing forbids it. Taken apart without `..`: a new child has its place here.
    pub(super) async fn apply(
        &self,
        subject: &Subject,
        children: &Children,
        read: &Dereferenced,
        gate: &Gate,
    ) -> Applied {
        let (applier, withheld, admission_disabled) =
            (self.applier(&subject.object, gate), &gate.withheld, gate.admission_disabled);
        let Children { service_account, workspace_access, deployment, serving } = children;
        let ServingChildren { service, ingress, http_route, disruption_budget, service_monitor } = serving;
        let beside = (disruption_budget.as_ref(), service_monitor.as_ref());
        let mut problems = Problems::default();
        let mut adoption = Box::pin(self.adopt(subject, children, read, gate)).await;
        let owner = owner_state(subject, read);
        let name = service_account_name(&subject.object.key.name, &read.complete.spec);
        let account_use =
            accounts::apply(applier, owner, name, service_account.as_ref(), withheld, &mut problems).await;
        let may_run = account_use == AccountUse::Allowed && !withheld.has(deployment);
        let left = !may_run && owner.running().is_some();
        apply_beside(subject, applier, beside, &mut problems).await;
        let service = match adoption.holds_fronts {
            true => Err(Reason::AdoptingHelmRelease),
            false => self.apply_service(subject, service, gate, left, read, &mut problems).await,
        };
        let (deployment, rollout) = if adoption.holds_deployment {
            (None, Rollout::Unseen)
        } else if may_run {
            self.apply_deployment(subject, applier, deployment, read, &mut problems).await
        } else {
            leave(owner)
        };
        let is_asked_for = may_run && rollout != Rollout::Unseen;
        let exposed = ingress.as_ref().or(http_route.as_ref());
        let ours = |live: &Value, child: &Child| is_ours(subject, child)(live);
        let exposure = match (exposed, &adoption.told) {
            (Some(_), Some(told)) if adoption.holds_fronts => Exposure::Later(told.clone()),
            _ => exposure::apply(applier, exposed, withheld, ours, &mut problems).await,
        };
        let barred = |access: &WorkspaceAccess| bar(access, &account_use, withheld);
        let (grants, in_place) = self.apply_grants(subject, applier, workspace_access, barred).await;
        let rolled = is_asked_for && matches!(rollout, Rollout::Complete(_) | Rollout::ScaledToZero);
        let wanted = Wanted { access: workspace_access, in_place: &in_place, rolled };
        let is_exposed = matches!(exposure, Exposure::InPlace(_) | Exposure::NotRequested);
        // What comes to be shown meanwhile is for the next reconcile, which reads whether it may change anything.
        let pruned = gate.snapshot.is_some()
            || self.prune(subject, children, wanted, is_exposed, admission_disabled, &mut problems).await;
        let account = adoption.judge(account_use.refusal(), &mut problems);
        Applied {
            service,
            deployment,
            rollout,
            exposure,
            grants,
            account,
            problems,
            is_asked_for,
            admission_disabled,
            pruned,
            adoption,
        }
    }

    /// Removes what an earlier generation asked for, once for each and whenever it is asked for; returns whether nothing
    /// of it is left.
    async fn prune(
        &self,
        subject: &Subject,
        children: &Children,
        wanted: Wanted<'_>,
        exposed: bool,
        admission_disabled: bool,
        problems: &mut Problems,
    ) -> bool {
        let object = &subject.object;
        if self.is_pruned(object, children) {
            return true;
        }
        let unwanted = self.unwanted(object, children);
        let look =
            Look { everywhere: self.must_list(object, children, &unwanted), exposed, admission_disabled };
        match self.prune_unwanted(subject, children, wanted, look, problems).await {
            Ok(true) => {
                self.pruned.note(&object.key, object.asked_for(), unwanted);
                true
            }
            Ok(false) => false,
            Err(error) => {
                problems.failed.push(error.to_string());
                false
            }
        }
    }

    /// Whether nothing is left of what an earlier generation asked for; before our finalizer goes it is looked for.
    pub(super) fn is_pruned(&self, object: &Object, children: &Children) -> bool {
        let (unwanted, must_look) = (self.unwanted(object, children), self.releases(object, children));
        self.pruned.is_done(&object.key, object.asked_for(), &unwanted, must_look)
    }

    /// Whether our finalizer may go.
    fn releases(&self, object: &Object, children: &Children) -> bool {
        object.has_finalizer() && !children.reach_beyond(&object.key.namespace)
    }

    /// Whether what is left is looked for in all namespaces. What an object asked for before this term the first list of
    /// the watches has shown, which is as good.
    fn must_list(&self, object: &Object, children: &Children, unwanted: &Unwanted) -> bool {
        let is_handled = object.reconcile_at() == object.status.last_handled_reconcile_at;
        let is_known = self.pruned.knows(&object.key);
        is_known || !is_handled || self.releases(object, children) || !unwanted.is_nothing()
    }

    fn unwanted(&self, object: &Object, children: &Children) -> Unwanted {
        self.child_cache.unwanted(&object.key, &object.uid, children.all())
    }

    async fn prune_unwanted(
        &self,
        subject: &Subject,
        children: &Children,
        wanted: Wanted<'_>,
        look: Look,
        problems: &mut Problems,
    ) -> Result<bool, CallError> {
        let owner = subject.object.owner();
        // By name: what has lost our label is shown by no watch.
        let optional = prune::optional_children(&self.kube, owner, children, look.exposed).await?;
        let mut left = Left::default();
        if look.everywhere {
            let concerns = |place: &str| self.may_have_rights_in(&subject.object, place);
            left = prune::grants(&self.kube, owner, wanted, concerns).await?;
            self.forget_pruned(&subject.object, wanted, &left);
        }
        problems.failed.extend(left.told_stuck());
        // Pods run with it.
        problems.unimportant.extend(left.told_unread());
        let account = AccountWanted {
            name: service_account_name(owner.name, &subject.complete.spec),
            made: children.service_account.is_some(),
            rolled: wanted.rolled,
            everywhere: look.everywhere,
            admission_disabled: look.admission_disabled,
        };
        let released = accounts::release(&self.kube, owner, account).await?;
        Ok(left.is_nothing() && released && optional)
    }

    /// Where everything unwanted was looked for and nothing is left, the control plane has no rights.
    fn forget_pruned(&self, object: &Object, wanted: Wanted<'_>, left: &Left) {
        let is_wanted = |place: &str| wanted.access.iter().any(|access| access.namespace == place);
        for place in self.kube.scope().places().into_iter().filter(|place| !is_wanted(place)) {
            if left.is_nothing() {
                self.grant_index.forget(&object.key, place);
            }
        }
    }
}

/// Why the rights in a namespace are left as they are, if they are.
fn bar(access: &WorkspaceAccess, account_use: &AccountUse, withheld: &Withheld) -> Option<Trouble> {
    let place = &access.namespace;
    let left = format!("coderd's permissions in namespace {place} are unchanged");
    match account_use {
        AccountUse::Refused(_) => {
            Some((Reason::AccountNotOurs, format!("{left}: its account is not ours; Ready says what to do")))
        }
        AccountUse::Unknown => Some((Reason::Failed, format!("{left}: its account could not be read"))),
        AccountUse::Allowed if withheld.has(&access.role) || withheld.has(&access.binding) => {
            Some((Reason::AdmissionDisabled, format!("{left}: admission is disabled; Ready says what to do")))
        }
        AccountUse::Allowed => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::build::fixtures::ControlPlane;
    use super::*;
    use crate::controller::children::withheld;
    use serde_json::json;

    #[test]
    fn what_runs_counts_wherever_it_is_not_what_the_spec_asks_for() {
        let left = |is_asked_for, admission_disabled, deployment: Option<Value>| {
            let applied = Applied {
                service: Err(Reason::ServiceUnseen),
                deployment,
                rollout: Rollout::Unseen,
                exposure: Exposure::NotRequested,
                grants: None,
                account: None,
                problems: Problems::default(),
                is_asked_for,
                admission_disabled,
                pruned: true,
                adoption: Adoption::default(),
            };
            applied.is_left()
        };
        assert!(left(false, false, Some(json!({}))), "its account is not ours, or its change was refused");
        assert!(left(false, true, Some(json!({}))) && left(false, true, None), "admission is disabled");
        assert!(!left(false, false, None), "nothing runs yet");
        assert!(!left(true, false, Some(json!({}))) && !left(true, true, Some(json!({}))));
    }

    #[test]
    fn rights_are_left_as_they_are_where_the_account_is_not_ours_or_admission_is_disabled() {
        let children = ControlPlane::test().children();
        let access = &children.workspace_access[0];
        let reason = |account_use: AccountUse, withheld: &Withheld| {
            bar(access, &account_use, withheld).map(|(reason, _)| reason)
        };
        let nothing = Withheld::default();
        assert_eq!(reason(AccountUse::Allowed, &nothing), None);
        assert_eq!(reason(AccountUse::Refused(String::new()), &nothing), Some(Reason::AccountNotOurs));
        assert_eq!(reason(AccountUse::Unknown, &nothing), Some(Reason::Failed), "it is tried again");
        let none_live: Vec<_> = children.all().map(|child| (child, None)).collect();
        let withheld = withheld::withheld("ns", &none_live);
        assert_eq!(reason(AccountUse::Allowed, &withheld), Some(Reason::AdmissionDisabled));
    }
}
