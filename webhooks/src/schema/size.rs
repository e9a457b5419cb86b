//! Decides whether a spec is small enough to be looked at closely, and to be kept.
//! Never counts further than it has to.

use std::io;

use serde_json::Value;

/// Values a spec may consist of to be read at all; what is above it could only make us work.
pub(crate) const UNREAD: usize = 50_000;
/// Values a spec may consist of to be stored: about twice what somebody needs who uses every list of our kinds to its end.
/// Each becomes a value of our types while it is reconciled, of which the largest takes 300 bytes.
pub(crate) const VALUES: usize = 6_000;
/// Bytes of a spec that is stored, as the API server writes it. Every replica keeps the specs of all objects.
pub(crate) const BYTES: usize = 128 * 1024;

/// How large a spec is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Size {
    values: usize,
    bytes: usize,
}

impl Size {
    /// The size of an object's spec.
    pub(crate) fn of(object: &Value) -> Self {
        let Some(spec) = object.get("spec") else { return Self { values: 0, bytes: 0 } };
        let mut written = Written(0);
        // Whatever is a value can be written, and counting never fails.
        let bytes = serde_json::to_writer(&mut written, spec).map_or(usize::MAX, |()| written.0);
        Self { values: count(spec), bytes }
    }

    /// What is wrong with it, if it is too large to be stored. The same with and without defaults, so that it is told once.
    pub(crate) fn problem(self) -> Option<String> {
        if self.bytes > BYTES {
            return Some(format!("takes more than {} KiB", BYTES / 1024));
        }
        (self.values > VALUES).then(|| format!("consists of more than {VALUES} values"))
    }

    /// Whether it is no larger than another.
    pub(crate) fn is_within(self, other: Self) -> bool {
        self.values <= other.values && self.bytes <= other.bytes
    }
}

/// Whether the spec of an object consists of more values than are read.
pub(crate) fn is_too_large(object: &Value) -> bool {
    let mut left = UNREAD;
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

fn count(value: &Value) -> usize {
    let mut left = usize::MAX;
    exhausts(value, &mut left);
    usize::MAX - left
}

/// Counts bytes as the API server writes them: it escapes what HTML would read, with six bytes each.
struct Written(usize);

impl io::Write for Written {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        let escaped = text.iter().filter(|byte| b"<>&".contains(byte)).count();
        self.0 += text.len() + 5 * escaped;
        Ok(text.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_limit_of_what_is_read_is_exact() {
        // The spec and its list are values too.
        let of = |items: usize| json!({"spec": {"extraArgs": vec![0; items]}});
        assert!(!is_too_large(&of(UNREAD - 2)));
        assert!(is_too_large(&of(UNREAD - 1)));
        assert!(!is_too_large(&json!({"metadata": vec![0; UNREAD]})));
    }

    #[test]
    fn bytes_are_those_that_the_api_server_writes() {
        let of =
            |argument: &str| Size::of(&json!({"spec": {"extraArgs": [argument]}, "metadata": {"a": "b"}}));
        assert_eq!(of("x"), Size { values: 3, bytes: r#"{"extraArgs":["x"]}"#.len() });
        assert_eq!(of("<&>\n").bytes, r#"{"extraArgs":["\u003c\u0026\u003e\n"]}"#.len());
        assert_eq!(Size::of(&json!({})), Size { values: 0, bytes: 0 });
    }

    #[test]
    fn the_limits_of_what_is_stored_are_exact() {
        let frame = r#"{"extraArgs":[""]}"#.len();
        let bytes =
            |bytes: usize| Size::of(&json!({"spec": {"extraArgs": ["x".repeat(bytes - frame)]}})).problem();
        assert_eq!(bytes(BYTES), None);
        assert_eq!(bytes(BYTES + 1).unwrap(), "takes more than 128 KiB");
        let values = |values: usize| Size::of(&json!({"spec": {"extraArgs": vec![0; values - 2]}})).problem();
        assert_eq!(values(VALUES), None);
        assert_eq!(values(VALUES + 1).unwrap(), "consists of more than 6000 values");
    }
}
