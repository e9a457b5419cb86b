//! Finds a control plane among those that the shared watch has: by the name that an object refers to, or by the uid that was
//! recorded. It never asks the API server, and never takes another object of the same name for the one that was recorded.

use crate::kubernetes::{Kept, Reflected};
use crds::CoderControlPlane;
use kube::Resource;
use kube::core::ObjectMeta;
use serde_json::from_value;
use std::sync::Arc;

/// The control planes of the cluster.
pub(crate) type ControlPlanes = Reflected<Kept<CoderControlPlane>>;

/// What was found.
#[derive(Debug)]
pub(crate) enum Found {
    /// The object, as the watch has it.
    There(Box<CoderControlPlane>),
    /// It is there, and our types cannot read it; why.
    Unreadable(String),
    /// It is not there.
    Gone,
    /// Its namespace has not been listed: it is not known whether it is there.
    Unlisted,
}

/// The control plane of this name.
pub(crate) fn named(control_planes: &ControlPlanes, namespace: &str, name: &str) -> Found {
    found(control_planes.named(namespace, name), control_planes.is_listed(namespace))
}

/// The control plane of this uid in a namespace, whatever it is called.
pub(crate) fn of_uid(control_planes: &ControlPlanes, namespace: &str, uid: &str) -> Found {
    found(with_uid(control_planes.all(), namespace, uid), control_planes.is_listed(namespace))
}

fn with_uid<K: Resource>(all: Vec<Arc<K>>, namespace: &str, uid: &str) -> Option<Arc<K>> {
    let is_it = |metadata: &ObjectMeta| {
        metadata.namespace.as_deref() == Some(namespace) && metadata.uid.as_deref() == Some(uid)
    };
    all.into_iter().find(|one| is_it(one.meta()))
}

fn found(kept: Option<Arc<Kept<CoderControlPlane>>>, is_listed: bool) -> Found {
    match kept.map(|kept| read(&kept)) {
        Some(Ok(object)) => Found::There(Box::new(object)),
        Some(Err(error)) => Found::Unreadable(error.to_string()),
        None if is_listed => Found::Gone,
        None => Found::Unlisted,
    }
}

/// With its status, as far as it is kept and can be read: it only says more of what is not there yet.
fn read(kept: &Kept<CoderControlPlane>) -> Result<CoderControlPlane, serde_json::Error> {
    let whole = kept.object().and_then(|object| from_value(object).ok());
    whole.map_or_else(|| kept.read(), Ok)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, from_str, json};

    fn kept(name: &str, uid: &str, spec: Value) -> Arc<Kept<CoderControlPlane>> {
        let metadata = json!({ "name": name, "namespace": "team", "uid": uid });
        Arc::new(from_str(&json!({ "metadata": metadata, "spec": spec }).to_string()).unwrap())
    }

    #[test]
    fn a_recorded_control_plane_is_found_by_uid_in_its_namespace_and_no_other_is() {
        let all = || vec![kept("a", "u1", json!({})), kept("b", "u2", json!({ "replicas": "two" }))];
        let of = |namespace: &str, uid: &str| found(with_uid(all(), namespace, uid), true);
        assert!(matches!(of("team", "u1"), Found::There(one) if one.metadata.name.as_deref() == Some("a")));
        assert!(matches!(of("team", "u2"), Found::Unreadable(why) if why.contains("two")));
        assert!(matches!(of("elsewhere", "u1"), Found::Gone));
        assert!(matches!(of("team", "u3"), Found::Gone), "another of its name has another uid");
        assert!(matches!(found(None, false), Found::Unlisted), "nothing is gone before all were seen");
    }
}
