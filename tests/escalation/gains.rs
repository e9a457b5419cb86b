//! What somebody might want to gain through an object: the field that gives it, the rights that are enough for it,
//! and rights that look alike but are not.

mod credentials;
mod pod_security;
mod references;

use credentials::{kept_tokens, sent_away};
use pod_security::{powers_of_containers, powers_of_contexts, powers_of_volumes};
use references::{references_of_kinds, references_of_pods};
use serde_json::{Value, json};
use webhooks::Kind::{self, ControlPlane, Provisioner, WorkspaceProxy};

/// Kinds whose spec says something about their pods, in the same words.
pub const WITH_POD_FIELDS: [Kind; 3] = Kind::ALL;
/// Kinds whose spec grants rights to their pods.
pub const WITH_RULES: [Kind; 2] = [ControlPlane, Provisioner];
/// Kinds that are reached by users.
const SERVING: [Kind; 2] = [ControlPlane, WorkspaceProxy];

const ALL: &str = "get,list,watch,create,update,patch,delete,deletecollection";

/// What whoever creates a control plane holds: the right to run pods, and what it hands on by default.
pub const FOUNDER: [&str; 2] = [
    "get,list,watch,create,update,patch,delete,deletecollection pods,persistentvolumeclaims",
    "get,list,watch,create,update,patch,delete,deletecollection deployments.apps",
];

