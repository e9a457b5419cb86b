//! A repository with the manifests of this one, an empty cluster, and the operator's process, which does the work of its pods:
//! those are simulated, so that the tools wait for a Deployment as everywhere. It never applies a manifest: that is what the
//! tools are for.

use crate::coder::Coder;
use crate::elsewhere::Elsewhere;
use serde_json::{Value, json};
use std::path::PathBuf;
use std::time::Duration;
use support::gitops::git::Repository;
use support::installation::repository;
use support::wait::{holds, until};
use support::{Cluster, ClusterOptions, Daemons, Installation, Operator, ports, tools};

pub const BINARY: &str = env!("CARGO_BIN_EXE_coder-k8s");
/// How long anything may take that is waited for.
pub const LIMIT: Duration = Duration::from_secs(180);
/// The namespace of the instances.
pub const TEAM: &str = "coder";
/// The instances, as kubectl names them.
pub const KINDS: [(&str, &str); 3] =
    [("codercontrolplanes", "coder"), ("coderprovisioners", "builders"), ("coderworkspaceproxies", "sydney")];
/// A definition of CloudNativePG, which its release is in the examples.
const CNPG: &str = "releases/cnpg-1.28.0.yaml";
/// The instances as they are shipped; a change is made there.
const INSTANCES: &str = "kustomize/examples/coder/kustomization.yaml";

/// A cluster and the repository it is to be built from.
pub struct Site {
    // Ends first: without its cluster it would only complain.
    operator: Option<Operator>,
    pub cluster: Cluster,
    pub git: Repository,
    pub coder: Coder,
    webhooks: u16,
    _daemons: Daemons,
    _elsewhere: Elsewhere,
}

impl Site {
    /// An empty cluster, and a repository with everything in it.
    pub async fn new(coder: Coder) -> Self {
        let git = Repository::serve().await;
        let [webhooks] = ports::free();
        fill(&git, webhooks);
        git.commit("Run Coder");
        Self::with(coder, git, webhooks).await
    }

    async fn with(coder: Coder, git: Repository, webhooks: u16) -> Self {
        let options = ClusterOptions { nodes: 2, audit: true, ..Default::default() };
        let cluster = Cluster::start(options).await;
        let answers = coder.coderd.clone();
        let client = cluster.client().await;
        let daemons = Daemons::follow(client, TEAM, Duration::ZERO, move |_| Some(answers.clone()));
        let elsewhere = Elsewhere::begin(cluster.client().await, &coder.database_url);
        Self { operator: None, cluster, git, coder, webhooks, _daemons: daemons, _elsewhere: elsewhere }
    }

    /// Loses the cluster: an empty one, beside the same repository and the same coderd.
    pub async fn rebuilt(self) -> Self {
        let Self { operator, coder, git, webhooks, .. } = self;
        drop(operator);
        Self::with(coder, git, webhooks).await
    }

    /// Defines CloudNativePG's Cluster, where Git does not.
    pub async fn has_cloud_native_pg(&self) {
        let words = format!("apply --server-side -f {}", cloud_native_pg().display());
        self.cluster.kubectl(&words).await.expect_ok();
        self.cluster.crds_established().await;
    }

    /// Starts the operator as soon as its account has come from Git, as the kubelet would.
    pub async fn start_operator(&mut self) {
        self.start_operator_with(&[]).await;
    }

    /// The same with more flags, as another release of the operator would have other defaults.
    pub async fn start_operator_with(&mut self, flags: &[&str]) {
        let installation = Installation::from_git(&self.cluster).await;
        let mut options = installation.operator("all").await;
        options.flags.extend(self.coder.flags.clone());
        options.flags.extend(flags.iter().map(|flag| (*flag).to_owned()));
        let mut operator = Operator::start_answering(BINARY, &options, self.webhooks).await;
        operator.ready(LIMIT).await;
        self.operator = Some(operator);
    }

    /// Stops the operator as a rollout does.
    pub async fn stop_operator(&mut self) {
        let mut operator = self.operator.take().expect("an operator runs");
        operator.process().signal("TERM");
        operator.ended(LIMIT).await;
    }

    /// Changes instances, each by a merge patch of its spec, and returns the commit.
    pub fn change(&self, message: &str, changes: &[(&str, &str, Value)]) -> String {
        let patch = |(kind, name, spec): &(&str, &str, Value)| {
            let object = json!({ "apiVersion": "coder.com/v1alpha1", "kind": kind,
                "metadata": { "name": name }, "spec": spec });
            json!({ "patch": object.to_string() })
        };
        let mut kustomization = shipped(INSTANCES);
        kustomization["patches"] = changes.iter().map(patch).collect();
        self.git.write(INSTANCES, &kustomization.to_string());
        self.commit(message)
    }

