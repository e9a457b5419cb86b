//! Every command of docs/migration.md but those about Helm, which `helm_release` runs, in the order of the page on what the Go
//! operator installs: from there to us, back, to us again, and away; and from an earlier build of ours, whose objects had other
//! names. The operator under test runs as a process in the place of its pods.

use crate::docs::{BINARY, LIMIT, commands};
use serde_json::{Value, json};
use std::path::PathBuf;
use support::cluster::kustomize;
use support::coderd::Coderd;
use support::installation::repository;
use support::{Cluster, ClusterOptions, Installation, Operator};

const OVER: &str = "apply --server-side --force-conflicts -k kustomize/overlays/default";
/// What the component `policies` adds.
const POLICIES: &str = "apply --server-side -k policies";
const ACCOUNT: &str = "system:serviceaccount:coder-system:coder-k8s";

/// A definition as loose as it gets: what matters is whose it is.
fn definition(kind: &str, plural: &str) -> Value {
    let schema =
        json!({ "openAPIV3Schema": { "type": "object", "x-kubernetes-preserve-unknown-fields": true } });
    json!({ "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": format!("{plural}.coder.com") },
        "spec": { "group": "coder.com", "scope": "Namespaced",
            "names": { "kind": kind, "listKind": format!("{kind}List"), "plural": plural, "singular": kind.to_lowercase() },
            "versions": [{ "name": "v1alpha1", "served": true, "storage": true, "schema": schema,
                "subresources": { "status": {} } }] } })
}

/// What the Go operator is installed with, by the names and the fields that count.
fn go_operator() -> String {
    let at_home = |name: &str| json!({ "name": name, "namespace": "coder-system" });
    let subject = json!([{ "kind": "ServiceAccount", "name": "coder-k8s", "namespace": "coder-system" }]);
    let group = "rbac.authorization.k8s.io";
    let labels = json!({ "app": "coder-k8s" });
    let rule = |group: &str, resources: &[&str]| json!({ "apiGroups": [group], "resources": resources, "verbs": ["*"] });
    let service = |name: &str, port: u16, target: u16| {
        json!({ "apiVersion": "v1", "kind": "Service", "metadata": at_home(name),
            "spec": { "selector": labels, "ports": [{ "port": port, "targetPort": target }] } })
    };
    let items = [
        json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": "coder-system" } }),
        definition("CoderControlPlane", "codercontrolplanes"),
        definition("CoderProvisioner", "coderprovisioners"),
        definition("CoderWorkspaceProxy", "coderworkspaceproxies"),
        json!({ "apiVersion": "v1", "kind": "ServiceAccount", "metadata": at_home("coder-k8s") }),
        json!({ "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": { "name": "manager-role" },
            "rules": [rule("", &["pods", "secrets", "services", "serviceaccounts"]), rule("apps", &["deployments"])] }),
        json!({ "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
            "metadata": { "name": "coder-k8s" }, "subjects": subject,
            "roleRef": { "apiGroup": group, "kind": "ClusterRole", "name": "manager-role" } }),
        json!({ "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
            "metadata": { "name": "coder-k8s-auth-delegator" }, "subjects": subject,
            "roleRef": { "apiGroup": group, "kind": "ClusterRole", "name": "system:auth-delegator" } }),
        json!({ "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "subjects": subject,
            "metadata": { "name": "coder-k8s-authentication-reader", "namespace": "kube-system" },
            "roleRef": { "apiGroup": group, "kind": "Role", "name": "extension-apiserver-authentication-reader" } }),
        json!({ "apiVersion": "apps/v1", "kind": "Deployment", "metadata": at_home("coder-k8s"),
            "spec": { "replicas": 1, "selector": { "matchLabels": labels }, "template": { "metadata": { "labels": labels },
                "spec": { "serviceAccountName": "coder-k8s",
                    "containers": [{ "name": "coder-k8s", "image": "ghcr.io/coder/coder-k8s:latest" }] } } } }),
        service("coder-k8s-apiserver", 443, 6443),
        service("coder-k8s", 8090, 8090),
        json!({ "apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService",
            "metadata": { "name": "v1alpha1.aggregation.coder.com" },
            "spec": { "group": "aggregation.coder.com", "version": "v1alpha1", "insecureSkipTLSVerify": true,
                "groupPriorityMinimum": 1000, "versionPriority": 100,
                "service": { "name": "coder-k8s-apiserver", "namespace": "coder-system" } } }),
    ];
    json!({ "apiVersion": "v1", "kind": "List", "items": items }).to_string()
}

