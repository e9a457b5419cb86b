//! What somebody might want to gain through an object: the field that gives it, the rights that are enough for it,
//! and rights that look alike but are not.

use serde_json::{Value, json};
use webhooks::Kind::{self, ControlPlane, Provisioner, WorkspaceProxy};

const ALL: &str = "get,list,watch,create,update,patch,delete,deletecollection";

/// Something to gain.
pub struct Gain {
    pub kind: Kind,
    /// The spec that gives it.
    pub spec: Value,
    /// Field and code of every cause of a denial.
    pub refused: Vec<(String, &'static str)>,
    /// Lines of rights; each list is enough.
    pub enough: Vec<Vec<String>>,
    /// Lines of rights; no list is enough.
    pub too_little: Vec<Vec<String>>,
}

impl Gain {
    fn of(kind: Kind, spec: Value) -> Self {
        Self { kind, spec, refused: Vec::new(), enough: Vec::new(), too_little: Vec::new() }
    }

    fn refused(mut self, field: &str, code: &'static str) -> Self {
        self.refused.push((field.to_owned(), code));
        self
    }

    fn enough(mut self, lines: &[&str]) -> Self {
        self.enough.push(lines.iter().map(|line| (*line).to_owned()).collect());
        self
    }

    fn too_little(mut self, lines: &[&str]) -> Self {
        self.too_little.push(lines.iter().map(|line| (*line).to_owned()).collect());
        self
    }
}

fn rules(rules: Value) -> Value {
    json!({ "rbac": { "extraRules": rules } })
}

/// Rights for coderd through a Role that the operator writes.
fn grants() -> Vec<Gain> {
    let roles = "roles.rbac.authorization.k8s.io";
    let granting = |rule: Value| {
        Gain::of(ControlPlane, rules(json!([rule])))
            .refused("spec.rbac.extraRules[0]", "CODER0502")
            .enough(&[&format!("escalate {roles}")])
            .enough(&[&format!("bind {roles}")])
            .too_little(&["create pods"])
            .too_little(&[&format!("escalate {roles} @team-a")])
            .too_little(&[&format!("create,update,get {roles}")])
    };
    vec![
        granting(json!({ "apiGroups": [""], "resources": ["secrets"], "verbs": ["get"] }))
            .enough(&["get secrets"])
            .enough(&["get secrets @*"])
            .too_little(&["get secrets payroll"])
            .too_little(&["list,watch secrets"])
            .too_little(&["get secrets @team-a"]),
        granting(json!({ "apiGroups": [""], "resources": ["secrets"], "verbs": ["get"], "resourceNames": ["payroll"] }))
            .enough(&["get secrets payroll"])
            .too_little(&["get secrets other"]),
        granting(json!({ "apiGroups": [""], "resources": ["pods/exec"], "verbs": ["create", "get"] }))
            .enough(&["create,get pods/exec"])
            .too_little(&["create,get pods"])
            .too_little(&["create pods/exec"]),
        granting(json!({ "apiGroups": ["", "apps"], "resources": ["deployments"], "verbs": ["patch"] }))
            .enough(&["patch deployments", "patch deployments.apps"])
            .too_little(&["patch deployments.apps"]),
        granting(json!({ "apiGroups": ["rbac.authorization.k8s.io"], "resources": ["rolebindings"], "verbs": ["create"] }))
            .enough(&["create rolebindings.rbac.authorization.k8s.io"])
            .too_little(&["create rolebindings"]),
    ]
}

/// The same in namespaces of others.
fn namespaces() -> Vec<Gain> {
    let field = "spec.rbac.workspaceNamespaces[0]";
    let pods = format!("{ALL} pods,persistentvolumeclaims @team-a");
    let deployments = format!("{ALL} deployments.apps @team-a");
    let reaching = |rbac: Value| Gain::of(ControlPlane, json!({ "rbac": rbac })).refused(field, "CODER0503");
    let escalate = |namespace: &str| format!("escalate roles.rbac.authorization.k8s.io @{namespace}");
    vec![
        reaching(json!({ "workspaceNamespaces": ["team-a"] }))
            .enough(&[&pods, &deployments])
            .enough(&[&escalate("team-a")])
            .enough(&["bind roles.rbac.authorization.k8s.io @team-a"])
            .too_little(&["create pods", "get secrets"])
            .too_little(&["create pods @team-a"])
            .too_little(&[&pods])
            .too_little(&[&escalate("team-b")]),
        reaching(json!({ "workspaceNamespaces": ["team-a"], "enableDeployments": false }))
            .enough(&[&pods])
            .too_little(&[&deployments]),
        reaching(json!({ "workspaceNamespaces": ["kube-system"] }))
            .enough(&[&escalate("*")])
            .too_little(&[&escalate("team-a")]),
        reaching(json!({ "workspaceNamespaces": ["team-a", "team-b"] }))
            .refused("spec.rbac.workspaceNamespaces[1]", "CODER0503")
            .enough(&[&escalate("team-a"), &escalate("team-b")]),
        reaching(json!({ "workspaceNamespaces": ["default"], "workspacePerms": true })),
    ]
}

/// Accounts of others.
fn accounts() -> Vec<Gain> {
    let acting = |account: Value, field: &str| {
        Gain::of(ControlPlane, json!({ "serviceAccount": account }))
            .refused(field, "CODER0504")
            .enough(&["create pods"])
            .enough(&["create serviceaccounts/token"])
            .too_little(&["get,create,update serviceaccounts"])
            .too_little(&["create pods @team-a"])
            .too_little(&["create serviceaccounts/token other"])
    };
    vec![
        acting(json!({ "name": "robot" }), "spec.serviceAccount.name")
            .enough(&["create serviceaccounts/token robot"]),
        acting(json!({ "name": "robot", "disableCreate": true }), "spec.serviceAccount.name"),
        acting(json!({ "name": "default" }), "spec.serviceAccount.name"),
        acting(json!({ "disableCreate": true }), "spec.serviceAccount.disableCreate"),
    ]
}

/// A reference to a Secret or ConfigMap called payroll.
fn reading(kind: Kind, resource: &str, field: &str, spec: Value) -> Gain {
    Gain::of(kind, spec)
        .refused(field, "CODER0505")
        .enough(&[&format!("get {resource} payroll")])
        .enough(&["create pods"])
        .too_little(&[&format!("get {resource} other")])
        .too_little(&[&format!("get {resource} payroll @team-a")])
        .too_little(&[if resource == "secrets" { "get configmaps" } else { "get secrets" }])
}

fn references_of_control_planes() -> Vec<Gain> {
    let secret = |field: &str, spec: Value| reading(ControlPlane, "secrets", field, spec);
    let map = |field: &str, spec: Value| reading(ControlPlane, "configmaps", field, spec);
    let tls = |tls: Value| json!({ "expose": { "ingress": { "host": "c.example.com", "wildcardHost": "*.c.example.com", "tls": tls } } });
    let key = json!({ "name": "payroll", "key": "k" });
    let env = |from: &str| json!({ "extraEnv": [{ "name": "A", "valueFrom": { from: key } }] });
    vec![
        secret("spec.licenseSecretRef.name", json!({ "licenseSecretRef": { "name": "payroll" } })),
        secret(
            "spec.operatorAccess.tokenSecretRef.name",
            json!({ "operatorAccess": { "tokenSecretRef": { "name": "payroll" } } }),
        ),
        secret("spec.imagePullSecrets[0].name", json!({ "imagePullSecrets": [{ "name": "payroll" }] })),
        secret("spec.tls.secretNames[0]", json!({ "tls": { "secretNames": ["payroll"] } })),
        secret("spec.certs.secrets[0].name", json!({ "certs": { "secrets": [key] } })),
        secret("spec.expose.ingress.tls.secretName", tls(json!({ "secretName": "payroll" }))),
        secret("spec.expose.ingress.tls.wildcardSecretName", tls(json!({ "wildcardSecretName": "payroll" }))),
        secret(
            "spec.envFrom[0].secretRef.name",
            json!({ "envFrom": [{ "secretRef": { "name": "payroll" } }] }),
        ),
        map(
            "spec.envFrom[0].configMapRef.name",
            json!({ "envFrom": [{ "configMapRef": { "name": "payroll" } }] }),
        ),
        secret("spec.extraEnv[0].valueFrom.secretKeyRef.name", env("secretKeyRef")),
        map("spec.extraEnv[0].valueFrom.configMapKeyRef.name", env("configMapKeyRef")),
    ]
}

/// What a container that runs before coderd shows.
fn references_of_init_containers() -> Vec<Gain> {
    let gain = |resource: &str, field: &str, mut container: Value| {
        container["name"] = json!("before");
        let spec = json!({ "initContainers": [container] });
        reading(ControlPlane, resource, &format!("spec.initContainers[0].{field}"), spec)
    };
    let payroll = json!({ "name": "payroll" });
    let env = |from: &str| json!({ "env": [{ "name": "A", "valueFrom": { from: { "name": "payroll", "key": "k" } } }] });
    vec![
        gain("secrets", "env[0].valueFrom.secretKeyRef.name", env("secretKeyRef")),
        gain("configmaps", "env[0].valueFrom.configMapKeyRef.name", env("configMapKeyRef")),
        gain("secrets", "envFrom[0].secretRef.name", json!({ "envFrom": [{ "secretRef": payroll }] })),
        gain(
            "configmaps",
            "envFrom[0].configMapRef.name",
            json!({ "envFrom": [{ "configMapRef": payroll }] }),
        ),
    ]
}

fn references_of_volumes() -> Vec<Gain> {
    let gain = |resource: &str, field: &str, mut volume: Value| {
        volume["name"] = json!("v");
        reading(ControlPlane, resource, &format!("spec.volumes[0].{field}"), json!({ "volumes": [volume] }))
    };
    // What the node mounts with a Secret reaches beyond the pod too: to read the Secret is not enough.
    let mounted = |kind: &str, name: &str, source: Value| {
        let field = format!("spec.volumes[0].{kind}");
        power(&field, json!({ "volumes": [{ "name": "v", kind: source }] }))
            .refused(&format!("{field}.{name}"), "CODER0505")
            .too_little(&["get secrets payroll"])
    };
    let payroll = json!({ "name": "payroll" });
    let projected = |source: &str| json!({ "projected": { "sources": [{ source: payroll }] } });
    let csi = json!({ "driver": "d.example.com", "nodePublishSecretRef": payroll });
    let azure = json!({ "shareName": "s", "secretName": "payroll" });
    let rbd = json!({ "image": "i", "monitors": ["m"], "secretRef": payroll });
    let iscsi = json!({ "iqn": "q", "lun": 0, "targetPortal": "p", "secretRef": payroll });
    vec![
        gain("secrets", "secret.secretName", json!({ "secret": { "secretName": "payroll" } })),
        gain("configmaps", "configMap.name", json!({ "configMap": payroll })),
        gain("secrets", "projected.sources[0].secret.name", projected("secret")),
        gain("configmaps", "projected.sources[0].configMap.name", projected("configMap")),
        mounted("csi", "nodePublishSecretRef.name", csi),
        mounted("azureFile", "secretName", azure),
        mounted("cephfs", "secretRef.name", json!({ "monitors": ["m"], "secretRef": payroll })),
        mounted("rbd", "secretRef.name", rbd),
        mounted("iscsi", "secretRef.name", iscsi),
    ]
}

/// A part of the pod that reaches below it.
fn power(field: &str, spec: Value) -> Gain {
    Gain::of(ControlPlane, spec)
        .refused(field, "CODER0507")
        .enough(&["create pods"])
        .enough(&["create pods @*"])
        .too_little(&["get secrets", "create deployments.apps"])
        .too_little(&["create pods @team-a"])
        .too_little(&["get,update pods"])
}

/// The node below the pod, and disks and claims of others.
fn powers_of_volumes() -> Vec<Gain> {
    let source = json!({ "kind": "PersistentVolumeClaim", "name": "payroll" });
    let copy = json!({ "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": "1Gi" } },
        "dataSource": source });
    let volume = |kind: &str, source: Value| {
        let volumes = json!({ "volumes": [{ "name": "v", kind: source }] });
        power(&format!("spec.volumes[0].{kind}"), volumes)
    };
    vec![
        volume("hostPath", json!({ "path": "/" })),
        volume("persistentVolumeClaim", json!({ "claimName": "payroll" })),
        volume("nfs", json!({ "server": "s", "path": "/" })),
        volume("csi", json!({ "driver": "secrets-store.csi.k8s.io" })),
        volume("ephemeral", json!({ "volumeClaimTemplate": { "spec": copy } })),
    ]
}

