//! Decides which control planes to look at when something else changed: a child, a Secret they consume, a namespace.
//! It keeps no objects: names and labels pass through, contents are read when they are needed.

use super::desired::{self, Source};
use super::reconcile::Key;
use crds::CoderControlPlane;
use crds::well_known::label;
use kube::ResourceExt;
use kube::core::ObjectMeta;

/// Something that changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Changed {
    /// A child of ours.
    Child,
    /// A Secret or ConfigMap of anybody.
    Consumed(Source),
    /// A namespace.
    Namespace,
}

/// The control plane that a child belongs to: its controller, or the one its labels name.
pub fn owner(metadata: &ObjectMeta) -> Option<Key> {
    let owners = metadata.owner_references.iter().flatten();
    let mut controller =
        owners.filter(|owner| owner.controller == Some(true) && owner.kind == "CoderControlPlane");
    if let (Some(owner), Some(namespace)) = (controller.next(), &metadata.namespace) {
        return Some(Key { namespace: namespace.clone(), name: owner.name.clone() });
    }
    let labels = metadata.labels.as_ref()?;
    Some(Key {
        namespace: labels.get(label::CONTROL_PLANE_NAMESPACE)?.clone(),
        name: labels.get(label::CONTROL_PLANE)?.clone(),
    })
}

/// Whether a control plane must be looked at again because of an object that is not its child.
pub fn concerns(changed: Changed, metadata: &ObjectMeta, control_plane: &CoderControlPlane) -> bool {
    let (Some(name), here) = (&metadata.name, metadata.namespace == control_plane.namespace()) else {
        return false;
    };
    match changed {
        Changed::Child => false,
        Changed::Namespace => {
            let rbac = control_plane.spec.rbac.as_ref();
            rbac.is_some_and(|rbac| {
                rbac.workspace_namespaces.iter().any(|namespace| namespace.trim() == name)
            })
        }
        Changed::Consumed(kind) => {
            let named = |one: &desired::Consumed| one.kind == kind && one.name == *name;
            // The token of our own lives elsewhere and carries the labels of a child.
            kind == Source::Secret && owner(metadata) == Some(Key::of(control_plane))
                || here && desired::consumed(control_plane).iter().any(named)
                || here && kind == Source::Secret && operator_reads(control_plane, name)
        }
    }
}

/// Whether the operator itself reads a Secret for this control plane.
fn operator_reads(control_plane: &CoderControlPlane, name: &str) -> bool {
    let spec = &control_plane.spec;
    let token = spec.operator_access.as_ref().and_then(|access| access.token_secret_ref.as_ref());
    [spec.license_secret_ref.as_ref(), token].into_iter().flatten().any(|reference| reference.name == name)
}

mod follow;

pub use follow::{ControlPlanes, follow};

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{from_value, json};

    #[test]
    fn the_operators_own_token_concerns_its_control_plane_wherever_it_lives() {
        let plane: CoderControlPlane =
            from_value(json!({"metadata": {"name": "coder", "namespace": "team"}, "spec": {}})).unwrap();
        let token = |name: &str| -> ObjectMeta {
            from_value(json!({"name": "team.coder.operator-token", "namespace": "operator", "labels": {
                "coder.com/control-plane": name, "coder.com/control-plane-namespace": "team"}}))
            .unwrap()
        };
        assert!(concerns(Changed::Consumed(Source::Secret), &token("coder"), &plane));
        assert!(!concerns(Changed::Consumed(Source::Secret), &token("other"), &plane));
        assert!(!concerns(Changed::Consumed(Source::ConfigMap), &token("coder"), &plane));
    }
}