/// A cluster with the page in hand.
struct Walk {
    cluster: Cluster,
    page: String,
    /// What stands for `go-operator.yaml` of the page.
    kept: PathBuf,
    coderd: Coderd,
    /// Runs while the page has the operator's Deployment running.
    operator: Option<Operator>,
}

impl Walk {
    async fn begin() -> Self {
        let cluster = Cluster::start(ClusterOptions { nodes: 1, ..Default::default() }).await;
        let page = std::fs::read_to_string(repository().join("docs/migration.md")).unwrap();
        let kept = support::process::scratch_folder("go").join("go-operator.yaml");
        std::fs::write(&kept, go_operator()).unwrap();
        let coderd = Coderd::builder().api_rate_limit(None).start().await;
        Self { cluster, page, kept, coderd, operator: None }
    }

    async fn kubectl(&self, words: &str) -> String {
        self.cluster.kubectl(words).await.expect_ok()
    }

    /// The commands below a heading, up to the next one.
    fn section(&self, heading: &str) -> Vec<String> {
        let (_, rest) = self.page.split_once(&format!("# {heading}\n")).expect(heading);
        let until = rest.find("\n## ").into_iter().chain(rest.find("\n### ")).min().unwrap_or(rest.len());
        commands(&rest[..until])
    }

    /// Runs a section, with the operator's process in the place of its pods.
    async fn follow(&mut self, heading: &str) {
        let lines = self.section(heading);
        assert!(!lines.is_empty(), "{heading} has no commands");
        for line in lines {
            let words = line.strip_prefix("kubectl ").expect("only kubectl is called here");
            if words.contains("delete deployment/coder-k8s-operator") {
                self.operator = None;
            }
            self.run(words).await;
            if words.starts_with("rollout status deployment/coder-k8s-operator") {
                self.start().await;
            }
        }
    }

    async fn run(&self, words: &str) {
        let words = words
            .replace("-k kustomize", &format!("-k {}/kustomize", repository().display()))
            .replace("-k policies", &format!("-k {}/policies", repository().display()))
            .replace("-f go-operator.yaml", &format!("-f {}", self.kept.display()))
            .replace('\'', "");
        let answer = self.cluster.kubectl(&words).await;
        if words.starts_with("auth can-i") {
            assert_eq!(answer.stdout.trim(), "no", "{words}: {}", answer.stderr);
            return;
        }
        assert!(answer.ok, "{words}: {}", answer.stderr);
        if words.starts_with("apply") {
            self.cluster.crds_established().await;
            self.cluster.forget_discovery();
        }
    }

    /// Calls to our Services lead to the process; everything else stays as the page has applied it.
    async fn start(&mut self) {
        let installation = Installation::shipped(&self.cluster).await;
        let mut options = installation.operator("all").await;
        options.flags.push(format!("--resolve=*.svc.cluster.local={}", self.coderd.addr()));
        let mut operator = Operator::start(BINARY, &options).await;
        operator.ready(LIMIT).await;
        installation.admit(operator.ports.webhooks, &[]).await;
        self.operator = Some(operator);
    }

    /// Whether the account of both operators may do something.
    async fn may(&self, what: &str) -> bool {
        self.may_in("kube-system", what).await
    }

    async fn may_in(&self, namespace: &str, what: &str) -> bool {
        let answer = self.cluster.kubectl(&format!("auth can-i {what} -n {namespace} --as={ACCOUNT}")).await;
        answer.stdout.trim() == "yes"
    }

    /// The names of ours among some objects, sorted.
    async fn ours(&self, what: &str) -> Vec<String> {
        let all = self.kubectl(&format!("get {what} -o name")).await;
        let mut names: Vec<String> =
            all.lines().filter(|name| name.contains("coder")).map(str::to_owned).collect();
        names.sort();
        names
    }

    /// What is called after us of every kind there is, but for what others make of it.
    async fn everything_of_ours(&self, scope: &str) -> Vec<String> {
        let kinds = self.kubectl(&format!("api-resources --verbs=list {scope} -o name")).await;
        let derived = ["pods", "replicasets.apps", "events", "endpoints", "endpointslices.discovery.k8s.io"];
        let derived = |kind: &&str| derived.contains(kind) || kind.starts_with("events.");
        let kinds: Vec<_> = kinds.lines().filter(|kind| !derived(kind)).collect();
        assert!(kinds.len() > 3, "{kinds:?}");
        let place = if scope.ends_with("true") { " -n coder-system" } else { "" };
        self.ours(&format!("{}{place}", kinds.join(","))).await
    }

