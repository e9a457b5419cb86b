//! Every command of docs/provisioner.md, run in the order of the page by whoever has what it asks for: a control plane that is
//! Ready, and daemons that come when pods run. Its manifests are those that the API server accepts.

use crate::docs::{BINARY, commands};
use serde_json::{Value, json};
use std::time::Duration;
use support::coderd::{Fault, Occurrence, Role};
use support::daemons::Daemons;
use support::installation::repository;
use support::objects::condition;
use support::{TestEnv, until, wait::holds};

struct Walk {
    env: TestEnv,
    page: String,
    _daemons: Daemons,
}

impl Walk {
    async fn begin() -> Self {
        let builder = TestEnv::builder(BINARY).nodes(1).shipped().app("all").admitting(&[]);
        let env = builder.flag("--verify-interval=4s").start().await;
        env.cluster.kubectl("create namespace coder").await.expect_ok();
        let token = env.coderd().token_for(&[Role::OrganizationAdmin("default".to_owned())]);
        env.apply_secret("coder", "operator-token", &json!({ "token": token })).await;
        let spec = json!({ "operatorAccess": { "tokenSecretRef": { "name": "operator-token" } } });
        for name in ["coder", "coder-next"] {
            env.apply_control_plane("coder", name, &spec).await;
            env.ready("coder", name).await;
        }
        let page = std::fs::read_to_string(repository().join("docs/provisioner.md")).unwrap();
        let daemons = env.daemons("coder").await;
        Self { env, page, _daemons: daemons }
    }

    /// Runs the commands below a heading, up to the next one; returns what they printed.
    async fn follow(&self, heading: &str) -> Vec<String> {
        let (_, rest) = self.page.split_once(&format!("# {heading}\n")).expect(heading);
        let end = rest.find("\n## ").into_iter().chain(rest.find("\n### ")).min().unwrap_or(rest.len());
        let lines = commands(&rest[..end]);
        assert!(!lines.is_empty(), "{heading} has no commands");
        let mut printed = Vec::new();
        for line in lines {
            let words = line.strip_prefix("kubectl ").expect("only kubectl is called here");
            let words = words.replace("-f kustomize", &format!("-f {}/kustomize", repository().display()));
            let answer = self.env.cluster.kubectl(&words.replace('\'', "")).await;
            assert!(answer.ok, "{heading}: {line}: {}", answer.stderr);
            printed.push(answer.stdout);
        }
        printed
    }

    fn keys(&self) -> Vec<String> {
        self.env.coderd().provisioner_keys("default").into_iter().map(|key| key.name).collect()
    }

    /// Waits until coderd has exactly these keys.
    async fn until_keys(&self, names: &[&str]) {
        until(&format!("the keys {names:?}"), Duration::from_secs(60), async || {
            holds(self.keys() == names, format!("{:?}", self.keys()))
        })
        .await;
    }
}

/// The manifests of a page.
fn manifests(page: &str) -> Vec<Value> {
    let blocks = page.split("```yaml\n").skip(1).map(|rest| rest.split("```").next().unwrap());
    blocks.map(|block| serde_saphyr::from_str(block).unwrap()).collect()
}

#[tokio::test]
async fn the_page_leads_from_the_first_provisioner_to_the_last() {
    let walk = Walk::begin().await;
    let known = |manifest: &&Value| manifest["kind"] != "ScaledObject";
    let manifests = manifests(&walk.page);
    assert_eq!(manifests.iter().filter(known).count(), 2, "a provisioner and an autoscaler");
    for manifest in manifests.iter().filter(known) {
        let words = "apply -n coder --dry-run=server -f -";
        walk.env.cluster.kubectl_with_input(words, &manifest.to_string()).await.expect_ok();
    }

    walk.follow("Run your first").await;
    assert_eq!(walk.keys(), ["builders"]);
    walk.follow("Choose which builds they take").await;
    walk.until_keys(&["builders-2"]).await;
    walk.follow("Rotate a key").await;
    walk.until_keys(&["builders-3"]).await;
    walk.follow("Move to another control plane").await;
    walk.env.coderd().add_pending_job("default", &[("environment", "on-prem")]);
    walk.follow("Scale by the queue").await;
    let is_scaled = |object: &Value| object["status"]["daemons"] == 3 && object["status"]["pendingJobs"] == 1;
    walk.env.until_object("coderprovisioner", "coder", "builders", "three daemons", is_scaled).await;
    walk.follow("Use a token of your own").await;
    let is_told =
        |object: &Value| condition(object, "BootstrapSecretReady")["reason"] == "BootstrapSecretUnavailable";
    let other = "data-science-builders";
    walk.env.until_object("coderprovisioner", "coder", other, "a placeholder opens no door", is_told).await;

    walk.follow("Delete").await;
    walk.until_keys(&[]).await;
    walk.follow("Run your first").await;
    walk.env.coderd().inject("*", Occurrence::Every, Fault::status(502));
    walk.env.cluster.kubectl("delete cprov/builders -n coder --wait=false").await.expect_ok();
    let is_held = |object: &Value| condition(object, "CleanedUp")["reason"] == "CleanupFailed";
    walk.env.until_object("coderprovisioner", "coder", "builders", "held", is_held).await;
    let printed = walk.follow("One that hangs").await;
    assert!(printed[0].contains("coder.com/release-external"), "{printed:?}");
    walk.until_keys(&["builders"]).await;
}
