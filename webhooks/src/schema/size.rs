//! Decides whether an object is small enough to be looked at closely.
//! Never counts further than it has to.

use serde_json::Value;

/// Values a spec may consist of. The lists and maps of our kinds are bounded far below it, and what is above it could
/// only make us work.
pub(crate) const VALUES: usize = 50_000;

/// Whether the spec of an object consists of more values than anybody writes.
pub(crate) fn is_too_large(object: &Value) -> bool {
    let mut left = VALUES;
    object.get("spec").is_some_and(|spec| exhausts(spec, &mut left))
}

fn exhausts(value: &Value, left: &mut usize) -> bool {
    if *left == 0 {
        return true;
    }
    *left -= 1;
    match value {
        Value::Array(items) => items.iter().any(|item| exhausts(item, left)),
        Value::Object(map) => map.values().any(|item| exhausts(item, left)),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_limit_is_exact() {
        // The spec and its list are values too.
        let of = |items: usize| json!({"spec": {"extraArgs": vec![0; items]}});
        assert!(!is_too_large(&of(VALUES - 2)));
        assert!(is_too_large(&of(VALUES - 1)));
        assert!(!is_too_large(&json!({"metadata": vec![0; VALUES]})));
    }
}
