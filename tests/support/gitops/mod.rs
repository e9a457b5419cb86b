//! The real Flux and the real Argo CD as processes beside a test cluster, and a Git repository on loopback for them.
//! It starts them with accounts of their own, so that the audit log shows what they write; it never decides what they should do.

pub mod argocd;
pub mod flux;
pub mod git;
pub mod rest;

use crate::cluster::{Cluster, kustomize};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

/// The build cache of these programs, as their build script names it.
static CACHE: LazyLock<PathBuf> = LazyLock::new(|| {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../cluster-tools/gitops/build.sh");
    let said = Command::new("bash").args([script, "--where"]).output().expect("bash runs build.sh --where");
    PathBuf::from(String::from_utf8_lossy(&said.stdout).trim())
});

/// A program or a file that `make gitops-tools` has made.
fn made(name: &str) -> PathBuf {
    let path = CACHE.join(name);
    assert!(path.exists(), "GitOps tests need `{}`: run `make gitops-tools`", path.display());
    path
}

/// A program of Flux or Argo CD that talks to the API server by this kubeconfig.
fn command(name: &str, kubeconfig: &Path) -> Command {
    let mut command = Command::new(made(name));
    let path = std::env::var("PATH").unwrap_or_default();
    command
        // Argo CD calls kustomize and helpers of its own by name.
        .env("PATH", format!("{}:{path}", CACHE.display()))
        .env("KUBECONFIG", kubeconfig)
        .env("GOGC", "400");
    command
}

/// The definitions of a program's own kinds.
async fn define_kinds(cluster: &Cluster, program: &str) {
    let folder = made(&format!("crds/{program}"));
    let words = format!("apply --server-side --force-conflicts -f {}", folder.display());
    cluster.kubectl(&words).await.expect_ok();
    cluster.crds_established().await;
    cluster.forget_discovery();
}

/// The objects that kustomize makes of a folder.
async fn built(folder: &Path) -> Vec<Value> {
    serde_saphyr::from_multiple(&kustomize(folder).await.expect_ok()).expect("kustomize writes YAML")
}

/// Applies objects as whoever installs the tool.
async fn apply(cluster: &Cluster, items: &[Value]) {
    let list = json!({ "apiVersion": "v1", "kind": "List", "items": items }).to_string();
    cluster.kubectl_with_input("apply --server-side --force-conflicts -f -", &list).await.expect_ok();
}

fn namespace(name: &str) -> Value {
    json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": name } })
}

/// An account that may do everything, as these tools usually may, but is no member of `system:masters`: what the audit log
/// leaves out are the requests of that group.
fn account(namespace: &str, name: &str) -> [Value; 2] {
    let subject = json!({ "kind": "ServiceAccount", "name": name, "namespace": namespace });
    [
        json!({ "apiVersion": "v1", "kind": "ServiceAccount",
            "metadata": { "name": name, "namespace": namespace } }),
        json!({ "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
            "metadata": { "name": format!("{namespace}-{name}") }, "subjects": [subject],
            "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin" } }),
    ]
}

/// How such an account appears in the audit log.
fn user(namespace: &str, name: &str) -> String {
    format!("system:serviceaccount:{namespace}:{name}")
}
