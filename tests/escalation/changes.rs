//! Changes of stored objects: what counts as more than before, and what does not.
//! The stored object was written by an administrator; the change is sent by somebody with the rights of the case.

use serde_json::{Value, json};
use webhooks::Kind::{self, ControlPlane, Provisioner, WorkspaceProxy};

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

fn changes_of_rules() -> Vec<Change> {
    let (get, both) = (rule(&["get"], &[]), rule(&["get", "list"], &[]));
    let field = "spec.rbac.extraRules[0]";
    let with = |namespaces: Value, rules: Value| json!({ "rbac": { "workspaceNamespaces": namespaces, "extraRules": rules } });
    vec![
        change("rules go", ControlPlane, [rules(json!([both])), json!({})]),
        change(
            "one rule becomes two",
            ControlPlane,
            [rules(json!([both])), rules(json!([rule(&["list"], &[]), get]))],
        ),
        change(
            "a rule is narrowed to a name",
            ControlPlane,
            [rules(json!([get])), rules(json!([rule(&["get"], &["payroll"])]))],
        ),
        change("a verb comes", ControlPlane, [rules(json!([get])), rules(json!([both]))])
            .by(&["get secrets"])
            .refused(field, "CODER0502"),
        change("a verb comes that the author has", ControlPlane, [rules(json!([get])), rules(json!([both]))])
            .by(&["list secrets"]),
        change(
            "a name goes",
            ControlPlane,
            [rules(json!([rule(&["get"], &["payroll"])])), rules(json!([get]))],
        )
        .refused(field, "CODER0502"),
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

fn changes_of_references() -> Vec<Change> {
    let license = |key: &str| json!({ "licenseSecretRef": { "name": "payroll", "key": key } });
    let env = |reference: &str| json!({ "envFrom": [{ reference: { "name": "payroll" } }] });
    let volume = json!({ "volumes": [{ "name": "v", "secret": { "secretName": "payroll" } }] });
    let (whole, field) = (env("secretRef"), "spec.envFrom[0].secretRef.name");
    vec![
        change("another key of a Secret", ControlPlane, [license("a"), license("b")])
            .refused("spec.licenseSecretRef.name", "CODER0505"),
        change("a key, then the whole Secret", ControlPlane, [license("a"), whole.clone()])
            .refused(field, "CODER0505"),
        change("the whole Secret, then a key", ControlPlane, [whole.clone(), license("a")]),
        change("the same Secret as a volume", ControlPlane, [whole.clone(), volume]),
        change("a Secret of the name of a ConfigMap", ControlPlane, [env("configMapRef"), whole])
            .refused(field, "CODER0505"),
        change(
            "another account",
            ControlPlane,
            [
                json!({ "serviceAccount": { "name": "robot" } }),
                json!({ "serviceAccount": { "name": "other" } }),
            ],
        )
        .by(&["create serviceaccounts/token robot"])
        .refused("spec.serviceAccount.name", "CODER0504"),
        change(
            "the account of others, then the own",
            ControlPlane,
            [json!({ "serviceAccount": { "name": "robot" } }), json!({})],
        ),
    ]
}

/// What only the operator, the node or an Ingress reads is not shown to pods yet, nor is the rest of a Secret of which
/// one key is read by default.
fn changes_of_uses() -> Vec<Change> {
    let payroll = json!({ "name": "payroll" });
    let shown = json!({ "envFrom": [{ "secretRef": payroll }] });
    let key = |key: &str| json!({ "extraEnv": [{ "name": "A", "valueFrom": { "secretKeyRef": { "name": "payroll", "key": key } } }] });
    let (license, pull) = (json!({ "licenseSecretRef": payroll }), json!({ "imagePullSecrets": [payroll] }));
    let ingress =
        json!({ "expose": { "ingress": { "host": "c.example.com", "tls": { "secretName": "payroll" } } } });
    let named = json!({ "licenseSecretRef": { "name": "payroll", "key": "license" } });
    let own_key = |spec: Value| {
        let mut spec = spec;
        spec["key"] = json!({ "secretName": "payroll" });
        spec
    };
    let (field, one) = ("spec.envFrom[0].secretRef.name", "spec.extraEnv[0].valueFrom.secretKeyRef.name");
    let before =
        |what, before: &Value, after: &Value| change(what, ControlPlane, [before.clone(), after.clone()]);
    vec![
        before("a key that goes without saying, then the whole Secret", &license, &shown)
            .refused(field, "CODER0505"),
        before("a Secret to pull images, then shown to pods", &pull, &shown).refused(field, "CODER0505"),
        before("a Secret of the Ingress, then shown to pods", &ingress, &shown).refused(field, "CODER0505"),
        before("a license, then shown to pods", &license, &key("license")).refused(one, "CODER0505"),
        before("a key that goes without saying, then said", &license, &named),
        before("a key that is said, then goes without saying", &named, &license),
        before("a Secret of pods, then to pull images", &shown, &pull),
        before("a Secret of pods, then of the Ingress", &shown, &ingress),
        before("a Secret to pull images, then of the Ingress", &pull, &ingress)
            .refused("spec.expose.ingress.tls.secretName", "CODER0505"),
        change(
            "the key of provisioners, shown once more",
            Provisioner,
            [own_key(json!({})), own_key(key("key"))],
        ),
        change("another key beside it", Provisioner, [own_key(json!({})), own_key(key("other"))])
            .refused(one, "CODER0505"),
    ]
}

fn changes_of_addresses() -> Vec<Change> {
    let key = json!({ "name": "payroll", "key": "k" });
    let boot = |url: &str| json!({ "bootstrap": { "coderURL": url, "credentialsSecretRef": key } });
    let session = |url: &str| json!({ "primaryAccessURL": url, "proxySessionTokenSecretRef": key });
    let [ours, mine] = ["https://coder.example.com", "https://mine.example.com"];
    let shown = json!({ "extraEnv": [{ "name": "A", "valueFrom": { "secretKeyRef": key } }] });
    let mut both = boot(mine);
    both["extraEnv"] = shown["extraEnv"].clone();
    let (boot_field, session_field) =
        ("spec.bootstrap.credentialsSecretRef.name", "spec.proxySessionTokenSecretRef.name");
    vec![
        change("credentials go to another address", WorkspaceProxy, [boot(ours), boot(mine)])
            .by(&["create pods"])
            .refused(boot_field, "CODER0506"),
        change("credentials one may read go to another address", WorkspaceProxy, [boot(ours), boot(mine)])
            .by(&["get secrets payroll"]),
        change("a token goes to another address", WorkspaceProxy, [session(ours), session(mine)])
            .refused(session_field, "CODER0506"),
        change("a token is sent as credentials", WorkspaceProxy, [session(ours), boot(mine)])
            .refused(boot_field, "CODER0506"),
        change("what was shown to a pod is sent away", WorkspaceProxy, [shown, both])
            .by(&["create pods"])
            .refused(boot_field, "CODER0506"),
    ]
}

fn changes_of_powers() -> Vec<Change> {
    let host = |path: &str| json!({ "name": path.trim_matches('/'), "hostPath": { "path": path } });
    let volumes = |volumes: &[Value]| json!({ "volumes": volumes });
    let capabilities = |names: &[&str]| json!({ "securityContext": { "capabilities": { "add": names } } });
    vec![
        change(
            "volumes change places",
            ControlPlane,
            [volumes(&[host("/a"), host("/b")]), volumes(&[host("/b"), host("/a")])],
        ),
        change("another folder of the node", ControlPlane, [volumes(&[host("/a")]), volumes(&[host("/b")])])
            .refused("spec.volumes[0].hostPath", "CODER0507"),
        change(
            "another capability",
            ControlPlane,
            [capabilities(&["NET_RAW"]), capabilities(&["NET_RAW", "SYS_ADMIN"])],
        )
        .refused("spec.securityContext.capabilities.add[1]", "CODER0507"),
        change(
            "privileges are turned on",
            ControlPlane,
            [
                json!({ "securityContext": { "privileged": false } }),
                json!({ "securityContext": { "privileged": true } }),
            ],
        )
        .refused("spec.securityContext.privileged", "CODER0507"),
    ]
}

/// Every change of the table.
pub fn changes() -> Vec<Change> {
    [
        changes_of_rules(),
        changes_of_namespaces(),
        changes_of_references(),
        changes_of_uses(),
        changes_of_addresses(),
        changes_of_powers(),
    ]
    .into_iter()
    .flatten()
    .collect()
}
