//! Decides what the values say about pods, in the same way for every kind.
//! Never fills in what the operator would: only defaults of the chart that differ from ours are written down.

use super::chart;
use super::values::Values;
use super::{Release, Told};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// Values that are a field of ours as they are; the first is that of the chart.
const LISTS: [(&str, &str); 8] = [
    ("coder.image.pullSecrets", "imagePullSecrets"),
    ("coder.envFrom", "envFrom"),
    ("coder.initContainers", "initContainers"),
    ("coder.volumes", "volumes"),
    ("coder.volumeMounts", "volumeMounts"),
    ("coder.tolerations", "tolerations"),
    ("coder.topologySpreadConstraints", "topologySpreadConstraints"),
    ("coder.hostAliases", "hostAliases"),
];
const MAPPINGS: [(&str, &str); 7] = [
    ("coder.podAnnotations", "podAnnotations"),
    ("coder.podLabels", "podLabels"),
    ("coder.nodeSelector", "nodeSelector"),
    ("coder.securityContext", "securityContext"),
    ("coder.podSecurityContext", "podSecurityContext"),
    ("coder.lifecycle", "lifecycle"),
    ("coder.affinity", "affinity"),
];

/// Writes what every kind says about its pods, and how many there are. `labels` are those that the operator gives them.
pub(super) fn write(values: &mut Values, spec: &mut Map<String, Value>, labels: &BTreeMap<String, String>) {
    for (path, field) in LISTS {
        let items = values.take_list(path);
        if !items.is_empty() {
            spec.insert(field.to_owned(), items.into());
        }
    }
    for (path, field) in MAPPINGS {
        let map = Value::from(values.take_map(path));
        let is_default = field == "affinity" && chart::is_default_affinity(&map);
        if !super::values::is_empty(&map) && !is_default {
            spec.insert(field.to_owned(), map);
        }
    }
    for (path, field) in
        [("coder.affinity", "affinity"), ("coder.topologySpreadConstraints", "topologySpreadConstraints")]
    {
        if spec.get(field).is_some_and(|value| selects_others(value, labels)) {
            let carried: Vec<String> = labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
            let why = "it selects labels of the chart, which the pods no longer have";
            values.left_to_do(path, why, &format!("select {}", carried.join(", ")));
        }
    }
    if let Some(class) = values.take_text("coder.priorityClassName") {
        spec.insert("priorityClassName".to_owned(), class.into());
    }
    let certificates = values.take_list("coder.certs.secrets");
    if !certificates.is_empty() {
        spec.insert("certs".to_owned(), json!({ "secrets": certificates }));
    }
    let resources = values.take_map("coder.resources");
    let resources = if resources.is_empty() { chart::resources() } else { resources.into() };
    spec.insert("resources".to_owned(), resources);
    spec.insert("replicas".to_owned(), values.take_number("coder.replicaCount").unwrap_or(1).into());
}

/// Whether a label selector somewhere in it asks for another value of a label that the operator gives the pods, or for
/// one that Helm gave them.
fn selects_others(value: &Value, labels: &BTreeMap<String, String>) -> bool {
    let differs = |key: &str, wanted: &Value| {
        key == "helm.sh/chart" || labels.get(key).is_some_and(|ours| wanted.as_str() != Some(ours))
    };
    match value {
        Value::Object(map) => map.iter().any(|(key, value)| match (key.as_str(), value) {
            ("matchLabels", Value::Object(wanted)) => wanted.iter().any(|(key, value)| differs(key, value)),
            ("matchExpressions", Value::Array(terms)) => terms.iter().any(|term| {
                let values = term["values"].as_array().map(Vec::as_slice).unwrap_or_default();
                let key = term["key"].as_str().unwrap_or_default();
                term["operator"] == "In"
                    && !values.is_empty()
                    && values.iter().all(|value| differs(key, value))
            }),
            (_, value) => selects_others(value, labels),
        }),
        Value::Array(items) => items.iter().any(|item| selects_others(item, labels)),
        _ => false,
    }
}

/// The image, if the values or the version of the chart say which.
pub(super) fn image(values: &mut Values, release: &Release) -> Option<String> {
    let repository = values.take_text("coder.image.repo");
    let tag = values.take_text("coder.image.tag");
    let of_chart =
        release.chart_version.as_ref().map(|version| format!("v{}", version.trim_start_matches('v')));
    let repository = repository.as_deref().unwrap_or("ghcr.io/coder/coder");
    Some(format!("{repository}:{}", tag.or(of_chart)?))
}

/// What is told where nobody says which version of Coder runs.
pub(super) fn unknown_version() -> Told {
    Told {
        value: "coder.image.tag".to_owned(),
        why: "the values name no tag, so that the version is that of the chart".to_owned(),
        instead: "give --chart-version, or set spec.image to what runs: kubectl get deployment coder -o jsonpath={..image}"
            .to_owned(),
    }
}

/// The account. `default` is its name in the chart where the values are silent, `name` that of the object.
pub(super) fn account(values: &mut Values, default: &str, name: &str) -> Option<Value> {
    let mut account = Map::new();
    let chosen = values.take_text("coder.serviceAccount.name").unwrap_or_else(|| default.to_owned());
    // Identities of a cloud provider are bound to this name.
    if chosen != name {
        account.insert("name".to_owned(), chosen.into());
    }
    if values.take_bool("coder.serviceAccount.disableCreate") == Some(true) {
        account.insert("disableCreate".to_owned(), true.into());
    }
    for key in ["annotations", "labels"] {
        let map = values.take_map(&format!("coder.serviceAccount.{key}"));
        if !map.is_empty() {
            account.insert(key.to_owned(), map.into());
        }
    }
    (!account.is_empty()).then(|| account.into())
}

/// Arguments after those that start the program; another program is not started.
pub(super) fn arguments(values: &mut Values, program: &[&str]) -> Vec<Value> {
    let command = values.take_list("coder.command");
    if !command.is_empty() && command != ["/opt/coder"] {
        let instead = "use an image whose entry point is `coder`";
        values.not_carried("coder.command", "the operator starts the entry point of the image", instead);
    }
    let arguments = values.take_list("coder.commandArgs");
    match arguments.get(..program.len()) {
        Some(start) if start == program => arguments[program.len()..].to_vec(),
        _ if arguments.is_empty() => arguments,
        _ => {
            let why =
                format!("it does not start with `{}`, which is what the operator runs", program.join(" "));
            values.not_carried("coder.commandArgs", &why, "put what belongs to it into spec.extraArgs");
            Vec::new()
        }
    }
}