/// Doors to the node.
fn powers_of_contexts() -> Vec<Gain> {
    let context = |context: &str, field: &str, value: Value| {
        power(&format!("spec.{context}.{field}"), json!({ context: value }))
    };
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
        container("procMount", json!({ "procMount": "Unmasked" })),
        context("podSecurityContext", "sysctls[0]", json!({ "sysctls": [sysctl] })),
    ];
    gains.extend(both("windowsOptions.hostProcess", json!({ "windowsOptions": { "hostProcess": true } })));
    gains.extend(both("seccompProfile.type", json!({ "seccompProfile": unconfined })));
    gains.extend(both("appArmorProfile.type", json!({ "appArmorProfile": unconfined })));
    gains.extend(both("seLinuxOptions", json!({ "seLinuxOptions": { "type": "spc_t" } })));
    gains
}

/// Doors to the node beside the contexts of coderd.
fn powers_of_containers() -> Vec<Gain> {
    let before = |field: &str, mut container: Value| {
        container["name"] = json!("before");
        power(&format!("spec.initContainers[0].{field}"), json!({ "initContainers": [container] }))
    };
    let hook = json!({ "preStop": { "httpGet": { "host": "192.0.2.1", "port": 80 } } });
    vec![
        before("securityContext.privileged", json!({ "securityContext": { "privileged": true } })),
        before(
            "securityContext.capabilities.add[0]",
            json!({ "securityContext": { "capabilities": { "add": ["SYS_ADMIN"] } } }),
        ),
        before("ports[0].hostPort", json!({ "ports": [{ "containerPort": 22, "hostPort": 22 }] })),
        before("lifecycle.preStop.httpGet.host", json!({ "lifecycle": hook })),
        power("spec.lifecycle.preStop.httpGet.host", json!({ "lifecycle": hook })),
        power("spec.priorityClassName", json!({ "priorityClassName": "system-node-critical" })),
    ]
}

