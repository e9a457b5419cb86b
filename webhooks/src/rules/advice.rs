//! Decides what somebody who applies from Git should know, although nothing is wrong with the object.
//! Never stops a request.

use serde_json::Value;

use super::exposure::ways_to_a_token;
use super::{Check, IN_RUST, NO_CEL, Problem, Rule, Severity, Subject, When};
use crate::defaults::follows_control_plane;
use crate::field;
use crate::kind::Kind;
use crate::text::{IMAGE, quoted};

/// Advice is the same everywhere but in what it looks at.
const fn advice(
    code: &'static str,
    title: &'static str,
    fields: &'static [&'static str],
    find: fn(&Subject<'_>) -> Vec<Problem>,
    [fix, why, bad, good]: [&'static str; 4],
) -> Rule {
    Rule {
        code,
        title,
        kinds: &Kind::ALL,
        fields,
        severity: Severity::Warn,
        when: When::Always,
        layers: IN_RUST,
        check: Check::Object { find, cel: NO_CEL },
        fix,
        why,
        bad,
        good,
    }
}

pub(super) static RULES: &[Rule] = &[
    advice(
        "CODER0601",
        "The image is in Git",
        &["spec.image"],
        no_image,
        [
            "write the version you run into the manifest",
            "Without it, the object gets the release that its operator was built for, once, when it is created. A \
             cluster that is rebuilt from Git later would get another one.",
            "kind: CoderControlPlane\nspec: {}",
            "kind: CoderControlPlane\nspec:\n  image: ghcr.io/coder/coder:v2.36.1",
        ],
    ),
    advice(
        "CODER0602",
        "The image is a release, not a moving tag",
        &["spec.image"],
        moving_image,
        [
            "use a release such as :v2.36.1 or a digest",
            "A moving tag can be another version on each node and after each restart, and a newer coderd changes its \
             database for good.",
            "spec:\n  image: ghcr.io/coder/coder:latest",
            "spec:\n  image: ghcr.io/coder/coder:v2.36.1",
        ],
    ),
    advice(
        "CODER0603",
        "Variables are substituted",
        &["metadata", "spec"],
        variable_left,
        [
            "set the variable or write the value",
            "Whatever substitutes ${...} in manifests, for example Flux, has not substituted this one, and Kubernetes \
             never does.",
            "spec:\n  organizationName: ${ORGANIZATION}",
            "spec:\n  organizationName: data-science",
        ],
    ),
    advice(
        "CODER0604",
        "A GitOps tool does not replace the object",
        &["metadata.annotations"],
        replaced_by_tool,
        [
            "remove the annotation",
            "Force and Replace delete and recreate the object when a change is refused or conflicts. Its Deployments, \
             keys and registrations go with it.",
            "metadata:\n  annotations:\n    kustomize.toolkit.fluxcd.io/force: enabled",
            "metadata:\n  annotations:\n    argocd.argoproj.io/sync-options: ServerSideApply=true",
        ],
    ),
    Rule {
        when: When::Create,
        ..advice(
            "CODER0605",
            "The object has a name of its own",
            &["metadata.generateName"],
            generated_name,
            [
                "set metadata.name",
                "GitOps tools find objects by name: with generateName each sync would create another one.",
                "metadata:\n  generateName: coder-",
                "metadata:\n  name: coder",
            ],
        )
    },
];

fn no_image(subject: &Subject<'_>) -> Vec<Problem> {
    // What follows its control plane is better off than with any version of its own.
    let follows = follows_control_plane(subject.kind, subject.object);
    // One that is refused for its way to a token may yet turn out to follow one.
    let refused = subject.kind == Kind::WorkspaceProxy && !ways_to_a_token(subject).is_empty();
    let silent = !follows && !refused && field::at(subject.object, "spec.image").is_none();
    silent.then(|| Problem::invalid("spec.image", "the version is not in Git")).into_iter().collect()
}

/// Tags that name a branch or nothing.
const MOVING: [&str; 6] = ["", "latest", "main", "master", "edge", "nightly"];

fn moving_image(subject: &Subject<'_>) -> Vec<Problem> {
    let image = field::text_at(subject.object, "spec.image").unwrap_or_default();
    let (last, digest) = (image.rsplit('/').next().unwrap_or_default(), image.contains('@'));
    let tag = last.split_once(':').map_or("", |(_, tag)| tag);
    let moving = IMAGE.matches(image) && !digest && MOVING.contains(&tag);
    moving
        .then(|| Problem::invalid("spec.image", format!("{} is a moving tag", quoted(image))))
        .into_iter()
        .collect()
}

/// What an author writes, without annotations: tools keep copies of whole objects there.
const WRITTEN: [&str; 5] =
    ["metadata.name", "metadata.generateName", "metadata.namespace", "metadata.labels", "spec"];

/// Deeper than any field of ours, and far from the end of the stack.
const DEPTH: usize = 64;

fn variable_left(subject: &Subject<'_>) -> Vec<Problem> {
    let mut problems = Vec::new();
    // Most objects hold none: the paths are only written for those that do.
    for path in WRITTEN {
        if let Some(value) = field::at(subject.object, path).filter(|value| holds_variable(value, 0)) {
            look_for_variables(value, path, 0, &mut problems);
        }
    }
    problems
}

fn holds_variable(value: &Value, depth: usize) -> bool {
    match value {
        Value::String(text) => has_variable(text),
        Value::Array(items) => depth < DEPTH && items.iter().any(|item| holds_variable(item, depth + 1)),
        Value::Object(map) => depth < DEPTH && map.values().any(|item| holds_variable(item, depth + 1)),
        _ => false,
    }
}

fn look_for_variables(value: &Value, path: &str, depth: usize, problems: &mut Vec<Problem>) {
    match value {
        Value::String(text) if has_variable(text) => {
            problems.push(Problem::invalid(path, "still contains ${...}"));
        }
        Value::Array(items) if depth < DEPTH => {
            for (index, item) in items.iter().enumerate() {
                look_for_variables(item, &format!("{path}[{index}]"), depth + 1, problems);
            }
        }
        Value::Object(map) if depth < DEPTH => {
            for (key, item) in map {
                look_for_variables(item, &field::child(path, key), depth + 1, problems);
            }
        }
        _ => {}
    }
}

fn has_variable(text: &str) -> bool {
    text.split_once("${").is_some_and(|(_, rest)| rest.contains('}'))
}

/// Annotations that make a tool delete an object in order to change it.
fn replaced_by_tool(subject: &Subject<'_>) -> Vec<Problem> {
    let annotation = |name: &str| {
        let annotations = field::at(subject.object, "metadata.annotations")?;
        annotations.get(name)?.as_str()
    };
    let flux = "kustomize.toolkit.fluxcd.io/force";
    let argo = crds::well_known::annotation::ARGOCD_SYNC_OPTIONS;
    let forced = annotation(flux).is_some_and(|value| value.eq_ignore_ascii_case("enabled")).then_some(flux);
    let options = annotation(argo).unwrap_or_default().split(',').map(str::trim);
    let replaced =
        options.filter(|option| matches!(*option, "Replace=true" | "Force=true")).map(|_| argo).next();
    let problem = |name: &str| {
        let path = field::child("metadata.annotations", name);
        Problem::invalid(path, "a refused change would delete the object")
    };
    forced.into_iter().chain(replaced).map(problem).collect()
}

fn generated_name(subject: &Subject<'_>) -> Vec<Problem> {
    let text = |path| field::text_at(subject.object, path).unwrap_or_default();
    let generated = text("metadata.name").is_empty() && !text("metadata.generateName").is_empty();
    let problem = || Problem::invalid("metadata.generateName", "GitOps tools cannot find the object again");
    generated.then(problem).into_iter().collect()
}
