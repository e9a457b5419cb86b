//! Flux: source-controller and kustomize-controller as processes, each with an account of its own.
//! It tells what a Kustomization says and how often it was reconciled; it never touches what Flux applies.

use super::{account, apply, built, command, define_kinds, namespace, user};
use crate::cluster::Cluster;
use crate::objects::{condition, is_observed};
use crate::plain_http::Ask;
use crate::ports::{self, loopback};
use crate::process::{Process, scratch_folder};
use crate::wait::{holds, until};
use serde_json::{Value, json};
use std::path::Path;
use std::time::Duration;

/// Where Flux lives.
pub const NAMESPACE: &str = "flux-system";
const SOURCE: &str = "source-controller";
const KUSTOMIZE: &str = "kustomize-controller";
const STARTS_WITHIN: Duration = Duration::from_secs(60);

/// A running Flux. Dropping it kills it.
pub struct Flux {
    cluster: Cluster,
    metrics: u16,
    _processes: [Process; 2],
}

impl Flux {
    /// Installs Flux and starts it.
    ///
    /// # Panics
    /// If `make gitops-tools` has not been run.
    pub async fn start(cluster: &Cluster) -> Self {
        for program in [SOURCE, KUSTOMIZE] {
            define_kinds(cluster, program).await;
        }
        apply(cluster, &[namespace(NAMESPACE)]).await;
        apply(cluster, &[account(NAMESPACE, SOURCE), account(NAMESPACE, KUSTOMIZE)].concat()).await;
        let folder = scratch_folder("flux");
        let [storage, health, source_metrics, metrics, kustomize_health] = ports::free();
        let kubeconfig = cluster.kubeconfig_for(NAMESPACE, SOURCE, &cluster.url()).await;
        let mut source = command(SOURCE, &kubeconfig);
        source
            .arg(format!("--storage-path={}", folder.display()))
            .args([
                format!("--storage-addr=127.0.0.1:{storage}"),
                format!("--storage-adv-addr=127.0.0.1:{storage}"),
            ])
            .args(addresses(source_metrics, health))
            .env("RUNTIME_NAMESPACE", NAMESPACE);
        let kubeconfig = cluster.kubeconfig_for(NAMESPACE, KUSTOMIZE, &cluster.url()).await;
        let mut kustomize = command(KUSTOMIZE, &kubeconfig);
        kustomize
            .args(addresses(metrics, kustomize_health))
            .args(["--requeue-dependency=1s"])
            .env("RUNTIME_NAMESPACE", NAMESPACE);
        let processes = [
            Process::start(SOURCE, &folder, &mut source),
            Process::start(KUSTOMIZE, &folder, &mut kustomize),
        ];
        Self { cluster: cluster.clone(), metrics, _processes: processes }
    }

    /// How Flux's applier appears in the audit log.
    pub fn user(&self) -> String {
        user(NAMESPACE, KUSTOMIZE)
    }

    /// Tells Flux what the kustomization in this folder says, with the branch `main` of the repository at `url` in the place of
    /// every source, and intervals of seconds. Nothing else is changed.
    pub async fn follow(&self, folder: &Path, url: &str) {
        let objects: Vec<Value> = built(folder).await.into_iter().map(|object| here(object, url)).collect();
        apply(&self.cluster, &objects).await;
    }

    /// The source that a bootstrapped Flux has under its own name: the repository of the user.
    pub async fn bootstrapped(&self, url: &str) {
        let source = json!({ "apiVersion": "source.toolkit.fluxcd.io/v1", "kind": "GitRepository",
            "metadata": { "name": NAMESPACE, "namespace": NAMESPACE }, "spec": {} });
        apply(&self.cluster, &[here(source, url)]).await;
    }

    /// Sets fields of the spec of a Kustomization.
    pub async fn set(&self, name: &str, spec: &Value) {
        let words = format!(
            "patch kustomization.kustomize.toolkit.fluxcd.io/{name} -n {NAMESPACE} --type=merge --patch-file=/dev/stdin"
        );
        let patch = json!({ "spec": spec }).to_string();
        self.cluster.kubectl_with_input(&words, &patch).await.expect_ok();
    }

    /// A Kustomization as it is now.
    pub async fn get(&self, name: &str) -> Value {
        let path =
            format!("/apis/kustomize.toolkit.fluxcd.io/v1/namespaces/{NAMESPACE}/kustomizations/{name}");
        let request = http::Request::get(path).body(Vec::new()).expect("a request");
        self.cluster.client().await.request(request).await.unwrap_or_default()
    }

    /// Waits until a Kustomization has applied this commit, and all of it is ready.
    pub async fn applied(&self, name: &str, commit: &str, limit: Duration) -> Value {
        until(&format!("Flux to apply {name}"), limit, async || {
            let object = self.get(name).await;
            let ready = condition(&object, "Ready");
            let revision = object["status"]["lastAppliedRevision"].as_str().unwrap_or_default();
            let done = ready["status"] == "True" && revision.ends_with(commit) && is_observed(&object);
            holds(done, object["status"].to_string()).map(|()| object)
        })
        .await
    }

    /// Waits until a Kustomization has tried this commit and failed; its message.
    pub async fn refused(&self, name: &str, commit: &str, limit: Duration) -> String {
        until(&format!("Flux to be refused with {name}"), limit, async || {
            let object = self.get(name).await;
            let ready = condition(&object, "Ready");
            let revision = object["status"]["lastAttemptedRevision"].as_str().unwrap_or_default();
            let done = ready["status"] == "False" && revision.ends_with(commit);
            let message = ready["message"].as_str().unwrap_or_default().to_owned();
            holds(done, object["status"].to_string()).map(|()| message)
        })
        .await
    }

    /// Waits until a Kustomization was reconciled that many times more, by itself. Not every time Flux comes as far as to
    /// compare: the audit log tells that.
    pub async fn reconciled(&self, name: &str, count: u64, limit: Duration) {
        let first = until("Flux to tell its metrics", STARTS_WITHIN, async || self.reconciles(name).await);
        let goal = first.await + count;
        until(&format!("{count} reconciles of {name}"), limit, async || {
            let now = self.reconciles(name).await?;
            holds(now >= goal, format!("{now} of {goal} reconciles"))
        })
        .await;
    }

    async fn reconciles(&self, name: &str) -> Result<u64, String> {
        let answer = Ask::new("GET", "/metrics").send(loopback(self.metrics)).await?;
        let wanted = |line: &&str| {
            line.starts_with("gotk_reconcile_duration_seconds_count{")
                && line.contains(&format!("name=\"{name}\""))
        };
        let line = answer.body.lines().find(wanted).ok_or("no reconcile is counted yet")?;
        let count = line.rsplit(' ').next().unwrap_or_default();
        count.parse().map_err(|_| format!("no count: {line}"))
    }
}

/// An object of Flux as it would be, were its source the repository at this URL and its time short.
fn here(mut object: Value, url: &str) -> Value {
    let is_source = object["kind"] == "GitRepository";
    let spec = &mut object["spec"];
    if is_source {
        (spec["interval"], spec["url"], spec["ref"]) = ("1s".into(), url.into(), json!({ "branch": "main" }));
    } else {
        (spec["interval"], spec["retryInterval"]) = ("2s".into(), "2s".into());
    }
    object
}

fn addresses(metrics: u16, health: u16) -> [String; 4] {
    [
        format!("--metrics-addr=127.0.0.1:{metrics}"),
        format!("--health-addr=127.0.0.1:{health}"),
        "--enable-leader-election=false".to_owned(),
        "--events-addr=".to_owned(),
    ]
}
