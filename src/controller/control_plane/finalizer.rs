//! Decides the patches that put our finalizer on an object and take it off again.
//! It holds an object only while there is something outside its namespace to clean up.

use crds::well_known::finalizer::CONTROL_PLANE as FINALIZER;
use json_patch::Patch;
use serde_json::{Value, from_value, json};

/// Whether the object is held by us.
pub fn is_held(object: &Value) -> bool {
    names(object).any(|name| name == FINALIZER)
}

fn names(object: &Value) -> impl Iterator<Item = &str> {
    let list = object.pointer("/metadata/finalizers").and_then(Value::as_array);
    list.into_iter().flatten().filter_map(Value::as_str)
}

/// What is said when the API server does not let us set or remove it.
pub fn refusal(error: &impl std::fmt::Display) -> String {
    format!("the finalizer {FINALIZER} is refused; allow the operator to set and remove it: {error}")
}

/// The patch that holds the object; it fails if the object changed since it was read.
pub fn hold(object: &Value) -> Patch {
    patch(object, names(object).chain([FINALIZER]).collect())
}

/// The patch that lets it go; it fails if the object changed since it was read.
pub fn release(object: &Value) -> Patch {
    patch(object, names(object).filter(|name| *name != FINALIZER).collect())
}

fn patch(object: &Value, finalizers: Vec<&str>) -> Patch {
    let version = &object["metadata"]["resourceVersion"];
    let operations = json!([
        {"op": "test", "path": "/metadata/resourceVersion", "value": version},
        {"op": "add", "path": "/metadata/finalizers", "value": finalizers},
    ]);
    from_value(operations).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ours_comes_and_goes_and_those_of_others_stay() {
        let mut object = json!({"metadata": {"resourceVersion": "7", "finalizers": ["other"]}});
        assert!(!is_held(&object));
        let held = hold(&object);
        json_patch::patch(&mut object, &held).unwrap();
        assert!(is_held(&object));
        let released = release(&object);
        json_patch::patch(&mut object, &released).unwrap();
        assert_eq!(object["metadata"]["finalizers"], json!(["other"]));
        let stale = json!({"metadata": {"resourceVersion": "6"}});
        assert!(
            json_patch::patch(&mut object, &hold(&stale)).is_err(),
            "an object that changed is not touched"
        );
    }
}
