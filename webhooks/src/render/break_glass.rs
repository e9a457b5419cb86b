//! Decides what holds in a namespace whose label keeps the webhooks out: one ValidatingAdmissionPolicy for all kinds,
//! which the API server answers alone. Never looks at what a change grants: it asks for the right to grant anything.

use k8s_openapi::api::admissionregistration::v1::{
    MatchResources, NamedRuleWithOperations, ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding,
    ValidatingAdmissionPolicyBindingSpec, ValidatingAdmissionPolicySpec, Validation, Variable,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};

use super::configurations::{
    ADMISSION_DISABLED, ADMISSION_LABEL, acting_annotation_changed, match_conditions, only_when,
};
use super::expression::literal;
use crate::authority::changes::harmless;
use crate::kind::Kind;
use crate::rules::{self, Layer, Rule};

/// Name of the policy and of its binding, before any prefix an overlay gives them.
pub const NAME: &str = "coder-k8s-break-glass";

/// Whoever passes could grant himself everything in the namespace anyway.
const MAY_ESCALATE: &str = "authorizer.group('rbac.authorization.k8s.io').resource('roles')\
                            .namespace(request.namespace).check('escalate').allowed()";

/// Whoever passes could grant himself everything in every namespace. CEL does not ask
/// namespace by namespace at a bearable cost, so that one question stands for all.
const MAY_ESCALATE_EVERYWHERE: &str = "authorizer.group('rbac.authorization.k8s.io').resource('roles')\
                                       .check('escalate').allowed()";

/// The policy.
pub fn policy() -> ValidatingAdmissionPolicy {
    let variables = [
        ("harmless", crate::text::list(&harmless().collect::<Vec<_>>())),
        ("new", spec_of("object")),
        ("old", format!("oldObject == null ? dyn({{}}) : {}", spec_of("oldObject"))),
        // What is not known to be harmless is not: a field of tomorrow is held without a change here.
        (
            "changed",
            "variables.new.filter(key, !(key in variables.harmless) && \
             !(key in variables.old && variables.old[key] == variables.new[key])) + \
             variables.old.filter(key, !(key in variables.harmless) && !(key in variables.new))"
                .to_owned(),
        ),
        (
            "held",
            format!(
                "request.operation == 'CREATE' || size(variables.changed) > 0 || {}",
                acting_annotation_changed()
            ),
        ),
        // Rights in other namespaces, new or with other rules.
        (
            "crosses",
            "(request.operation == 'CREATE' || 'rbac' in variables.changed) && has(variables.new.rbac) && \
             has(variables.new.rbac.workspaceNamespaces) && \
             variables.new.rbac.workspaceNamespaces.exists(name, name != request.namespace)"
                .to_owned(),
        ),
    ];
    let variables = variables.map(|(name, expression)| Variable { name: name.to_owned(), expression });
    ValidatingAdmissionPolicy {
        metadata: ObjectMeta { name: Some(NAME.to_owned()), ..Default::default() },
        spec: Some(ValidatingAdmissionPolicySpec {
            failure_policy: Some("Fail".to_owned()),
            match_constraints: Some(MatchResources {
                match_policy: Some("Equivalent".to_owned()),
                resource_rules: Some(Kind::ALL.into_iter().map(resource_rule).collect()),
                ..Default::default()
            }),
            match_conditions: Some(match_conditions()),
            variables: Some(variables.to_vec()),
            validations: rule().map(|rule| vec![validation(rule), crossing(rule)]),
            ..Default::default()
        }),
        ..Default::default()
    }
}

/// Its binding, to the namespaces with the label.
pub fn binding() -> ValidatingAdmissionPolicyBinding {
    let label = [(ADMISSION_LABEL.to_owned(), ADMISSION_DISABLED.to_owned())];
    let selector = LabelSelector { match_labels: Some(label.into()), ..Default::default() };
    ValidatingAdmissionPolicyBinding {
        metadata: ObjectMeta { name: Some(NAME.to_owned()), ..Default::default() },
        spec: Some(ValidatingAdmissionPolicyBindingSpec {
            policy_name: Some(NAME.to_owned()),
            validation_actions: Some(["Deny", "Audit"].map(str::to_owned).to_vec()),
            match_resources: Some(MatchResources {
                match_policy: Some("Equivalent".to_owned()),
                namespace_selector: Some(selector),
                ..Default::default()
            }),
            ..Default::default()
        }),
    }
}

/// The rule that lives here.
pub(super) fn rule() -> Option<&'static Rule> {
    rules::rules().find(|rule| rule.lives_in(Layer::BreakGlass))
}

/// The spec as a map whose keys can be walked; an absent one is empty.
fn spec_of(object: &str) -> String {
    format!("has({object}.spec) ? dyn({object}.spec) : dyn({{}})")
}

fn validation(rule: &Rule) -> Validation {
    let told = format!(
        ": you may not escalate roles.rbac.authorization.k8s.io in this namespace, which asks for it while its label \
         {ADMISSION_LABEL} is {ADMISSION_DISABLED}; {} ({})",
        rule.fix, rule.code
    );
    let place = "request.operation == 'CREATE' ? 'spec' : size(variables.changed) == 0 ? 'metadata.annotations' : \
                 variables.changed.map(key, 'spec.' + string(key)).join(', ')";
    Validation {
        expression: format!("!variables.held || {MAY_ESCALATE}"),
        message: Some(format!("spec{told}")),
        message_expression: Some(format!("({place}) + {}", literal(&told))),
        reason: Some("Forbidden".to_owned()),
    }
}

/// What the rights of other namespaces ask for beside it.
fn crossing(rule: &Rule) -> Validation {
    Validation {
        expression: format!("!variables.crosses || {MAY_ESCALATE_EVERYWHERE}"),
        message: Some(format!(
            "spec.rbac.workspaceNamespaces: you may not escalate roles.rbac.authorization.k8s.io in all namespaces, which \
             rights in other namespaces ask for while the label {ADMISSION_LABEL} of this one is {ADMISSION_DISABLED}; ask \
             somebody who may escalate roles in all namespaces to apply it, or remove the label from the namespace ({})",
            rule.code
        )),
        message_expression: None,
        reason: Some("Forbidden".to_owned()),
    }
}

fn resource_rule(kind: Kind) -> NamedRuleWithOperations {
    let rule = only_when(kind);
    NamedRuleWithOperations {
        api_groups: rule.api_groups,
        api_versions: rule.api_versions,
        operations: rule.operations,
        resources: rule.resources,
        scope: rule.scope,
        ..Default::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_policy_fails_closed_and_every_kind_is_held() {
        let spec = policy().spec.unwrap();
        assert_eq!(spec.failure_policy.as_deref(), Some("Fail"));
        let rules = spec.match_constraints.unwrap().resource_rules.unwrap();
        let held: Vec<String> = rules.into_iter().flat_map(|rule| rule.resources.unwrap()).collect();
        assert_eq!(held, Kind::ALL.map(Kind::plural));
        let validations = spec.validations.unwrap();
        assert_eq!(validations.len(), 2);
        for validation in validations {
            assert_eq!(validation.reason.as_deref(), Some("Forbidden"));
            assert!(validation.message.unwrap().contains("CODER0511"));
        }
        assert_eq!(binding().spec.unwrap().policy_name, policy().metadata.name);
    }
}
