//! Decides which control planes to look at when something else changed: a child, a Secret they consume, a namespace.
//! It keeps no objects: names and labels pass through, contents are read when they are needed.

use super::KIND;
use super::build;
use super::dependants::{self, Dependants};
use crate::control_plane_access::control_planes::ControlPlanes;
use crate::controller::children::ChildKind;
use crate::controller::identity::ObjectKey;
use crate::controller::references::reads;
use crate::controller::runtime::queue::Queue;
use crate::controller::runtime::watches::{Changed, WatchHandler};
use crate::controller::workload::consumed::Source;
use crate::kubernetes::{Change, Kept};
use crds::CoderControlPlane;
use crds::names::instance_label;
use crds::well_known::label;
use kube::Resource;
use kube::core::ObjectMeta;
use std::sync::{Arc, Mutex, PoisonError};

/// Why a control plane may have to be reconciled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Trigger {
    /// A child of ours changed.
    Child(ChildKind),
    /// A Secret or ConfigMap of anybody changed.
    Consumed(Source),
    /// Somebody else wrote the record of an operator's token.
    Record,
    /// A namespace changed.
    Namespace,
}

/// Enqueues control planes when something changed that concerns them.
pub(crate) struct Triggers {
    control_planes: ControlPlanes,
    grant_index: Arc<GrantIndex>,
    records: Mutex<Records>,
    queue: Queue<ObjectKey>,
}

impl Triggers {
    /// Triggers of one term of leadership; `operator_namespace` is the operator's namespace.
    pub(crate) fn new(
        control_planes: ControlPlanes,
        grant_index: Arc<GrantIndex>,
        operator_namespace: &str,
        queue: Queue<ObjectKey>,
    ) -> Self {
        Self { control_planes, grant_index, records: Mutex::new(Records::of(operator_namespace)), queue }
    }

    fn is_lost(&self, change: &Change) -> bool {
        self.records.lock().unwrap_or_else(PoisonError::into_inner).is_lost(change)
    }

    /// Enqueues whom a change concerns.
    fn follow(&self, trigger: Trigger, change: &Change) {
        self.enqueue_refused(self.grant_index.note(trigger, change));
        self.enqueue(trigger, change);
    }

    fn enqueue(&self, trigger: Trigger, change: &Change) {
        for control_plane in self.candidates(trigger, change) {
            if concerns(trigger, change, &control_plane) {
                self.queue.enqueue(ObjectKey::of(control_plane.meta()));
            }
        }
    }

    /// Enqueues whoever has rights where they are refused, also if its spec does not say so or cannot be read.
    fn enqueue_refused(&self, owners: Owners) {
        if owners == Owners::default() {
            return;
        }
        let keys = self.control_planes.all().into_iter().map(|object| ObjectKey::of(object.meta()));
        keys.filter(|key| owners.contains(&key.labelled())).for_each(|key| self.queue.enqueue(key));
    }

    /// The control planes that a change may concern. A child names its owner, and only that one is looked at: looking at
    /// each for every change of a child would cost the square of their number. What is consumed may belong to anybody.
    fn candidates(&self, trigger: Trigger, change: &Change) -> Vec<Arc<Kept<CoderControlPlane>>> {
        let mut owners = change.metadata.owner_references.iter().flatten();
        match (trigger, owners.find(|owner| owner.controller == Some(true))) {
            (Trigger::Child(_), Some(owner)) => {
                let namespace = change.metadata.namespace.as_deref().unwrap_or_default();
                self.control_planes.named(namespace, &owner.name).into_iter().collect()
            }
            _ => self.control_planes.all(),
        }
    }
}

impl WatchHandler for Triggers {
    fn kind(&self) -> &'static str {
        KIND[1]
    }

    fn enqueue_owner(&self, key: ObjectKey) {
        self.queue.enqueue(key);
    }

    fn changed(&self, changed: Changed, change: &Change) {
        let trigger = match changed {
            Changed::Child(kind) => Trigger::Child(kind),
            Changed::Consumed(Source::Secret) if self.is_lost(change) => Trigger::Record,
            Changed::Consumed(source) => Trigger::Consumed(source),
            Changed::Namespace => Trigger::Namespace,
        };
        self.follow(trigger, change);
    }

    fn found(&self, kind: ChildKind, change: &Change) {
        self.follow(Trigger::Child(kind), change);
    }

    fn enqueue_all(&self) {
        self.control_planes.all().iter().for_each(|one| self.queue.enqueue(ObjectKey::of(one.meta())));
    }

    fn enqueue_asking_for(&self, kind: ChildKind) {
        for control_plane in self.control_planes.all() {
            if let Ok(control_plane) = control_plane.read()
                && asks_for(kind, &control_plane)
            {
                self.queue.enqueue(ObjectKey::of(&control_plane.metadata));
            }
        }
    }
}

