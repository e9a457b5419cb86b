//! Decides what holds in a namespace whose label keeps the webhooks out: one ValidatingAdmissionPolicy for all kinds,
//! which the API server answers alone. Never looks at what a change grants: it asks for the right to grant anything.

use k8s_openapi::api::admissionregistration::v1::{
    ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

use super::configurations::{
    ADMISSION_DISABLED, ADMISSION_LABEL, acting_annotation_changed, match_conditions, rule_for,
};
use super::policy::{self, Parts, may_escalate, validation, validation_at};
use crate::authorization::HARMLESS;
use crate::cause::{Cause, CauseReason};
use crate::kind::Kind;
use crate::rules::{self, Layer, Problem};

/// Name of the policy and of its binding, before any prefix an overlay gives them.
pub(crate) const NAME: &str = "coder-k8s-break-glass";

/// The policy.
pub fn policy() -> ValidatingAdmissionPolicy {
    let variables = [
        ("harmless", crate::text::list(&HARMLESS)),
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
    let field = "request.operation == 'CREATE' ? 'spec' : size(variables.changed) == 0 ? 'metadata.annotations' : \
                 variables.changed.map(key, 'spec.' + string(key)).join(', ')";
    // Whoever passes could grant himself everything in the namespace anyway.
    let held = format!("!variables.held || {}", may_escalate(Some("request.namespace")));
    // CEL does not ask namespace by namespace at a bearable cost, so that one question stands for all.
    let crosses = format!("!variables.crosses || {}", may_escalate(None));
    let held = held_back().map(|cause| validation_at(held, field, &cause));
    let crosses = crossing().map(|cause| validation(crosses, cause.to_string()));
    policy::policy(Parts {
        name: NAME.to_owned(),
        resources: Kind::ALL.into_iter().map(rule_for).collect(),
        namespaces: None,
        conditions: match_conditions(),
        variables: variables.map(|(name, expression)| (name.to_owned(), expression)).to_vec(),
        validations: held.into_iter().chain(crosses).collect(),
    })
}

/// Its binding, to the namespaces with the label.
pub fn binding() -> ValidatingAdmissionPolicyBinding {
    let label = [(ADMISSION_LABEL.to_owned(), ADMISSION_DISABLED.to_owned())];
    let labelled = LabelSelector { match_labels: Some(label.into()), ..Default::default() };
    policy::binding(NAME.to_owned(), "Deny", Some(labelled))
}

/// A denial by the rule that lives here, with a fix of its own where the one of the rule does not fit.
pub(super) fn denial(field: &str, problem: &str, fix: Option<&str>) -> Option<Cause> {
    let rule = rules::rules().find(|rule| rule.lives_in(Layer::BreakGlass))?;
    let problem = Problem::invalid(field, problem).because(CauseReason::Forbidden);
    Some(Cause::new(
        rule,
        match fix {
            Some(fix) => problem.fixed_by(fix),
            None => problem,
        },
    ))
}

/// The spec as a map whose keys can be walked; an absent one is empty.
fn spec_of(object: &str) -> String {
    format!("has({object}.spec) ? dyn({object}.spec) : dyn({{}})")
}

fn held_back() -> Option<Cause> {
    let problem = format!(
        "you may not escalate roles.rbac.authorization.k8s.io in this namespace, which is required while its label \
         {ADMISSION_LABEL} is {ADMISSION_DISABLED}"
    );
    denial("spec", &problem, None)
}

/// What the rights of other namespaces ask for beside it.
fn crossing() -> Option<Cause> {
    let problem = format!(
        "you may not escalate roles.rbac.authorization.k8s.io in all namespaces, which is required to grant permissions in \
         other namespaces while the label {ADMISSION_LABEL} of this one is {ADMISSION_DISABLED}"
    );
    let fix = "ask somebody who may escalate roles in all namespaces to apply it, or remove the label from the namespace";
    denial("spec.rbac.workspaceNamespaces", &problem, Some(fix))
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
