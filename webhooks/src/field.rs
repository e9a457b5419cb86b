//! Decides how a field is found in an object and how its path is written.
//! Never changes what it finds.

use serde_json::Value;

/// The value at a path without lists, for example `spec.key.name`.
pub(crate) fn at<'a>(object: &'a Value, path: &str) -> Option<&'a Value> {
    if path.is_empty() {
        return Some(object);
    }
    path.split('.').try_fold(object, |value, key| value.get(key))
}

/// The text at a path without lists.
pub(crate) fn text_at<'a>(object: &'a Value, path: &str) -> Option<&'a str> {
    at(object, path)?.as_str()
}

/// The items of the list at a path, or none.
pub(crate) fn items_at<'a>(object: &'a Value, path: &str) -> &'a [Value] {
    at(object, path).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// Every value that a pattern reaches. In a pattern, `[]` stands for each item of a list: `spec.certs.secrets[].name`.
pub(crate) fn each<'a>(object: &'a Value, pattern: &str, found: &mut dyn FnMut(&'a Value, &[usize])) {
    descend(object, pattern, &mut Vec::new(), found);
}

fn descend<'a>(
    value: &'a Value,
    pattern: &str,
    indices: &mut Vec<usize>,
    found: &mut dyn FnMut(&'a Value, &[usize]),
) {
    let Some((before, after)) = pattern.split_once('[') else {
        if let Some(value) = at(value, pattern) {
            found(value, indices);
        }
        return;
    };
    let after = after.trim_start_matches([']', '.']);
    for (index, item) in items_at(value, before).iter().enumerate() {
        indices.push(index);
        descend(item, after, indices, found);
        indices.pop();
    }
}

/// A pattern with its list indices filled in: `spec.certs.secrets[2].name`.
pub(crate) fn path(pattern: &str, indices: &[usize]) -> String {
    let mut parts = pattern.split("[]");
    let mut path = parts.next().unwrap_or_default().to_owned();
    for (part, index) in parts.zip(indices) {
        path.push_str(&format!("[{index}]{part}"));
    }
    path
}

/// A path with its list indices taken out again. Keys of maps stay.
pub(crate) fn pattern(path: &str) -> String {
    let mut pattern = String::with_capacity(path.len());
    for part in path.split_inclusive('[') {
        match part.split_once(']') {
            Some((index, rest)) if !index.is_empty() && index.bytes().all(|byte| byte.is_ascii_digit()) => {
                pattern.push(']');
                pattern.push_str(rest);
            }
            _ => pattern.push_str(part),
        }
    }
    pattern
}

/// Characters of a key that a path shows: more than the key of any label or annotation has.
const KEY: usize = 320;

/// A key as a path shows it in brackets: whole, unless it is longer than Kubernetes takes.
pub fn shown_key(key: &str) -> String {
    crate::text::shortened(key, KEY)
}

/// A path and one more key; a key that is not a plain word is put in brackets.
pub fn child(path: &str, key: &str) -> String {
    let plain = !key.is_empty()
        && key.len() <= KEY
        && key.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-');
    match (path.is_empty(), plain) {
        (true, true) => key.to_owned(),
        (false, true) => format!("{path}.{key}"),
        (_, false) => format!("{path}[{}]", shown_key(key)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn patterns_reach_every_item_and_give_back_its_path() {
        let object = json!({"spec": {"a": [{"b": ["x", "y"]}, {"b": ["z"]}, 3]}});
        let mut paths = Vec::new();
        each(&object, "spec.a[].b[]", &mut |value, indices| {
            paths.push((path("spec.a[].b[]", indices), value.as_str().unwrap_or_default().to_owned()));
        });
        let expected = [("spec.a[0].b[0]", "x"), ("spec.a[0].b[1]", "y"), ("spec.a[1].b[0]", "z")]
            .map(|(p, v)| (p.to_owned(), v.to_owned()));
        assert_eq!(paths, expected);
        assert_eq!(pattern("spec.a[1].b[0]"), "spec.a[].b[]");
        assert_eq!(pattern("spec.tags[a.b]"), "spec.tags[a.b]");
        assert_eq!(pattern("spec.env[12]"), "spec.env[]");
    }

    #[test]
    fn odd_keys_are_bracketed() {
        assert_eq!(child("spec.tags", "a.b"), "spec.tags[a.b]");
        assert_eq!(child("spec", "image"), "spec.image");
        assert_eq!(child("", "spec"), "spec");
        assert_eq!(child("spec.tags", ""), "spec.tags[]");
        let longest = format!("{}/{}", "a".repeat(253), "b".repeat(63));
        assert_eq!(
            child("spec.podLabels", &longest),
            format!("spec.podLabels[{longest}]"),
            "no label is cut"
        );
        assert!(child("spec.podLabels", &"a".repeat(100_000)).len() < 400);
    }
}
