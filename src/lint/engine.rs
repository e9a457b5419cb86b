//! Decides how the rules of admission are asked about a manifest: the one place here that knows the crate `webhooks`.
//! Never adds a rule of its own.

use super::findings::Severity;
use serde_json::Value;
use std::borrow::Cow;
use webhooks::{Cause, Operation, Verdict, problem_list};

/// What the operator is configured with.
pub use webhooks::Config as Settings;
pub(super) use webhooks::Kind;
pub(super) use webhooks::field::{child, shown_key};

/// The rule about variables nobody replaced.
pub(super) const VARIABLE_LEFT: &str = "CODER0603";

/// One thing admission would say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Problem {
    /// Whether it would refuse.
    pub severity: Severity,
    /// Code of the rule.
    pub code: &'static str,
    /// Path of the field.
    pub field: String,
    /// What is wrong.
    pub message: String,
    /// How to fix it.
    pub help: String,
}

/// Everything admission would say to the creation of this object: refusals of what would be stored, and advice about
/// what is written.
pub(super) fn judge(kind: Kind, object: &Value, settings: &Settings) -> Vec<Problem> {
    let review = |object| webhooks::validate(kind, object, Operation::Create);
    let written = review(object);
    let stored = match webhooks::defaulted(kind, object, None, settings) {
        Cow::Owned(stored) => review(&stored),
        // Without a default to write, what is stored is what is written.
        Cow::Borrowed(_) => Verdict::default(),
    };
    let left_out = written.more_causes.max(stored.more_causes);
    let mut denied: Vec<Cause> = Vec::new();
    for cause in written.causes.into_iter().chain(stored.causes) {
        if !denied.contains(&cause) {
            denied.push(cause);
        }
    }
    let besides = denied.last().filter(|_| left_out > 0).map(|cause| Problem {
        severity: Severity::Error,
        code: cause.code,
        field: "spec".to_owned(),
        message: problem_list(&[], "", 0, left_out),
        help: "fix those that are listed first".to_owned(),
    });
    let denied = denied.into_iter().map(|cause| Problem::of(Severity::Error, cause)).chain(besides);
    denied.chain(written.warnings.into_iter().map(|cause| Problem::of(Severity::Warning, cause))).collect()
}

impl Problem {
    fn of(severity: Severity, cause: Cause) -> Self {
        let Cause { field, code, problem, fix, .. } = cause;
        Self { severity, code, field, message: problem, help: fix.into_owned() }
    }
}

/// The object as it would be stored.
pub(super) fn stored(kind: Kind, object: &Value, settings: &Settings) -> Value {
    webhooks::defaulted(kind, object, None, settings).into_owned()
}

/// The object with every default there is.
pub(super) fn resolved(kind: Kind, object: &Value, settings: &Settings) -> Value {
    webhooks::resolved(kind, object, settings)
}

/// The values in force where the stored object is silent, as `status.resolved` says them.
pub(super) fn in_force(kind: Kind, object: &Value, settings: &Settings) -> Value {
    webhooks::status_resolved(kind, object, settings)
}

/// The schema of a kind, as its CustomResourceDefinition has it.
pub(super) fn schema(kind: Kind) -> &'static Value {
    webhooks::schema::shipped(kind)
}

/// Fields the kind does not have.
pub(super) fn unknown_fields(kind: Kind, object: &Value) -> Vec<String> {
    webhooks::unknown_fields(kind, object)
}

/// The field that was probably meant by one the kind does not have.
pub(super) fn meant_by(kind: Kind, unknown: &str) -> Option<&'static str> {
    webhooks::schema::meant_by(kind, unknown)
}

/// The kind that was probably meant by a name: a misspelt one, or one with parts left out.
pub(super) fn kind_meant_by(name: &str) -> Option<&'static str> {
    let names = || Kind::ALL.into_iter().map(Kind::name);
    let has_letters_of = |known: &&str| {
        let mut letters = known.chars();
        name.chars().all(|letter| letters.any(|known| known.eq_ignore_ascii_case(&letter)))
    };
    let is_short = |known: &&str| name.len() > "Coder".len() && has_letters_of(known);
    webhooks::text::nearest(name, names()).or_else(|| names().find(is_short))
}

/// The page of a rule.
pub(super) fn explain(code: &str) -> Option<String> {
    webhooks::explain(code)
}

/// Title, reason and severity of a rule.
pub(super) fn about(code: &str) -> Option<(&'static str, &'static str, Severity)> {
    let rule = webhooks::rules::rules().find(|rule| rule.code == code)?;
    let severity = match rule.severity {
        webhooks::rules::Severity::Deny => Severity::Error,
        webhooks::rules::Severity::Warn => Severity::Warning,
    };
    Some((rule.title, rule.why, severity))
}

/// Every code of admission and what it is about.
pub(super) fn codes() -> Vec<(&'static str, &'static str)> {
    webhooks::rules::rules().map(|rule| (rule.code, rule.title)).collect()
}
