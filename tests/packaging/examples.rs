//! `kustomize/examples`: an editor finds the schema of every file and the file fits it, our own linter has nothing to say, kubectl
//! builds every folder, and a real API server takes what it builds.

use crate::manifests::built::{overlay, text_of};
use crate::schemas::{documents, errors};
use serde_json::Value;
use std::path::PathBuf;
use std::process::Command;
use support::Cluster;
use support::installation::repository;

fn folders() -> Vec<PathBuf> {
    let entries = std::fs::read_dir(repository().join("kustomize/examples")).unwrap();
    let mut folders: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    folders.sort();
    assert!(folders.len() >= 4, "{folders:?}");
    folders
}

#[test]
fn every_file_names_a_schema_and_fits_it() {
    let mut own = 0;
    for folder in folders() {
        for entry in std::fs::read_dir(&folder).unwrap() {
            let file = entry.unwrap().path();
            // No object: it tells kustomize where names are.
            if file.ends_with("name-references.yaml") {
                continue;
            }
            let text = std::fs::read_to_string(&file).unwrap();
            let first = text.lines().next().unwrap();
            let schema = first.strip_prefix("# yaml-language-server: $schema=").expect(first);
            if schema.starts_with("https://") {
                assert!(file.ends_with("kustomization.yaml"), "{}: {schema}", file.display());
                continue;
            }
            let schema: Value =
                serde_json::from_str(&std::fs::read_to_string(folder.join(schema)).unwrap()).unwrap();
            let schema = jsonschema::draft7::new(&schema).unwrap();
            for object in documents(&file) {
                assert_eq!(errors(&schema, &object), [""; 0], "{}", file.display());
                own += usize::from(object["apiVersion"] == "coder.com/v1alpha1");
            }
        }
    }
    assert_eq!(own, 3, "a control plane, a provisioner and a workspace proxy");
}

#[test]
fn lint_has_nothing_to_say_about_them() {
    let lint = Command::new(env!("CARGO_BIN_EXE_coder-k8s"))
        .args(["lint", "--strict", "kustomize/examples"])
        .current_dir(repository())
        .output()
        .unwrap();
    let said = String::from_utf8(lint.stdout).unwrap();
    assert!(lint.status.success() && said.starts_with("0 errors, 0 warnings in 3 objects"), "{said}");
    assert!(!said.contains("suppressed"), "{said}");
}

#[tokio::test]
async fn every_folder_is_built_by_kubectl() {
    for folder in folders() {
        assert!(text_of(&folder).await.contains("kind:"), "{}", folder.display());
    }
}

/// The definition of CloudNativePG's Cluster is that of its Go module.
#[tokio::test]
async fn an_api_server_takes_operator_and_instances() {
    let cluster = Cluster::shared().await;
    cluster.kubectl(&format!("apply --server-side -k {}/crds", repository().display())).await.expect_ok();
    let clusters = support::tools::program("cnpg-clusters-v1.28.0.yaml");
    cluster.kubectl(&format!("apply --server-side -f {}", clusters.display())).await.expect_ok();
    cluster.crds_established().await;
    for (folder, namespace) in [("operator", "example-operator"), ("coder", "example-coder")] {
        cluster.kubectl(&format!("create namespace {namespace}")).await.expect_ok();
        let moved = overlay(
            namespace,
            &repository().join("kustomize/examples").join(folder),
            &format!("namespace: {namespace}"),
        );
        let taken = cluster
            .kubectl_with_input("apply --server-side --dry-run=server -f -", &text_of(&moved).await)
            .await
            .expect_ok();
        if folder == "coder" {
            for object in [
                "cluster.postgresql.cnpg.io/coder-database",
                "codercontrolplane.coder.com/coder",
                "coderprovisioner.coder.com/builders",
                "coderworkspaceproxy.coder.com/sydney",
            ] {
                assert!(taken.contains(object), "{object} is not in {taken}");
            }
        }
    }
}
