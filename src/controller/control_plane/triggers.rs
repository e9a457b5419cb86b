//! Decides which control planes to look at when something else changed: a child, a Secret they consume, a namespace.
//! It keeps no objects: names and labels pass through, contents are read when they are needed.

use super::desired::{self, Source};
use crate::kubernetes::{Change, KindName};
use crds::CoderControlPlane;
use crds::names::instance_label;
use crds::well_known::label;
use kube::core::ObjectMeta;
use kube::{Resource, ResourceExt};

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
fn belongs(metadata: &ObjectMeta, control_plane: &CoderControlPlane) -> bool {
    let mut owners = metadata.owner_references.iter().flatten();
    if let Some(owner) = owners.find(|owner| owner.controller == Some(true)) {
        return owner.kind == CoderControlPlane::kind(&())
            && Some(&owner.name) == control_plane.metadata.name.as_ref()
            && metadata.namespace == control_plane.metadata.namespace;
    }
    let named = |name: &str| metadata.labels.as_ref().and_then(|labels| labels.get(name));
    named(label::CONTROL_PLANE_NAMESPACE) == control_plane.metadata.namespace.as_ref()
        && named(label::CONTROL_PLANE) == Some(&instance_label(&control_plane.name_any()))
}

/// Whether a control plane must be looked at again because of an object that changed.
pub fn concerns(changed: Changed, change: &Change, control_plane: &CoderControlPlane) -> bool {
    let metadata = &change.metadata;
    let (Some(name), here) = (&metadata.name, metadata.namespace == control_plane.namespace()) else {
        return false;
    };
    match changed {
        Changed::Child | Changed::Record => belongs(metadata, control_plane),
        // Its own one says whether admission is disabled.
        Changed::Namespace if control_plane.metadata.namespace.as_ref() == Some(name) => true,
        Changed::Namespace => {
            let rbac = control_plane.spec.rbac.as_ref();
            rbac.is_some_and(|rbac| {
                rbac.workspace_namespaces.iter().any(|namespace| namespace.trim() == name)
            })
        }
        Changed::Consumed(kind) => {
            let named = |one: &desired::Consumed| one.kind == kind && one.name == *name;
            here && desired::consumed(control_plane).iter().any(named)
                || here && kind == Source::Secret && operator_reads(control_plane, name)
        }
    }
}

/// Whether a control plane asks for a child of a kind that the cluster may lack.
pub fn asks_for(kind: KindName, control_plane: &CoderControlPlane) -> bool {
    let spec = &control_plane.spec;
    match kind {
        desired::HTTP_ROUTE => spec.expose.as_ref().is_some_and(|expose| expose.gateway.is_some()),
        desired::SERVICE_MONITOR => {
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
    use serde_json::{from_value, json};

    #[test]
    fn the_operators_own_token_concerns_its_control_plane_wherever_it_lives() {
        let plane: CoderControlPlane =
            from_value(json!({"metadata": {"name": "coder", "namespace": "team"}, "spec": {}})).unwrap();
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
        let plane: CoderControlPlane = from_value(json!({"metadata": {"name": "coder", "namespace": "home"},
            "spec": {"rbac": {"workspaceNamespaces": [" team "]}}}))
        .unwrap();
        let concerned = |name: &str| {
            let metadata = from_value(json!({ "name": name })).unwrap();
            concerns(Changed::Namespace, &Change { gone: false, metadata }, &plane)
        };
        assert!(concerned("home"), "its label may disable admission");
        assert!(concerned("team") && !concerned("other"));
    }

    #[test]
    fn a_child_of_an_earlier_object_of_the_same_name_concerns_the_new_one() {
        let plane: CoderControlPlane =
            from_value(json!({"metadata": {"name": "coder", "namespace": "team", "uid": "new"}, "spec": {}}))
                .unwrap();
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
        assert!(asks_for(desired::HTTP_ROUTE, &routed) && !asks_for(desired::HTTP_ROUTE, &monitored));
        assert!(
            asks_for(desired::SERVICE_MONITOR, &monitored) && !asks_for(desired::SERVICE_MONITOR, &routed)
        );
    }

    #[test]
    fn a_grant_elsewhere_finds_its_control_plane_however_long_its_name() {
        let name = "x".repeat(70);
        let plane: CoderControlPlane =
            from_value(json!({"metadata": {"name": name, "namespace": "team"}, "spec": {}})).unwrap();
        let metadata = from_value(json!({"name": "role", "namespace": "elsewhere", "labels": {
            "coder.com/control-plane": instance_label(&name), "coder.com/control-plane-namespace": "team"}}));
        let change = Change { gone: false, metadata: metadata.unwrap() };
        assert!(concerns(Changed::Child, &change, &plane));
    }
}
