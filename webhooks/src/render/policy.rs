//! Decides what every ValidatingAdmissionPolicy of ours and its binding have in common: they fail closed, follow other
//! versions of a kind, and deny with 403. Never decides which of them there are or what they look for.

use k8s_openapi::api::admissionregistration::v1::{
    MatchCondition, MatchResources, NamedRuleWithOperations, RuleWithOperations, ValidatingAdmissionPolicy,
    ValidatingAdmissionPolicyBinding, ValidatingAdmissionPolicyBindingSpec, ValidatingAdmissionPolicySpec,
    Validation, Variable,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};

use super::expression::literal;
use crate::cause::Cause;

/// What makes one policy different from the others.
pub(super) struct Parts {
    pub(super) name: String,
    pub(super) resources: Vec<RuleWithOperations>,
    pub(super) namespaces: Option<LabelSelector>,
    pub(super) conditions: Vec<MatchCondition>,
    pub(super) variables: Vec<(String, String)>,
    pub(super) validations: Vec<Validation>,
}

/// A policy made of its parts.
pub(super) fn policy(parts: Parts) -> ValidatingAdmissionPolicy {
    let Parts { name, resources, namespaces, conditions, variables, validations } = parts;
    let resources = resources.into_iter().map(named).collect();
    let variables: Vec<Variable> =
        variables.into_iter().map(|(name, expression)| Variable { name, expression }).collect();
    ValidatingAdmissionPolicy {
        metadata: ObjectMeta { name: Some(name), ..Default::default() },
        spec: Some(ValidatingAdmissionPolicySpec {
            failure_policy: Some("Fail".to_owned()),
            match_constraints: Some(MatchResources {
                resource_rules: Some(resources),
                ..matching(namespaces)
            }),
            match_conditions: Some(conditions),
            variables: (!variables.is_empty()).then_some(variables),
            validations: Some(validations),
            ..Default::default()
        }),
        ..Default::default()
    }
}

/// The binding of the policy of this name: to the namespaces that are selected, or to all.
pub(super) fn binding(
    name: String,
    action: &str,
    namespaces: Option<LabelSelector>,
) -> ValidatingAdmissionPolicyBinding {
    ValidatingAdmissionPolicyBinding {
        metadata: ObjectMeta { name: Some(name.clone()), ..Default::default() },
        spec: Some(ValidatingAdmissionPolicyBindingSpec {
            policy_name: Some(name),
            validation_actions: Some([action, "Audit"].map(str::to_owned).to_vec()),
            match_resources: namespaces.map(|namespaces| matching(Some(namespaces))),
            ..Default::default()
        }),
    }
}

fn matching(namespaces: Option<LabelSelector>) -> MatchResources {
    MatchResources {
        match_policy: Some("Equivalent".to_owned()),
        namespace_selector: namespaces,
        ..Default::default()
    }
}

fn named(rule: RuleWithOperations) -> NamedRuleWithOperations {
    let RuleWithOperations { api_groups, api_versions, operations, resources, scope } = rule;
    NamedRuleWithOperations { api_groups, api_versions, operations, resources, scope, resource_names: None }
}

/// A validation that denies with 403 unless `expression` holds.
pub(super) fn validation(expression: String, message: String) -> Validation {
    Validation {
        expression,
        message: Some(message),
        message_expression: None,
        reason: Some("Forbidden".to_owned()),
    }
}

/// The same for a cause whose field is known to CEL only, by this expression.
pub(super) fn validation_at(expression: String, field: &str, cause: &Cause) -> Validation {
    let message = literal(&format!(": {}", cause.message()));
    Validation {
        message_expression: Some(format!("({field}) + {message}")),
        ..validation(expression, cause.to_string())
    }
}

/// CEL: whether the user could grant himself everything in the namespace that an expression gives, or in every one.
pub(super) fn may_escalate(namespace: Option<&str>) -> String {
    let namespace = namespace.map(|namespace| format!(".namespace({namespace})")).unwrap_or_default();
    format!(
        "authorizer.group('rbac.authorization.k8s.io').resource('roles'){namespace}.check('escalate').allowed()"
    )
}
