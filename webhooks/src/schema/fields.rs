//! Decides which fields a kind has.
//! Never says what is in them.

use serde_json::Value;

use super::shipped;
use crate::field;
use crate::kind::Kind;

/// The schema below a property or an item.
fn below<'a>(schema: &'a Value, key: &str) -> Option<&'a Value> {
    let property = schema.get("properties").and_then(|properties| properties.get(key));
    property.or_else(|| schema.get("additionalProperties").filter(|inner| inner.is_object()))
}

/// The schemas on the way to a field such as `spec.certs.secrets[].name`.
fn way<'a>(root: &'a Value, pattern: &str) -> Option<Vec<&'a Value>> {
    let mut passed = vec![root];
    let mut schema = root;
    for key in pattern.split('.') {
        let name = key.trim_end_matches("[]");
        schema = below(schema, name)?;
        passed.push(schema);
        if name.len() < key.len() {
            schema = schema.get("items")?;
            passed.push(schema);
        }
    }
    Some(passed)
}

/// Whether a kind has a field. Metadata is the same for all of them.
pub(crate) fn has_field(kind: Kind, pattern: &str) -> bool {
    pattern.starts_with("metadata") || way(shipped(kind), pattern).is_some()
}

/// Whether the schema bounds everything on the way to a field, so that CEL can tell what looking at it costs.
pub(crate) fn is_bounded(kind: Kind, pattern: &str) -> bool {
    let bounded = |schema: &&Value| match schema.get("type").and_then(Value::as_str) {
        Some("string") => schema.get("maxLength").is_some() || schema.get("enum").is_some(),
        Some("array") => schema.get("maxItems").is_some(),
        Some("object") if schema.get("additionalProperties").is_some() => {
            schema.get("maxProperties").is_some()
        }
        _ => true,
    };
    way(shipped(kind), pattern).is_some_and(|schemas| schemas.iter().all(bounded))
}

/// Paths of the fields of an object that its kind does not have and the API server would drop.
pub fn unknown_fields(kind: Kind, object: &Value) -> Vec<String> {
    let mut unknown = Vec::new();
    let root = shipped(kind);
    for (key, value) in object.as_object().into_iter().flatten() {
        match (key.as_str(), below(root, key)) {
            ("apiVersion" | "kind" | "metadata", _) => {}
            (_, Some(schema)) => compare(schema, value, key, &mut unknown),
            (_, None) => unknown.push(field::child("", key)),
        }
    }
    unknown
}

fn compare(schema: &Value, value: &Value, path: &str, unknown: &mut Vec<String>) {
    if schema.get("x-kubernetes-preserve-unknown-fields") == Some(&Value::Bool(true)) {
        return;
    }
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                let path = field::child(path, key);
                match below(schema, key) {
                    Some(schema) => compare(schema, value, &path, unknown),
                    None => unknown.push(path),
                }
            }
        }
        Value::Array(items) => {
            let Some(schema) = schema.get("items") else { return };
            for (index, item) in items.iter().enumerate() {
                compare(schema, item, &format!("{path}[{index}]"), unknown);
            }
        }
        _ => {}
    }
}

/// The schema that an item or a property of a value has.
pub(super) fn child_schema<'a>(schema: Option<&'a Value>, key: &str) -> Option<&'a Value> {
    below(schema?, key)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn fields_are_found_through_lists_and_maps() {
        for field in ["spec.certs.secrets[].name", "spec.tls.secretNames[]", "spec.envFrom[].secretRef.name"]
        {
            assert!(has_field(Kind::ControlPlane, field), "{field}");
        }
        assert!(has_field(Kind::Provisioner, "spec.tags"));
        assert!(!has_field(Kind::Provisioner, "spec.tls.secretNames[]"));
        assert!(is_bounded(Kind::ControlPlane, "spec.certs.secrets[].name"));
        assert!(!is_bounded(Kind::ControlPlane, "spec.envFrom[].secretRef.name"));
    }

    #[test]
    fn unknown_fields_are_named_at_any_depth() {
        let object = json!({
            "apiVersion": "coder.com/v1alpha1", "kind": "CoderControlPlane", "metadata": {"name": "a"}, "extra": 1,
            "spec": {"imaeg": "x", "service": {"prot": 1}, "extraEnv": [{"name": "a"}, {"nam": "b"}], "nodeSelector": {"any/thing": "x"}},
        });
        let unknown = unknown_fields(Kind::ControlPlane, &object);
        assert_eq!(unknown, ["extra", "spec.extraEnv[1].nam", "spec.imaeg", "spec.service.prot"]);
    }
}
