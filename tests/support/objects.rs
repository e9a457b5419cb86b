//! Objects as JSON: the manifests that most suites apply, and the questions that they ask of what comes back.
//! It never talks to anybody.

use serde_json::{Value, json};

/// A control plane.
pub fn control_plane(namespace: &str, name: &str, spec: &Value) -> Value {
    json!({ "apiVersion": "coder.com/v1alpha1", "kind": "CoderControlPlane",
        "metadata": { "name": name, "namespace": namespace }, "spec": spec })
}

/// A provisioner of a control plane, which needs a token of the operator's own.
pub fn provisioner(namespace: &str, name: &str, control_plane: &str) -> Value {
    json!({ "apiVersion": "coder.com/v1alpha1", "kind": "CoderProvisioner",
        "metadata": { "name": name, "namespace": namespace },
        "spec": { "controlPlaneRef": { "name": control_plane } } })
}

/// A workspace proxy of a control plane, which needs a token of the operator's own.
pub fn workspace_proxy(namespace: &str, name: &str, control_plane: &str) -> Value {
    json!({ "apiVersion": "coder.com/v1alpha1", "kind": "CoderWorkspaceProxy",
        "metadata": { "name": name, "namespace": namespace },
        "spec": { "controlPlaneRef": { "name": control_plane } } })
}

/// A Secret with this text in it.
pub fn secret(namespace: &str, name: &str, data: &Value) -> Value {
    json!({ "apiVersion": "v1", "kind": "Secret",
        "metadata": { "name": name, "namespace": namespace }, "stringData": data })
}

/// A condition of an object; null if it has none of that type.
pub fn condition<'a>(object: &'a Value, name: &str) -> &'a Value {
    let conditions = object["status"]["conditions"].as_array();
    conditions.into_iter().flatten().find(|condition| condition["type"] == name).unwrap_or(&Value::Null)
}

/// Whether the status is about the generation there is.
pub fn is_observed(object: &Value) -> bool {
    object["status"]["observedGeneration"] == object["metadata"]["generation"]
}

/// Whether Ready is true for the generation there is.
pub fn is_ready(object: &Value) -> bool {
    let ready = condition(object, "Ready");
    is_observed(object)
        && ready["status"] == "True"
        && ready["observedGeneration"] == object["metadata"]["generation"]
}

/// The text at a JSON pointer; empty if there is none.
pub fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}
