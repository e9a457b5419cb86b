//! Decides how the rules of admission are asked about a manifest: the one place here that knows the crate `webhooks`.
//! Never adds a rule of its own.

use super::findings::Severity;
use serde_json::Value;
use std::borrow::Cow;
use webhooks::{Occasion, Review};

/// What the operator is configured with.
pub use webhooks::Config as Settings;
pub use webhooks::Kind;
pub use webhooks::field::{child, shown_key};

/// The rule about variables nobody replaced.
pub const VARIABLE_LEFT: &str = "CODER0603";

/// One thing admission would say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Whether it would refuse.
    pub severity: Severity,
    /// Code of the rule.
    pub code: String,
    /// Path of the field.
    pub field: String,
    /// What is wrong.
    pub message: String,
    /// How to fix it.
    pub help: String,
}

/// Everything admission would say to the creation of this object: refusals of what would be stored, and advice about
/// what is written.
pub fn judge(kind: Kind, object: &Value, settings: &Settings) -> Vec<Problem> {
    let review = |object| webhooks::validate(&Review { kind, object, occasion: Occasion::Create });
    let written = review(object);
    let stored = match webhooks::defaulted(kind, object, None, settings) {
        Cow::Owned(stored) => review(&stored).causes,
        // Without a default to write, what is stored is what is written.
        Cow::Borrowed(_) => Vec::new(),
    };
    let mut problems: Vec<Problem> = Vec::new();
    for cause in written.causes.into_iter().chain(stored) {
        let problem = told(Severity::Error, cause.code, &cause.field, &cause.message);
        if !problems.contains(&problem) {
            problems.push(problem);
        }
    }
    problems.extend(written.warnings.iter().filter_map(|warning| told_as_warning(warning)));
    problems
}

/// Takes a message apart: `problem; fix (CODER0202)`.
fn told(severity: Severity, code: &str, field: &str, message: &str) -> Problem {
    let message = message.trim_end_matches(&format!(" ({code})"));
    let fix = webhooks::rules::by_code(code).map(|rule| rule.fix);
    let (problem, help) = match fix.and_then(|fix| message.strip_suffix(fix)) {
        Some(problem) => (problem.trim_end_matches("; "), fix.unwrap_or_default()),
        None => message.rsplit_once("; ").unwrap_or((message, "")),
    };
    Problem {
        severity,
        code: code.to_owned(),
        field: field.to_owned(),
        message: problem.to_owned(),
        help: help.to_owned(),
    }
}

/// Takes a warning apart: `field: problem; fix (CODER0202)`.
fn told_as_warning(warning: &str) -> Option<Problem> {
    let (field, message) = warning.split_once(": ")?;
    let code = message.rsplit_once(" (")?.1.trim_end_matches(')');
    webhooks::rules::by_code(code)?;
    Some(told(Severity::Warning, code, field, message))
}

/// The object as it would be stored.
pub fn stored(kind: Kind, object: &Value, settings: &Settings) -> Value {
    webhooks::defaulted(kind, object, None, settings).into_owned()
}

/// The object with every default there is.
pub fn resolved(kind: Kind, object: &Value, settings: &Settings) -> Value {
    webhooks::resolved(kind, object, settings)
}

/// The values in force where the stored object is silent, as `status.resolved` says them.
pub fn in_force(kind: Kind, object: &Value, settings: &Settings) -> Value {
    webhooks::status_resolved(kind, object, settings)
}

/// The schema of a kind, as its CustomResourceDefinition has it.
pub fn schema(kind: Kind) -> &'static Value {
    webhooks::schema::shipped(kind)
}

/// Fields the kind does not have.
pub fn unknown_fields(kind: Kind, object: &Value) -> Vec<String> {
    webhooks::unknown_fields(kind, object)
}

/// The page of a rule.
pub fn explain(code: &str) -> Option<String> {
    webhooks::explain(code)
}

/// Every code of admission and what it is about.
pub fn codes() -> Vec<(&'static str, &'static str)> {
    webhooks::rules::rules().map(|rule| (rule.code, rule.title)).collect()
}
