//! Every command of README.md and of docs/gitops.md, run in the order of the page by whoever has an empty cluster. The operator's
//! process takes the place of its pods, and what Flux and Argo CD would say is written by the test: tests/gitops has the real ones.

use crate::docs::{BINARY, LIMIT, commands, is_target, makefile};
use serde_json::{Value, json};
use support::cluster::Answer;
use support::coderd::Coderd;
use support::installation::repository;
use support::{Cluster, ClusterOptions, Installation, Operator};

/// A kind of another project, as loose as it gets: tests/packaging/manifests/matrix.rs has the real definitions.
fn definition(group: &str, version: &str, kind: &str) -> Value {
    let plural = match kind.strip_suffix('y') {
        Some(stem) => format!("{}ies", stem.to_lowercase()),
        None => format!("{}s", kind.to_lowercase()),
    };
    let schema =
        json!({ "openAPIV3Schema": { "type": "object", "x-kubernetes-preserve-unknown-fields": true } });
    json!({ "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": format!("{plural}.{group}") },
        "spec": { "group": group, "scope": "Namespaced",
            "names": { "kind": kind, "plural": plural, "singular": kind.to_lowercase() },
            "versions": [{ "name": version, "served": true, "storage": true, "schema": schema }] } })
}

/// A cluster with the page in hand.
struct Reader {
    cluster: Cluster,
    page: String,
    coderd: Coderd,
    /// Runs while the page has the operator's Deployment running.
    operator: Option<Operator>,
}

impl Reader {
    async fn begin(page: &str) -> Self {
        let cluster = Cluster::start(ClusterOptions { nodes: 1, ..Default::default() }).await;
        let coderd = Coderd::builder().api_rate_limit(None).start().await;
        let page = std::fs::read_to_string(repository().join(page)).unwrap();
        Self { cluster, page, coderd, operator: None }
    }

    /// The commands of the page, heading by heading.
    fn sections(&self) -> Vec<(String, Vec<String>)> {
        let sections = self.page.split("\n## ").skip(1).map(|section| {
            let heading = section.lines().next().unwrap_or_default().to_owned();
            (heading, commands(section))
        });
        sections.filter(|(_, lines)| !lines.is_empty()).collect()
    }

    async fn follow(&mut self, lines: &[String]) {
        for line in lines {
            self.run(line).await;
        }
    }

    async fn run(&mut self, line: &str) {
        let Some(words) = line.strip_prefix("kubectl ") else {
            let known = is_target(&makefile(), line) && line.starts_with("make ");
            return assert!(known || line.contains(".local/kubeconfig"), "{line}");
        };
        let folder = format!("{}/kustomize", repository().display());
        let words = words.replace("-k kustomize", &format!("-k {folder}"));
        let words = words.replace("-f kustomize", &format!("-f {folder}")).replace('\'', "");
        if words.starts_with("wait ") {
            self.tell(&words).await;
        }
        let answer = self.cluster.kubectl(&words).await;
        if words.starts_with("port-forward ") {
            return reaches_a_pod(&answer);
        }
        assert!(answer.ok, "{line}: {}", answer.stderr);
        if words.starts_with("apply") {
            self.cluster.crds_established().await;
            self.cluster.forget_discovery();
        }
        if words.starts_with("rollout status deployment/coder-k8s-operator") {
            self.start().await;
        }
    }

    /// Says what Flux or Argo CD would say of an object that is waited for, if it is one of theirs.
    async fn tell(&self, words: &str) {
        let object = words.split_whitespace().nth(1).unwrap();
        let (namespace, status) = match object.split('/').next().unwrap() {
            "application" => {
                let all = json!({ "sync": { "status": "Synced" }, "health": { "status": "Healthy" } });
                ("argocd", all)
            }
            "kustomization" => {
                let ready = json!([{ "type": "Ready", "status": "True" }]);
                ("flux-system", json!({ "conditions": ready }))
            }
            _ => return,
        };
        let patch = format!("patch {object} -n {namespace} --type=merge --patch-file=/dev/stdin");
        self.cluster.kubectl_with_input(&patch, &json!({ "status": status }).to_string()).await.expect_ok();
    }

    /// Calls to our Services lead to a new process; everything else stays as the page has applied it.
    async fn start(&mut self) {
        self.operator = None;
        let installation = Installation::shipped(&self.cluster).await;
        let mut options = installation.operator("all").await;
        options.flags.push(format!("--resolve=*.svc.cluster.local={}", self.coderd.addr()));
        let mut operator = Operator::start(BINARY, &options).await;
        operator.ready(LIMIT).await;
        installation.admit(operator.ports.webhooks, &[]).await;
        self.operator = Some(operator);
    }
}

/// Service, port and a running pod were found: only its simulated node has no address.
fn reaches_a_pod(answer: &Answer) {
    assert!(answer.stderr.contains("error upgrading connection"), "{answer:?}");
    assert!(answer.stderr.contains("no preferred addresses found; known addresses: []"), "{answer:?}");
}

#[tokio::test]
async fn the_readme_leads_to_a_control_plane_that_is_ready() {
    let mut reader = Reader::begin("README.md").await;
    let sections = reader.sections();
    let headings: Vec<&str> = sections.iter().map(|(heading, _)| heading.as_str()).collect();
    assert_eq!(headings, ["Install", "Your first control plane", "Open it", "Developing"], "in this order");
    for (_, lines) in &sections {
        reader.follow(lines).await;
    }
}

#[tokio::test]
async fn the_page_leads_through_every_tool_and_away() {
    let mut reader = Reader::begin("docs/gitops.md").await;
    let kinds = [
        definition("argoproj.io", "v1alpha1", "Application"),
        definition("argoproj.io", "v1alpha1", "AppProject"),
        definition("kustomize.toolkit.fluxcd.io", "v1", "Kustomization"),
        definition("source.toolkit.fluxcd.io", "v1", "GitRepository"),
    ];
    let kinds = json!({ "apiVersion": "v1", "kind": "List", "items": kinds }).to_string();
    reader.cluster.kubectl_with_input("apply --server-side -f -", &kinds).await.expect_ok();
    reader.cluster.crds_established().await;
    for namespace in ["argocd", "flux-system"] {
        reader.cluster.kubectl(&format!("create namespace {namespace}")).await.expect_ok();
    }
    let sections = reader.sections();
    assert!(sections.len() >= 8, "{sections:?}");
    for (_, lines) in &sections {
        reader.follow(lines).await;
    }
    let left = reader.cluster.kubectl("get ccp/coder -n coder -o name").await.expect_ok();
    assert_eq!(left.trim(), "codercontrolplane.coder.com/coder", "who follows no more deletes nothing");
}
