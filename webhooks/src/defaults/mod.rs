//! Decides what a manifest that is silent gets: written into the object for a few fields, computed for the rest.
//! Never touches a value that is there, a list, or anything that depends on the cluster or the clock.

mod address;
mod complete;
mod summary;

use std::borrow::Cow;

use crds::shared::ServiceSpec;
use crds::well_known::default;
use json_patch::{AddOperation, Patch, PatchOperation, jsonptr::PointerBuf};
use serde_json::{Map, Value, json};

use crate::field;
use crate::kind::Kind;
use crate::registration::Registration;

pub(crate) use address::proxy_addresses;
pub use address::{ACCESS_URL, HTTPS, access_url, cluster_url, serves_tls, service_port};
pub use complete::resolved;
pub use summary::status_resolved;

/// What the operator was started with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Image of a control plane or proxy whose manifest gives none.
    pub default_image: String,
    /// The DNS domain of the cluster, which the address of every Service ends with.
    pub cluster_domain: String,
}

impl Default for Config {
    fn default() -> Self {
        Self { default_image: default::IMAGE.to_owned(), cluster_domain: default::CLUSTER_DOMAIN.to_owned() }
    }
}

/// The patch that writes the defaults into an object: absent map keys only, so that a second patch is empty and no
/// GitOps tool sees a difference. An object that replaces an old one keeps the replicas it had, and the image unless it
/// follows that of a control plane.
pub fn defaults(kind: Kind, object: &Value, old: Option<&Value>, config: &Config) -> Patch {
    let mut operations = Vec::new();
    // Something that is not an object is for the schema to refuse.
    if object.is_object() {
        add_missing(&mut Vec::new(), Some(object), &written(kind, object, old, config), &mut operations);
    }
    Patch(operations)
}

/// The object with the defaults written into it.
pub fn defaulted<'a>(kind: Kind, object: &'a Value, old: Option<&Value>, config: &Config) -> Cow<'a, Value> {
    patched(object, &defaults(kind, object, old, config))
}

/// The object with a patch of [`defaults`] applied to it.
pub(crate) fn patched<'a>(object: &'a Value, patch: &Patch) -> Cow<'a, Value> {
    if patch.0.is_empty() {
        return Cow::Borrowed(object);
    }
    let mut result = object.clone();
    apply(&mut result, patch);
    Cow::Owned(result)
}

/// Applies a patch of [`defaults`]. It only adds keys to maps that are there, which cannot fail; if it did, the object
/// would stay as it was.
pub(crate) fn apply(object: &mut Value, patch: &Patch) {
    let _ = json_patch::patch(object, patch);
}

/// Whether an object that gives no image runs that of its control plane: every provisioner does, and a proxy that refers to
/// one. Written down, the image would stop following.
pub(crate) fn follows_control_plane(kind: Kind, object: &Value) -> bool {
    match kind {
        Kind::ControlPlane => false,
        Kind::Provisioner => true,
        Kind::WorkspaceProxy => {
            Registration::of(kind, object).is_some_and(Registration::is_with_control_plane)
        }
    }
}

/// The defaults that are written into an object.
fn written(kind: Kind, object: &Value, old: Option<&Value>, config: &Config) -> Value {
    let (image, replicas) = match old {
        None => (Some(json!(config.default_image)), Some(json!(default::REPLICAS))),
        Some(old) => kept(old),
    };
    let mut spec = Map::new();
    spec.extend(replicas.map(|replicas| ("replicas".to_owned(), replicas)));
    let image = image.filter(|_| !follows_control_plane(kind, object));
    spec.extend(image.map(|image| ("image".to_owned(), image)));
    if kind != Kind::Provisioner {
        let silent = ServiceSpec::default();
        let service = json!({"port": silent.port_or_default(), "type": silent.type_or_default()});
        spec.insert("service".to_owned(), service);
    }
    json!({ "spec": spec })
}

/// Image and replicas of the stored object. Where it has none, what runs is in the Deployment, which is not known
/// here: today's default could be another version, and the replicas may be an autoscaler's.
fn kept(old: &Value) -> (Option<Value>, Option<Value>) {
    let image =
        field::at(old, "spec.image").filter(|image| image.as_str().is_some_and(|text| !text.is_empty()));
    let replicas = field::at(old, "spec.replicas").filter(|replicas| replicas.is_i64());
    (image.cloned(), replicas.cloned())
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
