//! Walks through a page for users: what it asks for is there, two control planes that are Ready, and its commands are run one after
//! the other. What must hold after them is for the tests of each page to say.

use crate::docs::{BINARY, commands};
use serde_json::{Value, json};
use support::TestEnv;
use support::coderd::Role;
use support::installation::repository;

/// A page and where its commands are run.
pub struct Walk {
    pub env: TestEnv,
    page: String,
}

impl Walk {
    /// Begins with a page, with a token of this role for the operator.
    pub async fn begin(page: &str, role: Role) -> Self {
        let builder = TestEnv::builder(BINARY).nodes(1).shipped().app("all").admitting(&[]);
        let env = builder.flag("--verify-interval=4s").start().await;
        env.cluster.kubectl("create namespace coder").await.expect_ok();
        let token = env.coderd().token_for(&[role]);
        env.apply_secret("coder", "operator-token", &json!({ "token": token })).await;
        let spec = json!({ "operatorAccess": { "tokenSecretRef": { "name": "operator-token" } } });
        for name in ["coder", "coder-next"] {
            env.apply_control_plane("coder", name, &spec).await;
            env.ready("coder", name).await;
        }
        let page = std::fs::read_to_string(repository().join(page)).unwrap();
        Self { env, page }
    }

    /// Runs the commands below a heading, up to the next one; returns what they printed.
    pub async fn follow(&self, heading: &str) -> Vec<String> {
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

    /// The manifests of the page.
    pub fn manifests(&self) -> Vec<Value> {
        let blocks = self.page.split("```yaml\n").skip(1).map(|rest| rest.split("```").next().unwrap());
        blocks.map(|block| serde_saphyr::from_str(block).unwrap()).collect()
    }
}
