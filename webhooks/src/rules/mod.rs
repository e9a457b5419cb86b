//! Decides what a rule is: a stable code, what it looks at, how hard it is, where it lives and how it is explained.
//! Never decides on a request: see [`crate::validate`], which asks every rule.

mod addresses;
mod advice;
mod annotations;
mod daemons;
mod environment;
mod exposure;
mod fields;
mod grants;
mod identity;
mod names;
mod pods;
mod references;
mod rights;
mod size;
mod values;
mod versions;

use serde_json::Value;

use crate::cause::CauseReason;
use crate::field;
use crate::kind::Kind;
use crate::schema;
use crate::text::Form;

pub(crate) use fields::FieldProblems;
pub(crate) use size::SIZE;
pub(crate) use values::SCHEMA;
pub use versions::downgrade;

/// Whether a problem stops the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// The request is refused.
    Deny,
    /// The request passes with a warning.
    Warn,
}

/// When a rule is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// Only for a new object: what it says can never change later, or must not disturb what is stored.
    Create,
    /// Always; on an update only what became worse counts, the rest is a warning.
    Always,
    /// Only for an update: the rule compares old and new.
    Change,
}

/// A place where a rule can be held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Layer {
    /// The plain schema of the CustomResourceDefinition.
    Schema,
    /// CEL in the CustomResourceDefinition.
    Cel,
    /// A ValidatingAdmissionPolicy.
    Policy,
    /// The admission webhooks.
    Webhook,
    /// `coder-k8s lint`.
    Lint,
    /// The policy of the base, where a namespace has admission switched off.
    BreakGlass,
}

/// All layers of a rule that CEL can express.
pub(crate) const EVERYWHERE: &[Layer] = &[Layer::Cel, Layer::Policy, Layer::Webhook, Layer::Lint];
/// The layers of a rule that the schema holds too.
pub(crate) const IN_SCHEMA: &[Layer] = &[Layer::Schema, Layer::Policy, Layer::Webhook, Layer::Lint];
/// The layers of a rule that CEL can express, but not within the budget of a CustomResourceDefinition.
pub(crate) const NOT_IN_CRD: &[Layer] = &[Layer::Policy, Layer::Webhook, Layer::Lint];
/// The layers of a rule that only Rust can express.
pub(crate) const IN_RUST: &[Layer] = &[Layer::Webhook, Layer::Lint];

/// What a rule looks at.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Subject<'a> {
    /// Kind of the object.
    pub(crate) kind: Kind,
    /// The object, as it was sent.
    pub(crate) object: &'a Value,
    /// The object it replaces.
    pub(crate) old: Option<&'a Value>,
}

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Problem {
    /// Path of the field.
    pub(crate) field: String,
    /// What is wrong with it.
    pub(crate) problem: String,
    /// What to do; overrides the fix of the rule where the case is special.
    pub(crate) fix: Option<String>,
    /// The class Kubernetes has for it.
    pub(crate) reason: CauseReason,
}

impl Problem {
    /// A value that is not acceptable.
    pub(crate) fn invalid(field: impl Into<String>, problem: impl Into<String>) -> Self {
        let (field, problem) = (field.into(), problem.into());
        Self { field, problem, fix: None, reason: CauseReason::Invalid }
    }

    /// The same problem of another class.
    pub(crate) fn because(self, reason: CauseReason) -> Self {
        Self { reason, ..self }
    }

    /// The same problem with a fix of its own.
    pub(crate) fn fixed_by(self, fix: impl Into<String>) -> Self {
        Self { fix: Some(fix.into()), ..self }
    }
}

/// What the problems of an update are compared with, so that what was stored before stays updatable.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Scope {
    /// The value at this path: they are tolerated while it stays as it is. This is what the API server does with the
    /// CEL of a definition, so that every rule in one has to do the same.
    Value(String),
    /// The number of problems at this pattern: they are tolerated while there are no more of them.
    Count(String),
}

/// The same check in CEL. `self` stands for the value at a path without lists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CelCheck {
    /// Where it is attached; empty for the whole object.
    pub(crate) at: String,
    /// The one field it looks at, as a pattern; empty where it looks at several.
    pub(crate) field: String,
    /// An expression of type int: how many problems there are; or, for a rule about a [`When::Change`], an
    /// expression of type bool over `self` and `oldSelf` that is true where all is well.
    pub(crate) text: String,
}

