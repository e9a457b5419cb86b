//! Decides which settings a provisioner daemon refuses together with a key, so that it would never start, which key it has, and
//! which pods run whose image. Never judges what the operator sets itself and an author may override: see the rule about that.

use super::{CelCheck, Check, IN_RUST, NO_CEL, NOT_IN_CRD, Problem, Rule, Severity, Subject, When};
use crate::authorization::privileges_of_main_container;
use crate::cause::CauseReason;
use crate::defaults::follows_control_plane;
use crate::field;
use crate::kind::Kind;
use crate::text::{list, quoted};

pub(super) static RULES: &[Rule] = &[EXCLUDED, OTHER_KEY, IMAGE_OF_OTHERS];

const EXCLUDED: Rule = Rule {
    code: "CODER0223",
    title: "A daemon with a key gets no tags, organization or shared key besides",
    kinds: &[Kind::Provisioner],
    fields: &["spec.extraEnv", "spec.extraArgs"],
    severity: Severity::Deny,
    when: When::Always,
    layers: NOT_IN_CRD,
    check: Check::Object { find: excluded_by_key, cel: excluded_by_key_cel },
    fix: "remove it; tags belong into spec.tags, the organization into spec.organizationName",
    why: "Every daemon of a provisioner has a key, and the key says which tags and organization it is for. `coder \
          provisioner start` refuses to start where it is told twice.",
    bad: "kind: CoderProvisioner\nspec:\n  extraArgs: [\"--tag=environment=on-prem\"]",
    good: "kind: CoderProvisioner\nspec:\n  tags:\n    environment: on-prem",
};

const OTHER_KEY: Rule = Rule {
    code: "CODER0224",
    title: "Daemons have the key that the operator made for them",
    kinds: &[Kind::Provisioner],
    fields: &["spec.extraEnv", "spec.extraArgs"],
    severity: Severity::Deny,
    when: When::Always,
    layers: NOT_IN_CRD,
    check: Check::Object { find: other_key, cel: other_key_cel },
    fix: "remove it; spec.key says what the key is called and where it is kept",
    why: "With another key the operator could not tell which keys are in use: it would wait forever for daemons of the one it \
          made, and never delete an old one.",
    bad: "kind: CoderProvisioner\nspec:\n  extraEnv:\n    - name: CODER_PROVISIONER_DAEMON_KEY\n      valueFrom: {secretKeyRef: {name: mine, key: key}}",
    good: "kind: CoderProvisioner\nspec:\n  key:\n    secretName: mine",
};

const IMAGE_OF_OTHERS: Rule = Rule {
    code: "CODER0225",
    title: "Pods outside Pod Security restricted name their image",
    kinds: &[Kind::Provisioner, Kind::WorkspaceProxy],
    fields: &["spec.image"],
    severity: Severity::Deny,
    when: When::Always,
    layers: IN_RUST,
    check: Check::Object { find: image_of_others, cel: NO_CEL },
    fix: "name the image in spec.image, or stay within the Pod Security Standard restricted",
    why: "Without spec.image, daemons and proxies with controlPlaneRef run what the control plane runs, and whoever may change that needs no more than the right \
          to create Deployments: it would run with privileges that were given to somebody else.",
    bad: "kind: CoderProvisioner\nspec:\n  securityContext: {privileged: true}",
    good: "kind: CoderProvisioner\nspec:\n  image: ghcr.io/coder/coder:v2.36.1\n  securityContext: {privileged: true}",
};

/// What a daemon reads its key from.
const KEY_VARIABLE: &str = "CODER_PROVISIONER_DAEMON_KEY";
const KEY_FLAG: &str = "--key";

/// Variables that a key excludes.
const VARIABLES: [&str; 3] =
    ["CODER_PROVISIONER_DAEMON_PSK", "CODER_PROVISIONERD_TAGS", "CODER_ORGANIZATION"];
/// Flags that a key excludes, alone or with `=` and a value.
const FLAGS: [&str; 3] = ["--psk", "--tag", "--org"];
/// The same in short, which take their value without anything between.
const SHORT_FLAGS: [&str; 2] = ["-t", "-O"];

