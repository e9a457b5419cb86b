//! Decides how a cluster holds the rules without the operator: one ValidatingAdmissionPolicy a kind.
//! Never refuses with 422: a GitOps tool with force would take that for a reason to recreate the object.

use k8s_openapi::api::admissionregistration::v1::{
    ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding, Validation,
};

use super::configurations::{admitted_namespaces, match_conditions, rule_for};
use super::expression::{in_policy, literal};
use super::policy::{self, Parts, validation};
use crate::cause::Cause;
use crate::kind::Kind;
use crate::rules::{self, CelCheck, Layer, Problem, Rule, Severity};

/// What a binding does with a problem.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Refuse, and write it to the audit log.
    Deny,
    /// Warn, and write it to the audit log.
    Warn,
}

/// The policies, one a kind.
pub fn policies() -> Vec<ValidatingAdmissionPolicy> {
    Kind::ALL.into_iter().map(policy).collect()
}

/// The bindings of the policies.
pub fn bindings(action: Action) -> Vec<ValidatingAdmissionPolicyBinding> {
    let action = match action {
        Action::Deny => "Deny",
        Action::Warn => "Warn",
    };
    Kind::ALL.into_iter().map(|kind| policy::binding(name(kind), action, None)).collect()
}

fn name(kind: Kind) -> String {
    format!("{}.rules.coder.com", kind.plural())
}

/// The rules a policy holds, with their CEL.
pub(super) fn held(kind: Kind) -> impl Iterator<Item = (&'static Rule, CelCheck)> {
    let hard = |rule: &&Rule| rule.lives_in(Layer::Policy) && rule.severity == Severity::Deny;
    rules::rules()
        .filter(hard)
        .flat_map(move |rule| rule.cel_checks(kind).into_iter().map(move |check| (rule, check)))
}

/// Characters of a message; Kubernetes drops one above 5 KiB whole.
const MESSAGE: usize = 4000;

fn policy(kind: Kind) -> ValidatingAdmissionPolicy {
    let mut variables = Vec::new();
    let mut problems = Vec::new();
    for (number, (rule, check)) in held(kind).enumerate() {
        let variable = format!("{}_{number}", rule.code.to_lowercase());
        let place = if check.at.is_empty() { "object" } else { &check.at };
        // Which problem it is, CEL cannot say: the title says what must hold.
        let cause = Cause::new(rule, Problem::invalid(place, rule.title));
        problems.push(format!("(variables.{variable} ? '' : {})", literal(&cause.to_string())));
        variables.push((variable, in_policy(kind, rule, &check)));
    }
    let joined = format!("[{}].filter(problem, problem != '').join('; ')", problems.join(", "));
    variables.push(("problems".to_owned(), joined));
    let message = format!(
        "size(variables.problems) > {MESSAGE} ? variables.problems.substring(0, {MESSAGE}) + ' ...' : variables.problems"
    );
    let told = format!("the {} breaks a rule; coder-k8s lint says which", kind.name());
    let validation = validation("variables.problems == ''".to_owned(), told);
    policy::policy(Parts {
        name: name(kind),
        resources: vec![rule_for(kind)],
        namespaces: Some(admitted_namespaces()),
        conditions: match_conditions(),
        variables,
        validations: vec![Validation { message_expression: Some(message), ..validation }],
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_policy_refuses_with_403_and_all_problems_in_one_line() {
        for policy in policies() {
            let spec = policy.spec.unwrap();
            assert_eq!(spec.failure_policy.as_deref(), Some("Fail"));
            let validations = spec.validations.unwrap();
            assert_eq!(validations.len(), 1);
            assert_eq!(validations[0].reason.as_deref(), Some("Forbidden"));
            let problems = spec.variables.unwrap();
            let joined = &problems.last().unwrap().expression;
            assert!(
                joined.contains("CODER0101") && !joined.contains('\n') && !joined.contains("mmutable"),
                "{joined}"
            );
        }
        assert_eq!(
            bindings(Action::Warn)[0].spec.as_ref().unwrap().validation_actions.as_ref().unwrap(),
            &["Warn", "Audit"]
        );
    }

    #[test]
    fn variables_are_named_once_and_every_policy_rule_is_there() {
        for kind in Kind::ALL {
            let variables = policy(kind).spec.unwrap().variables.unwrap();
            let names: std::collections::BTreeSet<_> =
                variables.iter().map(|variable| &variable.name).collect();
            assert_eq!(names.len(), variables.len());
            for (rule, _) in held(kind) {
                let prefix = rule.code.to_lowercase();
                assert!(variables.iter().any(|variable| variable.name.starts_with(&prefix)), "{}", rule.code);
            }
        }
    }
}