impl CelCheck {
    /// A check that counts problems.
    pub(crate) fn counting(at: impl Into<String>, text: impl Into<String>) -> Self {
        Self { at: at.into(), field: String::new(), text: text.into() }
    }
}

/// How a rule finds problems.
pub(crate) enum Check {
    /// The texts at the fields of the rule must have these forms.
    Text(&'static [Form]),
    /// The numbers at the fields of the rule must lie in this range.
    Number {
        /// Smallest good number.
        min: i64,
        /// Largest good number.
        max: i64,
    },
    /// A function of its own, and the same in CEL where CEL can say it.
    Object {
        /// Finds the problems.
        find: fn(&Subject<'_>) -> Vec<Problem>,
        /// The same in CEL for a kind.
        cel: fn(Kind) -> Vec<CelCheck>,
    },
    /// The JSON schema of the kind.
    Schema,
    /// The size of the spec.
    Size,
    /// The rights of the person who asks; see [`crate::authorization`].
    Access,
}

/// A rule that CEL cannot say.
pub(crate) const NO_CEL: fn(Kind) -> Vec<CelCheck> = |_| Vec::new();

/// One rule.
pub struct Rule {
    /// Stable code, for example `CODER0101`.
    pub code: &'static str,
    /// What must hold, as a short sentence.
    pub title: &'static str,
    /// Kinds it is about.
    pub(crate) kinds: &'static [Kind],
    /// Fields it looks at; `[]` stands for each item of a list. A kind that lacks a field is not concerned by it.
    pub(crate) fields: &'static [&'static str],
    /// How hard it is.
    pub severity: Severity,
    /// When it is asked.
    pub when: When,
    /// Where it lives.
    pub(crate) layers: &'static [Layer],
    /// How it finds problems.
    pub(crate) check: Check,
    /// What to do about a problem.
    pub(crate) fix: &'static str,
    /// Why it exists.
    pub why: &'static str,
    /// Part of a manifest that breaks it.
    pub(crate) bad: &'static str,
    /// The same part, good.
    pub(crate) good: &'static str,
}

impl Rule {
    /// Whether the rule lives in a layer.
    pub fn lives_in(&self, layer: Layer) -> bool {
        self.layers.contains(&layer)
    }

    /// Its fields that a kind has.
    pub(crate) fn fields_of(&self, kind: Kind) -> impl Iterator<Item = &'static str> {
        let concerned = self.kinds.contains(&kind);
        self.fields.iter().copied().filter(move |field| concerned && schema::has_field(kind, field))
    }

    /// What a rule with a function of its own finds in an object, each with what it is compared with on an update.
    pub(crate) fn find(&self, subject: &Subject<'_>) -> Vec<(Scope, Problem)> {
        let Check::Object { find, cel } = &self.check else {
            return Vec::new();
        };
        if !self.kinds.contains(&subject.kind) {
            return Vec::new();
        }
        let problems = find(subject);
        let cel_checks = if problems.is_empty() { Vec::new() } else { cel(subject.kind) };
        problems.into_iter().map(|problem| (self.scope(&cel_checks, &problem.field), problem)).collect()
    }

    /// The API server itself tolerates a single value that stays as it is, and nothing else.
    fn scope_of_field(&self, kind: Kind, pattern: &str) -> Scope {
        let in_definition = self.lives_in(Layer::Schema) || self.lives_in(Layer::Cel);
        if in_definition && !pattern.contains("[]") && schema::is_bounded(kind, pattern) {
            return Scope::Value(pattern.to_owned());
        }
        Scope::Count(pattern.to_owned())
    }

    /// Problems are compared where the CEL of the rule compares them, else field by field.
    fn scope(&self, cel_checks: &[CelCheck], path: &str) -> Scope {
        let pattern = field::pattern(path);
        let above = |at: &str| {
            at.is_empty()
                || pattern
                    .strip_prefix(at)
                    .is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
        };
        match cel_checks.iter().find(|check| above(&check.at)) {
            Some(check) if self.lives_in(Layer::Cel) && !check.at.is_empty() => {
                Scope::Value(check.at.clone())
            }
            Some(check) => Scope::Count(check.at.clone()),
            None => Scope::Count(pattern),
        }
    }

