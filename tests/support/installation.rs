//! An installation of the operator's shipped manifests in a namespace of its own, without its Deployment:
//! the operator under test runs as a process, with the rights of the shipped service account and no more.

use crate::cluster::{Cluster, kustomize};
use crate::operator::{Operator, OperatorOptions};
use crate::process::scratch_folder;
use crate::wait;
use k8s_openapi::api::core::v1::Secret;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::time::Duration;

const ADMIT_LIMIT: Duration = Duration::from_secs(30);
const FROM_GIT_LIMIT: Duration = Duration::from_secs(120);

/// The manifests of `kustomize/overlays/local`, applied under a prefix, so that many fit into one cluster.
pub struct Installation {
    cluster: Cluster,
    /// The namespace of the operator.
    pub namespace: String,
    /// The service account it runs as.
    pub service_account: String,
    /// The one it writes Roles and RoleBindings as.
    pub grants_account: String,
    manifests: String,
    /// The shipped webhook configurations: they fail closed, so they wait for an operator that answers.
    admission: Vec<Value>,
}

impl Installation {
    /// Applies the overlay into a new namespace called after `purpose`.
    pub async fn new(cluster: &Cluster, purpose: &str) -> Self {
        let namespace = cluster.namespace(purpose).await;
        let service_account = format!("{namespace}-coder-k8s");
        let grants_account = format!("{namespace}-coder-k8s-grants");
        let manifests = manifests(&namespace, "local", &[]).await;
        let admission = apply(cluster, &manifests).await;
        Self { cluster: cluster.clone(), namespace, service_account, grants_account, manifests, admission }
    }

    /// Applies the overlay as it is shipped, into `coder-system`.
    pub async fn shipped(cluster: &Cluster) -> Self {
        let manifests = kustomize(&repository().join("kustomize/overlays/local")).await.expect_ok();
        let admission = apply(cluster, &manifests).await;
        Self {
            cluster: cluster.clone(),
            namespace: "coder-system".to_owned(),
            service_account: "coder-k8s".to_owned(),
            grants_account: "coder-k8s-grants".to_owned(),
            manifests,
            admission,
        }
    }

    /// Applies the overlay into a new namespace, with one account for each role of the operator. `service_account` is that of
    /// the controller; see [`Self::account_of`].
    pub async fn split(cluster: &Cluster, purpose: &str) -> Self {
        let namespace = cluster.namespace(purpose).await;
        let manifests = split_manifests(&namespace).await;
        let admission = apply(cluster, &manifests).await;
        let service_account = format!("{namespace}-coder-k8s-controller");
        let grants_account = format!("{namespace}-coder-k8s-grants");
        Self { cluster: cluster.clone(), namespace, service_account, grants_account, manifests, admission }
    }

    /// Applies the namespaced overlay, with permissions in its own new namespace and in these, and none outside.
    pub async fn namespaced(cluster: &Cluster, purpose: &str, watched: &[&str]) -> Self {
        let namespace = cluster.namespace(purpose).await;
        let crds = kustomize(&repository().join("crds")).await.expect_ok();
        apply(cluster, &crds).await;
        let manifests = without_workloads(&namespaced_manifests(&namespace, watched).await);
        apply(cluster, &manifests).await;
        let service_account = format!("{namespace}-coder-k8s");
        let grants_account = format!("{namespace}-coder-k8s-grants");
        Self {
            cluster: cluster.clone(),
            namespace,
            service_account,
            grants_account,
            manifests,
            admission: Vec::new(),
        }
    }

    /// What somebody else applies from Git into `coder-system`: returns when the operator's accounts are there.
    pub async fn from_git(cluster: &Cluster) -> Self {
        let (namespace, accounts) = ("coder-system", ["coder-k8s", "coder-k8s-grants"]);
        let words = format!("get serviceaccount {} -n {namespace}", accounts.join(" "));
        wait::until("the operator's accounts to be applied from Git", FROM_GIT_LIMIT, async || {
            let answer = cluster.kubectl(&words).await;
            wait::holds(answer.ok, answer.stderr)
        })
        .await;
        cluster.forget_discovery();
        Self {
            cluster: cluster.clone(),
            namespace: namespace.to_owned(),
            service_account: accounts[0].to_owned(),
            grants_account: accounts[1].to_owned(),
            manifests: String::new(),
            admission: Vec::new(),
        }
    }

    /// What the account of a role is called, where every role has one.
    pub fn account_of(&self, role: &str) -> String {
        format!("{}-coder-k8s-{role}", self.namespace)
    }

    /// Everything that was applied.
    pub fn objects(&self) -> Vec<Value> {
        serde_saphyr::from_multiple(&self.manifests).expect("kustomize writes YAML")
    }

