//! The real kubectl, as a user would call it.

use super::Cluster;
use crate::tools;
use crate::wait::{holds, until};
use std::process::{Output, Stdio};
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio::process::Command;

/// What a kubectl call answered.
#[derive(Debug, Clone)]
pub struct Answer {
    /// It ended with code 0.
    pub ok: bool,
    /// What it printed.
    pub stdout: String,
    /// What it complained about.
    pub stderr: String,
}

impl Answer {
    fn of(output: &Output) -> Self {
        Self {
            ok: output.status.success(),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    /// Standard output of a call that must succeed.
    #[track_caller]
    pub fn expect_ok(self) -> String {
        assert!(self.ok, "kubectl failed: {}", self.stderr);
        self.stdout
    }

    /// Standard error of a call that must fail.
    #[track_caller]
    pub fn expect_refused(self) -> String {
        assert!(!self.ok, "kubectl succeeded but should not have: {}", self.stdout);
        self.stderr
    }
}

impl Cluster {
    /// Waits until every CustomResourceDefinition is established. `kubectl wait` fails for one that was made a moment ago and
    /// has no conditions yet: then it is asked again.
    pub async fn crds_established(&self) {
        until("every CustomResourceDefinition to be established", Duration::from_secs(60), async || {
            let waited = self.kubectl("wait --for=condition=Established crd --all --timeout=30s").await;
            holds(waited.ok, waited.stderr)
        })
        .await;
    }

    fn kubectl_cache(&self) -> std::path::PathBuf {
        self.folder().join("kubectl-cache")
    }

    /// Makes kubectl ask again which kinds exist: a category of a new CRD is otherwise unknown for ten minutes.
    pub fn forget_discovery(&self) {
        // There may be none yet.
        let _ = std::fs::remove_dir_all(self.kubectl_cache());
    }

    /// Runs kubectl as the administrator; words are split at spaces.
    pub async fn kubectl(&self, words: &str) -> Answer {
        self.kubectl_with_input(words, "").await
    }

    /// The same with standard input, for `apply -f -`.
    pub async fn kubectl_with_input(&self, words: &str, input: &str) -> Answer {
        let mut child = Command::from(tools::command("kubectl"))
            .arg("--kubeconfig")
            .arg(self.kubeconfig())
            .args(words.split_whitespace())
            // Its discovery cache would otherwise be shared by clusters that reuse a port.
            .env("KUBECACHEDIR", self.kubectl_cache())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .expect("kubectl starts");
        let mut stdin = child.stdin.take().expect("kubectl's stdin is a pipe");
        // kubectl may end before it read everything; its own message then says why.
        let _ = stdin.write_all(input.as_bytes()).await;
        drop(stdin);
        Answer::of(&child.wait_with_output().await.expect("kubectl ends"))
    }
}

/// `kubectl kustomize FOLDER`: what a user would apply.
pub async fn kustomize(folder: &std::path::Path) -> Answer {
    let command = Command::from(tools::command("kubectl")).arg("kustomize").arg(folder).output();
    Answer::of(&command.await.expect("kubectl runs"))
}
