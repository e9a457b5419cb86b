//! Decides whether the environment a manifest gives can be the environment of a container.
//! Never shows a value: it may be a secret.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{
    CelCheck, Check, EVERYWHERE, IN_RUST, NO_CEL, NOT_IN_CRD, Problem, Rule, Severity, Subject, When,
};
use crate::cause::CauseReason;
use crate::field;
use crate::kind::Kind;
use crate::text::{ENV_NAME, quoted};

pub(super) static RULES: &[Rule] = &[
    Rule {
        code: "CODER0210",
        title: "A variable is given once",
        kinds: &Kind::ALL,
        fields: &["spec.extraEnv"],
        severity: Severity::Deny,
        when: When::Always,
        // CEL would compare every variable with every other, which is beyond what a policy may cost.
        layers: IN_RUST,
        check: Check::Object { find: given_twice, cel: NO_CEL },
        fix: "keep one of them",
        why: "Only the last one would take effect: whoever reads or changes the other would wonder why nothing \
              happens.",
        bad: "spec:\n  extraEnv:\n    - {name: CODER_VERBOSE, value: \"true\"}\n    - {name: CODER_VERBOSE, value: \"false\"}",
        good: "spec:\n  extraEnv:\n    - {name: CODER_VERBOSE, value: \"true\"}",
    },
    Rule {
        code: "CODER0211",
        title: "The name of a variable is one Kubernetes accepts",
        kinds: &Kind::ALL,
        fields: &["spec.extraEnv[].name"],
        severity: Severity::Deny,
        when: When::Always,
        layers: NOT_IN_CRD,
        check: Check::Object { find: bad_name, cel: bad_name_cel },
        fix: "use printable ASCII without '='",
        why: "Kubernetes refuses a container with such a variable.",
        bad: "spec:\n  extraEnv:\n    - {name: \"CODER=VERBOSE\"}",
        good: "spec:\n  extraEnv:\n    - {name: CODER_VERBOSE, value: \"true\"}",
    },
    Rule {
        code: "CODER0212",
        title: "A variable has a value or a source, not both",
        kinds: &Kind::ALL,
        fields: &["spec.extraEnv"],
        severity: Severity::Deny,
        when: When::Always,
        layers: NOT_IN_CRD,
        check: Check::Object { find: value_and_source, cel: value_and_source_cel },
        fix: "keep value or one source under valueFrom",
        why: "Kubernetes refuses a container with such a variable.",
        bad: "spec:\n  extraEnv:\n    - name: A\n      value: b\n      valueFrom: {secretKeyRef: {name: s, key: k}}",
        good: "spec:\n  extraEnv:\n    - name: A\n      valueFrom: {secretKeyRef: {name: s, key: k}}",
    },
    Rule {
        code: "CODER0213",
        title: "An entry of envFrom names one source, not two",
        kinds: &Kind::ALL,
        fields: &["spec.envFrom"],
        severity: Severity::Deny,
        when: When::Always,
        layers: EVERYWHERE,
        check: Check::Object { find: two_sources, cel: two_sources_cel },
        fix: "split it into two entries",
        why: "Kubernetes refuses a container with such an entry.",
        bad: "spec:\n  envFrom:\n    - configMapRef: {name: a}\n      secretRef: {name: b}",
        good: "spec:\n  envFrom:\n    - configMapRef: {name: a}\n    - secretRef: {name: b}",
    },
    Rule {
        code: "CODER0214",
        title: "An entry of envFrom names a source",
        kinds: &Kind::ALL,
        fields: &["spec.envFrom"],
        severity: Severity::Deny,
        when: When::Always,
        layers: NOT_IN_CRD,
        check: Check::Object { find: no_source, cel: no_source_cel },
        fix: "name a configMapRef or a secretRef, or remove the entry",
        why: "Kubernetes refuses a container with such an entry.",
        bad: "spec:\n  envFrom:\n    - prefix: CODER_",
        good: "spec:\n  envFrom:\n    - prefix: CODER_\n      configMapRef: {name: settings}",
    },
    Rule {
        code: "CODER0215",
        title: "Variables the operator sets are left to it",
        kinds: &Kind::ALL,
        fields: &["spec.extraEnv[].name"],
        severity: Severity::Warn,
        when: When::Always,
        layers: IN_RUST,
        check: Check::Object { find: set_by_operator, cel: NO_CEL },
        fix: "remove it unless you mean to override it",
        why: "The operator derives these from the object. Yours comes last and wins, and then the address, the key \
              or the token may no longer be the one it manages.",
        bad: "kind: CoderProvisioner\nspec:\n  extraEnv:\n    - {name: CODER_URL, value: https://other.example.com}",
        good: "kind: CoderProvisioner\nspec:\n  controlPlaneRef:\n    name: coder",
    },
];

/// Path and value of the entries of a list that are as asked.
fn entries<'a>(
    subject: &Subject<'a>,
    list: &'static str,
    mut asked: impl FnMut(&'a Value) -> bool,
) -> impl Iterator<Item = (String, &'a Value)> {
    let items = field::items_at(subject.object, list).iter().enumerate();
    items.filter(move |(_, item)| asked(item)).map(move |(index, item)| (format!("{list}[{index}]"), item))
}

fn name_of(variable: &Value) -> Option<&str> {
    variable.get("name").and_then(Value::as_str)
}

fn given_twice(subject: &Subject<'_>) -> Vec<Problem> {
    let mut seen = BTreeSet::new();
    entries(subject, "spec.extraEnv", |item| name_of(item).is_some_and(|name| !seen.insert(name)))
        .map(|(path, item)| {
            let name = quoted(name_of(item).unwrap_or_default());
            Problem::invalid(path, format!("{name} is given twice")).because(CauseReason::Duplicate)
        })
        .collect()
}

