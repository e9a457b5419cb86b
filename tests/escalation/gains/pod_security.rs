//! Parts of the pod that Pod Security keeps from a restricted namespace: doors to the node, and disks of others.

use super::Gain;
use serde_json::{Value, json};
use webhooks::Kind;

/// A part of the pod that is outside of what Pod Security calls restricted.
fn power(kind: Kind, top: &str, field: &str, value: Value) -> Gain {
    Gain::of(kind, json!({ top: value }))
        .refused(&format!("spec.{top}"), "CODER0509")
        .refused(&format!("spec.{top}{field}"), "CODER0507")
        .enough(&["create pods"])
        .enough(&["create pods @*"])
        .too_little(&["get secrets", "create deployments.apps"])
        .too_little(&["create pods @team-a"])
        .too_little(&["get,update pods"])
}

/// The node below the pod, and disks of others.
pub(super) fn powers_of_volumes(of: Kind) -> Vec<Gain> {
    let volume = |kind: &str, source: Value| {
        power(of, "volumes", &format!("[0].{kind}"), json!([{ "name": "v", kind: source }]))
    };
    let payroll = json!({ "name": "payroll" });
    vec![
        volume("hostPath", json!({ "path": "/" })),
        volume("nfs", json!({ "server": "s", "path": "/" })),
        volume("azureFile", json!({ "shareName": "s", "secretName": "payroll" })),
        volume("cephfs", json!({ "monitors": ["m"], "secretRef": payroll })),
        volume("rbd", json!({ "image": "i", "monitors": ["m"], "secretRef": payroll })),
        volume("iscsi", json!({ "iqn": "q", "lun": 0, "targetPortal": "p", "secretRef": payroll })),
    ]
}

/// Doors to the node.
pub(super) fn powers_of_contexts(of: Kind) -> Vec<Gain> {
    let context = |name: &str, field: &str, value: Value| power(of, name, &format!(".{field}"), value);
    let both = |field: &str, value: Value| {
        ["securityContext", "podSecurityContext"].map(|name| context(name, field, value.clone()))
    };
    let container = |field: &str, value: Value| context("securityContext", field, value);
    let unconfined = json!({ "type": "Unconfined" });
    let sysctl = json!({ "name": "kernel.msgmax", "value": "1" });
    let mut gains = vec![
        container("privileged", json!({ "privileged": true })),
        container("allowPrivilegeEscalation", json!({ "allowPrivilegeEscalation": true })),
        container("capabilities.add[0]", json!({ "capabilities": { "add": ["SYS_ADMIN"] } })),
        container("capabilities.drop", json!({ "capabilities": { "drop": ["KILL"] } })),
        container("procMount", json!({ "procMount": "Unmasked" })),
        context("podSecurityContext", "sysctls[0]", json!({ "sysctls": [sysctl] })),
    ];
    gains.extend(both("runAsUser", json!({ "runAsUser": 0 })));
    gains.extend(both("runAsNonRoot", json!({ "runAsNonRoot": false })));
    gains.extend(both("windowsOptions.hostProcess", json!({ "windowsOptions": { "hostProcess": true } })));
    gains.extend(both("seccompProfile.type", json!({ "seccompProfile": unconfined })));
    gains.extend(both("appArmorProfile.type", json!({ "appArmorProfile": unconfined })));
    gains.extend(both("seLinuxOptions.type", json!({ "seLinuxOptions": { "type": "spc_t" } })));
    gains
}

/// Doors to the node beside the contexts of the main container.
pub(super) fn powers_of_containers(of: Kind) -> Vec<Gain> {
    let before = |field: &str, key: &str, value: Value| {
        power(of, "initContainers", &format!("[0].{field}"), json!([{ "name": "before", key: value }]))
    };
    let context = |field: &str, value: Value| before(field, "securityContext", value);
    let hook = json!({ "preStop": { "httpGet": { "host": "192.0.2.1", "port": 80 } } });
    let profile = "container.apparmor.security.beta.kubernetes.io/coder";
    let adding = json!({ "capabilities": { "add": ["SYS_ADMIN"] } });
    vec![
        context("securityContext.privileged", json!({ "privileged": true })),
        context("securityContext.capabilities.add[0]", adding),
        context("securityContext.runAsUser", json!({ "runAsUser": 0 })),
        before("ports[0].hostPort", "ports", json!([{ "containerPort": 22, "hostPort": 22 }])),
        before("lifecycle.preStop.httpGet.host", "lifecycle", hook.clone()),
        power(of, "lifecycle", ".preStop.httpGet.host", hook),
        power(of, "priorityClassName", "", json!("system-node-critical")),
        power(of, "podAnnotations", &format!("[{profile}]"), json!({ profile: "unconfined" })),
    ]
}
