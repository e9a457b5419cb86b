//! The alerts and the dashboard of kustomize/components/monitoring: they ask for metrics and labels that there are, and each
//! alert leads to a section that says what to do.

use coder_k8s::manifests::ROLE_LABEL;
use coder_k8s::manifests::rbac::{PLACEHOLDER_NAMESPACE, SPLIT_ROLES};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use support::installation::repository;

const COMPONENT: &str = "kustomize/components/monitoring";
/// What Prometheus adds to every series of a target, what it calls our `namespace` beside its own, and the label of the pods that the
/// ServiceMonitor has it add.
const OF_THE_TARGET: [&str; 4] = ["namespace", "pod", "exported_namespace", "coder_com_operator_role"];

fn read(path: &str) -> String {
    std::fs::read_to_string(repository().join(path)).unwrap()
}

fn alerts() -> Vec<Value> {
    let rules: Value = serde_saphyr::from_str(&read(&format!("{COMPONENT}/alerts.yaml"))).unwrap();
    let groups = rules["spec"]["groups"].as_array().unwrap().clone();
    groups.iter().flat_map(|group| group["rules"].as_array().unwrap().clone()).collect()
}

fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value[field].as_str().unwrap_or_else(|| panic!("{field} of {value}"))
}

fn queries() -> Vec<String> {
    let dashboard: Value = serde_json::from_str(&read(&format!("{COMPONENT}/dashboard.json"))).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    let shown = panels.iter().flat_map(|panel| panel["targets"].as_array().unwrap());
    let shown = shown.map(|target| text(target, "expr").to_owned());
    alerts().iter().map(|alert| text(alert, "expr").to_owned()).chain(shown).collect()
}

/// From the page of the metrics, which is generated from their table: every name that a scrape has, with its labels.
fn metrics() -> BTreeMap<String, BTreeSet<String>> {
    let page = read("docs/metrics.md");
    let mut metrics = BTreeMap::new();
    for row in page.lines().filter(|line| line.starts_with("| `")) {
        let cells: Vec<_> = row.split('|').map(str::trim).collect();
        let name = cells[1].trim_matches('`');
        let labels: BTreeSet<_> = cells[3]
            .split(", ")
            .filter_map(|label| label.strip_prefix('`')?.strip_suffix('`'))
            .map(str::to_owned)
            .collect();
        if cells[2] == "histogram" {
            let mut of_buckets = labels.clone();
            of_buckets.insert("le".to_owned());
            metrics.insert(format!("{name}_bucket"), of_buckets);
            metrics.insert(format!("{name}_count"), labels.clone());
            metrics.insert(format!("{name}_sum"), labels);
        } else {
            metrics.insert(name.to_owned(), labels);
        }
    }
    assert!(metrics.len() > 20, "the page of metrics is read wrongly: {metrics:?}");
    metrics
}

fn words(query: &str) -> impl Iterator<Item = &str> {
    query
        .split(|letter: char| !(letter.is_ascii_alphanumeric() || letter == '_'))
        .filter(|word| !word.is_empty())
}

/// Names of labels in `{...}`, `by (...)` and `on (...)`.
fn labels(query: &str) -> Vec<&str> {
    let matched = query.split('{').skip(1).map(|rest| rest.split('}').next().unwrap());
    let matched =
        matched.flat_map(|inside| inside.split(',')).map(|one| one.split(['=', '!']).next().unwrap());
    let grouped = ["by (", "on ("].into_iter().flat_map(|by| query.split(by).skip(1));
    let grouped = grouped.flat_map(|rest| rest.split(')').next().unwrap().split(", "));
    matched.chain(grouped).collect()
}