    /// Applies everything but the webhook configurations once more, over what a test has broken.
    pub async fn mend(&self) {
        apply(&self.cluster, &self.manifests).await;
    }

    /// The name under which the operator appears to the API server.
    pub fn user(&self) -> String {
        format!("system:serviceaccount:{}:{}", self.namespace, self.service_account)
    }

    /// The name under which it appears where it writes Roles and RoleBindings.
    pub fn grants_user(&self) -> String {
        format!("system:serviceaccount:{}:{}", self.namespace, self.grants_account)
    }

    /// Applies the shipped webhook configurations, answered at `port`, and waits until they carry our CA. With
    /// `only_in`, they look at these namespaces alone: other tests have webhooks of their own.
    pub async fn admit(&self, port: u16, only_in: &[&str]) {
        let mut items = self.admission.clone();
        for webhook in items.iter_mut().flat_map(|item| item["webhooks"].as_array_mut().expect("webhooks")) {
            webhook["clientConfig"]["service"]["port"] = port.into();
            if !only_in.is_empty() {
                let own =
                    json!({ "key": "kubernetes.io/metadata.name", "operator": "In", "values": only_in });
                let selector = webhook["namespaceSelector"]["matchExpressions"].as_array_mut();
                selector.expect("the emergency brake").push(own);
            }
        }
        let list = json!({ "apiVersion": "v1", "kind": "List", "items": items }).to_string();
        self.cluster
            .kubectl_with_input("apply --server-side --force-conflicts -f -", &list)
            .await
            .expect_ok();
        wait::until("the webhooks to carry our CA", ADMIT_LIMIT, async || {
            let query = "get mutatingwebhookconfigurations,validatingwebhookconfigurations -o json";
            let live: Value =
                serde_json::from_str(&self.cluster.kubectl(query).await.expect_ok()).expect("JSON");
            let named = |name: &Value| items.iter().any(|item| item["metadata"]["name"] == *name);
            let ours = live["items"]
                .as_array()
                .expect("items")
                .iter()
                .filter(|item| named(&item["metadata"]["name"]));
            let bare = |item: &&Value| item.to_string().matches("caBundle\":").count() < 3;
            wait::holds(ours.filter(bare).count() == 0, "a caBundle is missing")
        })
        .await;
    }

    /// Options for an operator of this installation that reaches the API server directly.
    pub async fn operator(&self, app: &'static str) -> OperatorOptions {
        self.operator_through(app, &self.cluster.url()).await
    }

    /// The same through a proxy.
    pub async fn operator_through(&self, app: &'static str, url: &str) -> OperatorOptions {
        let kubeconfig = self.cluster.kubeconfig_for(&self.namespace, &self.service_account, url).await;
        let (namespace, grants_account) = (self.namespace.clone(), self.grants_account.clone());
        OperatorOptions { app, namespace, kubeconfig, grants_account, flags: Vec::new() }
    }

    /// The CA bundle of this installation, as the Secret holds it.
    pub async fn ca(&self) -> String {
        let secrets = kube::Api::<Secret>::namespaced(self.cluster.client().await, &self.namespace);
        let secret = secrets.get("coder-k8s-ca").await.expect("the CA Secret exists");
        String::from_utf8(secret.data.expect("it has data")["bundle.crt"].0.clone()).expect("PEM is text")
    }

    /// A token of a service account that may `verb` the path of the metrics port.
    pub async fn caller(&self, name: &str, verb: &str, path: &str) -> String {
        let (namespace, role) = (&self.namespace, format!("{}-{name}", self.namespace));
        let account = format!("create serviceaccount {name} -n {namespace}");
        let grant = format!("create clusterrole {role} --verb={verb} --non-resource-url={path}");
        let bind = format!(
            "create clusterrolebinding {role} --clusterrole={role} --serviceaccount={namespace}:{name}"
        );
        for words in [account, grant, bind] {
            self.cluster.kubectl(&words).await.expect_ok();
        }
        self.cluster.token(namespace, name, &[]).await
    }

    /// Starts an operator and waits until it is ready.
    pub async fn start(&self, binary: &str, app: &'static str) -> Operator {
        let mut operator = Operator::start(binary, &self.operator(app).await).await;
        operator.ready(std::time::Duration::from_secs(30)).await;
        operator
    }
}

