//! Decides how a manifest is held in memory: values as the API server would get them, each with its place in the file.
//! Never decides whether a value is good.

use super::engine::shown_key;
use serde_json::{Map, Number, Value};

/// A place in a source text. Lines and columns count from one, columns in characters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Span {
    /// First byte.
    pub start: u32,
    /// Byte after the last one.
    pub end: u32,
    /// Line of the first byte.
    pub line: u32,
    /// Column of the first byte.
    pub column: u32,
}

impl Span {
    /// The text it covers.
    pub fn slice<'a>(&self, source: &'a str) -> &'a str {
        source.get(self.start as usize..self.end as usize).unwrap_or_default()
    }
}

/// A value and where it is written.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    /// The value.
    pub content: Content,
    /// Where it is written; for an alias, where its anchor is.
    pub span: Span,
}

/// The values of JSON.
#[derive(Clone, Debug, PartialEq)]
pub enum Content {
    /// Nothing, or `null`.
    Null,
    /// A boolean.
    Bool(bool),
    /// A number.
    Number(Number),
    /// A text.
    Text(String),
    /// A list.
    List(Vec<Node>),
    /// A map in the order of the file; of a key given twice, the last one.
    Map(Vec<Entry>),
}

/// One key of a map and its value.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// The key.
    pub key: String,
    /// Where the key is written.
    pub key_span: Span,
    /// The value.
    pub value: Node,
}

/// What a field path leads to.
#[derive(Clone, Copy, Debug)]
pub struct Found<'a> {
    /// The value, or its closest parent that exists.
    pub node: &'a Node,
    /// The key that leads to it, unless it is the root or an item of a list.
    pub key: Option<Span>,
    /// True where the whole path exists.
    pub whole: bool,
}

impl Node {
    /// The entries of a map, or none.
    pub fn entries(&self) -> &[Entry] {
        match &self.content {
            Content::Map(entries) => entries,
            _ => &[],
        }
    }

    /// The items of a list, or none.
    pub fn items(&self) -> &[Self] {
        match &self.content {
            Content::List(items) => items,
            _ => &[],
        }
    }

    /// The text of a text.
    pub fn text(&self) -> Option<&str> {
        match &self.content {
            Content::Text(text) => Some(text),
            _ => None,
        }
    }

    /// The value of a key.
    pub fn get(&self, key: &str) -> Option<&Self> {
        self.entries().iter().find(|entry| entry.key == key).map(|entry| &entry.value)
    }

    /// The value at the end of some keys.
    pub fn at(&self, keys: &[&str]) -> Option<&Self> {
        keys.iter().try_fold(self, |node, key| node.get(key))
    }

    /// The text at the end of some keys.
    pub fn text_at(&self, keys: &[&str]) -> Option<&str> {
        self.at(keys)?.text()
    }

    /// Whether it holds a list or a map.
    pub fn is_collection(&self) -> bool {
        matches!(self.content, Content::List(_) | Content::Map(_))
    }

    /// The same value without places.
    pub fn to_value(&self) -> Value {
        match &self.content {
            Content::Null => Value::Null,
            Content::Bool(truth) => Value::Bool(*truth),
            Content::Number(number) => Value::Number(number.clone()),
            Content::Text(text) => Value::String(text.clone()),
            Content::List(items) => Value::Array(items.iter().map(Self::to_value).collect()),
            Content::Map(entries) => {
                let members = entries.iter().map(|entry| (entry.key.clone(), entry.value.to_value()));
                Value::Object(members.collect::<Map<_, _>>())
            }
        }
    }

    /// Follows a path such as `spec.certs.secrets[2].name` as far as it exists.
    pub fn follow(&self, path: &str) -> Found<'_> {
        let mut found = Found { node: self, key: None, whole: true };
        for step in steps(path) {
            let next = match &found.node.content {
                Content::Map(entries) => entries
                    .iter()
                    .find(|entry| entry.key == step)
                    // A path does not show all of a key that is too long or cannot be printed.
                    .or_else(|| entries.iter().find(|entry| shown_key(&entry.key) == step))
                    .map(|entry| (&entry.value, Some(entry.key_span))),
                Content::List(items) => {
                    step.parse::<usize>().ok().and_then(|index| items.get(index)).map(|item| (item, None))
                }
                _ => None,
            };
            let Some((node, key)) = next else {
                return Found { whole: false, ..found };
            };
            found = Found { node, key, whole: true };
        }
        found
    }
}

/// The steps of a path: keys after dots, keys and indices in brackets.
pub(super) fn steps(path: &str) -> Vec<String> {
    let mut steps = Vec::new();
    let mut rest = path;
    while !rest.is_empty() {
        if let Some(inner) = rest.strip_prefix('[') {
            let (key, after) = inner.split_once(']').unwrap_or((inner, ""));
            steps.push(key.to_owned());
            rest = after;
        } else {
            rest = rest.strip_prefix('.').unwrap_or(rest);
            let end = rest.find(['.', '[']).unwrap_or(rest.len());
            let (key, after) = rest.split_at(end);
            if !key.is_empty() {
                steps.push(key.to_owned());
            }
            rest = after;
        }
    }
    steps
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lint::engine::child;
    use crate::lint::yaml;

    fn node(text: &str) -> Node {
        yaml::read(text).documents.remove(0).root
    }

    #[test]
    fn a_path_leads_to_its_value_or_its_closest_parent() {
        let root = node("spec:\n  a:\n    - b: 1\n    - b: 2\n  tags:\n    x.y/z: q\n");
        let second = root.follow("spec.a[1].b");
        assert_eq!((second.node.span.line, second.node.span.column, second.whole), (4, 10, true));
        let dotted = root.follow("spec.tags[x.y/z]");
        assert_eq!((dotted.node.text(), dotted.key.map(|key| key.line)), (Some("q"), Some(6)));
        let missing = root.follow("spec.a[7].b");
        assert_eq!((missing.whole, missing.key.map(|key| key.line)), (false, Some(2)));
    }

    #[test]
    fn odd_paths_do_no_harm() {
        let root = node("a: 1\n");
        for path in ["", ".", "[", "]", "[[", "a..b", "a[", "a]b", "[]", ".....", "é[é]"] {
            root.follow(path);
        }
    }

    #[test]
    fn a_path_leads_to_a_key_however_long_or_odd_it_is() {
        for key in
            ["a.b", "example.com/a-name-that-goes-on-and-on-for-more-than-forty-letters", &"k".repeat(1000)]
        {
            let root = node(&format!("spec:\n  tags:\n    other: 1\n    {key}: 2\n"));
            let found = root.follow(&child("spec.tags", key));
            assert_eq!((found.whole, found.key.map(|key| key.line)), (true, Some(4)), "{key}");
        }
    }

    #[test]
    fn values_are_those_of_json() {
        let value = node("a: [1, 1.5, yes, ~, \"1\"]\nb: {c: d}\n").to_value();
        assert_eq!(value, serde_json::json!({"a": [1, 1.5, true, null, "1"], "b": {"c": "d"}}));
    }
}