#[test]
fn every_query_asks_for_metrics_and_labels_that_there_are() {
    let metrics = metrics();
    for query in queries() {
        let asked: Vec<_> = words(&query)
            .filter(|word| word.starts_with("coder_k8s_") || word.starts_with("process_"))
            .collect();
        assert!(!asked.is_empty(), "{query} asks for nothing of ours");
        let mut known: BTreeSet<&str> = OF_THE_TARGET.into();
        for name in asked {
            let labels = metrics.get(name).unwrap_or_else(|| panic!("there is no metric {name}: {query}"));
            known.extend(labels.iter().map(String::as_str));
        }
        for label in labels(&query) {
            assert!(known.contains(label), "no metric has the label {label}: {query}");
        }
    }
}

/// Otherwise a pod of anybody that exports `coder_k8s_ready 1` would silence the alert that nobody is ready.
#[test]
fn every_alert_looks_at_the_namespace_of_the_operator_alone() {
    for alert in alerts() {
        let query = text(&alert, "expr");
        let asked =
            words(query).filter(|word| word.starts_with("coder_k8s_") || word.starts_with("process_"));
        let here = format!("{{namespace=\"{PLACEHOLDER_NAMESPACE}\"");
        for name in asked {
            let everywhere = query.split(name).skip(1).find(|rest| !rest.starts_with(&here));
            assert_eq!(everywhere, None, "{name} of {query}");
        }
        let first = query.split('"').nth(1);
        assert_eq!(first, Some(PLACEHOLDER_NAMESPACE), "references/ looks for it there: {query}");
    }
}

/// All webhooks may be down while the controller is ready, and the other way round.
#[test]
fn each_role_has_an_alert_that_no_replica_of_it_is_ready() {
    let monitor: Value = serde_saphyr::from_str(&read(&format!("{COMPONENT}/service-monitor.yaml"))).unwrap();
    assert_eq!(monitor["spec"]["podTargetLabels"], serde_json::json!([ROLE_LABEL]));
    let label = ROLE_LABEL.replace(['.', '/', '-'], "_");
    for role in SPLIT_ROLES {
        // A pod of the one operator has no such label.
        let of_role = format!("{label}=~\"|{}\"}} == 1)", role.app);
        let mut down = alerts().into_iter().filter(|alert| text(alert, "expr").starts_with("absent("));
        let found = down.any(|alert| text(&alert, "expr").ends_with(&of_role));
        assert!(found, "no alert for {}", role.app);
    }
}

/// It would be filled in, with nothing, by a Flux Kustomization that substitutes variables.
#[test]
fn nothing_that_is_shipped_looks_like_a_variable_of_flux() {
    for file in ["alerts.yaml", "dashboard.json"] {
        assert!(!read(&format!("{COMPONENT}/{file}")).contains("${"), "{file}");
    }
    assert!(!read("kustomize/overlays/argocd/health/health.lua").contains("${"));
}

#[test]
fn every_alert_has_a_section_that_says_what_to_do_and_every_section_an_alert() {
    let page = read("docs/alerts.md");
    let sections: BTreeMap<_, _> =
        page.split("\n## ").skip(1).map(|section| section.split_once('\n').unwrap()).collect();
    let mut named = BTreeSet::new();
    for alert in alerts() {
        let name = text(&alert, "alert");
        assert!(named.insert(name.to_owned()), "{name} is there twice");
        let section =
            sections.get(name).unwrap_or_else(|| panic!("docs/alerts.md says nothing about {name}"));
        for part in ["**What it means.**", "**Where to look.**", "**What to do.**"] {
            assert!(section.contains(part), "{name} has no {part}");
        }
        let annotations = &alert["annotations"];
        let anchor = format!("/docs/alerts.md#{}", name.to_lowercase());
        assert!(text(annotations, "runbook_url").ends_with(&anchor), "{name} leads elsewhere");
        assert!(!text(annotations, "summary").is_empty() && !text(annotations, "description").is_empty());
        assert!(["critical", "warning", "info"].contains(&text(&alert["labels"], "severity")), "{name}");
    }
    let described: BTreeSet<_> = sections.keys().map(|name| (*name).to_owned()).collect();
    assert_eq!(described, named, "sections without an alert");
}
