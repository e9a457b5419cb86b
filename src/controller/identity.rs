//! Which object is meant: the names by which reconcilers know an object and what they make for it.
//! Nothing here reads an object or decides what belongs to whom.

use crate::kubernetes::{KindName, Target};
use crds::names::instance_label;
use crds::well_known::label;
use kube::core::ObjectMeta;

/// Namespace and name of an object.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ObjectKey {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

impl ObjectKey {
    /// The key of an object.
    pub fn of(metadata: &ObjectMeta) -> Self {
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        Self { namespace: text(&metadata.namespace), name: text(&metadata.name) }
    }

    /// The control plane that the labels of an object name. Labels hold 63 characters, so that a long name is shortened:
    /// compare it with [`Self::labelled`].
    pub fn of_labels(metadata: &ObjectMeta) -> Option<Self> {
        let labels = metadata.labels.as_ref()?;
        let label = |name: &str| labels.get(name).cloned();
        Some(Self { namespace: label(label::CONTROL_PLANE_NAMESPACE)?, name: label(label::CONTROL_PLANE)? })
    }

    /// The same object as labels name it.
    pub fn labelled(&self) -> Self {
        Self { namespace: self.namespace.clone(), name: instance_label(&self.name) }
    }

    /// Where calls about an object of this kind and name go.
    pub fn target(&self, kind: KindName) -> Target<'_> {
        Target::of(kind, &self.namespace, &self.name)
    }
}

/// An object of ours by its kind as well: two kinds may use one name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct OwnerKey {
    /// Its kind.
    pub kind: &'static str,
    /// Its namespace and name.
    pub key: ObjectKey,
}

/// The object that others are made for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Owner<'a> {
    /// Its namespace.
    pub namespace: &'a str,
    /// Its name.
    pub name: &'a str,
    /// Its uid, by which an earlier object of this name is told apart.
    pub uid: &'a str,
}

impl<'a> Owner<'a> {
    /// An object that was read.
    pub fn new(key: &'a ObjectKey, uid: &'a str) -> Self {
        Self { namespace: &key.namespace, name: &key.name, uid }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{from_value, json};

    #[test]
    fn a_long_name_is_found_by_its_label() {
        let key = ObjectKey { namespace: "team".to_owned(), name: "x".repeat(70) };
        let labels = json!({ "labels": { "coder.com/control-plane": key.labelled().name,
            "coder.com/control-plane-namespace": "team" } });
        assert_eq!(ObjectKey::of_labels(&from_value(labels).unwrap()), Some(key.labelled()));
        assert_eq!(ObjectKey::of_labels(&ObjectMeta::default()), None);
    }
}
