//! Decides whether a value stands where it stood before, as the API server compares old and new.
//! Never compares items of a list whose items cannot be told apart.

use serde_json::Value;

/// Whether the value at a JSON pointer, or something around it, is the same in the old object.
/// The API server then tolerates what is wrong with it.
pub(super) fn unchanged(schema: &Value, old: Option<&Value>, new: &Value, pointer: &[&str]) -> bool {
    let (mut schema, mut old, mut new) = (Some(schema), old, new);
    for step in pointer {
        if old == Some(new) {
            return true;
        }
        let (Some(parent_schema), Some(parent)) = (schema, old) else {
            return false;
        };
        match new {
            Value::Array(items) => {
                let Some(item) = step.parse::<usize>().ok().and_then(|index| items.get(index)) else {
                    return false;
                };
                old = counterpart(parent_schema, parent, item);
                (schema, new) = (parent_schema.get("items"), item);
            }
            Value::Object(map) => {
                let Some(value) = map.get(*step) else {
                    return false;
                };
                old = parent.get(*step);
                (schema, new) = (super::fields::child_schema(schema, step), value);
            }
            _ => return false,
        }
    }
    old == Some(new)
}

/// The item of the old list with the same keys; only a list that declares keys has one.
fn counterpart<'a>(schema: &Value, old: &'a Value, item: &Value) -> Option<&'a Value> {
    let keys = schema.get("x-kubernetes-list-map-keys")?.as_array()?;
    let same = |candidate: &&Value| {
        keys.iter().filter_map(Value::as_str).all(|key| candidate.get(key) == item.get(key))
    };
    old.as_array()?.iter().find(same)
}
