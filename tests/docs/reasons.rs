//! docs/control-plane.md lists the reasons of conditions and Events that the reconciler of control planes gives, and no
//! others. Reasons are found in its sources: every literal in CamelCase that is not named here as something else.

use std::collections::BTreeSet;
use std::path::Path;
use support::installation::repository;

/// Literals that are no reasons of ours: kinds, fields and words of Kubernetes, phases, and truth.
const OTHERS: [&str; 32] = [
    "CoderControlPlane",
    "ConfigMap",
    "ContainerCreating",
    "Deployment",
    "False",
    "HTTPRoute",
    "Ingress",
    "Namespace",
    "NewReplicaSetAvailable",
    "Opaque",
    "Pending",
    "Pod",
    "PodDisruptionBudget",
    "PodInitializing",
    "PodScheduled",
    "ProgressDeadlineExceeded",
    "Ready",
    "Remove",
    "ReplicaFailure",
    "ResourceNames",
    "Resources",
    "Role",
    "RoleBinding",
    "Secret",
    "Service",
    "ServiceAccount",
    "ServiceMonitor",
    "Succeeded",
    "True",
    "Verbs",
    "APIGroups",
    "OperatorToken",
];

fn is_camel(word: &str) -> bool {
    word.len() > 2
        && word.starts_with(|letter: char| letter.is_ascii_uppercase())
        && word.contains(|letter: char| letter.is_ascii_lowercase())
        && word.chars().all(|letter| letter.is_ascii_alphanumeric())
}

/// The literals of a source without its tests, and without what is said about it.
fn literals(source: &str) -> BTreeSet<String> {
    let code = source.split("#[cfg(test)]\nmod tests {").next().unwrap();
    let lines = code.lines().filter(|line| !line.trim_start().starts_with("//"));
    let words = lines.flat_map(|line| line.split('"').skip(1).step_by(2));
    words.filter(|word| is_camel(word)).map(str::to_owned).collect()
}

/// The sources of a folder. `desired` writes manifests, which have no reasons.
fn sources(folder: &Path) -> Vec<String> {
    let mut sources = Vec::new();
    for path in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
        let name = path.file_name().unwrap().to_str().unwrap();
        if path.is_dir() && name != "desired" {
            sources.extend(self::sources(&path));
        } else if path.is_file() && !name.ends_with("tests.rs") {
            sources.push(std::fs::read_to_string(&path).unwrap());
        }
    }
    sources
}

#[test]
fn every_reason_of_a_control_plane_is_on_its_page_and_no_other_is() {
    let page = std::fs::read_to_string(repository().join("docs/control-plane.md")).unwrap();
    let sources = sources(&repository().join("src/controller/control_plane"));
    let given: BTreeSet<String> = sources.iter().flat_map(|source| literals(source)).collect();
    let others = BTreeSet::from(OTHERS.map(str::to_owned));
    let reasons: BTreeSet<&String> = given.difference(&others).collect();
    assert!(reasons.len() > 60, "the sources say these only: {reasons:?}");
    let missing: Vec<_> = reasons.iter().filter(|reason| !page.contains(&format!("`{reason}`"))).collect();
    assert!(missing.is_empty(), "not on the page, or no reasons and then to be named here: {missing:?}");
    let stale: Vec<_> = others.difference(&given).collect();
    assert!(stale.is_empty(), "nobody says these any more: {stale:?}");
    let (_, status) = page.split_once("\n## Status\n").unwrap();
    let table =
        status.lines().filter(|line| line.starts_with("| ")).take_while(|line| !line.contains("Warning"));
    let told = table.flat_map(|line| line.split('`').skip(1).step_by(2)).filter(|word| is_camel(word));
    let unknown: Vec<_> = told.filter(|word| !given.contains(*word)).collect();
    assert!(unknown.is_empty(), "the page has reasons that nobody gives: {unknown:?}");
}
