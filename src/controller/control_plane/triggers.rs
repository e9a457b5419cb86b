//! Decides which control planes to look at when something else changed: a child, a Secret they consume, a namespace.
//! It keeps no objects: names and labels pass through, contents are read when they are needed.

use super::build;
use crate::controller::children::ChildKind;
use crate::controller::workload::consumed::{Consumed, Source};
use crate::kubernetes::{Change, Kept};
use crds::CoderControlPlane;
use crds::names::instance_label;
use crds::well_known::label;
use kube::Resource;
use kube::core::ObjectMeta;

/// Something that changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Changed {
    /// A child of ours.
    Child,
    /// A Secret or ConfigMap of anybody.
    Consumed(Source),
    /// The record of an operator's token, by somebody else.
    Record,
    /// A namespace.
    Namespace,
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
pub fn concerns(changed: Changed, change: &Change, control_plane: &Kept<CoderControlPlane>) -> bool {
    let metadata = &change.metadata;
    let (Some(name), here) = (&metadata.name, metadata.namespace == control_plane.meta().namespace) else {
        return false;
    };
    let read = || control_plane.read().ok();
    match changed {
        Changed::Child | Changed::Record => belongs(metadata, control_plane.meta()),
        // Its own one says whether admission is disabled.
        Changed::Namespace if control_plane.meta().namespace.as_ref() == Some(name) => true,
        Changed::Namespace => {
            control_plane.mentions(name) && read().is_some_and(|one| has_workspaces_in(&one, name))
        }
        Changed::Consumed(kind) => {
            here && control_plane.mentions(name) && read().is_some_and(|one| consumes(&one, kind, name))
        }
    }
}

fn has_workspaces_in(control_plane: &CoderControlPlane, name: &str) -> bool {
    let namespaces = control_plane.spec.rbac.iter().flat_map(|rbac| &rbac.workspace_namespaces);
    namespaces.into_iter().any(|namespace| namespace.trim() == name)
}

fn consumes(control_plane: &CoderControlPlane, kind: Source, name: &str) -> bool {
    let named = |one: &Consumed| one.kind == kind && one.name == *name;
    build::consumed(control_plane).iter().any(named)
        || kind == Source::Secret && operator_reads(control_plane, name)
}

/// Whether a control plane asks for a child of a kind that the cluster may lack.
pub fn asks_for(kind: ChildKind, control_plane: &CoderControlPlane) -> bool {
    let spec = &control_plane.spec;
    match kind {
        ChildKind::HttpRoute => spec.expose.as_ref().is_some_and(|expose| expose.gateway.is_some()),
        ChildKind::ServiceMonitor => {
            spec.metrics.as_ref().is_some_and(|metrics| metrics.service_monitor.is_some())
        }
        _ => false,
    }
}

/// Whether the operator itself reads a Secret for this control plane.
fn operator_reads(control_plane: &CoderControlPlane, name: &str) -> bool {
    let spec = &control_plane.spec;
    let token = spec.operator_access.as_ref().and_then(|access| access.token_secret_ref.as_ref());
    [spec.license_secret_ref.as_ref(), token].into_iter().flatten().any(|reference| reference.name == name)
}

mod abroad;
mod follow;
mod optional;
mod records;

pub use abroad::Abroad;
pub use follow::{ControlPlanes, follow};

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
            assert!(concerns(Changed::Consumed(one.kind), &change, &plane), "{one:?}");
            let metadata = json!({"name": one.name, "namespace": "elsewhere"});
            let change = Change { gone: false, metadata: from_value(metadata).unwrap() };
            assert!(!concerns(Changed::Consumed(one.kind), &change, &plane), "{one:?}");
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
        assert!(concerns(Changed::Record, &token("coder"), &plane));
        assert!(!concerns(Changed::Consumed(Source::Secret), &token("coder"), &plane), "written by us");
        assert!(!concerns(Changed::Record, &token("other"), &plane));
    }

    #[test]
    fn a_namespace_concerns_the_control_planes_in_it_and_those_that_run_workspaces_there() {
        let plane = kept(&json!({"metadata": {"name": "coder", "namespace": "home"},
            "spec": {"rbac": {"workspaceNamespaces": [" team "]}}}));
        let concerned = |name: &str| {
            let metadata = from_value(json!({ "name": name })).unwrap();
            concerns(Changed::Namespace, &Change { gone: false, metadata }, &plane)
        };
        assert!(concerned("home"), "its label may disable admission");
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
        assert!(concerns(Changed::Child, &child("CoderControlPlane", "coder", "team"), &plane));
        assert!(!concerns(Changed::Child, &child("CoderControlPlane", "other", "team"), &plane));
        assert!(!concerns(Changed::Child, &child("CoderProvisioner", "coder", "team"), &plane));
        assert!(!concerns(Changed::Child, &child("CoderControlPlane", "coder", "elsewhere"), &plane));
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
        assert!(concerns(Changed::Child, &change, &plane));
    }
}
