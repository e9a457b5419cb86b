//! Decides what is wrong with one text and one object: YAML first, then what admission would say, in its order.
//! Never looks at two objects at once.

use super::codes;
use super::engine::{self, Kind, Problem, Settings};
use super::expected;
use super::explain;
use super::findings::{Collected, Draft, Severity, Spot};
use super::gitops::Substitutions;
use super::objects::{Object, Role};
use super::sources::{Arrival, Source};
use super::yaml::{Flaw, FlawKind, TrapKind};
use serde_json::Value;
use std::collections::BTreeSet;

/// What is wrong with the texts themselves.
pub(super) fn texts<'a>(sources: &'a [Source], collected: &mut Collected<'a>) {
    for source in sources {
        // A file that was only found and never names us may be a template of somebody else.
        let ours = source.arrival != Arrival::Found || source.text.contains("coder.com/");
        for flaw in source.stream.flaws.iter().filter(|_| ours) {
            collected.text(source, flaw.span, None, flaw_draft(flaw));
        }
        for (code, span) in source.suppressions.named() {
            if !explain::is_known(code) {
                let draft =
                    Draft::new(&codes::UNKNOWN_SUPPRESSION, format!("there is no code {}", shown(code)));
                collected.text(source, span, None, draft);
            }
        }
    }
}

fn flaw_draft(flaw: &Flaw) -> Draft {
    let code = match flaw.kind {
        FlawKind::Syntax => &codes::SYNTAX,
        FlawKind::Tab => &codes::TAB,
        FlawKind::Unclosed => &codes::UNCLOSED,
        FlawKind::TooMuch => &codes::TOO_MUCH,
    };
    Draft::new(code, flaw.message.clone())
}

/// What objects are judged by.
pub(super) struct Judge<'r, 'a> {
    pub(super) settings: &'r Settings,
    pub(super) substitutions: &'r Substitutions<'a>,
}

impl<'a> Judge<'_, 'a> {
    /// What is wrong with one object. Of a patch only the spelling is judged: it is not an object yet.
    pub(super) fn object(&self, object: &'a Object<'a>, patch: bool, collected: &mut Collected<'a>) {
        match object.role {
            // Nothing else can be said about it.
            Role::Ours(_) if !object.document.is_sendable() => {}
            Role::Ours(kind) => {
                expected::judge(object, kind, collected);
                let value = object.node.to_value();
                unknown_fields(object, kind, &value, collected);
                if !patch {
                    unnamed(object, collected);
                    self.admission(object, kind, &value, collected);
                }
            }
            Role::Stranger => stranger(object, collected),
            _ => {}
        }
    }

    fn admission(&self, object: &'a Object<'a>, kind: Kind, value: &Value, collected: &mut Collected<'a>) {
        for problem in engine::judge(kind, value, self.settings) {
            if said_better(object, &problem, collected) {
                continue;
            }
            let Some(Problem { severity, code, field, message, help }) = self.still_open(object, problem)
            else {
                continue;
            };
            collected.field(
                object,
                field,
                Spot::Value,
                Draft { severity, code: code.to_owned(), message, help },
            );
        }
    }

    /// A variable is none that Flux is told to replace; of one that Flux does not know, it is said who does not.
    fn still_open(&self, object: &Object<'_>, problem: Problem) -> Option<Problem> {
        let found = object.node.follow(&problem.field);
        let text = found.node.text().filter(|_| found.whole && problem.code == engine::VARIABLE_LEFT);
        match text.and_then(|text| self.substitutions.unknown(object, text)) {
            None => Some(problem),
            Some(unknown) => {
                let (name, kustomization) = unknown.first()?;
                let message = format!("the Kustomization {kustomization} has no value for {}", shown(name));
                Some(Problem { message, ..problem })
            }
        }
    }
}

fn stranger<'a>(object: &'a Object<'a>, collected: &mut Collected<'a>) {
    let version = object.node.text_at(&["apiVersion"]).unwrap_or_default();
    let known = Kind::from_name(object.kind).is_some();
    let field = if known { "apiVersion" } else { "kind" };
    let message = format!("there is no {} in {}", shown(object.kind), shown(version));
    let draft = Draft::new(&codes::UNKNOWN_KIND, message);
    let draft = match engine::kind_meant_by(object.kind).filter(|_| !known) {
        Some(meant) => draft.with_help(format!("did you mean {meant}?")),
        None => draft,
    };
    collected.field(object, field, Spot::Value, draft);
}

/// Spellings that mean something else than they show: once for each document, however many objects it lists.
pub(super) fn documents<'a>(objects: &'a [Object<'a>], collected: &mut Collected<'a>) {
    let mut seen = BTreeSet::new();
    for object in objects.iter().filter(|object| object.reports_traps()) {
        if seen.insert(std::ptr::from_ref(object.document)) {
            traps(object, collected);
        }
    }
}

fn traps<'a>(object: &'a Object<'a>, collected: &mut Collected<'a>) {
    for trap in &object.document.traps {
        let draft = match &trap.kind {
            TrapKind::DuplicateKey { key, first } => {
                Draft::new(&codes::DUPLICATE_KEY, format!("{} is already on line {first}", shown(key)))
            }
            TrapKind::KeyReadAs { written, read } => {
                let draft =
                    Draft::new(&codes::KEY_READ_AS, format!("the key {} is read as {read}", shown(written)));
                draft.with_help(format!("write \"{written}\""))
            }
            TrapKind::NoJson { what } => Draft::new(&codes::NO_JSON, format!("this is {what}")),
        };
        collected.text(object.source, trap.span, Some(object), draft);
    }
}

fn unnamed<'a>(object: &'a Object<'a>, collected: &mut Collected<'a>) {
    let given = |key: &str| object.node.at(&["metadata", key]).is_some();
    if !given("name") && !given("generateName") {
        let draft = Draft::new(&codes::UNNAMED, "there is neither name nor generateName");
        collected.field(object, "metadata", Spot::Key, draft);
    }
}

fn unknown_fields<'a>(object: &'a Object<'a>, kind: Kind, value: &Value, collected: &mut Collected<'a>) {
    for field in engine::unknown_fields(kind, value) {
        let draft = Draft::new(&codes::UNKNOWN_FIELD, format!("{} has no field {field}", kind.name()));
        let draft = match engine::meant_by(kind, &field) {
            Some(meant) => draft.with_help(format!("did you mean {meant}?")),
            None => draft,
        };
        collected.field(object, field, Spot::Key, draft);
    }
}

/// Whether another finding says it better: of a text without quotes, or of a variable whose value nobody knows yet.
fn said_better(object: &Object<'_>, problem: &Problem, collected: &Collected<'_>) -> bool {
    let placeholder = || {
        let found = object.node.follow(&problem.field);
        found.whole && found.node.text().is_some_and(has_placeholder)
    };
    let unquoted =
        || problem.severity == Severity::Error && collected.has(object, &problem.field, &codes::TEXT_READ_AS);
    problem.code != engine::VARIABLE_LEFT && (unquoted() || placeholder())
}

fn has_placeholder(text: &str) -> bool {
    text.split_once("${").is_some_and(|(_, rest)| rest.contains('}'))
}

/// Characters of a value that a message shows.
const SHOWN: usize = 60;

/// A value in a message: short, in one line.
pub(super) fn shown(text: &str) -> String {
    let start: String = text.chars().take(SHOWN).flat_map(char::escape_debug).collect();
    if text.chars().nth(SHOWN).is_some() { format!("\"{start}...\"") } else { format!("\"{start}\"") }
}
