//! Changes of stored objects: what counts as more than before, and what does not.
//! The stored object was written by an administrator; the change is sent by somebody with the rights of the case.

mod registrations;

use crate::gains::{WITH_POD_FIELDS, WITH_RULES};
use registrations::changes_of_registrations;
use serde_json::{Value, json};
use webhooks::Kind::{self, ControlPlane, Provisioner, WorkspaceProxy};

/// Rights to run pods in one way, and to read what pods read.
const RUNS: [&str; 1] = ["create deployments.apps"];
const READS: [&str; 2] = ["get secrets", "get configmaps"];
/// Code of the rule that asks for the right to run pods.
const RUN_PODS: &str = "CODER0509";

/// A change of a stored object.
pub struct Change {
    pub what: &'static str,
    pub kind: Kind,
    pub stored: Value,
    pub changed: Value,
    /// Lines of rights of who sends it.
    pub holds: Vec<&'static str>,
    /// Field and code of every cause; none where the change passes.
    pub refused: Vec<(&'static str, &'static str)>,
}

fn change(what: &'static str, kind: Kind, [stored, changed]: [Value; 2]) -> Change {
    Change { what, kind, stored, changed, holds: Vec::new(), refused: Vec::new() }
}

impl Change {
    fn by(mut self, holds: &[&'static str]) -> Self {
        self.holds = holds.to_vec();
        self
    }

    fn refused(mut self, field: &'static str, code: &'static str) -> Self {
        self.refused.push((field, code));
        self
    }
}

fn rule(verbs: &[&str], names: &[&str]) -> Value {
    let mut rule = json!({ "apiGroups": [""], "resources": ["secrets"], "verbs": verbs });
    if !names.is_empty() {
        rule["resourceNames"] = json!(names);
    }
    rule
}

fn rules(rules: Value) -> Value {
    json!({ "rbac": { "extraRules": rules } })
}

fn changes_of_rules(kind: Kind) -> Vec<Change> {
    let (get, both) = (rule(&["get"], &[]), rule(&["get", "list"], &[]));
    let field = "spec.rbac.extraRules[0]";
    vec![
        change("rules go", kind, [rules(json!([both])), json!({})]),
        change(
            "one rule becomes two",
            kind,
            [rules(json!([both])), rules(json!([rule(&["list"], &[]), get]))],
        ),
        change(
            "a rule is narrowed to a name",
            kind,
            [rules(json!([get])), rules(json!([rule(&["get"], &["payroll"])]))],
        ),
        change("a verb comes", kind, [rules(json!([get])), rules(json!([both]))])
            .by(&["get secrets"])
            .refused(field, "CODER0502"),
        change("a verb comes that the author has", kind, [rules(json!([get])), rules(json!([both]))])
            .by(&["list secrets"]),
        change("a name goes", kind, [rules(json!([rule(&["get"], &["payroll"])])), rules(json!([get]))])
            .refused(field, "CODER0502"),
    ]
}

fn changes_of_rules_elsewhere() -> Vec<Change> {
    let get = rule(&["get"], &[]);
    let field = "spec.rbac.extraRules[0]";
    let with = |namespaces: Value, rules: Value| json!({ "rbac": { "workspaceNamespaces": namespaces, "extraRules": rules } });
    vec![
        change(
            "a rule comes and reaches a namespace of workspaces",
            ControlPlane,
            [with(json!(["team-a"]), json!([])), with(json!(["team-a"]), json!([get]))],
        )
        .by(&["get secrets"])
        .refused(field, "CODER0502"),
        change(
            "a rule comes that the author has everywhere",
            ControlPlane,
            [with(json!(["team-a"]), json!([])), with(json!(["team-a"]), json!([get]))],
        )
        .by(&["get secrets", "get secrets @team-a"]),
        change(
            "a namespace comes and gets the rules too",
            ControlPlane,
            [rules(json!([get])), with(json!(["team-a"]), json!([get]))],
        )
        .by(&[
            "get,list,watch,create,update,patch,delete,deletecollection pods,persistentvolumeclaims @team-a",
            "get,list,watch,create,update,patch,delete,deletecollection deployments.apps @team-a",
        ])
        .refused("spec.rbac.workspaceNamespaces[0]", "CODER0503"),
    ]
}

fn changes_of_namespaces() -> Vec<Change> {
    let rbac = |rbac: Value| json!({ "rbac": rbac });
    let namespaces = |names: Value| json!({ "rbac": { "workspaceNamespaces": names } });
    vec![
        change(
            "namespaces change places",
            ControlPlane,
            [namespaces(json!(["team-a", "team-b"])), namespaces(json!(["team-b", "team-a"]))],
        ),
        change(
            "a namespace goes",
            ControlPlane,
            [namespaces(json!(["team-a", "team-b"])), namespaces(json!(["team-b"]))],
        ),
        change(
            "one namespace comes to another",
            ControlPlane,
            [namespaces(json!(["team-a"])), namespaces(json!(["team-b", "team-a"]))],
        )
        .refused("spec.rbac.workspaceNamespaces[0]", "CODER0503"),
        change(
            "rights that were off are turned on",
            ControlPlane,
            [
                rbac(json!({ "workspacePerms": false, "workspaceNamespaces": ["team-a"] })),
                rbac(json!({ "workspacePerms": true, "workspaceNamespaces": ["team-a"] })),
            ],
        )
        .refused("spec.rbac.workspacePerms", "CODER0502")
        .refused("spec.rbac.enableDeployments", "CODER0502"),
        change(
            "Deployments are turned on",
            ControlPlane,
            [
                rbac(json!({ "enableDeployments": false, "workspaceNamespaces": ["team-a"] })),
                rbac(json!({ "workspaceNamespaces": ["team-a"] })),
            ],
        )
        .by(&["create deployments.apps @team-a"])
        .refused("spec.rbac.enableDeployments", "CODER0502"),
    ]
}

/// The right to run pods is asked for whenever what runs changes, and is enough for whatever pods reach.
fn changes_of_references(kind: Kind) -> Vec<Change> {
    let from = |reference: &str| json!({ "envFrom": [{ reference: { "name": "payroll" } }] });
    let trusted = |key: &str| json!({ "certs": { "secrets": [{ "name": "payroll", "key": key }] } });
    let account = |name: &str| json!({ "serviceAccount": { "name": name } });
    vec![
        change("another key of a Secret one may read", kind, [trusted("a"), trusted("b")])
            .by(&READS)
            .refused("spec.certs", RUN_PODS),
        change("another key by one who may run pods", kind, [trusted("a"), trusted("b")]).by(&RUNS),
        change("a key, then the whole Secret", kind, [trusted("a"), from("secretRef")])
            .by(&READS)
            .refused("spec.certs", RUN_PODS)
            .refused("spec.envFrom", RUN_PODS),
        change("a ConfigMap, then a Secret of its name", kind, [from("configMapRef"), from("secretRef")])
            .by(&READS)
            .refused("spec.envFrom", RUN_PODS),
        change("the same by one who may run pods", kind, [from("configMapRef"), from("secretRef")]).by(&RUNS),
        change("another account", kind, [account("robot"), account("other")])
            .by(&["create serviceaccounts/token"])
            .refused("spec.serviceAccount", RUN_PODS),
        change("the account of others, then the own", kind, [account("robot"), json!({})])
            .refused("spec.serviceAccount", RUN_PODS),
    ]
}

fn changes_of_references_of_a_kind() -> Vec<Change> {
    let license = |key: &str| json!({ "licenseSecretRef": { "name": "payroll", "key": key } });
    let key = |key: &str| json!({ "key": { "secretKey": key } });
    vec![
        change("another key of a license one may read", ControlPlane, [license("a"), license("b")])
            .by(&READS)
            .refused("spec.licenseSecretRef", RUN_PODS),
        change("the same by one who may run pods", ControlPlane, [license("a"), license("b")]).by(&RUNS),
        change("another key beside the own", Provisioner, [json!({}), key("other")])
            .by(&READS)
            .refused("spec.key", RUN_PODS)
            .refused("spec.key.secretKey", "CODER0512"),
        change("the same by one who may run pods", Provisioner, [json!({}), key("other")])
            .by(&RUNS)
            .refused("spec.key.secretKey", "CODER0512"),
        change(
            "the same key beside another name",
            Provisioner,
            [key("a"), json!({ "key": { "secretKey": "a", "name": "eu" } })],
        )
        .by(&RUNS),
    ]
}

/// What runs stays as it is.
fn changes_that_run_nothing_else() -> Vec<Change> {
    let mut budget = json!({ "replicas": 3, "suspend": true, "terminationGracePeriodSeconds": 5,
        "resources": { "requests": { "memory": "1Gi" } } });
    budget["podDisruptionBudget"] = json!({});
    let mut probes = budget.clone();
    probes["readinessProbe"] = json!({ "periodSeconds": 5 });
    vec![
        change("replicas, resources, probes", ControlPlane, [json!({}), probes.clone()]),
        change("replicas, resources, probes", WorkspaceProxy, [json!({}), probes]),
        change("replicas, resources and a budget", Provisioner, [json!({}), budget]),
        change("replicas", WorkspaceProxy, [json!({}), json!({ "replicas": 3, "suspend": true })]),
        change("lists that are empty", ControlPlane, [json!({ "extraArgs": [] }), json!({ "extraEnv": [] })]),
    ]
}

fn changes_of_exposure() -> Vec<Change> {
    let service = |service: Value| json!({ "service": service });
    let ingress = |host: &str| json!({ "expose": { "ingress": { "host": host } } });
    let internal = json!({ "type": "LoadBalancer", "annotations": { "cloud.example.com/internal": "true" } });
    let public = json!({ "type": "LoadBalancer" });
    let [from, to] = ["a.example.com", "b.example.com"].map(ingress);
    vec![
        change("another host", ControlPlane, [from.clone(), to.clone()])
            .by(&["create pods"])
            .refused("spec.expose.ingress", "CODER0510"),
        change("another host by one who may", ControlPlane, [from.clone(), to])
            .by(&["create ingresses.networking.k8s.io"]),
        change("the way in goes", ControlPlane, [from.clone(), json!({})]),
        change("pods of a proxy are told another address", WorkspaceProxy, [json!({}), from.clone()])
            .by(&["create ingresses.networking.k8s.io"])
            .refused("spec.expose", RUN_PODS),
        change("the same by one who may run pods", WorkspaceProxy, [json!({}), from.clone()])
            .by(&["create ingresses.networking.k8s.io", "create deployments.apps"]),
        change("pods of a proxy are told none of the way in", WorkspaceProxy, [from, json!({})])
            .by(&["create ingresses.networking.k8s.io"])
            .refused("spec.expose", RUN_PODS),
        change(
            "a balancer loses what keeps it inside",
            ControlPlane,
            [service(internal), service(public.clone())],
        )
        .by(&["create pods"])
        .refused("spec.service", "CODER0510"),
        change("a balancer goes", WorkspaceProxy, [service(public), service(json!({ "type": "ClusterIP" }))]),
        change(
            "another port inside the cluster",
            WorkspaceProxy,
            [json!({}), service(json!({ "port": 8080 }))],
        ),
    ]
}

fn changes_of_addresses() -> Vec<Change> {
    let key = json!({ "name": "payroll", "key": "k" });
    let boot = |url: &str| json!({ "bootstrap": { "coderURL": url, "credentialsSecretRef": key } });
    let session = |url: &str| json!({ "primaryAccessURL": url, "proxySessionTokenSecretRef": key });
    let given = json!({ "credentialsSecretRef": key });
    let sent = |to: &str| json!({ "controlPlaneRef": { "name": to }, "bootstrap": given });
    let [ours, mine] = ["https://coder.example.com", "https://mine.example.com"];
    let elsewhere = |url: &str| json!({ "bootstrap": boot(ours)["bootstrap"], "primaryAccessURL": url });
    let boot_field = "spec.bootstrap.credentialsSecretRef.name";
    let session_field = "spec.proxySessionTokenSecretRef.name";
    vec![
        change("credentials go to another address", WorkspaceProxy, [boot(ours), boot(mine)])
            .by(&["create pods"])
            .refused(boot_field, "CODER0506")
            .refused("spec.bootstrap.coderURL", "CODER0506"),
        change("credentials one may read go to another address", WorkspaceProxy, [boot(ours), boot(mine)])
            .by(&["get secrets payroll"])
            .refused("spec.bootstrap", "CODER0509")
            .refused("spec.bootstrap.coderURL", "CODER0506"),
        change("the same by one who may read and run", WorkspaceProxy, [boot(ours), boot(mine)])
            .by(&["get secrets", "create deployments.apps"]),
        change("a token goes to another address", WorkspaceProxy, [session(ours), session(mine)])
            .by(&["create pods"])
            .refused(session_field, "CODER0506"),
        change("a token is sent as credentials", WorkspaceProxy, [session(ours), boot(mine)])
            .by(&["create pods"])
            .refused(boot_field, "CODER0506")
            // A token that was made before may still be kept: it would go there.
            .refused("spec.bootstrap.coderURL", "CODER0506"),
        change("a token we made goes to another address", WorkspaceProxy, [boot(ours), elsewhere(mine)])
            .by(&["create pods"])
            .refused("spec.primaryAccessURL", "CODER0506"),
        change("a token goes where it went", WorkspaceProxy, [boot(ours), elsewhere(ours)])
            .by(&["create pods"]),
        change("credentials go to another control plane", Provisioner, [sent("coder"), sent("other")])
            .by(&["create pods"])
            .refused(boot_field, "CODER0506"),
        change(
            "daemons go to another control plane",
            Provisioner,
            [json!({}), json!({ "controlPlaneRef": { "name": "other" } })],
        )
        .by(&["get secrets"])
        .refused("spec.controlPlaneRef", RUN_PODS),
        change(
            "the same by one who may run pods",
            Provisioner,
            [json!({}), json!({ "controlPlaneRef": { "name": "other" } })],
        )
        .by(&RUNS),
        change("credentials one may read go there", Provisioner, [sent("coder"), sent("other")])
            .by(&["get secrets payroll"])
            .refused("spec.controlPlaneRef", "CODER0509"),
        change(
            "credentials one may read go there by one who may run",
            Provisioner,
            [sent("coder"), sent("other")],
        )
        .by(&["get secrets payroll", "create deployments.apps"]),
    ]
}

fn changes_of_powers(kind: Kind) -> Vec<Change> {
    let host = |path: &str| json!({ "name": path.trim_matches('/'), "hostPath": { "path": path } });
    let volumes = |volumes: &[Value]| json!({ "volumes": volumes });
    let capabilities = |names: &[&str]| json!({ "securityContext": { "capabilities": { "add": names } } });
    let privileged = |image: &str| json!({ "image": format!("registry.example.com/{image}:v1"), "securityContext": { "privileged": true } });
    let code = "CODER0507";
    vec![
        change("another folder of the node", kind, [volumes(&[host("/a")]), volumes(&[host("/b")])])
            .by(&RUNS)
            .refused("spec.volumes[0].hostPath", code),
        change(
            "another capability",
            kind,
            [capabilities(&["NET_RAW"]), capabilities(&["NET_RAW", "SYS_ADMIN"])],
        )
        .by(&RUNS)
        .refused("spec.securityContext.capabilities.add[1]", code),
        change("a capability that is restricted", kind, [json!({}), capabilities(&["NET_BIND_SERVICE"])])
            .by(&RUNS),
        change("other code with the privileges somebody gave", kind, [privileged("a"), privileged("mine")])
            .by(&RUNS)
            .refused("spec.securityContext.privileged", code),
        change("the same by one who may create pods", kind, [privileged("a"), privileged("mine")])
            .by(&["create pods"]),
    ]
}

/// Every change of the table.
pub fn changes() -> Vec<Change> {
    let of_rules = WITH_RULES.map(changes_of_rules).into_iter();
    let of_pods = [changes_of_references, changes_of_powers];
    let of_pods = WITH_POD_FIELDS.into_iter().flat_map(|kind| of_pods.map(|table| table(kind)));
    let of_kinds = [
        changes_of_rules_elsewhere(),
        changes_of_namespaces(),
        changes_of_references_of_a_kind(),
        changes_that_run_nothing_else(),
        changes_of_exposure(),
        changes_of_addresses(),
        changes_of_registrations(),
    ];
    of_rules.chain(of_pods).chain(of_kinds).flatten().collect()
}
