//! Decides what `kubectl get` shows of an object: the same columns for every kind, and between them what only it has.
//! Never decides what is in them: the reconciler writes the status they read.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceColumnDefinition as Column;

/// The columns of a kind with `own` ones.
pub(super) fn columns(own: Vec<Column>) -> Vec<Column> {
    let ready = |field: &str| format!(r#".status.conditions[?(@.type=="Ready")].{field}"#);
    let mut columns = vec![
        column("Ready", "string", &ready("status"), "Whether it runs as the spec asks."),
        column("Reason", "string", &ready("reason"), "Why it is ready or not, in one word."),
        column("Suspended", "boolean", ".spec.suspend", "Whether the operator leaves it as it is."),
        wide(column("Message", "string", &ready("message"), "Why it is ready or not, in a sentence.")),
        wide(column("Phase", "string", ".status.phase", "Ready or Pending.")),
        column("Replicas", "integer", ".status.readyReplicas", "Pods that are ready."),
    ];
    columns.extend(own);
    columns.push(column("Version", "string", ".status.version", "Version of Coder that runs."));
    columns.push(column("Age", "date", ".metadata.creationTimestamp", "Time since the object was created."));
    columns
}

/// Of a control plane: its address.
pub(super) fn control_plane() -> Vec<Column> {
    vec![url("Address of coderd, as the pods of the cluster see it.")]
}

/// Of a proxy: its address for users, and that of its Service.
pub(super) fn workspace_proxy() -> Vec<Column> {
    let access = "Address by which users and coderd reach the proxy.";
    vec![
        column("Access URL", "string", ".status.resolved.accessURL", access),
        wide(url("Address of the proxy, as the pods of the cluster see it.")),
    ]
}

fn url(what: &str) -> Column {
    column("URL", "string", ".status.url", what)
}

/// Of a provisioner: whose builds it runs, with which key, and whether coderd sees its daemons.
pub(super) fn provisioner() -> Vec<Column> {
    vec![
        column("Control Plane", "string", ".spec.controlPlaneRef.name", "Control plane whose builds run."),
        column("Key", "string", ".status.provisionerKeyName", "Key the daemons use, by its name in coderd."),
        column("Daemons", "integer", ".status.daemons", "Daemons that coderd sees connected."),
        wide(column("Pending Jobs", "integer", ".status.pendingJobs", "Builds that wait for such a daemon.")),
        wide(column("Key Age", "date", ".status.key.current.since", "Time since the key is in use.")),
        wide(column("Organization", "string", ".status.organizationName", "Organization of the key.")),
        wide(column("Image", "string", ".status.resolved.image", "Image of the daemons.")),
        wide(column("URL", "string", ".status.controlPlaneURL", "Address of the control plane.")),
    ]
}

fn column(name: &str, type_: &str, json_path: &str, description: &str) -> Column {
    Column {
        name: name.into(),
        type_: type_.into(),
        json_path: json_path.into(),
        description: Some(description.into()),
        ..Default::default()
    }
}

/// Shown only by `kubectl get -o wide`.
fn wide(column: Column) -> Column {
    Column { priority: Some(1), ..column }
}
