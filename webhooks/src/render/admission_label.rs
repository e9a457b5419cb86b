//! Decides who may set, change or remove the label that keeps the webhooks out of a namespace: one policy on namespaces,
//! which the API server answers alone. Never looks at a namespace whose label stays as it is.

use k8s_openapi::api::admissionregistration::v1::{
    MatchCondition, MatchResources, NamedRuleWithOperations, ValidatingAdmissionPolicy,
    ValidatingAdmissionPolicyBinding, ValidatingAdmissionPolicyBindingSpec, ValidatingAdmissionPolicySpec,
    Validation,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::break_glass::rule;
use super::configurations::ADMISSION_LABEL;
use super::expression::literal;

/// Name of the policy and of its binding, before any prefix an overlay gives them.
pub const NAME: &str = "coder-k8s-admission-label";

/// The same right that the other policy asks for. Without it, whoever flips the label while he creates objects could have
/// it appear after the one has been evaluated and before the webhooks are called, so that neither of them asks.
const MAY_ESCALATE: &str = "authorizer.group('rbac.authorization.k8s.io').resource('roles')\
                            .namespace(object.metadata.name).check('escalate').allowed()";

/// Every way to write the labels of a namespace; its two subresources keep what a request says about labels.
const RESOURCES: [&str; 3] = ["namespaces", "namespaces/status", "namespaces/finalize"];

/// The policy.
pub fn policy() -> ValidatingAdmissionPolicy {
    let told = rule().map(|rule| {
        format!(
            "metadata.labels[{ADMISSION_LABEL}]: you may not escalate roles.rbac.authorization.k8s.io in this namespace, \
             which whoever sets, changes or removes this label must be allowed to; ask somebody who may ({})",
            rule.code
        )
    });
    let validation = Validation {
        expression: MAY_ESCALATE.to_owned(),
        message: told,
        message_expression: None,
        reason: Some("Forbidden".to_owned()),
    };
    let changed = MatchCondition {
        name: "label-changed".to_owned(),
        expression: format!("{} != (oldObject == null ? [] : {})", label_of("object"), label_of("oldObject")),
    };
    ValidatingAdmissionPolicy {
        metadata: ObjectMeta { name: Some(NAME.to_owned()), ..Default::default() },
        spec: Some(ValidatingAdmissionPolicySpec {
            failure_policy: Some("Fail".to_owned()),
            match_constraints: Some(MatchResources {
                match_policy: Some("Equivalent".to_owned()),
                resource_rules: Some(vec![resource_rule()]),
                ..Default::default()
            }),
            match_conditions: Some(vec![changed]),
            validations: Some(vec![validation]),
            ..Default::default()
        }),
        ..Default::default()
    }
}

/// Its binding, to all namespaces.
pub fn binding() -> ValidatingAdmissionPolicyBinding {
    ValidatingAdmissionPolicyBinding {
        metadata: ObjectMeta { name: Some(NAME.to_owned()), ..Default::default() },
        spec: Some(ValidatingAdmissionPolicyBindingSpec {
            policy_name: Some(NAME.to_owned()),
            validation_actions: Some(["Deny", "Audit"].map(str::to_owned).to_vec()),
            ..Default::default()
        }),
    }
}

/// CEL: the value of the label in a list, which is empty where there is none.
fn label_of(object: &str) -> String {
    let label = literal(ADMISSION_LABEL);
    format!(
        "(has({object}.metadata.labels) && {label} in {object}.metadata.labels ? \
         [{object}.metadata.labels[{label}]] : [])"
    )
}

fn resource_rule() -> NamedRuleWithOperations {
    let list = |words: &[&str]| Some(words.iter().map(|word| (*word).to_owned()).collect());
    NamedRuleWithOperations {
        api_groups: list(&[""]),
        api_versions: list(&["v1"]),
        operations: list(&["CREATE", "UPDATE"]),
        resources: list(&RESOURCES),
        scope: Some("Cluster".to_owned()),
        ..Default::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_policy_fails_closed_and_looks_only_at_the_label() {
        let spec = policy().spec.unwrap();
        assert_eq!(spec.failure_policy.as_deref(), Some("Fail"));
        assert!(spec.match_conditions.unwrap()[0].expression.contains(ADMISSION_LABEL));
        assert!(spec.validations.unwrap()[0].message.as_ref().unwrap().contains("(CODER0511)"));
        assert_eq!(binding().spec.unwrap().policy_name, policy().metadata.name);
    }
}
