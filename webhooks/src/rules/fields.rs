//! Decides what is wrong with single fields: asks all rules about a text or a number in one walk of the object.
//! Never looks at two fields together: such a rule has a function of its own.

use std::sync::LazyLock;

use serde_json::Value;

use super::{Check, Problem, Rule, Scope, number_problem, text_problem};
use crate::field;
use crate::kind::Kind;
use crate::schema;
use crate::tree::Tree;

/// A rule and one of its fields.
struct Asked {
    rule: &'static Rule,
    position: usize,
    pattern: &'static str,
}

/// What a rule found at a field.
struct Finding {
    rule: &'static Rule,
    position: usize,
    scope: Scope,
    problem: Problem,
}

/// Everything that is wrong with single fields of an object.
pub(crate) struct FieldProblems(Vec<Finding>);

impl FieldProblems {
    /// Walks an object.
    pub(crate) fn of(kind: Kind, object: &Value) -> Self {
        let mut found = Vec::new();
        tree(kind).walk(object, &mut |asked, value, indices| found.extend(ask(asked, kind, value, indices)));
        // A tree has an order of its own; a reader expects that of the rule.
        found.sort_by_key(|finding| finding.position);
        Self(found)
    }

    /// What one rule found, each with what it is compared with on an update.
    pub(crate) fn by(&self, rule: &Rule) -> impl Iterator<Item = (Scope, Problem)> {
        let found = self.0.iter().filter(|finding| finding.rule.code == rule.code);
        found.map(|finding| (finding.scope.clone(), finding.problem.clone()))
    }
}

fn tree(kind: Kind) -> &'static Tree<Asked> {
    static CONTROL_PLANE: LazyLock<Tree<Asked>> = LazyLock::new(|| grown(Kind::ControlPlane));
    static PROVISIONER: LazyLock<Tree<Asked>> = LazyLock::new(|| grown(Kind::Provisioner));
    static WORKSPACE_PROXY: LazyLock<Tree<Asked>> = LazyLock::new(|| grown(Kind::WorkspaceProxy));
    match kind {
        Kind::ControlPlane => &CONTROL_PLANE,
        Kind::Provisioner => &PROVISIONER,
        Kind::WorkspaceProxy => &WORKSPACE_PROXY,
    }
}

fn grown(kind: Kind) -> Tree<Asked> {
    let mut tree = Tree::new();
    let of_fields = |rule: &&Rule| matches!(rule.check, Check::Text(_) | Check::Number { .. });
    for rule in super::rules().filter(of_fields).filter(|rule| rule.kinds.contains(&kind)) {
        for (position, pattern) in rule.fields.iter().copied().enumerate() {
            if schema::has_field(kind, pattern) {
                tree.keep(pattern, Asked { rule, position, pattern });
            }
        }
    }
    tree
}

fn ask(asked: &Asked, kind: Kind, value: &Value, indices: &[usize]) -> Option<Finding> {
    let Asked { rule, position, pattern } = *asked;
    let (problem, reason) = match &rule.check {
        Check::Text(forms) => text_problem(forms, value),
        Check::Number { min, max } => number_problem(*min, *max, value),
        Check::Object { .. } | Check::Schema | Check::Size | Check::Access => None,
    }?;
    let problem = Problem::invalid(field::path(pattern, indices), problem).because(reason);
    Some(Finding { rule, position, scope: rule.scope_of_field(kind, pattern), problem })
}