fn excluded_by_key(subject: &Subject<'_>) -> Vec<Problem> {
    let variables = field::items_at(subject.object, "spec.extraEnv").iter().enumerate();
    let variables = variables.filter_map(|(index, variable)| {
        let name = variable.get("name")?.as_str().filter(|name| VARIABLES.contains(name))?;
        // An empty one is as good as none.
        let given = field::text_at(variable, "value").is_some_and(|value| !value.is_empty())
            || variable.get("valueFrom").is_some();
        given.then(|| refused(format!("spec.extraEnv[{index}].name"), name))
    });
    let arguments = field::items_at(subject.object, "spec.extraArgs").iter().enumerate();
    let arguments = arguments.filter_map(|(index, argument)| {
        let argument = argument.as_str()?;
        let name = argument.split_once('=').map_or(argument, |(name, _)| name);
        let flag = FLAGS.into_iter().find(|flag| *flag == name);
        let flag = flag.or_else(|| SHORT_FLAGS.into_iter().find(|flag| name.starts_with(flag)))?;
        Some(refused(format!("spec.extraArgs[{index}]"), flag))
    });
    variables.chain(arguments).collect()
}

fn refused(field: String, name: &str) -> Problem {
    let problem = format!("a daemon with a key refuses {}", quoted(name));
    Problem::invalid(field, problem).because(CauseReason::Forbidden)
}

fn excluded_by_key_cel(_: Kind) -> Vec<CelCheck> {
    let given = "(has(item.valueFrom) || has(item.value) && item.value != '')";
    let variables = format!("self.filter(item, item.name in {} && {given}).size()", list(&VARIABLES));
    let valued = FLAGS.iter().map(|flag| format!("{flag}="));
    let starts = valued.chain(SHORT_FLAGS.iter().map(|flag| (*flag).to_owned()));
    let starts: Vec<String> = starts.map(|start| format!("item.startsWith('{start}')")).collect();
    let flags = format!("self.filter(item, item in {} || {}).size()", list(&FLAGS), starts.join(" || "));
    vec![CelCheck::counting("spec.extraEnv", variables), CelCheck::counting("spec.extraArgs", flags)]
}

fn other_key(subject: &Subject<'_>) -> Vec<Problem> {
    let forbidden = |field: String, name: &str| {
        let problem = format!("{} is set by the operator", quoted(name));
        Problem::invalid(field, problem).because(CauseReason::Forbidden)
    };
    let variables = field::items_at(subject.object, "spec.extraEnv").iter().enumerate();
    let variables = variables
        .filter(|(_, variable)| field::text_at(variable, "name") == Some(KEY_VARIABLE))
        .map(|(index, _)| forbidden(format!("spec.extraEnv[{index}].name"), KEY_VARIABLE));
    let arguments = field::items_at(subject.object, "spec.extraArgs").iter().enumerate();
    let arguments = arguments.filter_map(|(index, argument)| {
        let argument = argument.as_str()?;
        let name = argument.split_once('=').map_or(argument, |(name, _)| name);
        (name == KEY_FLAG).then(|| forbidden(format!("spec.extraArgs[{index}]"), KEY_FLAG))
    });
    variables.chain(arguments).collect()
}

fn other_key_cel(_: Kind) -> Vec<CelCheck> {
    let variables = format!("self.filter(item, item.name == '{KEY_VARIABLE}').size()");
    let flags = format!("self.filter(item, item == '{KEY_FLAG}' || item.startsWith('{KEY_FLAG}=')).size()");
    vec![CelCheck::counting("spec.extraEnv", variables), CelCheck::counting("spec.extraArgs", flags)]
}

fn image_of_others(subject: &Subject<'_>) -> Vec<Problem> {
    let is_named = field::text_at(subject.object, "spec.image").is_some_and(|image| !image.is_empty());
    let is_their_own = is_named || !follows_control_plane(subject.kind, subject.object);
    let outside =
        if is_their_own { None } else { privileges_of_main_container(subject.object).into_iter().next() };
    let problem = outside.map(|field| {
        let problem = format!("is not given, and {field} is outside of what Pod Security calls restricted");
        Problem::invalid("spec.image", problem).because(CauseReason::Required)
    });
    problem.into_iter().collect()
}
