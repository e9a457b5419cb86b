//! The pod templates of all three kinds, as the operator renders them for every sample, held against those of the last release in
//! `pod-templates/`: an operator that renders another one restarts the pods of everybody who upgrades.
//!
//! It never judges a change: whoever means one writes the files anew, and reads in the review what it is.

use crate::schemas::documents;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::Command;
use support::installation::repository;

/// Set to write the files anew.
const UPDATE: &str = "UPDATE_POD_TEMPLATES";
/// Another default image rolls nothing out: where a spec names none, the live Deployment keeps its own.
const ANY_IMAGE: &str = "--default-image=registry.example.com/coder:v0";

fn samples() -> Vec<PathBuf> {
    let folder = std::fs::read_dir(repository().join("kustomize/samples")).unwrap();
    let files = folder.map(|entry| entry.unwrap().path());
    let mut samples: Vec<PathBuf> = files.filter(|file| !file.ends_with("kustomization.yaml")).collect();
    samples.sort();
    samples
}

/// What decides whether pods are replaced: the template, and the selector, which cannot change at all.
fn rendered(sample: &Path) -> String {
    let run = Command::new(env!("CARGO_BIN_EXE_coder-k8s"))
        .args(["render", "--children", ANY_IMAGE])
        .arg(sample)
        .env_remove("CODER_K8S_DEFAULT_IMAGE")
        .output()
        .unwrap();
    let text = String::from_utf8(run.stdout).unwrap();
    let children: Vec<Value> = serde_saphyr::from_multiple(&text).unwrap();
    let mut deployments = children.iter().filter(|child| child["kind"] == "Deployment");
    let spec =
        &deployments.next().unwrap_or_else(|| panic!("{} has no pods: {text}", sample.display()))["spec"];
    assert_eq!(deployments.next(), None, "{}", sample.display());
    serde_saphyr::to_string(&json!({ "selector": spec["selector"], "template": spec["template"] })).unwrap()
}

#[test]
fn an_upgrade_of_the_operator_alone_rolls_nothing_out() {
    let held = repository().join("tests/packaging/pod-templates");
    let now = support::process::scratch_folder("pod-templates");
    let mut kinds: Vec<String> = Vec::new();
    for sample in samples() {
        kinds.extend(documents(&sample).iter().map(|object| object["kind"].to_string()));
        std::fs::write(now.join(sample.file_name().unwrap()), rendered(&sample)).unwrap();
    }
    kinds.dedup();
    assert_eq!(kinds.len(), 3, "a kind has no sample, or there is one more: {kinds:?}");
    if std::env::var_os(UPDATE).is_some() {
        std::fs::remove_dir_all(&held).unwrap();
        std::fs::create_dir(&held).unwrap();
        for file in std::fs::read_dir(&now).unwrap().map(|entry| entry.unwrap()) {
            std::fs::copy(file.path(), held.join(file.file_name())).unwrap();
        }
    }
    let diff = Command::new("diff").args(["-ru", "--new-file"]).arg(&held).arg(&now).output().unwrap();
    assert!(
        diff.status.success(),
        "Pods are rendered otherwise than by the operator before. That costs one rollout of every Coder, provisioner or workspace \
         proxy that this is in, as soon as somebody upgrades the operator, and builds and terminals that run there are cut off. \
         If it is worth that, say so in CHANGELOG.md and write the files anew:\n\
         {UPDATE}=1 cargo test --locked --workspace --test packaging pod_templates\n\n{}",
        String::from_utf8_lossy(&diff.stdout)
    );
}