/// Enqueues every control plane whose access is needed otherwise than it was in `before`, until it is dropped.
pub(crate) async fn follow_dependants(
    mut dependants: Dependants,
    mut before: dependants::Seen,
    control_planes: ControlPlanes,
    queue: Queue<ObjectKey>,
) {
    loop {
        dependants.changed().await;
        let now = dependants.seen();
        if now != before {
            for object in control_planes.all() {
                let (key, uid) =
                    (ObjectKey::of(object.meta()), object.meta().uid.as_deref().unwrap_or_default());
                if now.of(&key, uid) != before.of(&key, uid) {
                    queue.enqueue(key);
                }
            }
        }
        before = now;
    }
}

/// Whether a child belongs to a control plane: by its controller, or by its labels where it has none. The name counts and
/// not the uid: one that an earlier control plane of this name left is in the way until it goes.
fn belongs(metadata: &ObjectMeta, control_plane: &ObjectMeta) -> bool {
    let mut owners = metadata.owner_references.iter().flatten();
    if let Some(owner) = owners.find(|owner| owner.controller == Some(true)) {
        return owner.kind == CoderControlPlane::kind(&())
            && Some(&owner.name) == control_plane.name.as_ref()
            && metadata.namespace == control_plane.namespace;
    }
    let named = |name: &str| metadata.labels.as_ref().and_then(|labels| labels.get(name));
    named(label::CONTROL_PLANE_NAMESPACE) == control_plane.namespace.as_ref()
        && named(label::CONTROL_PLANE) == control_plane.name.as_deref().map(instance_label).as_ref()
}

/// Whether a control plane must be looked at again because of an object that changed. Its spec is read only where the name
/// of that object stands in it: every object of the cluster passes by here.
pub(super) fn concerns(trigger: Trigger, change: &Change, control_plane: &Kept<CoderControlPlane>) -> bool {
    let metadata = &change.metadata;
    let (Some(name), here) = (&metadata.name, metadata.namespace == control_plane.meta().namespace) else {
        return false;
    };
    let read = || control_plane.read().ok();
    match trigger {
        Trigger::Child(_) | Trigger::Record => belongs(metadata, control_plane.meta()),
        // Its own one says whether admission is disabled.
        Trigger::Namespace if control_plane.meta().namespace.as_ref() == Some(name) => true,
        Trigger::Namespace => {
            control_plane.mentions(name) && read().is_some_and(|one| has_workspaces_in(&one, name))
        }
        Trigger::Consumed(kind) => {
            let is_read_by_us = || {
                let is_named = here && kind == Source::Secret && control_plane.mentions(name);
                is_named && read().is_some_and(|one| operator_reads(&one, name))
            };
            reads(control_plane, kind, metadata, build::consumed) || is_read_by_us()
        }
    }
}

fn has_workspaces_in(control_plane: &CoderControlPlane, name: &str) -> bool {
    let namespaces = control_plane.spec.rbac.iter().flat_map(|rbac| &rbac.workspace_namespaces);
    namespaces.into_iter().any(|namespace| namespace.trim() == name)
}

/// Whether a control plane asks for a child of a kind that the cluster may lack.
pub(super) fn asks_for(kind: ChildKind, control_plane: &CoderControlPlane) -> bool {
    let spec = &control_plane.spec;
    match kind {
        ChildKind::HttpRoute => spec.expose.as_ref().is_some_and(|expose| expose.gateway.is_some()),
        ChildKind::ServiceMonitor => {
            spec.metrics.as_ref().is_some_and(|metrics| metrics.service_monitor.is_some())
        }
        ChildKind::ServiceAccount
        | ChildKind::Role
        | ChildKind::RoleBinding
        | ChildKind::Deployment
        | ChildKind::Service
        | ChildKind::Ingress
        | ChildKind::PodDisruptionBudget
        | ChildKind::PodMonitor => false,
    }
}

/// Whether the operator itself reads a Secret for this control plane.
fn operator_reads(control_plane: &CoderControlPlane, name: &str) -> bool {
    let spec = &control_plane.spec;
    let token = spec.operator_access.as_ref().and_then(|access| access.token_secret_ref.as_ref());
    [spec.license_secret_ref.as_ref(), token].into_iter().flatten().any(|reference| reference.name == name)
}

mod grant_index;
mod records;

