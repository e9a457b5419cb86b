//! Decides what is kept of a live child besides its version: what a reconcile that changes nothing has to know of it. Pure.
//! It never keeps what a Secret, a template or a label of others may hold.

use crate::controller::children::ChildKind;
use serde_json::{Value, json};

/// Bytes that are kept of a child.
const LONGEST_KEPT: usize = 4 * 1024;

/// What is kept of a live object: by whom it is controlled, where a Service leads, how far a Deployment has come. Anybody may
/// add labels and references.
pub(super) fn kept(kind: ChildKind, live: &Value) -> Option<Box<str>> {
    let kept = match kind {
        ChildKind::ServiceAccount => json!({ "metadata": { "ownerReferences": controllers(live) } }),
        ChildKind::Service => {
            let spec = &live["spec"];
            let mut ports = spec["ports"].as_array().into_iter().flatten();
            let plain = ports.find(|port| port["name"] == "http");
            let ports = Vec::from_iter(plain.map(|port| json!({ "name": "http", "port": port["port"] })));
            json!({ "spec": { "type": spec["type"], "selector": spec["selector"], "ports": ports } })
        }
        ChildKind::Deployment => {
            let (spec, pod) = (&live["spec"], &live["spec"]["template"]["spec"]);
            let containers = pod["containers"].as_array().into_iter().flatten();
            let containers = containers.map(|one| json!({ "name": one["name"], "image": one["image"] }));
            let pod = json!({ "serviceAccountName": pod["serviceAccountName"], "containers": Vec::from_iter(containers) });
            json!({ "metadata": { "generation": live["metadata"]["generation"], "ownerReferences": controllers(live) },
                "spec": { "replicas": spec["replicas"], "template": { "spec": pod } }, "status": live["status"] })
        }
        ChildKind::Role
        | ChildKind::RoleBinding
        | ChildKind::Ingress
        | ChildKind::HttpRoute
        | ChildKind::PodDisruptionBudget
        | ChildKind::ServiceMonitor
        | ChildKind::PodMonitor => Value::Null,
    };
    let text = kept.to_string();
    (text.len() <= LONGEST_KEPT).then(|| text.into_boxed_str())
}

/// Who controls an object.
fn controllers(live: &Value) -> Vec<Value> {
    let owners = live["metadata"]["ownerReferences"].as_array().into_iter().flatten();
    let controllers = owners.filter(|owner| owner["controller"] == true);
    controllers.take(1).map(|owner| json!({ "uid": owner["uid"], "controller": true })).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_deployment_it_is_kept_what_runs_and_how_far_it_is() {
        let status = json!({ "readyReplicas": 1, "conditions": [{ "type": "Progressing", "reason": "R" }] });
        let owner = json!({ "uid": "u", "name": "coder", "controller": true });
        let deployment = |image: &str| {
            json!({ "metadata": { "generation": 3, "managedFields": [{}], "ownerReferences": [owner] },
                "spec": { "replicas": 1, "selector": {}, "template": { "spec": { "serviceAccountName": "coder", "volumes": [],
                    "containers": [{ "name": "coder", "image": image, "env": [{ "name": "A", "value": "secret" }] }] } } },
                "status": status })
        };
        let kept = |image: &str| super::kept(ChildKind::Deployment, &deployment(image));
        let text = kept("coder:v2").unwrap();
        let pod = json!({ "serviceAccountName": "coder", "containers": [{ "name": "coder", "image": "coder:v2" }] });
        let expected = json!({ "metadata": { "generation": 3, "ownerReferences": [{ "uid": "u", "controller": true }] },
            "spec": { "replicas": 1, "template": { "spec": pod } }, "status": status });
        assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), expected);
        assert_eq!(kept(&"x".repeat(LONGEST_KEPT)), None, "one of which there would be too much is read");
    }
}
