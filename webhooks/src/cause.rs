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

/// Problems as one text: as many as there is room for, and at least one; then how many there are besides, with those that
/// were left out before.
pub fn problem_list(problems: &[String], separator: &str, room: usize, left_out: usize) -> String {
    let mut text = String::new();
    for (index, problem) in problems.iter().enumerate() {
        if index > 0 && text.len() + separator.len() + problem.len() > room {
            return text + separator + &more(problems.len() - index + left_out);
        }
        text += if index > 0 { separator } else { "" };
        text += problem;
    }
    if left_out > 0 { text + separator + &more(left_out) } else { text }
}

/// What ends a list of problems that is cut.
pub(crate) fn more(count: usize) -> String {
    format!("and {count} more problem{}", if count == 1 { "" } else { "s" })
}

impl fmt::Display for Cause {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {}", self.field, self.message())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_of_problems_says_how_many_are_not_in_it() {
        let problems = ["one", "two", "three"].map(str::to_owned);
        assert_eq!(problem_list(&problems, "; ", 100, 0), "one; two; three");
        assert_eq!(problem_list(&problems, "; ", 8, 0), "one; two; and 1 more problem");
        assert_eq!(problem_list(&problems, "\n", 100, 5), "one\ntwo\nthree\nand 5 more problems");
        assert_eq!(problem_list(&problems, "; ", 0, 5), "one; and 7 more problems", "one is always told");
        assert_eq!(problem_list(&[], "; ", 100, 0), "");
    }
}