    /// Takes back the last change, so that the instances are those that are shipped.
    pub fn take_back(&self) -> String {
        self.git.write(INSTANCES, &text_of(INSTANCES));
        self.commit("Take it back")
    }

    /// Has none of these instances any more, by the names of their files, and returns the commit.
    pub fn without(&self, files: &[&str]) -> String {
        let mut kustomization = shipped(INSTANCES);
        let resources = kustomization["resources"].as_array_mut().expect("resources");
        resources.retain(|file| !files.iter().any(|gone| *file == format!("{gone}.yaml")));
        self.git.write(INSTANCES, &kustomization.to_string());
        self.commit("Have fewer instances")
    }

    /// Commits, also if nothing is different.
    fn commit(&self, message: &str) -> String {
        static NUMBER: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(0);
        let number = NUMBER.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        self.git.write("commits", &format!("{number}\n"));
        self.git.commit(message)
    }

    /// An object of the team's namespace; null if it is not there.
    pub async fn get(&self, kind: &str, name: &str) -> Value {
        self.get_in(TEAM, kind, name).await
    }

    /// An object of this namespace, or of none; null if it is not there.
    pub async fn get_in(&self, namespace: &str, kind: &str, name: &str) -> Value {
        let answer = self.cluster.kubectl(&format!("get {kind} {name} -n {namespace} -o json")).await;
        serde_json::from_str(&answer.stdout).unwrap_or_default()
    }

    /// The uids of instances, Deployments and pods: what a deletion would change.
    pub async fn identities(&self) -> Vec<String> {
        let objects =
            self.list("codercontrolplanes,coderprovisioners,coderworkspaceproxies,deployments,pods").await;
        let told = |object: &Value| {
            format!("{} {} {}", object["kind"], object["metadata"]["name"], object["metadata"]["uid"])
        };
        let mut found: Vec<String> = objects.iter().map(told).collect();
        found.sort();
        found
    }

    /// All objects of these kinds in the team's namespace.
    pub async fn list(&self, kinds: &str) -> Vec<Value> {
        let query = format!("get {kinds} -n {TEAM} -o json");
        let list: Value =
            serde_json::from_str(&self.cluster.kubectl(&query).await.expect_ok()).expect("JSON");
        list["items"].as_array().cloned().unwrap_or_default()
    }

    /// Waits until every instance is Ready.
    pub async fn ready(&self) {
        until("every instance to be Ready", LIMIT, async || {
            for (kind, name) in KINDS {
                let object = self.get(kind, name).await;
                holds(support::objects::is_ready(&object), format!("{kind}: {}", object["status"]))?;
            }
            Ok::<(), String>(())
        })
        .await;
    }
}

fn text_of(path: &str) -> String {
    std::fs::read_to_string(repository().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// A kustomization as it is shipped.
fn shipped(path: &str) -> Value {
    serde_saphyr::from_str(&text_of(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

fn cloud_native_pg() -> PathBuf {
    tools::program("cnpg-clusters-v1.28.0.yaml")
}

/// What the repository holds: all that is shipped, as it is but for the way to a process of this machine, a release of
/// CloudNativePG, and the folder that the shipped sources of instances name.
fn fill(git: &Repository, webhooks: u16) {
    for folder in ["crds", "webhooks", "policies", "kustomize"] {
        git.copy(&repository().join(folder), folder);
    }
    git.write(OPERATOR, &operator(webhooks).to_string());
    git.write(CNPG, &std::fs::read_to_string(cloud_native_pg()).expect("a definition"));
    let theirs = json!({ "apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization",
        "resources": ["../kustomize/examples/coder"] });
    git.write("coder/kustomization.yaml", &theirs.to_string());
}

/// What every overlay is made of.
const OPERATOR: &str = "kustomize/operator/kustomization.yaml";

/// That, with what the local overlay does to Services, and with the port of this process. The Deployment stays.
fn operator(webhooks: u16) -> Value {
    let local = shipped("kustomize/overlays/local/kustomization.yaml");
    let to_this_machine = local["patches"].as_array().expect("patches").iter();
    let mut patches: Vec<Value> =
        to_this_machine.filter(|patch| patch["target"]["kind"] == "Service").cloned().collect();
    assert_eq!(patches.len(), 1, "how the local overlay leads Services to this machine: {local}");
    let port = |number: usize| json!({ "op": "replace", "path": format!("/webhooks/{number}/clientConfig/service/port"), "value": webhooks });
    let ports = Value::from((0..3).map(port).collect::<Vec<_>>()).to_string();
    for kind in ["MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"] {
        patches.push(json!({ "target": { "kind": kind }, "patch": ports }));
    }
    let mut operator = shipped(OPERATOR);
    assert!(operator["patches"].is_null(), "{operator}");
    operator["patches"] = patches.into();
    operator
}
