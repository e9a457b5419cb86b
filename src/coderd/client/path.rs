//! A name that others chose as a part of a URL, escaped as Go escapes it: coderd's router looks for any other spelling as
//! if the per-cent signs were part of the name.
//! It never lets a name reach beyond its own place, and says so instead of asking for another thing.

use std::fmt::Write as _;

/// Bytes: more than anything of ours is called in coderd.
const LONGEST: usize = 1024;
/// What Go leaves as it is in a path, besides letters, digits and the slash.
const PLAIN_IN_PATHS: &[u8] = b"-_.~$&+,:;=@";
/// What everybody leaves as it is.
const PLAIN_IN_QUERIES: &[u8] = b"-_.~";

/// One segment of a path; none for a name that cannot be one. coderd cannot be asked for a name with a slash.
pub(super) fn segment(name: &str) -> Option<String> {
    let is_segment = !matches!(name, "" | "." | "..") && !name.contains('/') && name.len() <= LONGEST;
    is_segment.then(|| escaped(name, PLAIN_IN_PATHS))
}

/// A value of a query.
pub(super) fn query_value(value: &str) -> String {
    escaped(value, PLAIN_IN_QUERIES)
}

fn escaped(text: &str, plain: &[u8]) -> String {
    let mut escaped = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || plain.contains(&byte) {
            escaped.push(char::from(byte));
        } else {
            // Writing to a String cannot fail.
            let _ = write!(escaped, "%{byte:02X}");
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_escaped_as_go_does_and_stays_in_its_place() {
        for (name, path) in [
            ("eu-west_1.a~b", "eu-west_1.a~b"),
            ("a:b@c=d+e", "a:b@c=d+e"),
            ("a key", "a%20key"),
            ("aä", "a%C3%A4"),
            ("a?b#c%d", "a%3Fb%23c%25d"),
            ("a\nb\"c", "a%0Ab%22c"),
        ] {
            assert_eq!(segment(name).as_deref(), Some(path));
        }
        for name in ["", ".", "..", "a/b", "../users", &"n".repeat(1025)] {
            assert_eq!(segment(name), None, "{name}");
        }
    }

    #[test]
    fn a_value_of_a_query_cannot_begin_another_one() {
        assert_eq!(query_value(r#"{"a":"b&c=d+e"}"#), "%7B%22a%22%3A%22b%26c%3Dd%2Be%22%7D");
    }
}
