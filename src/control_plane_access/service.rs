//! Decides whether a Service leads to the pods of a control plane: whoever answers elsewhere is not its coderd, so that
//! above all no token is sent there. Pure: it looks at one object.

use serde_json::Value;

/// Whether a Service leads to pods with these labels and nowhere else. Whoever may change Services could send us, and our
/// token with us, to somebody else.
pub(crate) fn leads_to(service: &Value, labels: &Value) -> bool {
    let spec = &service["spec"];
    let inside = ["ClusterIP", "NodePort", "LoadBalancer"].iter().any(|kind| spec["type"] == *kind);
    // An external name is only heeded with that type, and stays behind when ours is put back.
    inside && spec["selector"] == *labels
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn only_a_service_that_leads_to_our_pods_is_asked() {
        let labels = json!({ "app": "coder" });
        let leads = |spec: Value| leads_to(&json!({ "spec": spec }), &labels);
        for kind in ["ClusterIP", "NodePort", "LoadBalancer"] {
            assert!(leads(json!({ "type": kind, "selector": { "app": "coder" } })), "{kind}");
            let mended =
                json!({ "type": kind, "externalName": "evil.example.com", "selector": { "app": "coder" } });
            assert!(leads(mended), "{kind}: the API server leaves the name behind");
        }
        for attack in [
            json!({ "type": "ExternalName", "externalName": "evil.example.com", "selector": { "app": "coder" } }),
            json!({ "type": "ClusterIP", "selector": { "app": "evil" } }),
            json!({ "type": "ClusterIP", "selector": { "app": "coder", "evil": "yes" } }),
            json!({ "type": "ClusterIP", "selector": {} }),
            json!({ "type": "ClusterIP" }),
            json!({ "selector": { "app": "coder" } }),
        ] {
            assert!(!leads(attack.clone()), "{attack}");
        }
    }
}