/// Something to gain.
pub struct Gain {
    pub kind: Kind,
    /// The spec that gives it.
    pub spec: Value,
    /// Field and code of every cause when a plain object is changed to it.
    pub refused: Vec<(String, &'static str)>,
    /// Lines of rights; each list is enough for the change.
    pub enough: Vec<Vec<String>>,
    /// Lines of rights; no list is enough for the change.
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

    /// A gain that needs the right to run pods, whichever way, for the change of this field.
    fn running(kind: Kind, field: &str, spec: Value) -> Self {
        Self::of(kind, spec)
            .refused(&format!("spec.{field}"), "CODER0509")
            .enough(&["create pods"])
            .enough(&["create deployments.apps"])
            .enough(&["create pods @*"])
            .too_little(&["create pods @team-a", "create deployments.apps @team-a"])
            .too_little(&["get,list,watch,update,patch,delete pods", "update,patch deployments.apps"])
            .too_little(&["create deployments", "create pods.apps", "create pods/exec"])
            .too_little(&["get secrets", "get configmaps", "create serviceaccounts/token"])
    }

    /// Field and code of every cause when it is a new object. The right to run pods is asked for once.
    pub fn refused_when_new(&self) -> Vec<(String, &'static str)> {
        let rbac = &self.spec["rbac"];
        let mut causes = vec![("spec".to_owned(), "CODER0509")];
        if self.kind != WorkspaceProxy && rbac["workspacePerms"] != false {
            causes.push(("spec.rbac.workspacePerms".to_owned(), "CODER0502"));
            if self.kind == ControlPlane && rbac["enableDeployments"] != false {
                causes.push(("spec.rbac.enableDeployments".to_owned(), "CODER0502"));
            }
        }
        causes.extend(self.refused.iter().filter(|(_, code)| *code != "CODER0509").cloned());
        causes
    }

    fn enough(mut self, lines: &[&str]) -> Self {
        self.enough.push(lines.iter().map(|line| (*line).to_owned()).collect());
        self
    }

    fn too_little(mut self, lines: &[&str]) -> Self {
        self.too_little.push(lines.iter().map(|line| (*line).to_owned()).collect());
        self
    }

    /// Pods of a proxy are told the address that it is exposed under: what is enough for the way in is too little for that.
    fn telling_address(self) -> Self {
        if self.kind != WorkspaceProxy {
            return self;
        }
        let mut gain = self.refused("spec.expose", "CODER0509");
        gain.too_little.extend(gain.enough.clone());
        gain.enough.iter_mut().for_each(|lines| lines.push("create pods".to_owned()));
        gain
    }
}

fn rules(rules: Value) -> Value {
    json!({ "rbac": { "extraRules": rules } })
}

/// Rights through a Role that the operator writes.
fn grants(kind: Kind) -> Vec<Gain> {
    let roles = "roles.rbac.authorization.k8s.io";
    let granting = |rule: Value| {
        Gain::of(kind, rules(json!([rule])))
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

/// Accounts of others, and what a cloud gives to an account with an annotation.
fn accounts(kind: Kind) -> Vec<Gain> {
    let acting = |account: Value| {
        Gain::running(kind, "serviceAccount", json!({ "serviceAccount": account }))
            .too_little(&["get,create,update serviceaccounts", "create serviceaccounts/token robot"])
    };
    vec![
        acting(json!({ "name": "robot" })),
        acting(json!({ "name": "robot", "disableCreate": true })),
        acting(json!({ "name": "default" })),
        acting(json!({ "disableCreate": true })),
        acting(json!({ "annotations": { "eks.amazonaws.com/role-arn": "arn:aws:iam::1:role/admin" } })),
    ]
}

/// Code of the author's choice, and everything that changes what it does.
fn code_of_pods(kind: Kind) -> Vec<Gain> {
    let gain = |field: &str, value: Value| Gain::running(kind, field, json!({ field: value }));
    let hook = json!({ "postStart": { "exec": { "command": ["sh"] } } });
    let mounted = json!({ "volumes": [{ "name": "v", "emptyDir": {} }],
        "volumeMounts": [{ "name": "v", "mountPath": "/v" }] });
    vec![
        gain("initContainers", json!([{ "name": "before", "image": "registry.example.com/mine:v1" }])),
        gain("lifecycle", hook),
        Gain::running(kind, "volumeMounts", mounted).refused("spec.volumes", "CODER0509"),
        gain("podLabels", json!({ "app": "of-others" })),
        gain("podAnnotations", json!({ "vault.example.com/inject": "true" })),
        gain("hostAliases", json!([{ "ip": "192.0.2.1", "hostnames": ["git"] }])),
        gain("nodeSelector", json!({ "kubernetes.io/hostname": "mine" })),
        gain("tolerations", json!([{ "operator": "Exists" }])),
        gain("metrics", json!({ "enabled": true })),
    ]
}

fn code() -> Vec<Gain> {
    let mut gains = vec![
        Gain::running(Provisioner, "organizationName", json!({ "organizationName": "of-others" })),
        Gain::running(Provisioner, "tags", json!({ "tags": { "environment": "production" } })),
        Gain::running(Provisioner, "deletionPolicy", json!({ "deletionPolicy": "Orphan" })),
        Gain::running(Provisioner, "controlPlaneRef", json!({ "controlPlaneRef": { "name": "of-others" } })),
        Gain::running(Provisioner, "key", json!({ "key": { "name": "of-others" } })),
        Gain::running(Provisioner, "metrics", json!({ "metrics": { "podMonitor": { "interval": "30s" } } })),
    ];
    for kind in [ControlPlane, Provisioner, WorkspaceProxy] {
        let gain = |field: &str, value: Value| Gain::running(kind, field, json!({ field: value }));
        gains.push(gain("image", json!("registry.example.com/mine:v2.36.1")));
        gains.push(gain("extraArgs", json!(["--verbose"])));
        gains.push(gain("extraEnv", json!([{ "name": "A", "value": "b" }])));
    }
    for (field, value) in [
        ("accessURL", json!("https://of-others.example.com")),
        ("wildcardAccessURL", json!("*.of-others.example.com")),
        ("derpOnly", json!(true)),
        ("deletionPolicy", json!("Orphan")),
    ] {
        gains.push(Gain::running(WorkspaceProxy, field, json!({ field: value })));
    }
    gains
}

/// Ways in from outside.
fn exposure() -> Vec<Gain> {
    let open = |kind: Kind, field: &str, right: &str, spec: Value| {
        Gain::of(kind, spec)
            .refused(field, "CODER0510")
            .enough(&[&format!("create {right}")])
            .enough(&[&format!("create {right} @*")])
            .too_little(&["create pods", "create deployments.apps", "get secrets"])
            .too_little(&[&format!("create {right} @team-a")])
            .too_little(&[&format!("get,list,update,patch,delete {right}")])
    };
    let ingress = |kind: Kind, spec: Value| {
        let spec = json!({ "expose": { "ingress": spec } });
        open(kind, "spec.expose.ingress", "ingresses.networking.k8s.io", spec)
            .too_little(&["create ingresses"])
            .telling_address()
    };
    let gateway = json!({ "expose": { "gateway": { "host": "c.example.com",
        "parentRefs": [{ "name": "public", "namespace": "gateways" }] } } });
    let tls = json!({ "host": "c.example.com", "tls": { "secretName": "payroll" } });
    let snippet =
        json!({ "host": "bank.example.com", "annotations": { "ingress.example.com/snippet": "x" } });
    let mut gains = Vec::new();
    for kind in SERVING {
        gains.push(ingress(kind, json!({ "host": "c.example.com" })));
        gains.push(ingress(kind, snippet.clone()));
        gains.push(ingress(kind, tls.clone()).too_little(&["get secrets payroll"]));
        gains.push(
            open(kind, "spec.expose.gateway", "httproutes.gateway.networking.k8s.io", gateway.clone())
                .telling_address(),
        );
        for service in [
            json!({ "type": "NodePort" }),
            json!({ "type": "LoadBalancer" }),
            json!({ "annotations": { "cloud.example.com/expose": "true" } }),
        ] {
            gains.push(open(kind, "spec.service", "services", json!({ "service": service })));
        }
    }
    gains
}

fn other_kinds() -> Vec<Gain> {
    vec![
        // A coderd of the author's own would say what the operator writes there.
        Gain::of(Provisioner, json!({ "key": { "secretName": "payroll", "secretKey": "url" } }))
            .refused("spec.key", "CODER0509")
            .refused("spec.key.secretName", "CODER0512")
            .enough(&["create pods", "create secrets"])
            .enough(&["create deployments.apps", "create secrets @*"])
            .too_little(&["create pods", "create deployments.apps"])
            .too_little(&["create pods", "get,list,watch,update,patch,delete secrets"])
            .too_little(&["create pods", "create secrets @team-a"])
            .too_little(&["create secrets"]),
        // The same Secret under the name that it has anyway is nobody else's.
        Gain::of(Provisioner, json!({ "key": { "name": "eu" } }))
            .refused("spec.key", "CODER0509")
            .enough(&["create pods"])
            .enough(&["create deployments.apps"])
            .too_little(&["create secrets", "get secrets"]),
        Gain::of(Provisioner, json!({ "rbac": { "enableDeployments": true } }))
            .refused("spec.rbac.enableDeployments", "CODER0502")
            .enough(&[FOUNDER[1]])
            .enough(&["bind roles.rbac.authorization.k8s.io"])
            .too_little(&["create deployments.apps"]),
    ]
}

/// Every gain of the table.
pub fn gains() -> Vec<Gain> {
    let of_pods = [
        accounts,
        code_of_pods,
        references_of_pods,
        powers_of_volumes,
        powers_of_contexts,
        powers_of_containers,
    ];
    let of_pods = WITH_POD_FIELDS.into_iter().flat_map(|kind| of_pods.map(|table| table(kind)));
    let of_kinds =
        [namespaces(), code(), references_of_kinds(), exposure(), other_kinds(), kept_tokens(), sent_away()];
    WITH_RULES.map(grants).into_iter().chain(of_pods).chain(of_kinds).flatten().collect()
}
