//! Decides how a cluster holds the rules without the operator: one ValidatingAdmissionPolicy a kind.
//! Never refuses with 422: a GitOps tool with force would take that for a reason to recreate the object.

use k8s_openapi::api::admissionregistration::v1::{
    MatchResources, NamedRuleWithOperations, ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding,
    ValidatingAdmissionPolicyBindingSpec, ValidatingAdmissionPolicySpec, Validation, Variable,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::configurations::{admitted_namespaces, match_conditions, only_when};
use super::expression::{in_policy, literal};
use crate::kind::Kind;
use crate::rules::{self, Layer, Rule, Severity, Twin};

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
    let actions = match action {
        Action::Deny => ["Deny", "Audit"],
        Action::Warn => ["Warn", "Audit"],
    };
    let binding = |kind: Kind| ValidatingAdmissionPolicyBinding {
        metadata: ObjectMeta { name: Some(name(kind)), ..Default::default() },
        spec: Some(ValidatingAdmissionPolicyBindingSpec {
            policy_name: Some(name(kind)),
            validation_actions: Some(actions.map(str::to_owned).to_vec()),
            ..Default::default()
        }),
    };
    Kind::ALL.into_iter().map(binding).collect()
}

fn name(kind: Kind) -> String {
    format!("{}.rules.coder.com", kind.plural())
}

/// The rules a policy holds, with their CEL.
pub(super) fn held(kind: Kind) -> impl Iterator<Item = (&'static Rule, Twin)> {
    let hard = |rule: &&Rule| rule.lives_in(Layer::Policy) && rule.severity == Severity::Deny;
    rules::rules()
        .filter(hard)
        .flat_map(move |rule| rule.twins(kind).into_iter().map(move |twin| (rule, twin)))
}

/// Characters of a message; Kubernetes drops one above 5 KiB whole.
const MESSAGE: usize = 4000;

fn policy(kind: Kind) -> ValidatingAdmissionPolicy {
    let mut variables = Vec::new();
    let mut problems = Vec::new();
    for (number, (rule, twin)) in held(kind).enumerate() {
        let variable = format!("{}_{number}", rule.code.to_lowercase());
        let place = if twin.at.is_empty() { "object" } else { &twin.at };
        let message = format!("{place}: {}; {} ({})", rule.title, rule.fix, rule.code);
        problems.push(format!("(variables.{variable} ? '' : {})", literal(&message)));
        variables.push(Variable { name: variable, expression: in_policy(kind, rule, &twin) });
    }
    let joined = format!("[{}].filter(problem, problem != '').join('; ')", problems.join(", "));
    variables.push(Variable { name: "problems".to_owned(), expression: joined });
    let message = format!(
        "size(variables.problems) > {MESSAGE} ? variables.problems.substring(0, {MESSAGE}) + ' ...' : variables.problems"
    );
    ValidatingAdmissionPolicy {
        metadata: ObjectMeta { name: Some(name(kind)), ..Default::default() },
        spec: Some(ValidatingAdmissionPolicySpec {
            failure_policy: Some("Fail".to_owned()),
            match_constraints: Some(match_constraints(kind)),
            match_conditions: Some(match_conditions()),
            variables: Some(variables),
            validations: Some(vec![Validation {
                expression: "variables.problems == ''".to_owned(),
                message: Some(format!("the {} breaks a rule; coder-k8s lint says which", kind.name())),
                message_expression: Some(message),
                reason: Some("Forbidden".to_owned()),
            }]),
            ..Default::default()
        }),
        ..Default::default()
    }
}

fn match_constraints(kind: Kind) -> MatchResources {
    let rule = only_when(kind);
    MatchResources {
        match_policy: Some("Equivalent".to_owned()),
        namespace_selector: Some(admitted_namespaces()),
        resource_rules: Some(vec![NamedRuleWithOperations {
            api_groups: rule.api_groups,
            api_versions: rule.api_versions,
            operations: rule.operations,
            resources: rule.resources,
            scope: rule.scope,
            ..Default::default()
        }]),
        ..Default::default()
    }
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
