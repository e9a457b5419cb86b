//! Finds out before anything is applied what may be: whether admission is disabled in the namespace, what is held back then, and
//! whether there is anything to do at all. What is held back is decided in `withheld`; nothing is written here.

use super::build::Children;
use super::dereference::Dereferenced;
use super::prune;
use super::reconciler::Reconciler;
use super::subject::Subject;
use super::withheld::{self, Withheld};
use crate::controller::children::apply::is_in_place;
use crate::controller::children::{Child, ChildKind, Snapshot, drift};
use crate::kubernetes::{CallError, Target};
use serde_json::Value;

/// What may be applied.
#[derive(Debug, Default)]
pub(super) struct Gate {
    /// Whether admission is disabled. Not known, and not needed, where nothing is applied.
    pub(super) admission_disabled: bool,
    /// What is left as it is then.
    pub(super) withheld: Withheld,
    /// Every child, where all of them are in place, nothing is pruned and nothing is sent: such a reconcile changes no
    /// child, whatever becomes of one meanwhile. The next one does.
    pub(super) snapshot: Option<Snapshot>,
}

impl Reconciler {
    /// Whether our webhooks are switched off in a namespace now.
    pub(super) async fn is_admission_disabled(&self, name: &str) -> Result<bool, CallError> {
        let (kind, plural) = ("Namespace", "namespaces");
        let target = Target { api_version: "v1", kind, plural, namespace: "", name };
        Ok(withheld::is_admission_disabled(self.kube.read(target).await?.as_ref()))
    }

    /// The namespace is read now, unless nothing would be applied and nothing sent: nothing is widened then.
    pub(super) async fn gate(
        &self,
        subject: &Subject,
        children: &Children,
        read: &Dereferenced,
    ) -> Result<Gate, CallError> {
        let snapshot = self.unchanged(subject, children, read);
        if snapshot.is_some() || !self.is_admission_disabled(&subject.object.key.namespace).await? {
            return Ok(Gate { snapshot, ..Gate::default() });
        }
        let mut live = Vec::new();
        for child in children.all() {
            live.push(self.kube.read(child.target()).await?.filter(|live| is_of(live, child, subject)));
        }
        Ok(Gate { admission_disabled: true, withheld: withheld::withheld(children, &live), snapshot: None })
    }

    /// Every child, if all of them are known to be what they should be and there is nothing else to do.
    fn unchanged(&self, subject: &Subject, children: &Children, read: &Dereferenced) -> Option<Snapshot> {
        let runs = read.deployment.as_ref().is_some_and(|live| is_in_place(live, &children.deployment));
        if !runs || read.sends_token() || !self.is_pruned(&subject.object, children) {
            return None;
        }
        let is_deployment = |child: &&Child| child.kind == ChildKind::Deployment;
        self.known.all_good(children.all().filter(|child| !is_deployment(child)))
    }
}

/// Whether a live child is of this very uid: a mark that anybody can write is not enough here.
fn is_of(live: &Value, child: &Child, subject: &Subject) -> bool {
    match child.kind {
        ChildKind::Role | ChildKind::RoleBinding => prune::is_grant_of(live, subject.object.owner()),
        _ => drift::is_controlled_by(live, &subject.object.uid),
    }
}
