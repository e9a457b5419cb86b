//! Decides whether an object fits the schema of its kind, as the API server would.
//! Never judges what only makes sense between fields: that is for the rules.

mod convert;
mod derived;
mod duplicates;
mod fields;
mod node;
mod nulls;
mod size;
mod unchanged;
mod violation;

use std::sync::LazyLock;

use jsonschema::Validator;
use serde_json::Value;

use crate::kind::Kind;

pub use derived::derived;
pub use fields::{meant_by, unknown_fields};

pub(crate) use fields::{has_field, is_bounded};
use node::Node;
pub(crate) use nulls::without_nulls;
pub(crate) use size::{Size, UNREAD, is_too_large};
pub(crate) use violation::{Violation, violations};

/// The schema of one kind, as we look at it and as the validator reads it.
struct Schema {
    root: Node,
    /// None only where the schema itself is broken, which a test rules out.
    validator: Option<Validator>,
}

impl Schema {
    fn of(kind: Kind) -> Self {
        let shipped = read(kind);
        // Of this draft, since its own schema, which stays in memory, is a third of the newest one's; what we use means the
        // same in both.
        let validator = jsonschema::draft7::new(&convert::json_schema(&shipped)).ok();
        Self { root: Node::of(&shipped), validator }
    }

    fn for_kind(kind: Kind) -> &'static Self {
        // Each on its own: a short run that meets one kind builds one.
        static CONTROL_PLANE: LazyLock<Schema> = LazyLock::new(|| Schema::of(Kind::ControlPlane));
        static PROVISIONER: LazyLock<Schema> = LazyLock::new(|| Schema::of(Kind::Provisioner));
        static WORKSPACE_PROXY: LazyLock<Schema> = LazyLock::new(|| Schema::of(Kind::WorkspaceProxy));
        match kind {
            Kind::ControlPlane => &CONTROL_PLANE,
            Kind::Provisioner => &PROVISIONER,
            Kind::WorkspaceProxy => &WORKSPACE_PROXY,
        }
    }
}

/// What is looked at of the schema of a kind.
fn root(kind: Kind) -> &'static Node {
    &Schema::for_kind(kind).root
}

/// `openAPIV3Schema` of the CustomResourceDefinition, without its descriptions.
fn read(kind: Kind) -> Value {
    let text = match kind {
        Kind::ControlPlane => include_str!("../../schemas/codercontrolplane.json"),
        Kind::Provisioner => include_str!("../../schemas/coderprovisioner.json"),
        Kind::WorkspaceProxy => include_str!("../../schemas/coderworkspaceproxy.json"),
    };
    serde_json::from_str(text).unwrap_or_default()
}

/// `openAPIV3Schema` of a kind without its descriptions, read once for everybody who needs all of it. The operator never
/// does.
pub fn shipped(kind: Kind) -> &'static Value {
    static CONTROL_PLANE: LazyLock<Value> = LazyLock::new(|| read(Kind::ControlPlane));
    static PROVISIONER: LazyLock<Value> = LazyLock::new(|| read(Kind::Provisioner));
    static WORKSPACE_PROXY: LazyLock<Value> = LazyLock::new(|| read(Kind::WorkspaceProxy));
    match kind {
        Kind::ControlPlane => &CONTROL_PLANE,
        Kind::Provisioner => &PROVISIONER,
        Kind::WorkspaceProxy => &WORKSPACE_PROXY,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_has_a_schema_that_compiles() {
        for kind in Kind::ALL {
            let schema = Schema::for_kind(kind);
            assert!(schema.root.property("spec").is_some(), "{kind:?}");
            assert!(schema.validator.is_some(), "{kind:?}");
        }
    }
}
