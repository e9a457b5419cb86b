//! Kinds that a cluster may have and ours does not: as much of their definitions as a test needs.
//! What their own controllers would do with objects of these kinds never happens here.

use serde_json::json;

/// HTTPRoute, ServiceMonitor and PodMonitor, as a List for `kubectl apply`.
pub fn optional_kinds() -> String {
    let definition = |group: &str, kind: &str, plural: &str| {
        json!({ "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": { "name": format!("{plural}.{group}"), "annotations": { "api-approved.kubernetes.io": "unapproved, for a test" } },
            "spec": { "group": group, "scope": "Namespaced",
                "names": { "kind": kind, "plural": plural, "singular": kind.to_lowercase() },
                "versions": [{ "name": "v1", "served": true, "storage": true,
                    "schema": { "openAPIV3Schema": { "type": "object", "x-kubernetes-preserve-unknown-fields": true } } }] } })
    };
    let items = [
        definition("gateway.networking.k8s.io", "HTTPRoute", "httproutes"),
        definition("monitoring.coreos.com", "ServiceMonitor", "servicemonitors"),
        definition("monitoring.coreos.com", "PodMonitor", "podmonitors"),
    ];
    json!({ "apiVersion": "v1", "kind": "List", "items": items }).to_string()
}
