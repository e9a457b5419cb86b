//! Decides the schema that is built into the program: that of the types, without the descriptions that no check reads.
//! Deriving it takes longer than all checks of a manifest, so it is done once, by `make generate`.

use serde_json::Value;

use crate::kind::Kind;

/// The schema of a kind as its types have it now.
pub fn derived(kind: Kind) -> Value {
    let definition = crds::custom_resource_definition(kind.name());
    let version = definition.and_then(|definition| definition.spec.versions.into_iter().next());
    let root = version.and_then(|version| version.schema?.open_api_v3_schema);
    let mut schema = root.and_then(|root| serde_json::to_value(root).ok()).unwrap_or_default();
    undescribe(&mut schema);
    schema
}

/// Takes the descriptions out. A property may be called `description`: those stay.
fn undescribe(schema: &mut Value) {
    let Some(schema) = schema.as_object_mut() else { return };
    schema.remove("description");
    for (key, inner) in schema {
        match (key.as_str(), inner) {
            ("properties", Value::Object(properties)) => properties.values_mut().for_each(undescribe),
            ("items" | "additionalProperties" | "not", inner) => undescribe(inner),
            ("allOf" | "anyOf" | "oneOf", Value::Array(several)) => several.iter_mut().for_each(undescribe),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_built_in_is_what_the_types_say() {
        for kind in Kind::ALL {
            let built_in = super::super::shipped(kind);
            assert!(*built_in == derived(kind), "{kind:?}: run `make generate`");
        }
    }
}
