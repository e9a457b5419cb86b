//! Decides whether a reconcile of a control plane changes any child, and finds out what of them may be applied.
//! Nothing is written here.

use super::build::{self, Children};
use super::dereference::Dereferenced;
use super::helm_release;
use super::prune;
use super::reconciler::Reconciler;
use super::subject::Subject;
use crate::controller::children::{Child, ChildKind, Snapshot, drift, gate};
use crate::controller::object::Origin;
use crate::controller::references::Contents;
use crate::kubernetes::CallError;
use serde_json::Value;

pub(super) use crate::controller::children::gate::Gate;

impl Reconciler {
    /// Nothing is read where nothing would be applied and nothing sent: nothing is widened then. None where something would
    /// be, and the object was not read.
    pub(super) async fn gate(
        &self,
        subject: &Subject,
        children: &Children,
        read: &Dereferenced,
    ) -> Result<Option<Gate>, CallError> {
        let (object, snapshot) = (&subject.object, self.unchanged(subject, children, read));
        let is_watched = object.origin == Origin::Watch;
        let live = read.deployment.live.as_ref();
        let changes_nothing =
            snapshot.is_some() && !writes_besides(&object.key.namespace, children, live, &read.contents);
        let consumes = !build::consumed(&read.complete).is_empty();
        if let Some(is_confirmable) = confirmable(changes_nothing, is_watched, consumes) {
            self.objects.note_confirmable(&object.key, is_confirmable);
        }
        if is_watched && !changes_nothing {
            return Ok(None);
        }
        let is_of = |live: &Value, child: &Child| is_of(live, child, subject);
        gate::gate(&self.kube, &object.key.namespace, object.origin, snapshot, children.all(), is_of).await
    }

    /// Every child, if all of them are known to be what they should be and there is nothing else to do.
    fn unchanged(&self, subject: &Subject, children: &Children, read: &Dereferenced) -> Option<Snapshot> {
        if read.sends_token() || helm_release::asked_for(&subject.object).is_some() {
            return None;
        }
        // Last, as it remembers: a first generation counts as pruned once its children are known.
        let unchanged = gate::unchanged(&self.child_cache, children.all(), &read.deployment);
        unchanged.filter(|_| self.is_pruned(&subject.object, children))
    }
}

/// Whether a reconcile may write something although every child is in place: rights in other namespaces follow what those
/// say, our finalizer is set before there are any, and versions of what pods read are noted beside their Deployment.
fn writes_besides(namespace: &str, children: &Children, live: Option<&Value>, contents: &Contents) -> bool {
    let is_unnoted = live.is_some_and(|live| contents.unnoted(live).is_some());
    is_unnoted || children.reach_beyond(namespace)
}

/// Whether the next reconcile may begin with what the watch shows; none if this one says nothing about it. One that ends in
/// vain has asked for the Deployment and all that its pods consume, which is asked for again with an object that is read: so
/// it is not tried until a reconcile has found nothing to change, or, where nothing is consumed, until it was in vain once.
fn confirmable(changes_nothing: bool, is_watched: bool, consumes: bool) -> Option<bool> {
    match changes_nothing {
        true => Some(true),
        false if is_watched || consumes => Some(false),
        false => None,
    }
}

/// Whether a live child is of this very uid.
fn is_of(live: &Value, child: &Child, subject: &Subject) -> bool {
    match child.kind {
        ChildKind::Role | ChildKind::RoleBinding => prune::is_grant_of(live, subject.object.owner()),
        _ => drift::is_controlled_by(live, &subject.object.uid),
    }
}

#[cfg(test)]
mod tests {
    use super::super::build::fixtures::ControlPlane;
    use super::*;
    use crds::well_known::label;
    use serde_json::json;

    #[test]
    fn what_a_watch_shows_is_not_tried_again_while_it_is_in_vain() {
        for consumes in [false, true] {
            assert_eq!(confirmable(true, true, consumes), Some(true));
            assert_eq!(confirmable(true, false, consumes), Some(true));
            assert_eq!(confirmable(false, true, consumes), Some(false), "all of it is read again");
        }
        assert_eq!(
            confirmable(false, false, true),
            Some(false),
            "the next one would read all that is consumed"
        );
        assert_eq!(confirmable(false, false, false), None, "a rollout that goes on asks for nothing");
    }

    #[test]
    fn a_reconcile_writes_nothing_besides_unless_it_reaches_beyond_its_namespace_or_has_versions_to_note() {
        let (plain, contents) = (ControlPlane::test(), Contents::default());
        let home = plain.object["metadata"]["namespace"].as_str().unwrap();
        assert!(!writes_besides(home, &plain.children(), None, &contents));
        let beyond = ControlPlane::test().with("rbac", json!({ "workspaceNamespaces": ["elsewhere"] }));
        assert!(writes_besides(home, &beyond.children(), None, &contents));
        let [checksum, versions] = ["sum", "versions"].map(|text| Some(text.to_owned()));
        let contents = Contents { checksum, versions, ..Contents::default() };
        let children = ControlPlane::test().with_checksum("sum").children();
        let mut live = children.deployment.manifest.clone();
        assert!(writes_besides(home, &children, Some(&live), &contents));
        live["metadata"]["labels"][label::CONSUMED_VERSIONS] = json!("versions");
        assert!(!writes_besides(home, &children, Some(&live), &contents), "they are noted");
    }
}
