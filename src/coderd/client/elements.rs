//! Takes a JSON list of objects apart while it arrives, so that no more of it is held than one object at a time.
//! It finds where an object begins and ends; what is in it is for whoever gets it to read, and to refuse.

use serde::Deserialize;

/// Bytes of one object of a list: of a key with more than a thousand daemons.
const LONGEST: usize = 1 << 20;

/// Why a list is not read to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unlisted {
    /// It is no list of objects, or one of them is not what was asked for.
    Malformed,
    /// An object, or what is kept of all of them, is larger than this.
    TooLarge(usize),
}

/// Where in the list the next byte is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum At {
    /// Before it.
    Start,
    /// So many letters into the word that Go writes for an empty list.
    Null(usize),
    /// Behind the bracket.
    First,
    /// Behind a comma.
    Next,
    /// Inside an object, so many brackets deep.
    Object { depth: usize, in_string: bool, is_escaped: bool },
    /// Behind an object.
    Behind,
    /// Behind the list.
    End,
}

const NULL: &[u8] = b"null";

/// A list of which a part has arrived.
#[derive(Debug)]
pub(super) struct Elements {
    at: At,
    /// The object that has not ended yet.
    object: Vec<u8>,
}

/// An object of a list, or a part of one.
pub(super) fn read<'a, T: Deserialize<'a>>(object: &'a [u8]) -> Result<T, Unlisted> {
    serde_json::from_slice(object).map_err(|_| Unlisted::Malformed)
}

/// Whoever reads the objects.
pub(super) type Reader<'a> = dyn FnMut(&[u8]) -> Result<(), Unlisted> + Send + 'a;

impl Elements {
    pub(super) fn new() -> Self {
        Self { at: At::Start, object: Vec::new() }
    }

    /// Takes what has arrived, and hands on every object that ends in it.
    pub(super) fn push(&mut self, arrived: &[u8], each: &mut Reader<'_>) -> Result<(), Unlisted> {
        arrived.iter().try_for_each(|byte| self.take(*byte, each))
    }

    /// Whether the list has ended, now that nothing more arrives.
    pub(super) fn finish(&self) -> Result<(), Unlisted> {
        let is_null = self.at == At::Null(NULL.len());
        if self.at == At::End || is_null { Ok(()) } else { Err(Unlisted::Malformed) }
    }

    fn take(&mut self, byte: u8, each: &mut Reader<'_>) -> Result<(), Unlisted> {
        if let At::Object { .. } = self.at {
            return self.within(byte, each);
        }
        if byte.is_ascii_whitespace() {
            return Ok(());
        }
        self.at = match (self.at, byte) {
            (At::Start, b'[') => At::First,
            (At::Start, b'n') => At::Null(1),
            (At::Null(read), letter) if NULL.get(read) == Some(&letter) => At::Null(read + 1),
            (At::First, b']') | (At::Behind, b']') => At::End,
            (At::Behind, b',') => At::Next,
            (At::First | At::Next, b'{') => {
                self.object.clear();
                self.object.push(byte);
                At::Object { depth: 1, in_string: false, is_escaped: false }
            }
            _ => return Err(Unlisted::Malformed),
        };
        Ok(())
    }

    fn within(&mut self, byte: u8, each: &mut Reader<'_>) -> Result<(), Unlisted> {
        let At::Object { depth, in_string, is_escaped } = self.at else { return Ok(()) };
        if self.object.len() >= LONGEST {
            return Err(Unlisted::TooLarge(LONGEST));
        }
        self.object.push(byte);
        let (depth, in_string, is_escaped) = match byte {
            _ if is_escaped => (depth, in_string, false),
            b'\\' if in_string => (depth, true, true),
            b'"' => (depth, !in_string, false),
            b'{' | b'[' if !in_string => (depth + 1, false, false),
            b'}' | b']' if !in_string => (depth - 1, false, false),
            _ => (depth, in_string, false),
        };
        self.at = At::Object { depth, in_string, is_escaped };
        if depth == 0 {
            self.at = At::Behind;
            each(&self.object)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, from_slice, json};

    /// The objects of a list that arrives in pieces of this size.
    fn read(text: &str, piece: usize) -> Result<Vec<Value>, Unlisted> {
        let mut objects = Vec::new();
        let mut elements = Elements::new();
        for arrived in text.as_bytes().chunks(piece) {
            elements.push(arrived, &mut |object| {
                objects.push(from_slice(object).map_err(|_| Unlisted::Malformed)?);
                Ok(())
            })?;
        }
        elements.finish().map(|()| objects)
    }

    #[test]
    fn a_list_is_the_same_in_whatever_pieces_it_arrives() {
        let list =
            json!([{}, { "a": [1, { "b": "]}\"\\" }], "\\\"": "{[" }, { "ä\u{7}": null }, { "x": "\\" }]);
        for text in [list.to_string(), serde_json::to_string_pretty(&list).unwrap()] {
            for piece in 1..=text.len() {
                assert_eq!(read(&text, piece).map(Value::Array), Ok(list.clone()), "{piece}");
            }
        }
        for empty in ["[]", " [ ] ", "null", " null\n"] {
            assert_eq!(read(empty, 1), Ok(Vec::new()), "{empty}");
        }
    }

    #[test]
    fn what_is_no_list_of_objects_is_malformed_also_when_it_ends_too_early() {
        for text in [
            "",
            "[",
            "[{}",
            "[{},",
            "[{},]",
            "[,]",
            "[{}{}]",
            "[{}]]",
            "[{}] x",
            "[1]",
            "[\"a\"]",
            "[[]]",
            "{}",
            "nul",
            "nullnull",
            "true",
            "[{\"a\":}]",
            "[{]",
            "xxx",
        ] {
            assert_eq!(read(text, 3), Err(Unlisted::Malformed), "{text}");
        }
        let whole = json!([{ "a": "b" }, { "c": [] }]).to_string();
        for end in 0..whole.len() {
            assert_eq!(read(&whole[..end], 7), Err(Unlisted::Malformed), "{end}");
        }
    }

    #[test]
    fn an_endless_object_is_cut_off() {
        let endless = format!("[{{\"a\":\"{}", "x".repeat(2 * LONGEST));
        assert_eq!(read(&endless, 1000), Err(Unlisted::TooLarge(LONGEST)));
        let deep = format!("[{{\"a\":{}", "[".repeat(2 * LONGEST));
        assert_eq!(read(&deep, 1000), Err(Unlisted::TooLarge(LONGEST)));
    }
}
