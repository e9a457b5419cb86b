//! Decides whether what a manifest adds to the pods and to what watches over them can be added.
//! Never asks what an image does or whether a class exists.

use crds::well_known::{annotation, label};
use serde_json::{Map, Value};

use super::{
    CelCheck, Check, EVERYWHERE, IN_RUST, NO_CEL, NOT_IN_CRD, Problem, Rule, Severity, Subject, When,
    text_problem,
};
use crate::field;
use crate::kind::Kind;
use crate::text::{Form, INTERVAL, LABEL, LABEL_VALUE, QUALIFIED_NAME, quoted};

pub(super) static RULES: &[Rule] = &[
    Rule {
        code: "CODER0216",
        title: "A disruption budget sets one number, not two",
        kinds: &Kind::ALL,
        fields: &["spec.podDisruptionBudget"],
        severity: Severity::Deny,
        when: When::Always,
        layers: EVERYWHERE,
        check: Check::Object { find: two_numbers, cel: two_numbers_cel },
        fix: "keep minAvailable or maxUnavailable",
        why: "Kubernetes refuses a PodDisruptionBudget with both.",
        bad: "spec:\n  podDisruptionBudget: {minAvailable: 1, maxUnavailable: 1}",
        good: "spec:\n  podDisruptionBudget: {minAvailable: 1}",
    },
    Rule {
        code: "CODER0217",
        title: "Labels and annotations the operator sets are left to it",
        kinds: &Kind::ALL,
        fields: &[
            "spec.podLabels",
            "spec.podAnnotations",
            "spec.serviceAccount.labels",
            "spec.metrics.serviceMonitor.labels",
            "spec.metrics.podMonitor.labels",
        ],
        severity: Severity::Warn,
        when: When::Always,
        layers: IN_RUST,
        check: Check::Object { find: set_by_operator, cel: NO_CEL },
        fix: "remove it",
        why: "The Deployment and the Service find their pods by these labels, the operator finds its objects by them, \
              and the checksum rolls the pods. The values of the operator win, and yours are ignored.",
        bad: "spec:\n  podLabels:\n    app.kubernetes.io/name: mine",
        good: "spec:\n  podLabels:\n    example.com/team: platform",
    },
    Rule {
        code: "CODER0218",
        title: "An init container has a name of its own",
        kinds: &Kind::ALL,
        fields: &["spec.initContainers[].name"],
        severity: Severity::Deny,
        when: When::Always,
        layers: NOT_IN_CRD,
        check: Check::Object { find: bad_container_name, cel: bad_container_name_cel },
        fix: "use another name: a-z, 0-9 and '-', but not the name of the main container",
        why: "Kubernetes refuses a pod with such a container. The main container of a control plane is called coder, that \
              of a provisioner provisioner, that of a proxy workspace-proxy.",
        bad: "spec:\n  initContainers:\n    - {name: coder, image: \"busybox:1.37\"}",
        good: "spec:\n  initContainers:\n    - {name: wait, image: \"busybox:1.37\"}",
    },
    Rule {
        code: "CODER0219",
        title: "A label or annotation is one Kubernetes accepts",
        kinds: &Kind::ALL,
        fields: &[
            "spec.podLabels",
            "spec.serviceAccount.labels",
            "spec.metrics.serviceMonitor.labels",
            "spec.metrics.podMonitor.labels",
            "spec.podAnnotations",
            "spec.service.annotations",
            "spec.serviceAccount.annotations",
            "spec.expose.ingress.annotations",
        ],
        severity: Severity::Deny,
        when: When::Always,
        layers: IN_RUST,
        check: Check::Object { find: not_a_label, cel: NO_CEL },
        fix: "use a key such as example.com/team, and for a label a value such as platform",
        why: "Kubernetes refuses the object that would carry it, and with it every later change of that object.",
        bad: "spec:\n  podLabels:\n    team: platform & tools",
        good: "spec:\n  podLabels:\n    team: platform",
    },
    Rule {
        code: "CODER0220",
        title: "The scrape interval is a Prometheus duration",
        kinds: &Kind::ALL,
        fields: &["spec.metrics.serviceMonitor.interval", "spec.metrics.podMonitor.interval"],
        severity: Severity::Deny,
        when: When::Always,
        layers: EVERYWHERE,
        check: Check::Text(&[Form::Matches(&INTERVAL)]),
        fix: "use a duration such as 30s",
        why: "The Prometheus operator refuses a ServiceMonitor or PodMonitor with anything else.",
        bad: "spec:\n  metrics:\n    serviceMonitor: {interval: 30 seconds}",
        good: "spec:\n  metrics:\n    serviceMonitor: {interval: 30s}",
    },
];

const NUMBERS: [&str; 2] = ["minAvailable", "maxUnavailable"];