    /// A control plane with rights in another namespace, which a finalizer stands for.
    async fn control_plane(&self) -> String {
        let plane = json!({ "apiVersion": "coder.com/v1alpha1", "kind": "CoderControlPlane",
            "metadata": { "name": "coder", "namespace": "coder" },
            "spec": { "rbac": { "workspaceNamespaces": ["team"] } } });
        self.cluster.kubectl_with_input("apply -f -", &plane.to_string()).await.expect_ok();
        self.uid("codercontrolplane coder -n coder").await
    }

    async fn uid(&self, object: &str) -> String {
        self.kubectl(&format!("get {object} -o jsonpath={{.metadata.uid}}")).await
    }
}

const BEYOND: [&str; 2] = ["update secrets", "update services"];

#[tokio::test]
async fn the_page_leads_from_the_go_operator_to_us_and_back_and_away() {
    let mut walk = Walk::begin().await;
    let kept = walk.kept.display().to_string();
    walk.kubectl(&format!("apply -f {kept}")).await;
    walk.cluster.crds_established().await;
    walk.cluster.forget_discovery();
    for namespace in ["coder", "team"] {
        walk.kubectl(&format!("create namespace {namespace}")).await;
    }
    walk.kubectl("label namespace team coder.com/workspaces-from=coder").await;
    let uid = walk.control_plane().await;
    assert!(walk.may("delete secrets").await, "the Go operator's rights are in force");
    // Whoever does not read the page is not left half way either.
    walk.run(&format!("{OVER} --dry-run=server")).await;

    walk.follow("From the Go operator").await;
    for right in BEYOND {
        assert!(!walk.may(right).await, "{right} without its binding");
    }
    let left = walk.kubectl("get deployment,service -n coder-system -o name").await;
    for gone in ["deployment.apps/coder-k8s\n", "service/coder-k8s\n", "service/coder-k8s-apiserver\n"] {
        assert!(!left.contains(gone), "{left}");
    }
    assert_eq!(walk.uid("ccp coder -n coder").await, uid, "it is the same object");
    let deployment = walk.uid("deployment coder -n coder").await;

    walk.run(POLICIES).await;
    walk.follow("Going back").await;
    let refusing =
        walk.everything_of_ours("--namespaced=false --api-group=admissionregistration.k8s.io").await;
    assert_eq!(refusing, [""; 0], "nothing of ours refuses what the other operator does");
    walk.kubectl("rollout status deployment/coder-k8s -n coder-system --timeout=60s").await;
    assert_eq!(
        walk.ours("role,rolebinding -n coder-system").await,
        [""; 0],
        "the account keeps nothing of ours"
    );
    let pods = walk.kubectl("get pods -n coder-system -l app=coder-k8s -o yaml").await;
    assert!(pods.contains("kube-api-access"), "its pods have a token: {pods}");
    assert!(walk.may("delete secrets").await);
    assert_eq!(walk.uid("deployment coder -n coder").await, deployment, "Coder ran on");

    walk.follow("From the Go operator").await;
    uninstall(&mut walk).await;
    assert_eq!(walk.uid("deployment coder -n coder").await, deployment, "Coder runs on");
    walk.kubectl("delete ccp coder -n coder --wait=false").await;
    let grants = "get role,rolebinding -n team -o name";
    assert_ne!(walk.kubectl(grants).await, "", "the finalizer stands for something");
    walk.follow("An object that hangs").await;
    walk.kubectl("wait ccp/coder -n coder --for=delete --timeout=30s").await;
    assert_eq!(walk.kubectl(grants).await, "");

    walk.run(OVER).await;
    walk.start().await;
    walk.control_plane().await;
    walk.kubectl("wait ccp/coder -n coder --for=condition=Ready --timeout=60s").await;
    assert_ne!(walk.kubectl(grants).await, "");
    walk.follow("Everything").await;
    assert_eq!(walk.kubectl(grants).await, "", "nothing stays behind in another namespace");
    assert_eq!(walk.kubectl("get crd -o name").await, "");
    walk.operator = None;
    from_an_earlier_build(&mut walk).await;
}

