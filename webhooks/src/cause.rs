//! Decides what is said of one problem, denied or warned of, and how it reads: the one place that makes a text of it.
//! Never decides that something is a problem: rules and authorization do.

use std::borrow::Cow;
use std::fmt;

use crate::rules::{Problem, Rule};

/// One reason to deny a request or to warn its author. It reads `field: problem; fix (CODER0202)`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cause {
    /// Path of the field.
    pub field: String,
    /// Code of the rule.
    pub code: &'static str,
    /// What is wrong: `is empty`.
    pub problem: String,
    /// What to do about it: `give a value or remove the field`.
    pub fix: Cow<'static, str>,
    /// The class Kubernetes has for it.
    pub reason: CauseReason,
    /// Whether the object was like that before the change, so that it is a warning and no denial.
    pub tolerated: bool,
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
    pub(crate) const fn as_str(self) -> &'static str {
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

impl Cause {
    pub(crate) fn new(rule: &Rule, problem: Problem) -> Self {
        let Problem { field, problem, fix, reason } = problem;
        let fix = fix.map_or(Cow::Borrowed(rule.fix), Cow::Owned);
        Self { field, code: rule.code, problem, fix, reason, tolerated: false }
    }

    /// The same for something that was there before.
    pub(crate) fn tolerated(self) -> Self {
        Self { tolerated: true, ..self }
    }

    /// The text without the field, for where that stands beside it: `problem; fix (CODER0202)`.
    pub fn message(&self) -> String {
        let remark = if self.tolerated { ", as before" } else { "" };
        format!("{}; {} ({}{remark})", self.problem, self.fix, self.code)
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {}", self.field, self.message())
    }
}
