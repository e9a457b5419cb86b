//! Every flag is read: by the code that acts, not only by the code that checks how flags go together.

use super::rust_files;
use std::collections::{BTreeMap, BTreeSet};
use support::installation::repository;

/// What the flags become on their way to those who use them: fields that have to be read too.
const CARRIERS: [(&str, &str); 5] = [
    ("src/coderd/mod.rs", "Egress"),
    ("src/kubernetes/lease/step.rs", "Timing"),
    ("src/controller/control_plane/orphans.rs", "Times"),
    ("src/serving/authority/rotation.rs", "Times"),
    ("webhooks/src/defaults/mod.rs", "Config"),
];

/// What nothing reads yet, and who will. It must shrink: the test fails as well when one of these is read.
const TO_COME: [(&str, &str); 3] = [
    ("coder_url", "the aggregated API, which is not there yet"),
    ("coder_session_token", "the aggregated API, which is not there yet"),
    ("coder_namespace", "the aggregated API, which is not there yet"),
];

/// The code of a file without its tests.
fn code(text: &str) -> &str {
    text.split("#[cfg(test)]").next().unwrap_or_default()
}

/// The code without the functions that only check how flags go together.
fn acting(text: &str) -> String {
    let mut kept = String::new();
    let mut checks = false;
    for line in text.lines() {
        let starts = shown(line).unwrap_or(line.trim_start()).starts_with("fn ");
        checks = if starts { line.contains("fn check") } else { checks };
        if !checks {
            kept.push_str(line);
            kept.push('\n');
        }
    }
    kept
}

/// What a line shows to other modules.
fn shown(line: &str) -> Option<&str> {
    ["pub(crate) ", "pub(super) ", "pub "].iter().find_map(|word| line.trim_start().strip_prefix(word))
}

/// The fields that a struct, which begins in front of this text, shows to other modules.
fn fields(body: &str) -> Vec<String> {
    let inside = body.split("\n}").next().unwrap_or_default();
    let named = |line: &str| Some(shown(line)?.split_once(':')?.0.to_owned());
    inside.lines().filter_map(named).filter(|name| !name.contains(' ')).collect()
}

/// The fields of every struct of command line arguments in a file.
fn arguments(text: &str) -> Vec<String> {
    let derives = text.split("#[derive(").skip(1);
    let structs = derives.filter(|rest| {
        let derived = rest.split(')').next().unwrap_or_default();
        derived.split(", ").any(|one| one == "Args")
    });
    structs.filter_map(|rest| rest.split_once(" {\n")).flat_map(|(_, body)| fields(body)).collect()
}

/// Whether some code reads a field of this name: `.name`, and no call of a method.
fn reads(code: &str, name: &str) -> bool {
    code.split(&format!(".{name}")).skip(1).any(|after| {
        let next = after.trim_start_matches([' ', '\n']).chars().next().unwrap_or(' ');
        let longer = after.starts_with(|letter: char| letter.is_alphanumeric() || letter == '_');
        !longer && next != '(' && !after.starts_with("::<")
    })
}

#[test]
fn every_flag_is_read_by_something_that_acts() {
    let mut sources = BTreeMap::new();
    for folder in ["src", "webhooks/src"] {
        for file in rust_files(&repository().join(folder)) {
            let below = file.strip_prefix(repository()).unwrap().display().to_string();
            let text = std::fs::read_to_string(&file).unwrap();
            if !below.ends_with("tests.rs") {
                sources.insert(below, code(&text).to_owned());
            }
        }
    }
    let carried = |(file, name): &(&str, &str)| {
        let definition = sources[*file].split(&format!(" struct {name} {{")).nth(1);
        fields(definition.unwrap_or_else(|| panic!("there is no {name} in {file}")))
    };
    let flags: BTreeSet<String> = sources.values().flat_map(|text| arguments(text)).collect();
    let carried: BTreeSet<String> = CARRIERS.iter().flat_map(carried).collect();
    for known in ["cluster_domain", "coder_request_timeout", "lease_duration", "strict", "resolve"] {
        assert!(flags.contains(known), "the flags were not found: {flags:?}");
    }
    let everything: String = sources.values().map(|text| acting(text)).collect();
    // A field by which a flag is handed on is read where it arrives.
    let elsewhere: String = sources
        .iter()
        .filter(|(file, _)| *file != "src/app/flags.rs")
        .map(|(_, text)| text.as_str())
        .collect();
    let unread: BTreeSet<&str> = flags
        .iter()
        .filter(|name| !reads(&everything, name))
        .chain(carried.iter().filter(|name| !reads(&elsewhere, name)))
        .map(String::as_str)
        .collect();
    let to_come: BTreeSet<&str> = TO_COME.iter().map(|(name, _)| *name).collect();
    let silent: Vec<_> = unread.difference(&to_come).collect();
    assert!(silent.is_empty(), "nothing reads {silent:?}: use it or remove the flag");
    let arrived: Vec<_> = to_come.difference(&unread).collect();
    assert!(arrived.is_empty(), "{arrived:?} is read now: take it off the list");
}

#[test]
fn a_read_is_told_from_a_call_a_longer_name_and_a_check() {
    assert!(reads("self.egress.resolve.clone()", "resolve") && reads("(flags.app)", "app"));
    for other in ["name.resolve()", "flags.resolver", "resolve: x", "a.resolve::<T>()"] {
        assert!(!reads(other, "resolve"), "{other}");
    }
    let text = "    fn check_a(&self) {\n        self.a\n    }\n    fn b(&self) {\n        self.b\n    }\n";
    let kept = acting(text);
    assert!(!reads(&kept, "a") && reads(&kept, "b"));
    let structs = "#[derive(Debug, Args)]\npub(crate) struct A {\n    /// B.\n    pub(crate) b: u8,\n}\n#[derive(Debug)]\nstruct C {\n    pub d: u8,\n}\n";
    assert_eq!(arguments(structs), ["b"]);
}
