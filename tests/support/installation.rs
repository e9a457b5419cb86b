//! An installation of the operator's shipped manifests in a namespace of its own, without its Deployment:
//! the operator under test runs as a process, with the rights of the shipped service account and no more.

use crate::cluster::{Cluster, kustomize};
use crate::operator::{Operator, OperatorOptions};
use crate::process::scratch_folder;
use k8s_openapi::api::core::v1::Secret;
use std::path::{Path, PathBuf};

/// The manifests of `kustomize/overlays/local`, applied under a prefix, so that many fit into one cluster.
pub struct Installation<'a> {
    cluster: &'a Cluster,
    /// The namespace of the operator.
    pub namespace: String,
    /// The service account it runs as.
    pub service_account: String,
}

impl<'a> Installation<'a> {
    /// Applies the overlay into a new namespace called after `purpose`.
    pub async fn new(cluster: &'a Cluster, purpose: &str) -> Self {
        let namespace = cluster.namespace(purpose).await;
        Self::apply(cluster, &manifests(&namespace).await).await;
        Self { cluster, service_account: format!("{namespace}-coder-k8s"), namespace }
    }

    /// Applies the overlay as it is shipped, into `coder-system`.
    pub async fn shipped(cluster: &'a Cluster) -> Self {
        let manifests = kustomize(&repository().join("kustomize/overlays/local")).await.expect_ok();
        Self::apply(cluster, &manifests).await;
        Self { cluster, namespace: "coder-system".to_owned(), service_account: "coder-k8s".to_owned() }
    }

    async fn apply(cluster: &Cluster, manifests: &str) {
        cluster.kubectl_with_input("apply --server-side --force-conflicts -f -", manifests).await.expect_ok();
        cluster.kubectl("wait --for=condition=Established crd --all --timeout=30s").await.expect_ok();
        cluster.forget_discovery();
    }

    /// Options for an operator of this installation that reaches the API server directly.
    pub async fn operator(&self, app: &'static str) -> OperatorOptions {
        self.operator_through(app, &self.cluster.url()).await
    }

    /// The same through a proxy.
    pub async fn operator_through(&self, app: &'static str, url: &str) -> OperatorOptions {
        let kubeconfig = self.cluster.kubeconfig_for(&self.namespace, &self.service_account, url).await;
        OperatorOptions { app, namespace: self.namespace.clone(), kubeconfig, flags: Vec::new() }
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

/// The local overlay with another namespace and a name prefix, as a user would derive it.
async fn manifests(namespace: &str) -> String {
    let folder = scratch_folder("overlay");
    let overlay = relative(&folder, &repository().join("kustomize/overlays/local"));
    let kustomization = serde_json::json!({
        "apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization",
        "namespace": namespace, "namePrefix": format!("{namespace}-"), "resources": [overlay],
    });
    std::fs::write(folder.join("kustomization.yaml"), kustomization.to_string()).expect("a writable folder");
    kustomize(&folder).await.expect_ok()
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
