//! Argo CD: application-controller and repo-server as processes, with a Redis of their own.
//! It tells what an Application says and asks for refreshes; it never syncs one by hand.

use super::{account, apply, built, command, define_kinds, namespace, user};
use crate::cluster::Cluster;
use crate::installation::overlay;
use crate::ports;
use crate::process::{Process, scratch_folder};
use crate::wait::{holds, until};
use serde_json::{Value, json};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// Where Argo CD lives.
pub const NAMESPACE: &str = "argocd";
const CONTROLLER: &str = "argocd-application-controller";
const REPO_SERVER: &str = "argocd-repo-server";
const REFRESH: &str = "argocd.argoproj.io/refresh";

/// A running Argo CD. Dropping it kills it.
pub struct ArgoCd {
    cluster: Cluster,
    _processes: [Process; 3],
}

impl ArgoCd {
    /// Installs Argo CD with these settings in `argocd-cm`, to which our component adds the health of our kinds, and starts it.
    ///
    /// # Panics
    /// If `make gitops-tools` has not been run.
    pub async fn start(cluster: &Cluster, settings: &Value) -> Self {
        define_kinds(cluster, "argocd").await;
        apply(cluster, &[namespace(NAMESPACE)]).await;
        apply(cluster, &account(NAMESPACE, CONTROLLER)).await;
        apply(cluster, &configuration()).await;
        apply(cluster, &configured(settings).await).await;
        let folder = scratch_folder("argocd");
        let kubeconfig = cluster.kubeconfig_for(NAMESPACE, CONTROLLER, &cluster.url()).await;
        let [redis, repo, repo_metrics, metrics] = ports::free();
        let started = [
            Process::start("redis", &folder, &mut redis_server(redis, &folder)),
            Process::start(
                REPO_SERVER,
                &folder,
                &mut repo_server(&kubeconfig, &folder, [repo, repo_metrics, redis]),
            ),
            Process::start(
                CONTROLLER,
                &folder,
                &mut controller(&kubeconfig, &folder, [repo, metrics, redis]),
            ),
        ];
        Self { cluster: cluster.clone(), _processes: started }
    }

    /// How the application-controller appears in the audit log.
    pub fn user(&self) -> String {
        user(NAMESPACE, CONTROLLER)
    }

    /// Sets `argocd-cm` anew.
    pub async fn configure(&self, settings: &Value) {
        apply(&self.cluster, &configured(settings).await).await;
    }

    /// Tells Argo CD what the kustomization in this folder says, with the branch `main` of the repository at `url` in the place
    /// of every source, and retries after seconds. Nothing else is changed.
    pub async fn follow(&self, folder: &Path, url: &str) {
        let objects: Vec<Value> = built(folder).await.into_iter().map(|object| here(object, url)).collect();
        apply(&self.cluster, &objects).await;
    }

    /// Sets an annotation of an Application.
    pub async fn annotate(&self, name: &str, annotation: &str) {
        let words = format!("annotate application/{name} -n {NAMESPACE} --overwrite {annotation}");
        self.cluster.kubectl(&words).await.expect_ok();
    }

    /// An Application as it is now.
    pub async fn get(&self, name: &str) -> Value {
        let path = format!("/apis/argoproj.io/v1alpha1/namespaces/{NAMESPACE}/applications/{name}");
        let request = http::Request::get(path).body(Vec::new()).expect("a request");
        self.cluster.client().await.request(request).await.unwrap_or_default()
    }

    /// Asks for a comparison with Git as it is now, and waits until it is done.
    pub async fn refresh(&self, name: &str, limit: Duration) -> Value {
        self.annotate(name, &format!("{REFRESH}=normal")).await;
        until(&format!("Argo CD to refresh {name}"), limit, async || {
            let object = self.get(name).await;
            let asked = object["metadata"]["annotations"].get(REFRESH).is_some();
            holds(!asked && object["metadata"].is_object(), object["status"].to_string()).map(|()| object)
        })
        .await
    }

    /// Waits until an Application is as asked, with a refresh for each look.
    pub async fn until(
        &self,
        name: &str,
        what: &str,
        limit: Duration,
        asked: impl Fn(&Value) -> bool,
    ) -> Value {
        until(&format!("Application {name}: {what}"), limit, async || {
            let object = self.refresh(name, limit).await;
            holds(asked(&object), object["status"].to_string()).map(|()| object)
        })
        .await
    }

    /// Waits until an Application is Synced with this commit and Healthy.
    pub async fn synced(&self, name: &str, commit: &str, limit: Duration) -> Value {
        self.until(name, "Synced and Healthy", limit, |object| {
            let status = &object["status"];
            status["sync"]["status"] == "Synced"
                && status["sync"]["revision"] == commit
                && status["health"]["status"] == "Healthy"
                && object.get("operation").is_none()
                && status["operationState"]["phase"] == "Succeeded"
        })
        .await
    }
}