    /// What the CEL of this rule is compared with on an update.
    pub(crate) fn scope_of_check(&self, kind: Kind, check: &CelCheck) -> Scope {
        match check.field.as_str() {
            "" if self.lives_in(Layer::Cel) && !check.at.is_empty() => Scope::Value(check.at.clone()),
            "" => Scope::Count(check.at.clone()),
            field => self.scope_of_field(kind, field),
        }
    }

    /// The same check in CEL for a kind, one expression a field; empty where CEL cannot say it.
    pub(crate) fn cel_checks(&self, kind: Kind) -> Vec<CelCheck> {
        if !self.kinds.contains(&kind) {
            return Vec::new();
        }
        match &self.check {
            Check::Object { cel, .. } => cel(kind),
            Check::Text(forms) => {
                let good =
                    |value: &str| forms.iter().map(|form| form.cel(value)).collect::<Vec<_>>().join(" && ");
                self.fields_of(kind).filter_map(|field| counting_check(field, good)).collect()
            }
            Check::Number { min, max } => {
                let good = |value: &str| format!("{value} >= {min} && {value} <= {max}");
                self.fields_of(kind).filter_map(|field| counting_check(field, good)).collect()
            }
            Check::Schema | Check::Size | Check::Access => Vec::new(),
        }
    }
}

fn text_problem(forms: &[Form], value: &Value) -> Option<(String, CauseReason)> {
    let text = value.as_str()?;
    let (form, problem) = forms.iter().find_map(|form| Some((form, form.problem(text)?)))?;
    let reason = match form {
        Form::Filled => CauseReason::Required,
        Form::OneOf(_) | Form::NotOneOf(_) | Form::NotOneOfAnyCase(_) => CauseReason::NotSupported,
        _ => CauseReason::Invalid,
    };
    Some((problem, reason))
}

fn number_problem(min: i64, max: i64, value: &Value) -> Option<(String, CauseReason)> {
    let number = value.as_i64()?;
    let problem = if number < min {
        format!("{number} is less than {min}")
    } else if number > max {
        format!("{number} is more than {max}")
    } else {
        return None;
    };
    Some((problem, CauseReason::Invalid))
}

/// Keys that CEL reserves; it would have to spell them differently in a definition and in a policy.
const RESERVED_BY_CEL: [&str; 1] = ["namespace"];

/// The CEL that tests one field. A list inside a list and a word of CEL are beyond it.
fn counting_check(field: &str, good: impl Fn(&str) -> String) -> Option<CelCheck> {
    if field.split('.').any(|key| RESERVED_BY_CEL.contains(&key)) {
        return None;
    }
    let Some((list, inner)) = field.split_once("[]") else {
        let text = format!("({} ? 0 : 1)", good("self"));
        return Some(CelCheck { field: field.to_owned(), ..CelCheck::counting(field, text) });
    };
    if inner.contains("[]") {
        return None;
    }
    let mut guards = String::new();
    let mut item = "item".to_owned();
    for key in inner.split('.').filter(|key| !key.is_empty()) {
        item = format!("{item}.{key}");
        guards.push_str(&format!("has({item}) && "));
    }
    let text = format!("self.filter(item, {guards}!({})).size()", good(&item));
    Some(CelCheck { field: field.to_owned(), ..CelCheck::counting(list, text) })
}

/// Every rule, in the order of their codes.
pub fn rules() -> impl Iterator<Item = &'static Rule> {
    [
        names::RULES,
        identity::RULES,
        references::RULES,
        annotations::RULES,
        values::RULES,
        environment::RULES,
        pods::RULES,
        versions::RULES,
        size::RULES,
        daemons::RULES,
        exposure::RULES,
        addresses::RULES,
        grants::RULES,
        rights::RULES,
        advice::RULES,
    ]
    .into_iter()
    .flatten()
}

/// The rule of a code, in any case.
pub fn by_code(code: &str) -> Option<&'static Rule> {
    rules().find(|rule| rule.code.eq_ignore_ascii_case(code))
}

/// The page of a rule, for a terminal.
pub fn explain(code: &str) -> Option<String> {
    by_code(code).map(crate::render::page::section)
}

#[cfg(test)]
mod tests;
