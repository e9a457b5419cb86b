//! Decides how the schema of a CustomResourceDefinition reads as plain JSON Schema.
//! Never checks what the API server checks by other means: metadata, status, unknown fields, CEL.

use serde_json::{Map, Value, json};

/// Keywords that mean the same in both.
const KEPT: [&str; 16] = [
    "type",
    "enum",
    "required",
    "pattern",
    "minimum",
    "maximum",
    "multipleOf",
    "minLength",
    "maxLength",
    "minItems",
    "maxItems",
    "minProperties",
    "maxProperties",
    "allOf",
    "anyOf",
    "oneOf",
];

/// The JSON Schema of a whole object.
pub(super) fn json_schema(shipped: &Value) -> Value {
    let spec = shipped.pointer("/properties/spec").map(converted).unwrap_or_else(|| json!({}));
    json!({"type": "object", "properties": {"spec": spec}})
}

fn converted(schema: &Value) -> Value {
    let Some(given) = schema.as_object() else {
        return schema.clone();
    };
    let mut result: Map<String, Value> = given
        .iter()
        .filter(|(key, _)| KEPT.contains(&key.as_str()))
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect();
    if given.get("x-kubernetes-int-or-string") == Some(&json!(true)) {
        result.insert("type".into(), json!(["integer", "string"]));
    }
    allow_null(given, &mut result);
    bound_integer(given, &mut result);
    if let Some(properties) = given.get("properties").and_then(Value::as_object) {
        let properties: Map<String, Value> =
            properties.iter().map(|(name, schema)| (name.clone(), converted(schema))).collect();
        result.insert("properties".into(), Value::Object(properties));
    }
    for key in ["items", "additionalProperties"] {
        if let Some(inner) = given.get(key) {
            result.insert(key.into(), converted(inner));
        }
    }
    Value::Object(result)
}

fn allow_null(given: &Map<String, Value>, result: &mut Map<String, Value>) {
    if given.get("nullable") != Some(&json!(true)) {
        return;
    }
    let types = match result.remove("type") {
        Some(Value::Array(types)) => types,
        Some(single) => vec![single],
        None => return,
    };
    result.insert("type".into(), types.into_iter().chain([json!("null")]).collect());
}

/// The API server reads the format of an integer as its range.
fn bound_integer(given: &Map<String, Value>, result: &mut Map<String, Value>) {
    let range = match given.get("format").and_then(Value::as_str) {
        Some("int32") => [i64::from(i32::MIN), i64::from(i32::MAX)],
        Some("int64") => [i64::MIN, i64::MAX],
        _ => return,
    };
    for (key, bound) in ["minimum", "maximum"].into_iter().zip(range) {
        result.entry(key).or_insert_with(|| json!(bound));
    }
}
