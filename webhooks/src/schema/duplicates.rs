//! Decides which items of a list claim the same keys, where the schema says that keys are unique.
//! Never compares lists without keys.

use std::collections::BTreeSet;

use serde_json::Value;

use super::fields::child_schema;

/// Paths of the items whose keys an earlier item already has.
pub(super) fn duplicates(schema: &Value, object: &Value) -> Vec<String> {
    let mut found = Vec::new();
    if let Some(spec) = object.get("spec") {
        look(child_schema(Some(schema), "spec"), spec, "spec", &mut found);
    }
    found
}

fn look(schema: Option<&Value>, value: &Value, path: &str, found: &mut Vec<String>) {
    let Some(schema) = schema else { return };
    match value {
        Value::Object(map) => {
            for (key, value) in map.iter().filter(|(_, value)| value.is_object() || value.is_array()) {
                look(child_schema(Some(schema), key), value, &crate::field::child(path, key), found);
            }
        }
        Value::Array(items) => {
            let again = repeated(schema, items);
            for (index, item) in items.iter().enumerate().filter(|(_, item)| item.is_object()) {
                let path = format!("{path}[{index}]");
                look(schema.get("items"), item, &path, found);
                if again.contains(&index) {
                    found.push(path);
                }
            }
        }
        _ => {}
    }
}

fn repeated(schema: &Value, items: &[Value]) -> BTreeSet<usize> {
    let Some(keys) = schema.get("x-kubernetes-list-map-keys").and_then(Value::as_array) else {
        return BTreeSet::new();
    };
    let mut seen = BTreeSet::new();
    let identity = |item: &Value| {
        let parts: Vec<String> =
            keys.iter().filter_map(|key| Some(item.get(key.as_str()?)?.to_string())).collect();
        (parts.len() == keys.len()).then_some(parts)
    };
    let mut again = |item: &Value| identity(item).is_some_and(|identity| !seen.insert(identity));
    items.iter().enumerate().filter(|(_, item)| again(item)).map(|(index, _)| index).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kind::Kind;
    use serde_json::json;

    #[test]
    fn items_with_the_same_keys_are_found() {
        let object = json!({"spec": {
            "imagePullSecrets": [{"name": "a"}, {"name": "b"}, {"name": "a"}],
            "volumeMounts": [{"name": "x", "mountPath": "/a"}, {"name": "y", "mountPath": "/a"}],
            "topologySpreadConstraints": [{"topologyKey": "z", "whenUnsatisfiable": "A"}, {"topologyKey": "z", "whenUnsatisfiable": "B"}],
            "tolerations": [{}, {}],
        }});
        let found = duplicates(super::super::shipped(Kind::ControlPlane), &object);
        assert_eq!(found, ["spec.imagePullSecrets[2]", "spec.volumeMounts[1]"]);
    }
}
