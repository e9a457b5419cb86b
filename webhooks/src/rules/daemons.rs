//! Decides which settings a provisioner daemon refuses together with a key, so that it would never start.
//! Never judges what the operator sets itself and an author may override: see the rule about that.

use super::{CelCheck, Check, NOT_IN_CRD, Problem, Rule, Severity, Subject, When};
use crate::cause::CauseReason;
use crate::field;
use crate::kind::Kind;
use crate::text::{list, quoted};

pub(super) static RULES: &[Rule] = &[Rule {
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
}];

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
