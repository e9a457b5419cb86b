//! Decides who may set, change or remove the label that keeps the webhooks out of a namespace: one policy on namespaces,
//! which the API server answers alone. Never looks at a namespace whose label stays as it is.

use k8s_openapi::api::admissionregistration::v1::{
    MatchCondition, RuleWithOperations, ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding,
};

use super::break_glass::denial;
use super::configurations::ADMISSION_LABEL;
use super::expression::literal;
use super::policy::{self, Parts, may_escalate, validation};

/// Name of the policy and of its binding, before any prefix an overlay gives them.
pub(crate) const NAME: &str = "coder-k8s-admission-label";

/// Every way to write the labels of a namespace; its two subresources keep what a request says about labels.
const RESOURCES: [&str; 3] = ["namespaces", "namespaces/status", "namespaces/finalize"];

/// The policy. It asks for the same right as the other one. Without it, whoever flips the label while creating objects
/// could have it appear after the other policy has been evaluated and before the webhooks are called, so that neither asks.
pub fn policy() -> ValidatingAdmissionPolicy {
    let denied = denial(
        &format!("metadata.labels[{ADMISSION_LABEL}]"),
        "you may not escalate roles.rbac.authorization.k8s.io in this namespace, which is required to set, change or \
         remove this label",
        Some("ask somebody who may to do it"),
    );
    let expression = may_escalate(Some("object.metadata.name"));
    let changed = MatchCondition {
        name: "label-changed".to_owned(),
        expression: format!("{} != (oldObject == null ? [] : {})", label_of("object"), label_of("oldObject")),
    };
    policy::policy(Parts {
        name: NAME.to_owned(),
        resources: vec![namespaces()],
        namespaces: None,
        conditions: vec![changed],
        variables: Vec::new(),
        validations: denied.iter().map(|cause| validation(expression.clone(), cause.to_string())).collect(),
    })
}

/// Its binding, to all namespaces.
pub fn binding() -> ValidatingAdmissionPolicyBinding {
    policy::binding(NAME.to_owned(), "Deny", None)
}

/// CEL: the value of the label in a list, which is empty where there is none.
fn label_of(object: &str) -> String {
    let label = literal(ADMISSION_LABEL);
    format!(
        "(has({object}.metadata.labels) && {label} in {object}.metadata.labels ? \
         [{object}.metadata.labels[{label}]] : [])"
    )
}

fn namespaces() -> RuleWithOperations {
    let list = |words: &[&str]| Some(words.iter().map(|word| (*word).to_owned()).collect());
    RuleWithOperations {
        api_groups: list(&[""]),
        api_versions: list(&["v1"]),
        operations: list(&["CREATE", "UPDATE"]),
        resources: list(&RESOURCES),
        scope: Some("Cluster".to_owned()),
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
