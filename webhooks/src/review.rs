//! Decides whether an object may be stored: every rule and the schema, all problems at once.
//! Never stops at the first problem, and never holds an object to what was already wrong with it before.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::field;
use crate::kind::Kind;
use crate::rules::{self, Check, FieldProblems, Problem, Rule, Scope, Severity, Subject, When};
use crate::schema;

/// What is asked.
#[derive(Clone, Copy, Debug)]
pub struct Review<'a> {
    /// Kind of the object.
    pub kind: Kind,
    /// The object as it was sent, or as it would be stored.
    pub object: &'a Value,
    /// Why it is looked at.
    pub occasion: Occasion<'a>,
}

/// Why an object is looked at.
#[derive(Clone, Copy, Debug)]
pub enum Occasion<'a> {
    /// It is new.
    Create,
    /// It replaces this one.
    Update(&'a Value),
    /// It is stored already, perhaps since before there were rules: what only a new object must satisfy is a warning.
    Stored,
}

/// The answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// Why the object is refused; empty where it is not.
    pub causes: Vec<Cause>,
    /// What its author should know all the same, in full; see [`crate::within_limits`] for what Kubernetes delivers.
    pub warnings: Vec<String>,
}

/// One reason to refuse an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cause {
    /// Path of the field.
    pub field: String,
    /// Code of the rule.
    pub code: &'static str,
    /// The problem, the fix and the code: `is empty; give a value or remove the field (CODER0202)`.
    pub message: String,
    /// The class Kubernetes has for it.
    pub reason: CauseReason,
}

/// The classes Kubernetes has for a problem with a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CauseReason {
    /// A value is missing.
    Required,
    /// A value is malformed.
    Invalid,
    /// A value is not one of those that are possible.
    NotSupported,
    /// A value is there twice.
    Duplicate,
    /// A value refers to something that is not there.
    NotFound,
    /// A value is well-formed and not allowed.
    Forbidden,
}

impl CauseReason {
    /// As in `details.causes[].reason` of a Status.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Required => "FieldValueRequired",
            Self::Invalid => "FieldValueInvalid",
            Self::NotSupported => "FieldValueNotSupported",
            Self::Duplicate => "FieldValueDuplicate",
            Self::NotFound => "FieldValueNotFound",
            Self::Forbidden => "FieldValueForbidden",
        }
    }
}

/// Causes an answer holds; an object with more of them is not made better by a longer list.
const CAUSES: usize = 64;
/// Warnings an answer holds: far more than Kubernetes delivers, for whoever can show them all.
const WARNINGS: usize = 256;

impl Verdict {
    /// Whether the object may be stored.
    pub fn allowed(&self) -> bool {
        self.causes.is_empty()
    }

    /// The text of the denial, one line a cause: `field: problem; fix (CODER0202)`.
    pub fn denial(&self) -> Option<String> {
        let lines: Vec<String> = self.causes.iter().map(Cause::line).collect();
        (!lines.is_empty()).then(|| lines.join("\n"))
    }
}

impl Cause {
    pub(crate) fn new(rule: &Rule, problem: &Problem) -> Self {
        Self {
            field: problem.field.clone(),
            code: rule.code,
            message: message(rule, problem, ""),
            reason: problem.reason,
        }
    }

    /// `field: problem; fix (CODER0202)`.
    pub fn line(&self) -> String {
        format!("{}: {}", self.field, self.message)
    }
}

fn message(rule: &Rule, problem: &Problem, remark: &str) -> String {
    let fix = problem.fix.as_deref().unwrap_or(rule.fix);
    format!("{}; {fix} ({}{remark})", problem.problem, rule.code)
}

fn warning(rule: &Rule, problem: &Problem, remark: &str) -> String {
    format!("{}: {}", problem.field, message(rule, problem, remark))
}

/// Judges an object.
pub fn validate(review: &Review<'_>) -> Verdict {
    if schema::is_too_large(review.object) {
        return Verdict { causes: too_large().into_iter().collect(), warnings: Vec::new() };
    }
    let object = schema::without_nulls(review.kind, review.object);
    let old = match review.occasion {
        Occasion::Update(old) => Some(schema::without_nulls(review.kind, old)),
        Occasion::Create | Occasion::Stored => None,
    };
    let subject = Subject { kind: review.kind, object: &object, old: old.as_deref() };
    let now = Problems::of(subject);
    let before = subject.old.map(|old| Problems::of(Subject { object: old, old: None, ..subject }));
    let mut findings = Findings::default();
    for rule in rules::rules() {
        findings.ask(rule, &now, before.as_ref(), matches!(review.occasion, Occasion::Stored));
    }
    findings.ask_size(review);
    findings.ask_schema(&subject);
    findings.verdict()
}

/// Refuses an object unread, so that nobody can make us read for ever.
fn too_large() -> Option<Cause> {
    let problem = format!("consists of more than {} values", schema::UNREAD);
    let problem = Problem::invalid("spec", problem).fixed_by("remove what is not needed");
    Some(Cause::new(schema_rule()?, &problem))
}