/// An object of Argo CD as it would be, were its source the repository at this URL and its time short.
fn here(mut object: Value, url: &str) -> Value {
    if object["kind"] == "AppProject" {
        object["spec"]["sourceRepos"] = json!([url]);
        return object;
    }
    let spec = &mut object["spec"];
    (spec["source"]["repoURL"], spec["source"]["targetRevision"]) = (url.into(), "main".into());
    let backoff = &mut spec["syncPolicy"]["retry"]["backoff"];
    (backoff["duration"], backoff["maxDuration"]) = ("1s".into(), "2s".into());
    object
}

fn labelled(kind: &str, name: &str) -> Value {
    json!({ "apiVersion": "v1", "kind": kind,
        "metadata": { "name": name, "namespace": NAMESPACE, "labels": { "app.kubernetes.io/part-of": "argocd" } } })
}

/// `argocd-cm` as somebody has it who takes in our component.
async fn configured(settings: &Value) -> Vec<Value> {
    let mut theirs = labelled("ConfigMap", "argocd-cm");
    theirs["data"] = settings.clone();
    built(&overlay(&theirs, &["kustomize/overlays/argocd/argocd-cm"])).await
}

/// What else the manifests of Argo CD would have installed beside its programs.
fn configuration() -> Vec<Value> {
    let empty = ["rbac-cm", "cmd-params-cm", "gpg-keys-cm", "ssh-known-hosts-cm", "tls-certs-cm"];
    let mut items: Vec<Value> =
        empty.iter().map(|name| labelled("ConfigMap", &format!("argocd-{name}"))).collect();
    let mut secret = labelled("Secret", "argocd-secret");
    secret["stringData"] = json!({ "server.secretkey": "of a test" });
    let everywhere = json!([{ "namespace": "*", "server": "*" }]);
    let everything = json!([{ "group": "*", "kind": "*" }]);
    items.push(secret);
    items.push(json!({ "apiVersion": "argoproj.io/v1alpha1", "kind": "AppProject",
        "metadata": { "name": "default", "namespace": NAMESPACE },
        "spec": { "sourceRepos": ["*"], "destinations": everywhere, "clusterResourceWhitelist": everything } }));
    items
}

fn redis_server(port: u16, folder: &Path) -> Command {
    let mut command = Command::new("redis-server");
    command.args(["--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--port", &port.to_string()]);
    command.arg("--dir").arg(folder);
    command
}

/// What both programs need of the machine: nothing outside of their folder.
fn at_home(program: &str, kubeconfig: &Path, folder: &Path) -> Command {
    let mut command = command(program, kubeconfig);
    command
        .env("HOME", folder)
        .env("TMPDIR", folder)
        .env("ARGOCD_GPG_ENABLED", "false")
        .env("ARGOCD_ASK_PASS_SOCK", folder.join("ask-pass.sock"))
        .env("ARGOCD_TLS_DATA_PATH", folder)
        .env("ARGOCD_SSH_DATA_PATH", folder);
    command
}

fn repo_server(kubeconfig: &Path, folder: &Path, [port, metrics, redis]: [u16; 3]) -> Command {
    let mut command = at_home(REPO_SERVER, kubeconfig, folder);
    command
        .args(["--disable-tls", "--client-ca-path=", "--address=127.0.0.1", "--metrics-address=127.0.0.1"])
        .args([format!("--port={port}"), format!("--metrics-port={metrics}")])
        .arg(format!("--redis=127.0.0.1:{redis}"))
        // How long a branch may stay resolved to the commit before.
        .args(["--revision-cache-expiration=1s"]);
    command
}

fn controller(kubeconfig: &Path, folder: &Path, [repo, metrics, redis]: [u16; 3]) -> Command {
    let mut command = at_home(CONTROLLER, kubeconfig, folder);
    command
        .arg(format!("--kubeconfig={}", kubeconfig.display()))
        .arg(format!("--namespace={NAMESPACE}"))
        .arg(format!("--repo-server=127.0.0.1:{repo}"))
        .args([
            "--repo-server-plaintext",
            "--persist-resource-health",
            "--app-resync=3",
            "--app-resync-jitter=0",
        ])
        .args([format!("--metrics-port={metrics}"), format!("--redis=127.0.0.1:{redis}")])
        // `https://kubernetes.default.svc` is the cluster of the kubeconfig.
        .env("ARGOCD_FAKE_IN_CLUSTER", "true");
    command
}