/// Applies everything but the webhook configurations, which are returned.
async fn apply(cluster: &Cluster, manifests: &str) -> Vec<Value> {
    let documents: Vec<Value> = serde_saphyr::from_multiple(manifests).expect("kustomize writes YAML");
    let is_webhook =
        |object: &Value| object["kind"].as_str().is_some_and(|kind| kind.ends_with("WebhookConfiguration"));
    let (webhooks, others): (Vec<Value>, Vec<Value>) = documents.into_iter().partition(is_webhook);
    let list = json!({ "apiVersion": "v1", "kind": "List", "items": others }).to_string();
    cluster.kubectl_with_input("apply --server-side --force-conflicts -f -", &list).await.expect_ok();
    cluster.crds_established().await;
    cluster.forget_discovery();
    webhooks
}

/// An overlay with these components, another namespace and a name prefix, as a user would derive it.
async fn manifests(namespace: &str, overlay: &str, components: &[PathBuf]) -> String {
    let folder = scratch_folder("overlay");
    let overlay = relative(&folder, &repository().join("kustomize/overlays").join(overlay));
    let components: Vec<String> = components.iter().map(|component| relative(&folder, component)).collect();
    kustomization(
        &folder,
        json!({ "namespace": namespace, "namePrefix": format!("{namespace}-"), "resources": [overlay],
            "components": components }),
    );
    kustomize(&folder).await.expect_ok()
}

/// The default overlay with one account for each role. Its Services are those of the local overlay, which has no Deployment that the
/// component could make those of the roles from.
async fn split_manifests(namespace: &str) -> String {
    let is_service = |object: &Value| object["kind"] == "Service";
    let component = repository().join("kustomize/components/split-roles");
    let split = manifests(namespace, "default", &[component]).await;
    let mut objects: Vec<Value> =
        serde_saphyr::from_multiple(&without_workloads(&split)).expect("kustomize writes YAML");
    objects.retain(|object| !is_service(object));
    let local = manifests(namespace, "local", &[]).await;
    let local: Vec<Value> = serde_saphyr::from_multiple(&local).expect("kustomize writes YAML");
    objects.extend(local.into_iter().filter(is_service));
    objects.iter().map(|object| format!("---\n{object}\n")).collect()
}

/// The namespaced overlay for these namespaces, as a user would derive it.
async fn namespaced_manifests(namespace: &str, watched: &[&str]) -> String {
    let folder = scratch_folder("overlay");
    let below = |name: &str, of: &str, settings: Value| {
        let inner = folder.join(name);
        std::fs::create_dir_all(&inner).expect("a writable folder");
        let of = repository().join("kustomize/overlays/namespaced").join(of);
        let mut settings = settings;
        settings["resources"] = json!([relative(&inner, &of)]);
        kustomization(&inner, settings);
        name.to_owned()
    };
    let mut resources = vec![below("operator", "operator", json!({ "namespace": namespace }))];
    for place in watched {
        let subject = json!([{ "op": "replace", "path": "/subjects/0/namespace", "value": namespace }]);
        let patch = json!({ "target": { "kind": "RoleBinding" }, "patch": subject.to_string() });
        let name = format!("watched-{place}");
        resources.push(below(&name, "watched", json!({ "namespace": place, "patches": [patch] })));
    }
    kustomization(&folder, json!({ "namePrefix": format!("{namespace}-"), "resources": resources }));
    kustomize(&folder).await.expect_ok()
}

/// A folder with a kustomization of this object and these components of ours, as a user would derive it.
pub fn overlay(object: &Value, components: &[&str]) -> PathBuf {
    let folder = scratch_folder("overlay");
    std::fs::write(folder.join("theirs.yaml"), object.to_string()).expect("a writable folder");
    let components: Vec<String> =
        components.iter().map(|component| relative(&folder, &repository().join(component))).collect();
    kustomization(&folder, json!({ "resources": ["theirs.yaml"], "components": components }));
    folder
}

fn kustomization(folder: &Path, mut settings: Value) {
    settings["apiVersion"] = json!("kustomize.config.k8s.io/v1beta1");
    settings["kind"] = json!("Kustomization");
    std::fs::write(folder.join("kustomization.yaml"), settings.to_string()).expect("a writable folder");
}

/// What is left where a process takes the place of the pods.
fn without_workloads(manifests: &str) -> String {
    let documents: Vec<Value> = serde_saphyr::from_multiple(manifests).expect("kustomize writes YAML");
    let runs = |object: &&Value| object["kind"] != "Deployment" && object["kind"] != "PodDisruptionBudget";
    documents.iter().filter(runs).map(|object| format!("---\n{object}\n")).collect()
}

/// The repository this harness belongs to.
pub fn repository() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    here.canonicalize().expect("the repository exists")
}

/// kustomize takes folders by relative path only.
fn relative(from: &Path, to: &Path) -> String {
    let from = from.canonicalize().expect("the folder exists");
    let up = "../".repeat(from.components().count() - 1);
    format!("{up}{}", to.display().to_string().trim_start_matches('/'))
}
