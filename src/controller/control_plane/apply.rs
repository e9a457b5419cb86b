//! Brings the children of a control plane to what they should be and prunes what is no longer asked for. It decides what
//! depends on what: nothing runs, and nothing is granted, under an account that is not in place.

use super::dereference::Dereferenced;
use super::desired::{Children, WorkspaceAccess};
use super::held::Held;
use super::reconcile::{Reconciler, Subject};
use super::report::reconcile_at;
use super::runs_as::RunsAs;
use super::status::{ACCOUNT_NOT_OURS, ADMISSION_DISABLED, Exposure, Observed, Rollout};
use super::sweep::{self, Wanted};
use super::workspaces::Trouble;
use crate::controller::drift;
use crate::kubernetes::CallError;
use serde_json::Value;

/// What stands of the children afterwards.
pub(super) struct Applied {
    /// The Service, or why no token goes through it.
    pub(super) service: Result<Value, &'static str>,
    pub(super) deployment: Option<Value>,
    /// Whether the Deployment is what the spec asks for, not one that was left as it was or could not be changed.
    is_asked_for: bool,
    /// Whether admission is disabled.
    pub(super) frozen: bool,
    /// Whether nothing is left of what an earlier generation asked for.
    pub(super) pruned: bool,
}

impl Applied {
    /// Whether pods go on with an earlier spec, for whatever reason. While admission is disabled nothing of a spec is in
    /// force that no pods run with; else a spec whose first Deployment is still to come is taken as it is.
    pub(super) fn is_left(&self) -> bool {
        !self.is_asked_for && (self.frozen || self.deployment.is_some())
    }
}

impl Reconciler {
    /// Applies the children as far as nothing forbids it.
    pub(super) async fn apply(
        &self,
        subject: &Subject,
        read: Dereferenced,
        observed: &mut Observed,
    ) -> Applied {
        let Dereferenced { live, contents, children, held, frozen } = read;
        let runs_as = self.settle_service_account(subject, &children, &held, live.as_ref(), observed).await;
        let may_run = runs_as == RunsAs::Allowed && !held.has(&children.deployment);
        let left = live.as_ref().filter(|live| !may_run && drift::is_controlled_by(live, &subject.uid));
        let service = self.settle_home(subject, &children, &held, left.is_some(), observed).await;
        let deployment = if may_run {
            let applied = self.settle_deployment(subject, &children.deployment, live, observed).await;
            self.remember_versions(applied.as_ref(), children.deployment.target(), &contents).await;
            applied
        } else {
            self.leave_deployment(subject, live, observed)
        };
        let is_asked_for = may_run && observed.rollout != Rollout::Unseen;
        self.settle_exposure(subject, &children, &held, observed).await;
        let barred = |access: &WorkspaceAccess| bar(access, &runs_as, &held);
        let in_place = self.settle_workspaces(subject, &children, barred, observed).await;
        let rolled = is_asked_for && matches!(observed.rollout, Rollout::Complete(_) | Rollout::ScaledToZero);
        let wanted = Wanted { access: &children.workspace_access, in_place: &in_place, rolled };
        let pruned = self.sweep(subject, &children, wanted, frozen, observed).await;
        Applied { service, deployment, is_asked_for, frozen, pruned }
    }

    /// Removes what an earlier generation asked for, once for each and whenever it is asked for; returns whether nothing
    /// of it is left.
    async fn sweep(
        &self,
        subject: &Subject,
        children: &Children,
        wanted: Wanted<'_>,
        frozen: bool,
        observed: &mut Observed,
    ) -> bool {
        let done = (subject.uid.clone(), subject.generation, reconcile_at(&subject.object));
        if self.swept().get(&subject.key) == Some(&done) {
            return true;
        }
        match self.remove_unwanted(subject, children, wanted, frozen, observed).await {
            Ok(true) => {
                self.swept().insert(subject.key.clone(), done);
                true
            }
            Ok(false) => false,
            Err(error) => {
                observed.failed.push(error.to_string());
                false
            }
        }
    }

    async fn remove_unwanted(
        &self,
        subject: &Subject,
        children: &Children,
        wanted: Wanted<'_>,
        frozen: bool,
        observed: &mut Observed,
    ) -> Result<bool, CallError> {
        let exposed = matches!(observed.exposure, Exposure::InPlace(_) | Exposure::NotAsked);
        sweep::optional_children(&self.kube, subject.origin(), children, exposed).await?;
        let left = sweep::grants(&self.kube, subject.origin(), wanted).await?;
        observed.failed.extend(left.told());
        // Who has an account is left as it is with the account.
        let accounts = !frozen && self.settle_accounts(subject, children, wanted.rolled).await?;
        Ok(left.is_nothing() && accounts && exposed)
    }
}

/// Why the rights in a namespace are left as they are, if they are.
fn bar(access: &WorkspaceAccess, runs_as: &RunsAs, held: &Held) -> Option<Trouble> {
    let place = &access.namespace;
    let left = format!("the rights of coderd in namespace {place} are left as they are");
    match runs_as {
        RunsAs::Refused(_) => {
            Some((ACCOUNT_NOT_OURS, format!("{left}: its account is not ours; Ready says what to do")))
        }
        RunsAs::Unknown => Some(("Failed", format!("{left}: its account could not be read"))),
        RunsAs::Allowed if held.has(&access.role) || held.has(&access.binding) => {
            Some((ADMISSION_DISABLED, format!("{left}: admission is disabled; Ready says what to do")))
        }
        RunsAs::Allowed => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::desired::given::ControlPlane;
    use super::super::held;
    use super::*;
    use serde_json::json;

    #[test]
    fn what_runs_counts_wherever_it_is_not_what_the_spec_asks_for() {
        let left = |is_asked_for, frozen, deployment: Option<Value>| {
            Applied { service: Err("ServiceUnseen"), deployment, is_asked_for, frozen, pruned: true }
                .is_left()
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
        let reason = |runs_as: RunsAs, held: &Held| bar(access, &runs_as, held).map(|(reason, _)| reason);
        let nothing = Held::default();
        assert_eq!(reason(RunsAs::Allowed, &nothing), None);
        assert_eq!(reason(RunsAs::Refused(String::new()), &nothing), Some("AccountNotOurs"));
        assert_eq!(reason(RunsAs::Unknown, &nothing), Some("Failed"), "it is tried again");
        let none_live = vec![None; children.all().count()];
        let held = held::held(&children, &none_live);
        assert_eq!(reason(RunsAs::Allowed, &held), Some("AdmissionDisabled"));
    }
}
