//! Decides which fields a kind has.
//! Never says what is in them.

use serde_json::Value;

use super::node::Node;
use super::root;
use crate::field;
use crate::kind::Kind;

/// The schemas on the way to a field such as `spec.certs.secrets[].name`.
fn way<'a>(root: &'a Node, pattern: &str) -> Option<Vec<&'a Node>> {
    let mut passed = vec![root];
    let mut node = root;
    for key in pattern.split('.') {
        let name = key.trim_end_matches("[]");
        node = node.property(name)?;
        passed.push(node);
        if name.len() < key.len() {
            node = node.items()?;
            passed.push(node);
        }
    }
    Some(passed)
}

/// Whether a kind has a field. Metadata is the same for all of them.
pub(crate) fn has_field(kind: Kind, pattern: &str) -> bool {
    pattern.starts_with("metadata") || way(root(kind), pattern).is_some()
}

/// Whether the schema bounds everything on the way to a field, so that CEL can tell what looking at it costs.
pub(crate) fn is_bounded(kind: Kind, pattern: &str) -> bool {
    way(root(kind), pattern).is_some_and(|nodes| nodes.iter().all(|node| node.bounded))
}

/// Paths of the fields of an object that its kind does not have and the API server would drop.
pub fn unknown_fields(kind: Kind, object: &Value) -> Vec<String> {
    let mut unknown = Vec::new();
    let root = root(kind);
    for (key, value) in object.as_object().into_iter().flatten() {
        match (key.as_str(), root.property(key)) {
            ("apiVersion" | "kind" | "metadata", _) => {}
            (_, Some(node)) => compare(node, value, key, &mut unknown),
            (_, None) => unknown.push(field::child("", key)),
        }
    }
    unknown
}

fn compare(node: &Node, value: &Value, path: &str, unknown: &mut Vec<String>) {
    if node.keeps_unknown {
        return;
    }
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                let path = field::child(path, key);
                match node.property(key) {
                    Some(node) => compare(node, value, &path, unknown),
                    None => unknown.push(path),
                }
            }
        }
        Value::Array(items) => {
            let Some(node) = node.items() else { return };
            for (index, item) in items.iter().enumerate() {
                compare(node, item, &format!("{path}[{index}]"), unknown);
            }
        }
        _ => {}
    }
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
