//! Decides whether a value stands where it stood before, as the API server compares old and new.
//! Never compares items of a list whose items cannot be told apart.

use serde_json::Value;

use super::node::Node;

/// Whether the value at a JSON pointer, or something around it, is the same in the old object.
/// The API server then tolerates what is wrong with it.
pub(super) fn unchanged(root: &Node, old: Option<&Value>, new: &Value, pointer: &[&str]) -> bool {
    let (mut node, mut old, mut new) = (Some(root), old, new);
    for step in pointer {
        if old == Some(new) {
            return true;
        }
        let (Some(parent_node), Some(parent)) = (node, old) else {
            return false;
        };
        match new {
            Value::Array(items) => {
                let Some(item) = step.parse::<usize>().ok().and_then(|index| items.get(index)) else {
                    return false;
                };
                old = counterpart(parent_node.keys(), parent, item);
                (node, new) = (parent_node.items(), item);
            }
            Value::Object(map) => {
                let Some(value) = map.get(*step) else {
                    return false;
                };
                old = parent.get(*step);
                (node, new) = (parent_node.property(step), value);
            }
            _ => return false,
        }
    }
    old == Some(new)
}

/// The item of the old list with the same keys; only a list that declares keys has one.
fn counterpart<'a>(keys: &[Box<str>], old: &'a Value, item: &Value) -> Option<&'a Value> {
    let same = |candidate: &&Value| keys.iter().all(|key| candidate.get(&**key) == item.get(&**key));
    old.as_array()?.iter().find(same).filter(|_| !keys.is_empty())
}
