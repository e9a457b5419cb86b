//! Decides whether an object fits the schema of its kind, as the API server would.
//! Never judges what only makes sense between fields: that is for the rules.

mod convert;
mod derived;
mod duplicates;
mod fields;
mod nulls;
mod size;
mod unchanged;
mod violation;

use std::sync::LazyLock;

use jsonschema::Validator;
use serde_json::Value;

use crate::kind::Kind;

pub use derived::derived;
pub use fields::unknown_fields;

pub(crate) use fields::{has_field, is_bounded};
pub(crate) use nulls::without_nulls;
pub(crate) use size::{Size, UNREAD, is_too_large};
pub(crate) use violation::{Violation, violations};

/// The schema of one kind, as shipped and as the validator reads it.
struct Schema {
    /// `openAPIV3Schema` of the CustomResourceDefinition, without its descriptions.
    shipped: Value,
    /// None only where the schema itself is broken, which a test rules out.
    validator: Option<Validator>,
}

impl Schema {
    fn of(kind: Kind) -> Self {
        let text = match kind {
            Kind::ControlPlane => include_str!("../../schemas/codercontrolplane.json"),
            Kind::Provisioner => include_str!("../../schemas/coderprovisioner.json"),
            Kind::WorkspaceProxy => include_str!("../../schemas/coderworkspaceproxy.json"),
        };
        let shipped = serde_json::from_str(text).unwrap_or_default();
        let validator = jsonschema::validator_for(&convert::json_schema(&shipped)).ok();
        Self { shipped, validator }
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

/// `openAPIV3Schema` of a kind without its descriptions, read once for everybody.
pub fn shipped(kind: Kind) -> &'static Value {
    &Schema::for_kind(kind).shipped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_has_a_schema_that_compiles() {
        for kind in Kind::ALL {
            let schema = Schema::for_kind(kind);
            assert!(schema.shipped.get("properties").is_some(), "{kind:?}");
            assert!(schema.validator.is_some(), "{kind:?}");
        }
    }
}