fn two_numbers(subject: &Subject<'_>) -> Vec<Problem> {
    let budget = field::at(subject.object, "spec.podDisruptionBudget");
    let both = budget.is_some_and(|budget| NUMBERS.iter().all(|number| budget.get(number).is_some()));
    let problem =
        || Problem::invalid("spec.podDisruptionBudget", "sets both minAvailable and maxUnavailable");
    both.then(problem).into_iter().collect()
}

fn two_numbers_cel(_: Kind) -> Vec<CelCheck> {
    let text = "(has(self.minAvailable) && has(self.maxUnavailable) ? 1 : 0)";
    vec![CelCheck::counting("spec.podDisruptionBudget", text)]
}

/// What the name of an init container must be in a kind.
fn container_name(kind: Kind) -> [Form; 2] {
    let main = match kind {
        Kind::ControlPlane => &["coder"],
        Kind::Provisioner => &["provisioner"],
        Kind::WorkspaceProxy => &["workspace-proxy"],
    };
    [Form::Matches(&LABEL), Form::NotOneOf(main)]
}

fn bad_container_name(subject: &Subject<'_>) -> Vec<Problem> {
    let forms = container_name(subject.kind);
    let containers = field::items_at(subject.object, "spec.initContainers").iter().enumerate();
    let problem = |(index, container): (usize, &Value)| {
        let (problem, reason) = text_problem(&forms, container.get("name")?)?;
        let field = format!("spec.initContainers[{index}].name");
        Some(Problem::invalid(field, problem).because(reason))
    };
    containers.filter_map(problem).collect()
}

fn bad_container_name_cel(kind: Kind) -> Vec<CelCheck> {
    let good = container_name(kind).map(|form| form.cel("item.name")).join(" && ");
    let text = format!("self.filter(item, has(item.name) && !({good})).size()");
    vec![CelCheck::counting("spec.initContainers", text)]
}

/// Labels the operator sets on what an object has in its namespace.
const OWN_LABELS: [&str; 3] = [label::NAME, label::INSTANCE, label::MANAGED_BY];

fn map_at<'a>(subject: &Subject<'a>, path: &str) -> impl Iterator<Item = (&'a String, &'a Value)> + use<'a> {
    field::at(subject.object, path).and_then(Value::as_object).into_iter().flat_map(Map::iter)
}

fn set_by_operator(subject: &Subject<'_>) -> Vec<Problem> {
    let mut problems = Vec::new();
    for (path, own) in [
        ("spec.podLabels", OWN_LABELS.as_slice()),
        (
            "spec.podAnnotations",
            &[
                annotation::CHECKSUM,
                annotation::KEY_CHECKSUM,
                annotation::TOKEN_CHECKSUM,
                annotation::TRUST_CHECKSUM,
            ],
        ),
        ("spec.serviceAccount.labels", &OWN_LABELS),
        ("spec.metrics.serviceMonitor.labels", &OWN_LABELS),
        ("spec.metrics.podMonitor.labels", &OWN_LABELS),
    ] {
        for (key, _) in map_at(subject, path).filter(|(key, _)| own.contains(&key.as_str())) {
            problems.push(Problem::invalid(field::child(path, key), "the operator sets it"));
        }
    }
    problems
}

const LABELS: [&str; 4] = [
    "spec.podLabels",
    "spec.serviceAccount.labels",
    "spec.metrics.serviceMonitor.labels",
    "spec.metrics.podMonitor.labels",
];
const ANNOTATIONS: [&str; 4] = [
    "spec.podAnnotations",
    "spec.service.annotations",
    "spec.serviceAccount.annotations",
    "spec.expose.ingress.annotations",
];

fn not_a_label(subject: &Subject<'_>) -> Vec<Problem> {
    let mut problems = Vec::new();
    for path in LABELS.iter().chain(&ANNOTATIONS) {
        for (key, value) in map_at(subject, path) {
            let value = value.as_str().filter(|_| LABELS.contains(path)).unwrap_or_default();
            let problem = if !is_key(key, ANNOTATIONS.contains(path)) {
                format!("{} is not {}", quoted(key), QUALIFIED_NAME.what)
            } else if !LABEL_VALUE.matches(value) {
                format!("{} is not {}", quoted(value), LABEL_VALUE.what)
            } else {
                continue;
            };
            problems.push(Problem::invalid(field::child(path, key), problem));
        }
    }
    problems
}

/// Kubernetes looks at the keys of annotations in lower case.
fn is_key(key: &str, of_annotation: bool) -> bool {
    let prefix = key.rsplit_once('/').map_or("", |(prefix, _)| prefix);
    let matches = |key: &str| QUALIFIED_NAME.matches(key);
    prefix.len() <= crds::names::SUBDOMAIN_LIMIT
        && if of_annotation { matches(&key.to_lowercase()) } else { matches(key) }
}
