//! Decides the patches that put a finalizer on an object and take it off again. It is given its name.
//! It holds an object only while there is something outside its namespace to clean up.

use json_patch::Patch;
use serde_json::{Value, from_value, json};

/// A finalizer of ours.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Finalizer(pub &'static str);

impl Finalizer {
    /// Whether it is on the object.
    pub(crate) fn is_on(self, object: &Value) -> bool {
        names(object).any(|name| name == self.0)
    }

    /// What is said when the API server does not let us set or remove it.
    pub(crate) fn refusal(self, error: &impl std::fmt::Display) -> String {
        format!("the finalizer {} is refused; allow the operator to set and remove it: {error}", self.0)
    }

    /// The patch that adds it; it fails if the object changed since it was read.
    pub(crate) fn add(self, object: &Value) -> Patch {
        patch(object, names(object).chain([self.0]).collect())
    }

    /// The patch that removes it; it fails if the object changed since it was read.
    pub(crate) fn remove(self, object: &Value) -> Patch {
        patch(object, names(object).filter(|name| *name != self.0).collect())
    }
}

fn names(object: &Value) -> impl Iterator<Item = &str> {
    let list = object.pointer("/metadata/finalizers").and_then(Value::as_array);
    list.into_iter().flatten().filter_map(Value::as_str)
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

    const OURS: Finalizer = Finalizer("coder.com/ours");

    #[test]
    fn ours_comes_and_goes_and_those_of_others_stay() {
        let mut object = json!({"metadata": {"resourceVersion": "7", "finalizers": ["other"]}});
        assert!(!OURS.is_on(&object));
        let added = OURS.add(&object);
        json_patch::patch(&mut object, &added).unwrap();
        assert!(OURS.is_on(&object));
        let removed = OURS.remove(&object);
        json_patch::patch(&mut object, &removed).unwrap();
        assert_eq!(object["metadata"]["finalizers"], json!(["other"]));
        let stale = json!({"metadata": {"resourceVersion": "6"}});
        assert!(
            json_patch::patch(&mut object, &OURS.add(&stale)).is_err(),
            "an object that changed is not touched"
        );
    }
}