fn bad_name(subject: &Subject<'_>) -> Vec<Problem> {
    let bad = |item: &Value| name_of(item).is_some_and(|name| !ENV_NAME.matches(name));
    entries(subject, "spec.extraEnv", bad)
        .map(|(path, item)| {
            let name = quoted(name_of(item).unwrap_or_default());
            Problem::invalid(format!("{path}.name"), format!("{name} is not {}", ENV_NAME.what))
        })
        .collect()
}

fn bad_name_cel(_: Kind) -> Vec<CelCheck> {
    let text = format!("self.filter(item, !item.name.matches(r'{}')).size()", ENV_NAME.text);
    vec![CelCheck::counting("spec.extraEnv", text)]
}

/// The sources a variable can have, of which it has one.
const SOURCES: [&str; 4] = ["configMapKeyRef", "fieldRef", "resourceFieldRef", "secretKeyRef"];

fn value_and_source(subject: &Subject<'_>) -> Vec<Problem> {
    entries(subject, "spec.extraEnv", |item| item.get("valueFrom").is_some())
        .filter_map(|(path, item)| {
            let source = item.get("valueFrom").filter(|source| source.is_object())?;
            let given = SOURCES.iter().filter(|name| source.get(**name).is_some()).count();
            let value = item.get("value").and_then(Value::as_str).is_some_and(|value| !value.is_empty());
            let problem = match (value, given) {
                (true, _) => "has a value and a source".to_owned(),
                (false, 1) => return None,
                (false, _) => format!("has {given} sources"),
            };
            Some(Problem::invalid(path, problem))
        })
        .collect()
}

fn value_and_source_cel(_: Kind) -> Vec<CelCheck> {
    let given: Vec<String> =
        SOURCES.iter().map(|name| format!("(has(item.valueFrom.{name}) ? 1 : 0)")).collect();
    let text = format!(
        "self.filter(item, has(item.valueFrom) && (has(item.value) && item.value != '' || {} != 1)).size()",
        given.join(" + ")
    );
    vec![CelCheck::counting("spec.extraEnv", text)]
}

fn sources_of(entry: &Value) -> usize {
    ["configMapRef", "secretRef"].iter().filter(|name| entry.get(**name).is_some()).count()
}

fn two_sources(subject: &Subject<'_>) -> Vec<Problem> {
    let double = entries(subject, "spec.envFrom", |entry| sources_of(entry) == 2);
    double.map(|(path, _)| Problem::invalid(path, "names a configMapRef and a secretRef")).collect()
}

fn two_sources_cel(_: Kind) -> Vec<CelCheck> {
    vec![CelCheck::counting(
        "spec.envFrom",
        "self.filter(item, has(item.configMapRef) && has(item.secretRef)).size()",
    )]
}

fn no_source(subject: &Subject<'_>) -> Vec<Problem> {
    let empty = entries(subject, "spec.envFrom", |entry| entry.is_object() && sources_of(entry) == 0);
    empty.map(|(path, _)| Problem::invalid(path, "names no source").because(CauseReason::Required)).collect()
}

fn no_source_cel(_: Kind) -> Vec<CelCheck> {
    vec![CelCheck::counting(
        "spec.envFrom",
        "self.filter(item, !has(item.configMapRef) && !has(item.secretRef)).size()",
    )]
}

/// What the operator puts into the environment of each kind.
fn operator_sets(kind: Kind) -> &'static [&'static str] {
    match kind {
        Kind::ControlPlane => &[
            "KUBE_POD_IP",
            "CODER_DERP_SERVER_RELAY_URL",
            "CODER_HTTP_ADDRESS",
            "CODER_TLS_ENABLE",
            "CODER_TLS_ADDRESS",
            "CODER_TLS_CERT_FILE",
            "CODER_TLS_KEY_FILE",
        ],
        // The key is no matter of a warning: see the rule about that.
        Kind::Provisioner => &["CODER_URL", "CODER_PROVISIONER_DAEMON_NAME"],
        Kind::WorkspaceProxy => &[
            "CODER_PRIMARY_ACCESS_URL",
            "CODER_PROXY_SESSION_TOKEN",
            "CODER_ACCESS_URL",
            "CODER_WILDCARD_ACCESS_URL",
            "KUBE_POD_IP",
            "CODER_DERP_SERVER_RELAY_URL",
            "CODER_HTTP_ADDRESS",
            "CODER_TLS_ENABLE",
            "CODER_TLS_ADDRESS",
            "CODER_TLS_CERT_FILE",
            "CODER_TLS_KEY_FILE",
        ],
    }
}

/// What the operator adds where the pods serve metrics.
const FOR_METRICS: [&str; 2] = ["CODER_PROMETHEUS_ENABLE", "CODER_PROMETHEUS_ADDRESS"];

fn set_by_operator(subject: &Subject<'_>) -> Vec<Problem> {
    let metrics = field::at(subject.object, "spec.metrics").filter(|metrics| metrics.is_object());
    let serves = metrics.is_some_and(|metrics| metrics.get("enabled") != Some(&Value::Bool(false)));
    let ours =
        |name: &str| operator_sets(subject.kind).contains(&name) || (serves && FOR_METRICS.contains(&name));
    entries(subject, "spec.extraEnv", |item| name_of(item).is_some_and(ours))
        .map(|(path, item)| {
            let name = name_of(item).unwrap_or_default();
            Problem::invalid(format!("{path}.name"), format!("the operator sets {name}"))
        })
        .collect()
}
