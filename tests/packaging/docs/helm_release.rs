//! Every command by which docs/migration.md has a release of Coder's Helm chart taken over, run in the order of the page beside
//! such a release. Helm itself is not run: its values and its objects are given.

use crate::docs::{BINARY, commands};
use serde_json::{Value, json};
use std::path::Path;
use std::process::Command;
use support::installation::repository;
use support::{TestEnv, helm_release};

/// What the page does, from the values to the end of the take-over.
fn page() -> Vec<String> {
    let page = std::fs::read_to_string(repository().join("docs/migration.md")).unwrap();
    let (_, rest) = page.split_once("## From Coder's Helm chart\n").unwrap();
    let (section, _) = rest.split_once("### Another way\n").unwrap();
    assert!(section.contains("helm get values coder -n coder > values.yaml"), "the test writes that file");
    commands(section)
}

fn values() -> Value {
    let url = json!({ "secretKeyRef": { "name": "coder-db-url", "key": "url" } });
    json!({ "coder": { "replicaCount": 1, "env": [{ "name": "CODER_PG_CONNECTION_URL", "valueFrom": url }],
        "ingress": { "enable": true, "host": "coder.example.com" } } })
}

/// Runs a line of ours as a shell would, in a folder.
fn run(folder: &Path, words: &str) {
    let (words, file) = words.split_once(" > ").map_or((words, None), |(words, file)| (words, Some(file)));
    let answer = Command::new(BINARY).args(words.split_whitespace()).current_dir(folder).output().unwrap();
    assert!(answer.status.success(), "{words}: {}", String::from_utf8_lossy(&answer.stderr));
    if let Some(file) = file {
        std::fs::write(folder.join(file), answer.stdout).unwrap();
    }
}

#[tokio::test]
async fn the_page_has_a_helm_release_taken_over() {
    let env = TestEnv::builder(BINARY).nodes(1).app("all").admitting(&[]).start().await;
    env.cluster.kubectl("create namespace coder").await.expect_ok();
    env.apply_secret("coder", "coder-db-url", &json!({ "url": "postgres://coder@localhost/coder" })).await;
    let release =
        json!({ "apiVersion": "v1", "kind": "List", "items": helm_release::objects("coder", "coder", 1) });
    let words = format!("create --field-manager={} -f -", helm_release::MANAGER);
    env.cluster.kubectl_with_input(&words, &release.to_string()).await.expect_ok();
    env.cluster.kubectl("rollout status deployment/coder -n coder --timeout=60s").await.expect_ok();
    let folder = support::process::scratch_folder("helm");
    std::fs::write(folder.join("values.yaml"), values().to_string()).unwrap();
    let lines = page();
    assert!(lines.len() > 7, "{lines:?}");
    for line in lines {
        match line.split_once(' ').unwrap() {
            ("coder-k8s", words) => run(&folder, words),
            ("kubectl", words) => {
                let words =
                    words.replace("-f coder.yaml", &format!("-f {}", folder.join("coder.yaml").display()));
                env.cluster.kubectl(&words).await.expect_ok();
            }
            other => panic!("{other:?}: say here how it is run"),
        }
    }
    let plane = env.get("codercontrolplane", "coder", "coder").await.unwrap();
    assert_eq!(plane["status"]["adoptedHelmRelease"], "coder");
    let left = "get deployment,service,serviceaccount,ingress,role,rolebinding,secret -n coder -o name";
    for selector in ["app.kubernetes.io/managed-by=Helm", "owner=helm"] {
        let left = env.cluster.kubectl(&format!("{left} -l {selector}")).await.expect_ok();
        assert_eq!(left, "", "{selector}");
    }
}
