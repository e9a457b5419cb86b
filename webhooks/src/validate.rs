//! Decides whether an object may be stored: every rule and the schema, all problems at once.
//! Never stops at the first problem, and never holds an object to what was already wrong with it before.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::cause::{Cause, CauseReason, problem_list};
use crate::field;
use crate::kind::Kind;
use crate::rules::{self, FieldProblems, Problem, Rule, Scope, Severity, Subject, When};
use crate::schema;

/// What happens to the object that is validated.
#[derive(Clone, Copy, Debug)]
pub enum Operation<'a> {
    /// It is created.
    Create,
    /// It replaces this one.
    Update(&'a Value),
    /// It is stored already, perhaps since before there were rules, and is reconciled: what only a new object must satisfy
    /// is a warning.
    Reconcile,
}

/// The answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// Why the object is denied; empty where it is not.
    pub causes: Vec<Cause>,
    /// How many causes there are besides, which nobody would read.
    pub more_causes: usize,
    /// What its author should know all the same: all of it, far more than Kubernetes delivers.
    pub warnings: Vec<Cause>,
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

    /// The text of the denial, one line a cause.
    pub fn denial(&self) -> Option<String> {
        let lines: Vec<String> = self.causes.iter().map(Cause::to_string).collect();
        (!lines.is_empty()).then(|| problem_list(&lines, "\n", usize::MAX, self.more_causes))
    }

    /// How many problems there are, told or not.
    pub fn problems(&self) -> usize {
        self.causes.len() + self.more_causes
    }

    /// Adds causes, as many as an answer holds; the others are counted.
    pub(crate) fn deny(&mut self, causes: Vec<Cause>) {
        self.causes.extend(causes);
        self.more_causes += self.causes.len().saturating_sub(CAUSES);
        self.causes.truncate(CAUSES);
    }
}

/// Judges an object.
pub fn validate(kind: Kind, object: &Value, operation: Operation<'_>) -> Verdict {
    if schema::is_too_large(object) {
        return Verdict { causes: vec![too_large()], ..Verdict::default() };
    }
    let stripped = schema::without_nulls(kind, object);
    let old = match operation {
        Operation::Update(old) => Some(schema::without_nulls(kind, old)),
        Operation::Create | Operation::Reconcile => None,
    };
    let subject = Subject { kind, object: &stripped, old: old.as_deref() };
    let now = Problems::of(subject);
    let before = subject.old.map(|old| Problems::of(Subject { object: old, old: None, ..subject }));
    let mut findings = Findings::default();
    for rule in rules::rules() {
        findings.ask(rule, &now, before.as_ref(), matches!(operation, Operation::Reconcile));
    }
    findings.ask_size(object, operation);
    findings.ask_schema(&subject);
    findings.verdict()
}

/// Refuses an object unread, so that nobody can make us read for ever.
fn too_large() -> Cause {
    let problem = format!("consists of more than {} values", schema::UNREAD);
    Cause::new(&rules::SCHEMA, Problem::invalid("spec", problem).fixed_by("remove what is not needed"))
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
    warnings: Vec<Cause>,
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
            self.warnings.extend(found.into_iter().map(|(_, problem)| Cause::new(rule, problem)));
            return;
        }
        let tolerance = match (rule.when, before) {
            (When::Always, Some(before)) => Tolerance::of(rule, now, before),
            _ => Tolerance::default(),
        };
        let counts = counted(&found);
        for (scope, problem) in found {
            let count = counts.get(&scope).copied().unwrap_or_default();
            let tolerated = tolerance.covers(&scope, count, &problem.field);
            self.add(Cause::new(rule, problem), tolerated);
        }
    }

    /// Adds that the spec is too large. One that was so before may stay, and must not grow.
    fn ask_size(&mut self, object: &Value, operation: Operation<'_>) {
        let size = schema::Size::of(object);
        let Some(problem) = size.problem() else { return };
        let tolerated = matches!(operation, Operation::Update(old) if size.is_within(schema::Size::of(old)));
        self.add(Cause::new(&rules::SIZE, Problem::invalid("spec", problem)), tolerated);
    }

    /// Adds what the schema refuses, unless a rule has said it better.
    fn ask_schema(&mut self, subject: &Subject<'_>) {
        for schema::Violation { problem, unchanged } in schema::violations(subject) {
            let said = |cause: &Cause| {
                let below =
                    cause.field.strip_prefix(&problem.field).is_some_and(|rest| rest.starts_with('.'));
                cause.field == problem.field || (below && problem.reason == CauseReason::Required)
            };
            if !self.causes.iter().any(said) {
                self.add(Cause::new(&rules::SCHEMA, problem), unchanged);
            }
        }
    }

    /// Adds a reason to deny; a warning where the object was like that before.
    fn add(&mut self, cause: Cause, tolerated: bool) {
        if tolerated {
            self.warnings.push(cause.tolerated());
        } else {
            self.causes.push(cause);
        }
    }

    fn verdict(self) -> Verdict {
        let Self { causes, mut warnings } = self;
        warnings.truncate(WARNINGS);
        let mut verdict = Verdict { warnings, ..Verdict::default() };
        verdict.deny(causes);
        verdict
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
