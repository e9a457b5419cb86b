//! Decides which nulls the API server drops before anybody sees the object.
//! Never drops one the schema allows, nor one inside a list.

use std::borrow::Cow;

use serde_json::Value;

use super::node::Node;
use super::root;
use crate::kind::Kind;

/// The object without the nulls the API server drops; borrowed where there are none.
pub(crate) fn without_nulls(kind: Kind, object: &Value) -> Cow<'_, Value> {
    if !has_null(object) {
        return Cow::Borrowed(object);
    }
    let mut object = object.clone();
    drop_nulls(&mut object, Some(root(kind)));
    Cow::Owned(object)
}

fn has_null(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.iter().any(has_null),
        Value::Object(map) => map.values().any(has_null),
        _ => false,
    }
}

fn drop_nulls(value: &mut Value, node: Option<&Node>) {
    let below = |name: &str| node.and_then(|node| node.property(name));
    match value {
        Value::Object(map) => {
            map.retain(|key, value| !(value.is_null() && is_dropped(below(key))));
            for (key, value) in map {
                drop_nulls(value, below(key));
            }
        }
        Value::Array(items) => {
            let node = node.and_then(Node::items);
            items.iter_mut().for_each(|item| drop_nulls(item, node));
        }
        _ => {}
    }
}

/// A null where the schema allows none: with a default it becomes the default, which only `spec` and `status` have.
fn is_dropped(node: Option<&Node>) -> bool {
    node.is_some_and(|node| !node.nullable)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_null_field_is_as_good_as_none() {
        let object =
            json!({"spec": {"image": null, "service": {"port": null}, "extraArgs": [null], "tags": null}});
        let seen = without_nulls(Kind::ControlPlane, &object);
        assert_eq!(*seen, json!({"spec": {"service": {}, "extraArgs": [null], "tags": null}}));
        let clean = json!({"spec": {}});
        assert!(matches!(without_nulls(Kind::ControlPlane, &clean), Cow::Borrowed(_)));
    }
}