fn other_kinds() -> Vec<Gain> {
    let payroll = json!({ "name": "payroll" });
    let pull = json!({ "imagePullSecrets": [payroll] });
    let env = json!({ "extraEnv": [{ "name": "A", "valueFrom": { "secretKeyRef": { "name": "payroll", "key": "k" } } }] });
    let map = json!({ "extraEnv": [{ "name": "A", "valueFrom": { "configMapKeyRef": { "name": "payroll", "key": "k" } } }] });
    let mut gains = vec![
        reading(Provisioner, "secrets", "spec.key.secretName", json!({ "key": { "secretName": "payroll" } })),
        reading(
            Provisioner,
            "secrets",
            "spec.bootstrap.credentialsSecretRef.name",
            json!({ "bootstrap": { "credentialsSecretRef": payroll } }),
        ),
        reading(
            WorkspaceProxy,
            "secrets",
            "spec.bootstrap.generatedTokenSecretName",
            json!({ "bootstrap": { "coderURL": "https://coder.example.com", "credentialsSecretRef": { "name": "mine" },
                "generatedTokenSecretName": "payroll" } }),
        ),
    ];
    for kind in [Provisioner, WorkspaceProxy] {
        gains.push(reading(kind, "secrets", "spec.imagePullSecrets[0].name", pull.clone()));
        gains.push(reading(kind, "secrets", "spec.extraEnv[0].valueFrom.secretKeyRef.name", env.clone()));
        gains.push(reading(
            kind,
            "configmaps",
            "spec.extraEnv[0].valueFrom.configMapKeyRef.name",
            map.clone(),
        ));
    }
    gains
}

