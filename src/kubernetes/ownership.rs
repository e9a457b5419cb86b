//! Decides whose an object is, by the owner that Kubernetes itself goes by.
//! Labels and annotations, which anybody may write on anything, are not looked at.

use serde_json::Value;

/// Whether an object is controlled by the one of this uid.
pub(crate) fn is_controlled_by(live: &Value, uid: &str) -> bool {
    let owners = live.pointer("/metadata/ownerReferences").and_then(Value::as_array);
    owners.into_iter().flatten().any(|owner| owner["uid"] == uid && owner["controller"] == true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_controller_of_an_object_is_known_by_uid() {
        let live = json!({"metadata": {"ownerReferences": [{"uid": "a", "controller": true}, {"uid": "b"}]}});
        assert!(is_controlled_by(&live, "a"));
        assert!(!is_controlled_by(&live, "b") && !is_controlled_by(&json!({}), "a"));
    }
}
