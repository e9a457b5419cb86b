//! Secrets and ConfigMaps of others that pods read: it takes the right to run pods, and the right to read them is not enough.

use super::Gain;
use serde_json::{Value, json};
use webhooks::Kind::{self, ControlPlane, WorkspaceProxy};

/// A reference to a Secret or ConfigMap called payroll: who may read it, and no more, may not have it mounted.
fn reading(kind: Kind, field: &str, spec: Value) -> Gain {
    Gain::running(kind, field, spec).too_little(&["get secrets payroll", "get configmaps payroll"])
}

pub(super) fn references_of_pods(kind: Kind) -> Vec<Gain> {
    let key = json!({ "name": "payroll", "key": "k" });
    let env = |from: &str| json!([{ "name": "A", "valueFrom": { from: key } }]);
    let from = |from: &str| json!([{ from: { "name": "payroll" } }]);
    let volume = |kind: &str, source: Value| json!([{ "name": "v", kind: source }]);
    let before = |key: &str, value: Value| json!([{ "name": "before", key: value }]);
    let projected = json!({ "sources": [{ "secret": { "name": "payroll" } }] });
    let csi = json!({ "driver": "d.example.com", "nodePublishSecretRef": { "name": "payroll" } });
    let copied = json!({ "volumeClaimTemplate": { "spec": { "accessModes": ["ReadWriteOnce"],
        "resources": { "requests": { "storage": "1Gi" } },
        "dataSource": { "kind": "PersistentVolumeClaim", "name": "payroll" } } } });
    [
        ("imagePullSecrets", json!([{ "name": "payroll" }])),
        ("certs", json!({ "secrets": [key] })),
        ("envFrom", from("secretRef")),
        ("envFrom", from("configMapRef")),
        ("extraEnv", env("secretKeyRef")),
        ("extraEnv", env("configMapKeyRef")),
        ("initContainers", before("env", env("secretKeyRef"))),
        ("initContainers", before("envFrom", from("configMapRef"))),
        ("volumes", volume("secret", json!({ "secretName": "payroll" }))),
        ("volumes", volume("configMap", json!({ "name": "payroll" }))),
        ("volumes", volume("projected", projected)),
        ("volumes", volume("persistentVolumeClaim", json!({ "claimName": "payroll" }))),
        ("volumes", volume("csi", csi)),
        ("volumes", volume("ephemeral", copied)),
    ]
    .map(|(field, value)| reading(kind, field, json!({ field: value })))
    .into()
}

pub(super) fn references_of_kinds() -> Vec<Gain> {
    let tls = json!({ "secretNames": ["payroll"] });
    [
        (ControlPlane, "licenseSecretRef", json!({ "name": "payroll" })),
        (ControlPlane, "operatorAccess", json!({ "tokenSecretRef": { "name": "payroll" } })),
        (ControlPlane, "tls", tls.clone()),
        (WorkspaceProxy, "tls", tls),
    ]
    .map(|(kind, field, value)| reading(kind, field, json!({ field: value })))
    .into()
}
