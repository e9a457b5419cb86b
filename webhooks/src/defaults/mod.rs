//! Decides what a manifest that is silent gets: written into the object for a few fields, computed for the rest.
//! Never touches a value that is there, a list, or anything that depends on the cluster or the clock.

mod complete;
mod summary;

use std::borrow::Cow;

use crds::well_known::default;
use json_patch::{AddOperation, Patch, PatchOperation, jsonptr::PointerBuf};
use serde_json::{Map, Value, json};

use crate::kind::Kind;

pub use complete::resolved;
pub use summary::status_resolved;

/// What the operator was started with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Image of a control plane or proxy whose manifest gives none.
    pub default_image: String,
}

impl Default for Config {
    fn default() -> Self {
        Self { default_image: default::IMAGE.to_owned() }
    }
}

/// The patch that writes the defaults into an object: absent map keys only, so that a second patch is empty and no
/// GitOps tool sees a difference.
pub fn defaults(kind: Kind, object: &Value, config: &Config) -> Patch {
    let mut operations = Vec::new();
    // Something that is not an object is for the schema to refuse.
    if object.is_object() {
        add_missing(&mut Vec::new(), Some(object), &written(kind, config), &mut operations);
    }
    Patch(operations)
}

/// The object with the defaults written into it.
pub fn defaulted<'a>(kind: Kind, object: &'a Value, config: &Config) -> Cow<'a, Value> {
    patched(object, &defaults(kind, object, config))
}

/// The object with a patch of [`defaults`] applied to it.
pub fn patched<'a>(object: &'a Value, patch: &Patch) -> Cow<'a, Value> {
    if patch.0.is_empty() {
        return Cow::Borrowed(object);
    }
    let mut result = object.clone();
    apply(&mut result, patch);
    Cow::Owned(result)
}

/// Applies a patch of [`defaults`]. It only adds keys to maps that are there, which cannot fail; if it did, the object
/// would stay as it was.
pub fn apply(object: &mut Value, patch: &Patch) {
    let _ = json_patch::patch(object, patch);
}

/// The defaults that are written into an object.
fn written(kind: Kind, config: &Config) -> Value {
    let service = json!({"port": default::SERVICE_PORT, "type": default::SERVICE_TYPE});
    match kind {
        // The image of a provisioner follows its control plane: written down, it would stop following.
        Kind::Provisioner => json!({"spec": {"replicas": default::REPLICAS}}),
        Kind::ControlPlane | Kind::WorkspaceProxy => json!({"spec": {
            "image": config.default_image,
            "replicas": default::REPLICAS,
            "service": service,
        }}),
    }
}

/// Adds what is missing below `path`. A key that is there is only entered if it is a map on both sides: null, an
/// empty text and a value of another type all stay.
fn add_missing(
    path: &mut Vec<String>,
    given: Option<&Value>,
    wanted: &Value,
    operations: &mut Vec<PatchOperation>,
) {
    match (given, wanted) {
        (None, Value::Object(inner)) => {
            operations.push(add(path, Value::Object(Map::new())));
            let empty = Value::Object(Map::new());
            for (key, wanted) in inner {
                path.push(key.clone());
                add_missing(path, empty.get(key), wanted, operations);
                path.pop();
            }
        }
        (None, wanted) => operations.push(add(path, wanted.clone())),
        (Some(Value::Object(given)), Value::Object(wanted)) => {
            for (key, wanted) in wanted {
                path.push(key.clone());
                add_missing(path, given.get(key), wanted, operations);
                path.pop();
            }
        }
        (Some(_), _) => {}
    }
}

fn add(path: &[String], value: Value) -> PatchOperation {
    PatchOperation::Add(AddOperation { path: PointerBuf::from_tokens(path), value })
}

#[cfg(test)]
mod tests;
