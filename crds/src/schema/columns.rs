//! Decides what `kubectl get` shows of an object: the same columns for every kind.
//! Never decides what is in them: the reconciler writes the status they read.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceColumnDefinition;

/// The columns of a kind whose address is found at `url_path`.
pub(super) fn columns(url_path: &str) -> Vec<CustomResourceColumnDefinition> {
    let ready = |field: &str| format!(r#".status.conditions[?(@.type=="Ready")].{field}"#);
    vec![
        column("Ready", "string", &ready("status"), "Whether it runs as the spec asks."),
        column("Reason", "string", &ready("reason"), "Why it is ready or not, in one word."),
        column("Suspended", "boolean", ".spec.suspend", "Whether the operator leaves it as it is."),
        wide(column("Message", "string", &ready("message"), "Why it is ready or not, in a sentence.")),
        wide(column("Phase", "string", ".status.phase", "Ready or Pending.")),
        column("Replicas", "integer", ".status.readyReplicas", "Pods that are ready."),
        column(
            "URL",
            "string",
            url_path,
            "Address of coderd or the proxy, as the pods of the cluster see it.",
        ),
        column("Version", "string", ".status.version", "Version of Coder that runs."),
        column("Age", "date", ".metadata.creationTimestamp", "Time since the object was created."),
    ]
}

fn column(name: &str, type_: &str, json_path: &str, description: &str) -> CustomResourceColumnDefinition {
    CustomResourceColumnDefinition {
        name: name.into(),
        type_: type_.into(),
        json_path: json_path.into(),
        description: Some(description.into()),
        ..Default::default()
    }
}

/// Shown only by `kubectl get -o wide`.
fn wide(column: CustomResourceColumnDefinition) -> CustomResourceColumnDefinition {
    CustomResourceColumnDefinition { priority: Some(1), ..column }
}
