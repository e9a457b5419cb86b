//! Removes what an earlier spec asked for and this one does not: rights in workspace namespaces, a way from outside, a
//! budget, a monitor. It removes only what carries our mark, by uid.

use super::desired::{Child, Children};
use crate::controller::drift;
use crate::kubernetes::{CallError, Kube, Target};
use crds::well_known::{MANAGER, annotation, label};
use serde_json::Value;

/// Kinds of which a control plane has at most one, and sometimes none: apiVersion, kind, plural.
const OPTIONAL: [(&str, &str, &str); 4] = [
    ("networking.k8s.io/v1", "Ingress", "ingresses"),
    ("gateway.networking.k8s.io/v1", "HTTPRoute", "httproutes"),
    ("policy/v1", "PodDisruptionBudget", "poddisruptionbudgets"),
    ("monitoring.coreos.com/v1", "ServiceMonitor", "servicemonitors"),
];

const RBAC: &str = "rbac.authorization.k8s.io/v1";
const GRANTS: [(&str, &str); 2] = [("RoleBinding", "rolebindings"), ("Role", "roles")];

/// Which control plane.
#[derive(Debug, Clone, Copy)]
pub struct Origin<'a> {
    /// Its namespace.
    pub namespace: &'a str,
    /// Its name.
    pub name: &'a str,
    /// Its uid.
    pub uid: &'a str,
}

/// Removes the optional children that are not wanted now.
pub async fn optional_children(kube: &Kube, origin: Origin<'_>, wanted: &Children) -> Result<(), CallError> {
    let wanted = [&wanted.ingress, &wanted.http_route, &wanted.disruption_budget, &wanted.service_monitor];
    for ((api_version, kind, plural), child) in OPTIONAL.into_iter().zip(wanted) {
        if child.is_some() {
            continue;
        }
        let target = Target { api_version, kind, plural, namespace: origin.namespace, name: origin.name };
        let live = kube.read(target).await?.filter(|live| drift::is_controlled_by(live, origin.uid));
        if let Some(uid) = live.as_ref().and_then(uid) {
            kube.remove(target, uid).await?;
        }
    }
    Ok(())
}

/// Removes the rights of coderd that are not among `kept`, in all namespaces.
pub async fn grants<'a>(
    kube: &Kube,
    origin: Origin<'_>,
    kept: impl Iterator<Item = &'a Child> + Clone,
) -> Result<(), CallError> {
    let selector = format!(
        "{}={MANAGER},{}={},{}={}",
        label::MANAGED_BY,
        label::CONTROL_PLANE,
        origin.name,
        label::CONTROL_PLANE_NAMESPACE,
        origin.namespace
    );
    for (kind, plural) in GRANTS {
        let all = Target { api_version: RBAC, kind, plural, namespace: "", name: "" };
        for live in kube.labelled(all, &selector).await? {
            let text = |path: &str| live.pointer(path).and_then(Value::as_str).unwrap_or_default().to_owned();
            let (namespace, name) = (text("/metadata/namespace"), text("/metadata/name"));
            let wanted =
                |child: &Child| child.kind == kind && child.namespace == namespace && child.name == name;
            if kept.clone().any(wanted) || !is_grant_of(&live, origin) {
                continue;
            }
            if let Some(uid) = uid(&live) {
                kube.remove(Target { namespace: &namespace, name: &name, ..all }, uid).await?;
            }
        }
    }
    Ok(())
}

/// Whether a Role or RoleBinding was made for this very control plane, not for an earlier one of its name.
pub fn is_grant_of(live: &Value, origin: Origin<'_>) -> bool {
    let labels = &live["metadata"]["labels"];
    let marked = live["metadata"]["annotations"][annotation::WORKSPACE_RBAC_OWNER_UID] == origin.uid;
    let ours = labels[label::CONTROL_PLANE] == origin.name
        && labels[label::CONTROL_PLANE_NAMESPACE] == origin.namespace;
    drift::is_controlled_by(live, origin.uid) || (marked && ours)
}

fn uid(live: &Value) -> Option<&str> {
    live.pointer("/metadata/uid").and_then(Value::as_str)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_grant_is_known_by_the_uid_of_its_control_plane() {
        let origin = Origin { namespace: "coder", name: "a", uid: "u1" };
        let grant = |uid: &str, name: &str| {
            json!({"metadata": {
                "labels": {"coder.com/control-plane": name, "coder.com/control-plane-namespace": "coder"},
                "annotations": {"coder.com/workspace-rbac-owner-uid": uid}}})
        };
        assert!(is_grant_of(&grant("u1", "a"), origin));
        assert!(!is_grant_of(&grant("u2", "a"), origin), "an earlier control plane of this name");
        assert!(!is_grant_of(&grant("u1", "b"), origin));
        assert!(is_grant_of(
            &json!({"metadata": {"ownerReferences": [{"uid": "u1", "controller": true}]}}),
            origin
        ));
    }
}