fn schema_rule() -> Option<&'static Rule> {
    rules::rules().find(|rule| matches!(rule.check, Check::Schema))
}

/// What every rule finds in one object.
struct Problems<'a> {
    subject: Subject<'a>,
    of_fields: FieldProblems,
}

impl<'a> Problems<'a> {
    fn of(subject: Subject<'a>) -> Self {
        Self { subject, of_fields: FieldProblems::of(subject.kind, subject.object) }
    }

    fn found_by(&self, rule: &Rule) -> Vec<(Scope, Problem)> {
        self.of_fields.by(rule).chain(rule.find(&self.subject)).collect()
    }
}

#[derive(Default)]
struct Findings {
    causes: Vec<Cause>,
    warnings: Vec<String>,
}

impl Findings {
    fn ask(&mut self, rule: &Rule, now: &Problems<'_>, before: Option<&Problems<'_>>, stored: bool) {
        let asked = match rule.when {
            When::Create => before.is_none(),
            When::Always => true,
            When::Change => before.is_some(),
        };
        let found = if asked { now.found_by(rule) } else { Vec::new() };
        if found.is_empty() {
            return;
        }
        if rule.severity == Severity::Warn || (stored && rule.when == When::Create) {
            self.warnings.extend(found.iter().map(|(_, problem)| warning(rule, problem, "")));
            return;
        }
        let tolerance = match (rule.when, before) {
            (When::Always, Some(before)) => Tolerance::of(rule, now, before),
            _ => Tolerance::default(),
        };
        let counts = counted(&found);
        for (scope, problem) in &found {
            let count = counts.get(scope).copied().unwrap_or_default();
            if tolerance.covers(scope, count, &problem.field) {
                self.warnings.push(warning(rule, problem, ", as before"));
            } else {
                self.causes.push(Cause::new(rule, problem));
            }
        }
    }

    /// Adds that the spec is too large. One that was so before may stay, and must not grow.
    fn ask_size(&mut self, review: &Review<'_>) {
        let size = schema::Size::of(review.object);
        let rule = rules::rules().find(|rule| matches!(rule.check, Check::Size));
        let (Some(rule), Some(problem)) = (rule, size.problem()) else { return };
        let problem = Problem::invalid("spec", problem);
        match review.occasion {
            Occasion::Update(old) if size.is_within(schema::Size::of(old)) => {
                self.warnings.push(warning(rule, &problem, ", as before"));
            }
            _ => self.causes.push(Cause::new(rule, &problem)),
        }
    }

    /// Adds what the schema refuses, unless a rule has said it better.
    fn ask_schema(&mut self, subject: &Subject<'_>) {
        let Some(rule) = schema_rule() else {
            return;
        };
        for schema::Misfit { problem, unchanged } in schema::misfits(subject) {
            let said = |cause: &Cause| {
                let below =
                    cause.field.strip_prefix(&problem.field).is_some_and(|rest| rest.starts_with('.'));
                cause.field == problem.field || (below && problem.reason == CauseReason::Required)
            };
            if self.causes.iter().any(said) {
                continue;
            }
            if unchanged {
                self.warnings.push(warning(rule, &problem, ", as before"));
            } else {
                self.causes.push(Cause::new(rule, &problem));
            }
        }
    }

    fn verdict(mut self) -> Verdict {
        let more = self.causes.len().saturating_sub(CAUSES);
        if more > 0 {
            self.causes.truncate(CAUSES);
            if let Some(last) = self.causes.last_mut() {
                last.message.push_str(&format!(", and {more} more problems"));
            }
        }
        self.warnings.truncate(WARNINGS);
        Verdict { causes: self.causes, warnings: self.warnings }
    }
}

fn counted(found: &[(Scope, Problem)]) -> BTreeMap<Scope, usize> {
    let mut counts = BTreeMap::new();
    for (scope, _) in found {
        *counts.entry(scope.clone()).or_default() += 1;
    }
    counts
}

/// How much of a rule the old object already broke.
#[derive(Default)]
struct Tolerance {
    counts: BTreeMap<Scope, usize>,
    fields: BTreeSet<String>,
}

impl Tolerance {
    fn of(rule: &Rule, now: &Problems<'_>, before: &Problems<'_>) -> Self {
        let mut found = before.found_by(rule);
        found.retain(|(scope, _)| match scope {
            Scope::Value(path) => {
                field::at(before.subject.object, path) == field::at(now.subject.object, path)
            }
            Scope::Count(_) => true,
        });
        Self {
            counts: counted(&found),
            fields: found.into_iter().map(|(_, problem)| problem.field).collect(),
        }
    }

    /// No more problems than before are all tolerated, wherever they moved; of more, those that stayed in place.
    fn covers(&self, scope: &Scope, count: usize, field: &str) -> bool {
        let before = self.counts.get(scope).copied().unwrap_or_default();
        count <= before || (before > 0 && self.fields.contains(field))
    }
}
