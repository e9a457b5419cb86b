//! A repository as a user has it (the operator's manifests, an overlay for one cluster, instances), an empty cluster, and the
//! operator's process, which takes the place of its pods. It never applies a manifest: that is what the tools are for.

use crate::coder::Coder;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use std::time::Duration;
use support::gitops::git::Repository;
use support::installation::repository;
use support::wait::{holds, until};
use support::{Cluster, ClusterOptions, Daemons, Installation, Operator, ports};

pub const BINARY: &str = env!("CARGO_BIN_EXE_coder-k8s");
/// How long anything may take that is waited for.
pub const LIMIT: Duration = Duration::from_secs(180);
/// The namespace of the instances.
pub const TEAM: &str = "coder";
/// The folders of the repository that the tools apply.
pub const CRDS: &str = "coder-k8s/crds";
pub const OPERATOR: &str = "clusters/test/operator";
pub const INSTANCES: &str = "clusters/test/instances";
/// The instances, as kubectl names them.
pub const KINDS: [(&str, &str); 3] =
    [("codercontrolplanes", "coder"), ("coderprovisioners", "builders"), ("coderworkspaceproxies", "sydney")];

/// A cluster and the repository it is to be built from.
pub struct Site {
    // Ends first: without its cluster it would only complain.
    operator: Option<Operator>,
    pub cluster: Cluster,
    pub git: Repository,
    pub coder: Coder,
    webhooks: u16,
    _daemons: Daemons,
}

impl Site {
    /// An empty cluster, and a repository with everything in it.
    pub async fn new(coder: Coder) -> Self {
        let git = Repository::serve().await;
        let [webhooks] = ports::free();
        fill(&git, webhooks, &coder.database_url);
        git.commit("Run Coder");
        Self::with(coder, git, webhooks).await
    }

    async fn with(coder: Coder, git: Repository, webhooks: u16) -> Self {
        let options = ClusterOptions { nodes: 2, audit: true, ..Default::default() };
        let cluster = Cluster::start(options).await;
        let answers = coder.coderd.clone();
        let client = cluster.client().await;
        let daemons = Daemons::follow(client, TEAM, Duration::ZERO, move |_| Some(answers.clone()));
        Self { operator: None, cluster, git, coder, webhooks, _daemons: daemons }
    }

    /// Loses the cluster: an empty one, beside the same repository and the same coderd.
    pub async fn rebuilt(self) -> Self {
        let Self { operator, coder, git, webhooks, .. } = self;
        drop(operator);
        Self::with(coder, git, webhooks).await
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

    /// Changes an instance by a merge patch in Git, and returns the commit.
    pub fn change(&self, message: &str, kind: &str, name: &str, spec: &Value) -> String {
        let patch = json!({ "apiVersion": "coder.com/v1alpha1", "kind": kind,
            "metadata": { "name": name }, "spec": spec });
        self.git.write(&format!("{INSTANCES}/change.yaml"), &patch.to_string());
        self.commit(message)
    }

    /// Takes back the last change.
    pub fn take_back(&self) -> String {
        self.git.write(&format!("{INSTANCES}/change.yaml"), &no_change().to_string());
        self.commit("Take it back")
    }

    /// Has only these instances, by the names of their files, and returns the commit.
    pub fn keep(&self, files: &[&str]) -> String {
        self.git.write(&format!("{INSTANCES}/kustomization.yaml"), &instances(files).to_string());
        self.commit("Keep fewer instances")
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
        let answer = self.cluster.kubectl(&format!("get {kind} {name} -n {TEAM} -o json")).await;
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

/// What a user's repository holds.
fn fill(git: &Repository, webhooks: u16, database_url: &str) {
    for folder in ["crds", "webhooks", "kustomize"] {
        git.copy(&repository().join(folder), &format!("coder-k8s/{folder}"));
    }
    git.write(&format!("{OPERATOR}/kustomization.yaml"), &operator(webhooks).to_string());
    let samples = [
        ("control-plane", "codercontrolplane-minimal"),
        ("provisioner", "coderprovisioner-minimal"),
        ("proxy", "coderworkspaceproxy-minimal"),
    ];
    for (file, sample) in samples {
        let text = git.read(&format!("coder-k8s/kustomize/samples/{sample}.yaml"));
        git.write(&format!("{INSTANCES}/{file}.yaml"), &text);
    }
    let namespace = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": TEAM } });
    git.write(&format!("{INSTANCES}/namespace.yaml"), &namespace.to_string());
    let secret = json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "coder-database" },
        "data": { "url": STANDARD.encode(database_url) } });
    git.write(&format!("{INSTANCES}/database.yaml"), &secret.to_string());
    git.write(&format!("{INSTANCES}/change.yaml"), &no_change().to_string());
    let all = instances(&["control-plane", "provisioner", "proxy"]);
    git.write(&format!("{INSTANCES}/kustomization.yaml"), &all.to_string());
}

/// The local overlay without the CRDs, which are a unit of their own, and with the port of this process.
fn operator(webhooks: u16) -> Value {
    let port = |number: usize| json!({ "op": "replace", "path": format!("/webhooks/{number}/clientConfig/service/port"), "value": webhooks });
    let ports = Value::from((0..3).map(port).collect::<Vec<_>>()).to_string();
    let no_crd = json!({ "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": "any" }, "$patch": "delete" });
    json!({ "apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization",
        "resources": ["../../../coder-k8s/kustomize/overlays/local"],
        "patches": [
            { "target": { "kind": "CustomResourceDefinition" }, "patch": no_crd.to_string() },
            { "target": { "kind": "MutatingWebhookConfiguration" }, "patch": ports },
            { "target": { "kind": "ValidatingWebhookConfiguration" }, "patch": ports },
        ] })
}

/// The namespace, the Secret and these instances. The proxy may be taken over by whoever rebuilds the cluster.
fn instances(files: &[&str]) -> Value {
    let mut resources = vec!["namespace.yaml".to_owned(), "database.yaml".to_owned()];
    resources.extend(files.iter().map(|file| format!("{file}.yaml")));
    let mut patches = Vec::new();
    if files.contains(&"control-plane") {
        patches.push(json!({ "path": "change.yaml" }));
    }
    if files.contains(&"proxy") {
        let adopt = json!([{ "op": "add", "path": "/metadata/annotations",
            "value": { "coder.com/adopt-proxy": "sydney" } }]);
        patches.push(json!({ "target": { "kind": "CoderWorkspaceProxy" }, "patch": adopt.to_string() }));
    }
    json!({ "apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization",
        "namespace": TEAM, "resources": resources, "patches": patches })
}

fn no_change() -> Value {
    json!({ "apiVersion": "coder.com/v1alpha1", "kind": "CoderControlPlane", "metadata": { "name": "coder" } })
}