/// Credentials that travel to an address of the author's choice: no right to make pods replaces the right to read.
fn sent_away() -> Vec<Gain> {
    let sending = |field: &str, spec: Value| {
        Gain::of(WorkspaceProxy, spec)
            .refused(field, "CODER0506")
            .enough(&["get secrets payroll"])
            .enough(&["get secrets @*"])
            .too_little(&["create pods"])
            .too_little(&["list,watch secrets", "get secrets other", "create pods"])
            .too_little(&["get secrets @team-a"])
    };
    let payroll = json!({ "name": "payroll" });
    vec![
        sending(
            "spec.bootstrap.credentialsSecretRef.name",
            json!({ "bootstrap": { "coderURL": "https://mine.example.com", "credentialsSecretRef": payroll } }),
        ),
        sending(
            "spec.proxySessionTokenSecretRef.name",
            json!({ "primaryAccessURL": "https://mine.example.com", "proxySessionTokenSecretRef": payroll }),
        ),
    ]
}

/// Every gain of the table.
pub fn gains() -> Vec<Gain> {
    [
        grants(),
        namespaces(),
        accounts(),
        references_of_control_planes(),
        references_of_init_containers(),
        references_of_volumes(),
        powers_of_volumes(),
        powers_of_contexts(),
        powers_of_containers(),
        other_kinds(),
        sent_away(),
    ]
    .into_iter()
    .flatten()
    .collect()
}
