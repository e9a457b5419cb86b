//! Decides which items of a list claim the same keys, where the schema says that keys are unique.
//! Never compares lists without keys.

use std::collections::BTreeSet;

use serde_json::Value;

use super::node::Node;

/// Paths of the items whose keys an earlier item already has.
pub(super) fn duplicates(root: &Node, object: &Value) -> Vec<String> {
    let mut found = Vec::new();
    if let Some(spec) = object.get("spec") {
        look(root.property("spec"), spec, &Place::Root, &mut found);
    }
    found
}

/// Where the search is. Written out only when something is found: mostly nothing is.
enum Place<'a> {
    Root,
    Key(&'a Self, &'a str),
    Item(&'a Self, usize),
}

impl Place<'_> {
    fn path(&self) -> String {
        match self {
            Self::Root => "spec".to_owned(),
            Self::Key(above, key) => crate::field::child(&above.path(), key),
            Self::Item(above, index) => format!("{}[{index}]", above.path()),
        }
    }
}

fn look(node: Option<&Node>, value: &Value, place: &Place<'_>, found: &mut Vec<String>) {
    let Some(node) = node else { return };
    match value {
        Value::Object(map) => {
            for (key, value) in map.iter().filter(|(_, value)| value.is_object() || value.is_array()) {
                look(node.property(key), value, &Place::Key(place, key), found);
            }
        }
        Value::Array(items) => {
            let again = repeated(node.keys(), items);
            for (index, item) in items.iter().enumerate().filter(|(_, item)| item.is_object()) {
                let place = Place::Item(place, index);
                look(node.items(), item, &place, found);
                if again.contains(&index) {
                    found.push(place.path());
                }
            }
        }
        _ => {}
    }
}

fn repeated(keys: &[Box<str>], items: &[Value]) -> BTreeSet<usize> {
    if keys.is_empty() {
        return BTreeSet::new();
    }
    let (mut texts, mut others) = (BTreeSet::new(), BTreeSet::new());
    let mut again = |item| match only_text(keys, item) {
        Some(text) => !texts.insert(text),
        None => identity(keys, item).is_some_and(|identity| !others.insert(identity)),
    };
    items.iter().enumerate().filter(|(_, item)| again(item)).map(|(index, _)| index).collect()
}

/// The usual list has one key, and that is a text: it needs no copy.
fn only_text<'a>(keys: &[Box<str>], item: &'a Value) -> Option<&'a str> {
    let [key] = keys else { return None };
    item.get(&**key)?.as_str()
}

fn identity(keys: &[Box<str>], item: &Value) -> Option<Vec<String>> {
    keys.iter().map(|key| Some(item.get(&**key)?.to_string())).collect()
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
        let found = duplicates(super::super::root(Kind::ControlPlane), &object);
        assert_eq!(found, ["spec.imagePullSecrets[2]", "spec.volumeMounts[1]"]);
    }
}
