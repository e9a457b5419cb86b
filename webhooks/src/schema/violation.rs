//! Decides how it is told that an object violates its schema.
//! Never repeats a value: it may be a secret that stands in the wrong place.

use jsonschema::ValidationError;
use jsonschema::error::{TypeKind, ValidationErrorKind};

use super::Schema;
use super::duplicates::duplicates;
use super::unchanged::unchanged;
use crate::cause::CauseReason;
use crate::field;
use crate::rules::{Problem, Subject};

/// Something the schema refuses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Violation {
    /// What is wrong.
    pub(crate) problem: Problem,
    /// True where it was there before, so that the API server tolerates it.
    pub(crate) unchanged: bool,
}

/// Violations that are looked for; more of them say nothing new.
const VIOLATIONS: usize = 64;

/// Everything about an object that its schema refuses.
pub(crate) fn violations(subject: &Subject<'_>) -> Vec<Violation> {
    let schema = Schema::for_kind(subject.kind);
    let mut violations = repeated(schema, subject);
    let Some(validator) = &schema.validator else {
        return violations;
    };
    // The cheap question first: most objects fit.
    if validator.is_valid(subject.object) {
        return violations;
    }
    let told = |error: ValidationError<'_>| {
        let pointer = error.instance_path().as_str().to_owned();
        let steps: Vec<String> =
            pointer.split('/').skip(1).map(|step| step.replace("~1", "/").replace("~0", "~")).collect();
        let steps: Vec<&str> = steps.iter().map(String::as_str).collect();
        let unchanged = unchanged(&schema.root, subject.old, subject.object, &steps);
        Violation { problem: problem(subject, &path(subject, &steps), &error), unchanged }
    };
    violations.extend(validator.iter_errors(subject.object).take(VIOLATIONS).map(told));
    violations
}

/// Items with the same keys. The API server tolerates all of them where the old object had any.
fn repeated(schema: &Schema, subject: &Subject<'_>) -> Vec<Violation> {
    let repeated = duplicates(&schema.root, subject.object);
    let unchanged =
        !repeated.is_empty() && subject.old.is_some_and(|old| !duplicates(&schema.root, old).is_empty());
    let told = |path: String| {
        let problem = Problem::invalid(path, "is there twice").because(CauseReason::Duplicate);
        Violation { problem: problem.fixed_by("keep one of them"), unchanged }
    };
    repeated.into_iter().take(VIOLATIONS).map(told).collect()
}

/// A JSON pointer as a path of fields.
fn path(subject: &Subject<'_>, steps: &[&str]) -> String {
    let mut path = String::new();
    let mut value = Some(subject.object);
    for step in steps {
        match value.and_then(|value| value.as_array()) {
            Some(items) => {
                path.push_str(&format!("[{step}]"));
                value = step.parse::<usize>().ok().and_then(|index| items.get(index));
            }
            None => {
                path = field::child(&path, step);
                value = value.and_then(|value| value.get(step));
            }
        }
    }
    path
}

fn problem(subject: &Subject<'_>, path: &str, error: &ValidationError<'_>) -> Problem {
    let fix = format!(
        "see kubectl explain {}.{}",
        subject.kind.plural(),
        super::fields::explained(subject.kind, path)
    );
    if let ValidationErrorKind::Required { property } = error.kind() {
        let path = field::child(path, property.as_str().unwrap_or_default());
        return Problem::invalid(path, "is required").because(CauseReason::Required).fixed_by(fix);
    }
    let (text, reason) = match error.kind() {
        ValidationErrorKind::Type { kind: TypeKind::Single(wanted) } => {
            (format!("must be of type {wanted}"), CauseReason::Invalid)
        }
        ValidationErrorKind::Type { .. } => ("must be a number or a text".to_owned(), CauseReason::Invalid),
        ValidationErrorKind::Enum { options } => {
            (format!("must be one of {options}"), CauseReason::NotSupported)
        }
        ValidationErrorKind::Minimum { limit } => (format!("must be at least {limit}"), CauseReason::Invalid),
        ValidationErrorKind::Maximum { limit } => (format!("must be at most {limit}"), CauseReason::Invalid),
        ValidationErrorKind::MaxLength { limit } => {
            (format!("must have at most {limit} characters"), CauseReason::Invalid)
        }
        ValidationErrorKind::MaxItems { limit } | ValidationErrorKind::MaxProperties { limit } => {
            (format!("must have at most {limit} entries"), CauseReason::Invalid)
        }
        ValidationErrorKind::MinItems { limit } => {
            (format!("must have at least {limit} entries"), CauseReason::Required)
        }
        ValidationErrorKind::Pattern { pattern } => (format!("must match {pattern}"), CauseReason::Invalid),
        _ => ("does not fit the schema".to_owned(), CauseReason::Invalid),
    };
    Problem::invalid(path, text).because(reason).fixed_by(fix)
}
