//! Applies the children in a control plane's own namespace, one by one, and returns what became of each.
//! One child that cannot be had keeps no other from its place.

use super::dereference::Dereferenced;
use super::gate::Gate;
use super::reasons::Reason;
use super::reconciler::Reconciler;
use super::resolve::owner;
use super::subject::{Object, Subject};
use crate::controller::children::apply::{Applier, ChildState, Problems};
use crate::controller::children::deployment::{self, LatePods};
use crate::controller::children::withheld;
use crate::controller::children::{Child, OwnerState, drift};
use crate::controller::object::Origin;
use crate::controller::workload::rollout::Rollout;
use serde_json::Value;

/// What may keep a coderd that runs from being ready.
const MIGRATION: &str = "A control plane may be migrating its database, which can take hours";

/// Whether a live object is this child of this owner.
pub(super) fn is_ours(subject: &Subject, child: &Child) -> impl Fn(&Value) -> bool {
    |live| drift::is_child_of(live, &subject.object.uid, &child.manifest["metadata"]["labels"])
}

impl Reconciler {
    /// Returns the Service, or why coderd is not asked there. Its ports are left with a Deployment that is left: they are
    /// where the pods of that one listen.
    pub(super) async fn apply_service(
        &self,
        subject: &Subject,
        child: &Child,
        gate: &Gate,
        left: bool,
        read: &Dereferenced,
        problems: &mut Problems,
    ) -> Result<Value, Reason> {
        let (applier, is_withheld) = (self.applier(&subject.object, gate), gate.withheld.has(child));
        if is_withheld || left {
            let live = self.kube.read(child.target()).await.ok().flatten();
            let live = live.filter(|live| drift::is_controlled_by(live, &subject.object.uid));
            if is_withheld
                || live.as_ref().is_some_and(|live| !withheld::listens_alike(live, &child.manifest))
            {
                return live.ok_or(Reason::ServiceUnseen);
            }
        }
        let state = if read.sends_token() {
            // Whoever may change Services could send our token elsewhere: it is read before a token leaves.
            applier.read_and_apply(child, is_ours(subject, child)).await
        } else {
            applier.apply(child, is_ours(subject, child)).await
        };
        problems.note(&state);
        service_to_ask(state)
    }

    /// Returns the Deployment that is there if it is ours, and how far it is: a coderd whose change is refused is asked all
    /// the same.
    pub(super) async fn apply_deployment(
        &self,
        subject: &Subject,
        applier: Applier<'_>,
        child: &Child,
        read: &Dereferenced,
        problems: &mut Problems,
    ) -> (Option<Value>, Rollout) {
        let selector = owner(&subject.complete).selector_text();
        let pods = LatePods { selector: &selector, hint: Some(MIGRATION) };
        let (state, rollout) = deployment::apply(applier, owner_state(subject, read), child, pods).await;
        problems.note(&state);
        let deployment = state.ours();
        if subject.object.origin == Origin::Read {
            read.contents.remember_versions(&self.kube, deployment.as_ref(), child.target()).await;
        }
        (deployment, rollout)
    }
}

/// A control plane and what runs of it, as they were read.
pub(super) fn owner_state<'a>(subject: &'a Subject, read: &'a Dereferenced) -> OwnerState<'a> {
    let Object { value, uid, .. } = &subject.object;
    OwnerState { object: value, uid, deployment: read.deployment.live.as_ref() }
}

/// Applies the disruption budget and the monitor, of which nothing but their place matters.
pub(super) async fn apply_beside(
    subject: &Subject,
    applier: Applier<'_>,
    (budget, monitor): (Option<&Child>, Option<&Child>),
    problems: &mut Problems,
) {
    if let Some(budget) = budget {
        problems.note(&apply_child(subject, applier, budget).await);
    }
    if let Some(monitor) = monitor {
        problems.note_unimportant(apply_child(subject, applier, monitor).await);
    }
}

async fn apply_child(subject: &Subject, applier: Applier<'_>, child: &Child) -> ChildState {
    applier.apply(child, is_ours(subject, child)).await
}

/// Decides whether coderd is asked at its Service: whoever answers at somebody else's is not our coderd, so that above
/// all no token is sent there. One of ours whose change is refused is as good as before.
fn service_to_ask(state: ChildState) -> Result<Value, Reason> {
    let unknown = match &state {
        ChildState::Conflict(_) => Reason::ServiceNotOurs,
        _ => Reason::ServiceUnseen,
    };
    state.ours().ok_or(unknown)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn coderd_is_asked_where_the_service_is_ours_although_it_could_not_be_changed() {
        let live = json!({"kind": "Service"});
        let refused = ChildState::Refused("a policy".to_owned(), Some(live.clone()));
        assert_eq!(service_to_ask(refused), Ok(live));
        assert_eq!(service_to_ask(ChildState::Refused("quota".to_owned(), None)), Err(Reason::ServiceUnseen));
        assert_eq!(service_to_ask(ChildState::Conflict("not ours".to_owned())), Err(Reason::ServiceNotOurs));
    }
}
