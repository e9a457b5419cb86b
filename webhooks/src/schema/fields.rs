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

/// A path as `kubectl explain` takes it: without indices, and no further than to a map whose keys are anybody's.
pub(super) fn explained(kind: Kind, path: &str) -> String {
    let mut explained = Vec::new();
    let mut node = Some(root(kind));
    for key in path.split('[').next().unwrap_or_default().split('.') {
        let Some(next) = node.and_then(|node| node.named(key)) else { break };
        explained.push(key);
        node = Some(next);
    }
    explained.join(".")
}

/// The field that was probably meant by one that the kind does not have.
pub fn meant_by(kind: Kind, unknown: &str) -> Option<&'static str> {
    let pattern = field::pattern(unknown);
    let (parent, name) = pattern.rsplit_once('.').unwrap_or(("", &pattern));
    let node = if parent.is_empty() { root(kind) } else { *way(root(kind), parent)?.last()? };
    crate::text::nearest(name, node.names())
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
    fn a_misspelt_field_has_a_field_that_was_meant_beside_it() {
        let meant = |unknown: &str| meant_by(Kind::Provisioner, unknown);
        assert_eq!(meant("spec.controlPlaneref"), Some("controlPlaneRef"));
        assert_eq!(meant("spec.organisationName"), Some("organizationName"));
        assert_eq!(meant("spec.tag"), Some("tags"));
        assert_eq!(meant("spec.extraEnv[1].nam"), Some("name"));
        assert_eq!(meant("spce"), Some("spec"));
        for strange in ["spec.image.tag", "spec.tags[a.b]", "spec.completelyDifferent", "spec.a.b.c"] {
            assert_eq!(meant(strange), None, "{strange}");
        }
    }

    #[test]
    fn kubectl_is_asked_about_fields_and_never_about_keys_of_maps() {
        let explained = |path: &str| explained(Kind::Provisioner, path);
        assert_eq!(explained("spec.tags.owner"), "spec.tags");
        assert_eq!(explained("spec.tags[a.b]"), "spec.tags");
        assert_eq!(explained("spec.extraEnv[1].name"), "spec.extraEnv");
        assert_eq!(explained("spec.controlPlaneRef.name"), "spec.controlPlaneRef.name");
    }

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
