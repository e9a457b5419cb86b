//! Decides when the API server calls our admission webhooks, and what it does when it cannot.
//! Never holds a `caBundle`: the operator injects it, and Git must not know it.

use k8s_openapi::api::admissionregistration::v1::{
    MatchCondition, MutatingWebhook, MutatingWebhookConfiguration, RuleWithOperations, ServiceReference,
    ValidatingWebhook, ValidatingWebhookConfiguration, WebhookClientConfig,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement, ObjectMeta};

use crds::well_known::{GROUP, VERSION, annotation, label};

use crate::kind::Kind;

/// Path of the mutating webhook.
pub const MUTATE: &str = "/mutate";
/// Path of the validating webhook.
pub const VALIDATE: &str = "/validate";
/// Service in front of the webhooks.
pub(crate) const SERVICE: &str = "coder-k8s-webhooks";
/// Namespace that kustomize replaces.
pub(crate) const NAMESPACE: &str = "system";
/// Label of a namespace that turns admission off there, in an emergency.
pub(crate) const ADMISSION_LABEL: &str = crds::well_known::label::ADMISSION;
/// Value of [`ADMISSION_LABEL`] that does it.
pub(crate) const ADMISSION_DISABLED: &str = crds::well_known::label::ADMISSION_DISABLED;

/// The mutating webhooks, one entry a kind. Their names are permanent: an entry that disappeared from Git would leave
/// the injected bundle behind, and with it an invalid object.
pub fn mutating() -> MutatingWebhookConfiguration {
    let webhook = |kind: Kind| MutatingWebhook {
        name: format!("{}.defaults.{GROUP}", kind.plural()),
        admission_review_versions: vec!["v1".to_owned()],
        client_config: client_config(MUTATE),
        rules: Some(vec![rule_for(kind)]),
        failure_policy: Some("Fail".to_owned()),
        match_policy: Some("Equivalent".to_owned()),
        match_conditions: Some(match_conditions()),
        namespace_selector: Some(admitted_namespaces()),
        reinvocation_policy: Some("IfNeeded".to_owned()),
        side_effects: "None".to_owned(),
        timeout_seconds: Some(3),
        ..Default::default()
    };
    MutatingWebhookConfiguration {
        metadata: metadata("coder-k8s-defaults"),
        webhooks: Some(Kind::ALL.into_iter().map(webhook).collect()),
    }
}

/// The validating webhooks, one entry a kind. Their names are permanent as well.
pub fn validating() -> ValidatingWebhookConfiguration {
    let webhook = |kind: Kind| ValidatingWebhook {
        name: format!("{}.rules.{GROUP}", kind.plural()),
        admission_review_versions: vec!["v1".to_owned()],
        client_config: client_config(VALIDATE),
        rules: Some(vec![rule_for(kind)]),
        failure_policy: Some("Fail".to_owned()),
        match_policy: Some("Equivalent".to_owned()),
        match_conditions: Some(conditions_of_rules()),
        namespace_selector: Some(admitted_namespaces()),
        side_effects: "None".to_owned(),
        timeout_seconds: Some(5),
        ..Default::default()
    };
    ValidatingWebhookConfiguration {
        metadata: metadata("coder-k8s-rules"),
        webhooks: Some(Kind::ALL.into_iter().map(webhook).collect()),
    }
}

fn metadata(name: &str) -> ObjectMeta {
    let labels = [(label::INJECT_CA.to_owned(), "true".to_owned())];
    ObjectMeta { name: Some(name.to_owned()), labels: Some(labels.into()), ..Default::default() }
}

fn client_config(path: &str) -> WebhookClientConfig {
    WebhookClientConfig {
        service: Some(ServiceReference {
            name: SERVICE.to_owned(),
            namespace: NAMESPACE.to_owned(),
            path: Some(path.to_owned()),
            port: Some(443),
        }),
        ..Default::default()
    }
}

/// Creation and update of the objects themselves: no deletion, no status, no scale.
pub(super) fn rule_for(kind: Kind) -> RuleWithOperations {
    let one = |text: &str| Some(vec![text.to_owned()]);
    RuleWithOperations {
        api_groups: one(GROUP),
        api_versions: one(VERSION),
        operations: Some(vec!["CREATE".to_owned(), "UPDATE".to_owned()]),
        resources: one(kind.plural()),
        scope: Some("Namespaced".to_owned()),
    }
}

/// Nothing whose spec and acting annotations stay as they are: an outage of the operator then stops neither finalizers
/// nor the tools that apply the same manifest again and again. An object that is being deleted is looked at like any
/// other: what it says about addresses and Secrets still counts.
pub(super) fn match_conditions() -> Vec<MatchCondition> {
    spec_changed_or(&acting_annotation_changed())
}

/// The same, and whatever else is new among annotations of ours: one that is misspelt can be meant for one that acts.
fn conditions_of_rules() -> Vec<MatchCondition> {
    let quiet: Vec<&str> = annotation::READ.iter().filter(|read| !read.acts).map(|read| read.key).collect();
    let changed = format!(
        "has(object.metadata.annotations) && object.metadata.annotations.exists(name, name.startsWith('{GROUP}/') && \
         !(name in {}) && {})",
        crate::text::list(&quiet),
        is_new_annotation()
    );
    spec_changed_or(&changed)
}

fn spec_changed_or(condition: &str) -> Vec<MatchCondition> {
    let expression = format!(
        "request.operation == 'CREATE' || has(object.spec) != has(oldObject.spec) || \
         (has(object.spec) && object.spec != oldObject.spec) || {condition}"
    );
    vec![MatchCondition { name: "spec-changed".to_owned(), expression }]
}

/// CEL on an update: whether an annotation that acts is new or has another value.
pub(super) fn acting_annotation_changed() -> String {
    format!(
        "{}.exists(name, has(object.metadata.annotations) && name in object.metadata.annotations && {})",
        crate::text::list(&annotation::ACTING),
        is_new_annotation()
    )
}

/// CEL on an update: whether the annotation `name` was not there, or had another value.
fn is_new_annotation() -> &'static str {
    "!(has(oldObject.metadata.annotations) && name in oldObject.metadata.annotations && \
     oldObject.metadata.annotations[name] == object.metadata.annotations[name])"
}

/// Every namespace except those that have admission switched off by the break-glass label.
pub(super) fn admitted_namespaces() -> LabelSelector {
    LabelSelector {
        match_expressions: Some(vec![LabelSelectorRequirement {
            key: ADMISSION_LABEL.to_owned(),
            operator: "NotIn".to_owned(),
            values: Some(vec![ADMISSION_DISABLED.to_owned()]),
        }]),
        ..Default::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_bundle_is_shipped_and_every_entry_has_a_name_of_three_parts() {
        for webhook in mutating().webhooks.unwrap() {
            assert!(webhook.client_config.ca_bundle.is_none());
            assert!(webhook.name.split('.').count() >= 3, "{}", webhook.name);
        }
        for webhook in validating().webhooks.unwrap() {
            assert!(webhook.client_config.ca_bundle.is_none());
            assert_eq!(webhook.rules.unwrap()[0].operations.as_ref().unwrap(), &["CREATE", "UPDATE"]);
        }
    }
}