pub(crate) use grant_index::GrantIndex;
use grant_index::Owners;
use records::Records;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::controller::control_plane::build::fixtures::ControlPlane;
    use serde_json::{from_str, from_value, json};

    fn kept(object: &serde_json::Value) -> Kept<CoderControlPlane> {
        from_str(&object.to_string()).unwrap()
    }

    #[test]
    fn what_the_pods_consume_stands_in_the_spec_by_its_name() {
        let everything = ControlPlane::test().with_everything();
        let plane = kept(&everything.object);
        let consumed = build::consumed(&plane.read().unwrap());
        assert!(consumed.len() > 3, "{consumed:?}");
        for one in consumed {
            let metadata = json!({"name": one.name, "namespace": plane.meta().namespace});
            let change = Change { gone: false, metadata: from_value(metadata).unwrap() };
            assert!(concerns(Trigger::Consumed(one.kind), &change, &plane), "{one:?}");
            let metadata = json!({"name": one.name, "namespace": "elsewhere"});
            let change = Change { gone: false, metadata: from_value(metadata).unwrap() };
            assert!(!concerns(Trigger::Consumed(one.kind), &change, &plane), "{one:?}");
        }
    }

    #[test]
    fn the_operators_own_token_concerns_its_control_plane_wherever_it_lives() {
        let plane = kept(&json!({"metadata": {"name": "coder", "namespace": "team"}, "spec": {}}));
        let token = |name: &str| Change {
            gone: false,
            metadata: from_value(
                json!({"name": "team.coder.operator-token", "namespace": "operator", "labels": {
                "coder.com/control-plane": name, "coder.com/control-plane-namespace": "team"}}),
            )
            .unwrap(),
        };
        assert!(concerns(Trigger::Record, &token("coder"), &plane));
        assert!(!concerns(Trigger::Consumed(Source::Secret), &token("coder"), &plane), "written by us");
        assert!(!concerns(Trigger::Record, &token("other"), &plane));
    }

    #[test]
    fn a_namespace_concerns_the_control_planes_in_it_and_those_that_run_workspaces_there() {
        let plane = kept(&json!({"metadata": {"name": "coder", "namespace": "operator_namespace"},
            "spec": {"rbac": {"workspaceNamespaces": [" team "]}}}));
        let concerned = |name: &str| {
            let metadata = from_value(json!({ "name": name })).unwrap();
            concerns(Trigger::Namespace, &Change { gone: false, metadata }, &plane)
        };
        assert!(concerned("operator_namespace"), "its label may disable admission");
        assert!(concerned("team") && !concerned("other"));
    }

    #[test]
    fn a_child_of_an_earlier_object_of_the_same_name_concerns_the_new_one() {
        let plane =
            kept(&json!({"metadata": {"name": "coder", "namespace": "team", "uid": "new"}, "spec": {}}));
        let child = |kind: &str, name: &str, namespace: &str| {
            Change {
            gone: true,
            metadata: from_value(json!({"name": "coder", "namespace": namespace, "ownerReferences": [
                {"apiVersion": "coder.com/v1alpha1", "kind": kind, "name": name, "uid": "old", "controller": true}]}))
            .unwrap(),
        }
        };
        assert!(concerns(
            Trigger::Child(ChildKind::Service),
            &child("CoderControlPlane", "coder", "team"),
            &plane
        ));
        assert!(!concerns(
            Trigger::Child(ChildKind::Service),
            &child("CoderControlPlane", "other", "team"),
            &plane
        ));
        assert!(!concerns(
            Trigger::Child(ChildKind::Service),
            &child("CoderProvisioner", "coder", "team"),
            &plane
        ));
        assert!(!concerns(
            Trigger::Child(ChildKind::Service),
            &child("CoderControlPlane", "coder", "elsewhere"),
            &plane
        ));
    }

    #[test]
    fn only_who_asks_for_a_kind_is_looked_at_when_it_comes() {
        let plane = |spec: serde_json::Value| -> CoderControlPlane {
            from_value(json!({"metadata": {"name": "coder"}, "spec": spec})).unwrap()
        };
        let routed =
            plane(json!({"expose": {"gateway": {"host": "a.example.com", "parentRefs": [{"name": "b"}]}}}));
        let monitored = plane(json!({"metrics": {"serviceMonitor": {}}}));
        assert!(asks_for(ChildKind::HttpRoute, &routed) && !asks_for(ChildKind::HttpRoute, &monitored));
        assert!(
            asks_for(ChildKind::ServiceMonitor, &monitored) && !asks_for(ChildKind::ServiceMonitor, &routed)
        );
    }

    #[test]
    fn a_grant_elsewhere_finds_its_control_plane_however_long_its_name() {
        let name = "x".repeat(70);
        let plane = kept(&json!({"metadata": {"name": name, "namespace": "team"}, "spec": {}}));
        let metadata = from_value(json!({"name": "role", "namespace": "elsewhere", "labels": {
            "coder.com/control-plane": instance_label(&name), "coder.com/control-plane-namespace": "team"}}));
        let change = Change { gone: false, metadata: metadata.unwrap() };
        assert!(concerns(Trigger::Child(ChildKind::Service), &change, &plane));
    }
}
