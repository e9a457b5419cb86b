//! Decides which rules the CustomResourceDefinitions hold themselves, as CEL on the fields they are about.
//! Never adds a rule whose cost the schema does not bound.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, JSONSchemaProps, ValidationRule,
};

use super::expression::in_definition;
use crate::kind::Kind;
use crate::rules::{self, CelCheck, Layer, Rule, Scope};

/// The definitions with the rules of the table in them. A rule that the types already carry is replaced by the one of
/// the table, so that its message has a code.
pub fn with_rules(definitions: Vec<CustomResourceDefinition>) -> Vec<CustomResourceDefinition> {
    let mut definitions = definitions;
    for definition in &mut definitions {
        let Some(kind) = Kind::from_name(&definition.spec.names.kind) else { continue };
        for version in &mut definition.spec.versions {
            let root = version.schema.as_mut().and_then(|schema| schema.open_api_v3_schema.as_mut());
            if let Some(root) = root {
                add_rules(kind, root);
            }
        }
    }
    definitions
}

fn add_rules(kind: Kind, root: &mut JSONSchemaProps) {
    let held: Vec<(&Rule, CelCheck)> = held(kind).collect();
    for (_, check) in &held {
        if let Some(schema) = schema_at(root, &check.at) {
            schema.x_kubernetes_validations = None;
        }
    }
    for (rule, check) in &held {
        if let Some(schema) = schema_at(root, &check.at) {
            schema.x_kubernetes_validations.get_or_insert_default().push(validation(rule, check));
        }
    }
}

/// The rules a definition holds, with their CEL. A test of a text is only as cheap as the text is short, and a test of
/// a list would refuse every change of a list that has an old problem in it.
pub(super) fn held(kind: Kind) -> impl Iterator<Item = (&'static Rule, CelCheck)> {
    let fit = move |rule: &Rule, check: &CelCheck| {
        check.field.is_empty() || matches!(rule.scope_of_check(kind, check), Scope::Value(_))
    };
    rules::rules().filter(|rule| rule.lives_in(Layer::Cel)).flat_map(move |rule| {
        rule.cel_checks(kind)
            .into_iter()
            .filter(move |check| fit(rule, check))
            .map(move |check| (rule, check))
    })
}

fn validation(rule: &Rule, check: &CelCheck) -> ValidationRule {
    let (text, looks_back) = in_definition(rule, check);
    ValidationRule {
        rule: text,
        message: Some(format!("{}: {}; {}", rule.code, rule.title, rule.fix)),
        optional_old_self: looks_back.then_some(true),
        ..Default::default()
    }
}

/// The schema at a path without lists.
fn schema_at<'a>(root: &'a mut JSONSchemaProps, path: &str) -> Option<&'a mut JSONSchemaProps> {
    let mut schema = root;
    for key in path.split('.').filter(|key| !key.is_empty()) {
        schema = schema.properties.as_mut()?.get_mut(key)?;
    }
    Some(schema)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all_validations(schema: &JSONSchemaProps, found: &mut Vec<ValidationRule>) {
        found.extend(schema.x_kubernetes_validations.iter().flatten().cloned());
        schema.properties.iter().flatten().for_each(|(_, inner)| all_validations(inner, found));
    }

    #[test]
    fn every_rule_of_a_definition_has_a_code_and_none_is_lost() {
        let count = |definitions: &[CustomResourceDefinition]| {
            let mut found = Vec::new();
            for definition in definitions {
                let root =
                    definition.spec.versions[0].schema.as_ref().unwrap().open_api_v3_schema.as_ref().unwrap();
                all_validations(root, &mut found);
            }
            found
        };
        let shipped = crds::custom_resource_definitions();
        let before = count(&shipped);
        let after = count(&with_rules(shipped));
        assert!(after.len() > before.len());
        for rule in &after {
            assert!(rule.message.as_ref().unwrap().starts_with("CODER"), "{rule:?}");
            assert!(!rule.message.as_ref().unwrap().contains("mmutable"), "{rule:?}");
        }
    }

    #[test]
    fn names_are_judged_on_creation_only() {
        let definitions = with_rules(crds::custom_resource_definitions());
        let root =
            definitions[1].spec.versions[0].schema.as_ref().unwrap().open_api_v3_schema.as_ref().unwrap();
        let rules = root.x_kubernetes_validations.as_ref().unwrap();
        let length =
            rules.iter().find(|rule| rule.message.as_ref().unwrap().starts_with("CODER0101")).unwrap();
        assert_eq!(length.rule, "oldSelf.hasValue() || (size(self.metadata.name) <= 51 ? 0 : 1) == 0");
        assert_eq!(length.optional_old_self, Some(true));
    }
}
