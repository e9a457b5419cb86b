//! Decides what a derived schema loses and gains before it is shipped: null, prose of core types, line breaks.
//! Never changes which of our fields exist.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    JSONSchemaProps, JSONSchemaPropsOrArray, JSONSchemaPropsOrBool,
};

use super::EMBEDDED_CORE_PROPERTIES;

/// What the API server of Kubernetes itself accepts as a quantity, when written as a string.
const QUANTITY: &str = r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$";

/// Finishes the schema of one version of a kind.
pub(super) fn finish(root: &mut JSONSchemaProps) {
    everywhere(root, &mut |schema| {
        forbid_null(schema);
        schema.title = None;
        schema.description = schema.description.take().map(|text| in_one_line(&text));
    });
    everywhere(root, &mut |schema| {
        for (name, property) in schema.properties.iter_mut().flatten() {
            if EMBEDDED_CORE_PROPERTIES.contains(&name.as_str()) {
                trim_core_type(property);
            }
        }
    });
}

/// Without `nullable` the API server drops an explicit null, so that absent is the only way to be absent.
fn forbid_null(schema: &mut JSONSchemaProps) {
    schema.nullable = None;
    if let Some(values) = &mut schema.enum_ {
        values.retain(|value| !value.0.is_null());
    }
}

/// A doc comment is wrapped for its source file; `kubectl explain` wraps for its terminal.
fn in_one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Keeps the structure of a core type and our description of the field, and drops the rest of the prose.
fn trim_core_type(property: &mut JSONSchemaProps) {
    let ours = property.description.take();
    everywhere(property, &mut |schema| {
        if is_quantity(schema) {
            schema.pattern = Some(QUANTITY.into());
        }
        keep_copied_metadata(schema);
    });
    everywhere(property, &mut |schema| schema.description = None);
    property.description = ours;
}

/// A quantity in a map has no other mark than its description.
fn is_quantity(schema: &JSONSchemaProps) -> bool {
    schema.x_kubernetes_int_or_string == Some(true)
        && schema.description.as_deref().is_some_and(|text| text.starts_with("Quantity is"))
}

/// Of the metadata of a claim template Kubernetes copies labels and annotations and refuses the rest.
fn keep_copied_metadata(schema: &mut JSONSchemaProps) {
    let template =
        schema.properties.as_mut().and_then(|properties| properties.get_mut("volumeClaimTemplate"));
    let metadata = template.and_then(|template| template.properties.as_mut()?.get_mut("metadata"));
    if let Some(kept) = metadata.and_then(|metadata| metadata.properties.as_mut()) {
        kept.retain(|name, _| matches!(name.as_str(), "labels" | "annotations"));
    }
}

/// Visits a schema and all schemas inside it, outermost first.
fn everywhere(schema: &mut JSONSchemaProps, visit: &mut impl FnMut(&mut JSONSchemaProps)) {
    visit(schema);
    for inner in schema.properties.iter_mut().flat_map(|properties| properties.values_mut()) {
        everywhere(inner, visit);
    }
    match &mut schema.items {
        Some(JSONSchemaPropsOrArray::Schema(inner)) => everywhere(inner, visit),
        Some(JSONSchemaPropsOrArray::Schemas(inner)) => {
            inner.iter_mut().for_each(|inner| everywhere(inner, visit));
        }
        None => {}
    }
    if let Some(JSONSchemaPropsOrBool::Schema(inner)) = &mut schema.additional_properties {
        everywhere(inner, visit);
    }
    let combined = [&mut schema.all_of, &mut schema.any_of, &mut schema.one_of];
    for inner in combined.into_iter().flatten().flatten() {
        everywhere(inner, visit);
    }
}