/// Follows the page until nothing of the operator is left but what the page says.
async fn uninstall(walk: &mut Walk) {
    assert!(walk.may_in("coder-system", "get secrets").await, "while it is installed");
    walk.run(POLICIES).await;
    walk.follow("Only the operator").await;
    for right in ["get secrets", "delete secrets", "update leases", "create leases", "get services"] {
        assert!(!walk.may_in("coder-system", right).await, "{right} after it was uninstalled");
    }
    walk.follow("What stays behind").await;
    assert_eq!(walk.everything_of_ours("--namespaced=true").await, ["serviceaccount/coder-k8s"]);
    let roles = "clusterrole.rbac.authorization.k8s.io";
    let definitions = "customresourcedefinition.apiextensions.k8s.io";
    let told = [
        "apiservice.apiregistration.k8s.io/v1alpha1.coder.com".to_owned(),
        format!("{roles}/coder-k8s-edit"),
        format!("{roles}/coder-k8s-view"),
        format!("{definitions}/codercontrolplanes.coder.com"),
        format!("{definitions}/coderprovisioners.coder.com"),
        format!("{definitions}/coderworkspaceproxies.coder.com"),
        "namespace/coder".into(),
        "namespace/coder-system".into(),
    ];
    assert_eq!(walk.everything_of_ours("--namespaced=false").await, told, "the page says exactly what stays");
}

/// The objects of an earlier build differ from those of today by this name, by one account for everything, and by
/// Services that led nowhere.
async fn earlier_build() -> String {
    let today = kustomize(&repository().join("kustomize/overlays/default")).await.expect_ok();
    let earlier = today.replace("coder-k8s-operator", "coder-k8s");
    assert_ne!(earlier, today);
    let mut objects: Vec<Value> = serde_saphyr::from_multiple(&earlier).unwrap();
    objects.retain(|object| object["metadata"]["name"] != "coder-k8s-grants");
    let handed_on = objects.iter_mut().filter(|object| object["roleRef"]["name"] == "coder-k8s-workspaces");
    handed_on.for_each(|binding| binding["subjects"][0]["name"] = json!("coder-k8s"));
    objects.extend(["coder-k8s-apiserver", "coder-k8s-aggregated", "coder-k8s-mcp"].map(|name| {
        json!({ "apiVersion": "v1", "kind": "Service",
            "metadata": { "name": name, "namespace": "coder-system" }, "spec": { "ports": [{ "port": 443 }] } })
    }));
    json!({ "apiVersion": "v1", "kind": "List", "items": objects }).to_string()
}

async fn from_an_earlier_build(walk: &mut Walk) {
    let earlier = earlier_build().await;
    walk.cluster.kubectl_with_input("apply --server-side -f -", &earlier).await.expect_ok();
    walk.kubectl("rollout status deployment/coder-k8s -n coder-system --timeout=60s").await;
    // What somebody gave it to hand on.
    let services = "create clusterrole coder-workspace-services --verb=update --resource=services";
    walk.kubectl(services).await;
    let bind = "create clusterrolebinding coder-workspace-services --clusterrole=coder-workspace-services";
    walk.kubectl(&format!("{bind} --serviceaccount=coder-system:coder-k8s")).await;
    walk.follow("From an earlier build of this operator").await;
    let left = walk.ours("deployment,pdb,role,rolebinding -n coder-system").await;
    assert!(left.len() == 4 && left.iter().all(|name| name.ends_with("/coder-k8s-operator")), "{left:?}");
    let left = walk.ours("service,clusterrole,clusterrolebinding -n coder-system").await;
    assert!(
        ["/coder-k8s", "apiserver", "aggregated", "mcp"]
            .iter()
            .all(|end| left.iter().all(|name| !name.ends_with(end))),
        "{left:?}"
    );
    assert!(walk.may_in("coder-system", "get secrets").await, "the rights of the new names are in force");
    walk.follow("Permissions that you gave the operator to hand on").await;
    for right in ["create pods", "update services", "create roles"] {
        assert!(!walk.may(right).await, "{right} is for the other account");
        let words = format!("auth can-i {right} -n kube-system --as={ACCOUNT}-grants");
        assert_eq!(walk.kubectl(&words).await.trim(), "yes", "{right}");
    }
}
