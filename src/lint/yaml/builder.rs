//! Decides how the events of one document become a tree: aliases and merge keys written out, traps noted on the way.
//! Never takes more than its budget: a few lines of aliases can stand for more than memory holds.

use super::super::node::{Content, Entry, Node, Span};
use super::scalars::{self, Scalar};
use super::{Trap, TrapKind};
use granit_parser::{Event, ScalarStyle, Tag};
use std::collections::BTreeMap;

/// Why a document is given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// It would take more than its budget.
    OverBudget,
    /// An alias without an anchor.
    UnknownAnchor,
}

/// A collection that is not closed yet.
enum Open {
    List { items: Vec<Node>, span: Span, anchor: usize },
    Map { members: Members, span: Span, anchor: usize },
}

#[derive(Default)]
struct Members {
    entries: Vec<Entry>,
    /// Where each key is in `entries`.
    index: BTreeMap<String, usize>,
    merged: Vec<Node>,
    key: Option<Key>,
}

struct Key {
    text: String,
    span: Span,
    merge: bool,
}

/// Builds one document.
pub(super) struct Builder<'a> {
    open: Vec<Open>,
    anchors: BTreeMap<usize, Node>,
    root: Option<Node>,
    traps: Vec<Trap>,
    budget: &'a mut usize,
}

/// What a value weighs besides its text.
const NODE_WEIGHT: usize = 64;

impl<'a> Builder<'a> {
    pub(super) fn new(budget: &'a mut usize) -> Self {
        Self { open: Vec::new(), anchors: BTreeMap::new(), root: None, traps: Vec::new(), budget }
    }

    /// The document and its traps.
    pub(super) fn finish(self) -> (Option<Node>, Vec<Trap>) {
        (self.root, self.traps)
    }

    /// Takes the next event.
    pub(super) fn take(&mut self, event: Event<'_>, span: Span) -> Result<(), Refusal> {
        match event {
            Event::Scalar(text, style, anchor, tag) => {
                self.spend(NODE_WEIGHT + text.len())?;
                self.scalar(&text, style, anchor, tag.as_deref(), span);
                Ok(())
            }
            Event::SequenceStart(_, anchor, _) => {
                self.spend(NODE_WEIGHT)?;
                self.open.push(Open::List { items: Vec::new(), span, anchor });
                Ok(())
            }
            Event::MappingStart(_, anchor, _) => {
                self.spend(NODE_WEIGHT)?;
                self.open.push(Open::Map { members: Members::default(), span, anchor });
                Ok(())
            }
            Event::SequenceEnd | Event::MappingEnd => self.close(),
            Event::Alias(anchor) => {
                let weight = self.anchors.get(&anchor).map(|node| weight(node, *self.budget));
                self.spend(weight.ok_or(Refusal::UnknownAnchor)?)?;
                let node = self.anchors.get(&anchor).cloned().ok_or(Refusal::UnknownAnchor)?;
                self.place_value(node);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn spend(&mut self, weight: usize) -> Result<(), Refusal> {
        *self.budget = self.budget.checked_sub(weight).ok_or(Refusal::OverBudget)?;
        Ok(())
    }

    fn scalar(&mut self, text: &str, style: ScalarStyle, anchor: usize, tag: Option<&Tag>, span: Span) {
        let plain = style == ScalarStyle::Plain;
        let forced = tag.and_then(Tag::core_suffix);
        let read = match forced {
            Some("str") => Scalar::Text,
            Some(_) => scalars::read(text),
            None if plain => scalars::read(text),
            None => Scalar::Text,
        };
        if self.wants_key() {
            let merge = plain && forced.is_none() && text == "<<";
            let key = self.key_text(text, read, span);
            self.remember(anchor, || Node { content: Content::Text(key.clone()), span });
            self.set_key(Key { text: key, span, merge });
            return;
        }
        let content = match read {
            Scalar::Null => Content::Null,
            Scalar::Bool(truth) => Content::Bool(truth),
            Scalar::Number(number) => Content::Number(number),
            Scalar::Text => Content::Text(text.to_owned()),
            Scalar::NoJson => {
                self.traps
                    .push(Trap { kind: TrapKind::NoJson { what: "a number JSON does not have" }, span });
                Content::Text(text.to_owned())
            }
        };
        let node = Node { content, span };
        self.remember(anchor, || node.clone());
        self.place_value(node);
    }

    /// The key a scalar stands for; where that is not what is written, a trap.
    fn key_text(&mut self, text: &str, read: Scalar, span: Span) -> String {
        let key = match read {
            Scalar::Text => return text.to_owned(),
            Scalar::Bool(truth) => truth.to_string(),
            Scalar::Number(number) => written_number(&number),
            Scalar::Null | Scalar::NoJson => {
                self.traps.push(Trap { kind: TrapKind::NoJson { what: "a key that is not text" }, span });
                return text.to_owned();
            }
        };
        if key != text {
            let kind = TrapKind::KeyReadAs { written: text.to_owned(), read: key.clone() };
            self.traps.push(Trap { kind, span });
        }
        key
    }

    fn remember(&mut self, anchor: usize, node: impl FnOnce() -> Node) {
        if anchor != 0 {
            self.anchors.insert(anchor, node());
        }
    }

    fn wants_key(&self) -> bool {
        matches!(self.open.last(), Some(Open::Map { members, .. }) if members.key.is_none())
    }

    fn set_key(&mut self, key: Key) {
        if let Some(Open::Map { members, .. }) = self.open.last_mut() {
            members.key = Some(key);
        }
    }

    fn close(&mut self) -> Result<(), Refusal> {
        let (node, anchor) = match self.open.pop() {
            Some(Open::List { items, span, anchor }) => {
                (Node { content: Content::List(items), span }, anchor)
            }
            Some(Open::Map { members, span, anchor }) => {
                (Node { content: Content::Map(members.with_merged()), span }, anchor)
            }
            None => return Ok(()),
        };
        if anchor != 0 {
            self.spend(weight(&node, *self.budget))?;
            self.anchors.insert(anchor, node.clone());
        }
        self.place_value(node);
        Ok(())
    }

    /// Puts a finished value where it belongs: root, item, key or value.
    fn place_value(&mut self, node: Node) {
        let traps = &mut self.traps;
        match self.open.last_mut() {
            None => self.root = Some(node),
            Some(Open::List { items, .. }) => items.push(node),
            Some(Open::Map { members, .. }) => match members.key.take() {
                Some(key) => members.put(key, node, traps),
                None => members.key = Some(complex_key(node, traps)),
            },
        }
    }
}

impl Members {
    /// The entries of a map and, for keys it lacks, those it merges.
    fn with_merged(self) -> Vec<Entry> {
        let Self { mut entries, mut index, merged, .. } = self;
        let sources = merged.into_iter().flat_map(|node| match node.content {
            Content::List(items) => items,
            content => vec![Node { content, span: node.span }],
        });
        for source in sources {
            let Content::Map(inherited) = source.content else { continue };
            for entry in inherited {
                if !index.contains_key(&entry.key) {
                    index.insert(entry.key.clone(), entries.len());
                    entries.push(entry);
                }
            }
        }
        entries
    }

    fn put(&mut self, key: Key, value: Node, traps: &mut Vec<Trap>) {
        if key.merge {
            self.merged.push(value);
            return;
        }
        let entry = Entry { key: key.text, key_span: key.span, value };
        match self.index.get(&entry.key).and_then(|place| self.entries.get_mut(*place)) {
            Some(earlier) => {
                let first = earlier.key_span.line;
                let kind = TrapKind::DuplicateKey { key: entry.key.clone(), first };
                traps.push(Trap { kind, span: entry.key_span });
                *earlier = entry;
            }
            None => {
                self.index.insert(entry.key.clone(), self.entries.len());
                self.entries.push(entry);
            }
        }
    }
}

/// A key that is an alias, a list or a map. Only an alias of a text can be a key in JSON.
fn complex_key(node: Node, traps: &mut Vec<Trap>) -> Key {
    let span = node.span;
    match node.content {
        Content::Text(text) => Key { text, span, merge: false },
        _ => {
            traps.push(Trap { kind: TrapKind::NoJson { what: "a key that is not text" }, span });
            Key { text: String::new(), span, merge: false }
        }
    }
}

/// A number as a key: whole ones without a point.
fn written_number(number: &serde_json::Number) -> String {
    let text = number.to_string();
    text.strip_suffix(".0").map_or(text.clone(), str::to_owned)
}

/// What a value weighs; counting stops soon after `limit`.
fn weight(node: &Node, limit: usize) -> usize {
    let mut total = 0;
    let mut rest = vec![node];
    while let Some(node) = rest.pop() {
        total += NODE_WEIGHT;
        match &node.content {
            Content::Text(text) => total += text.len(),
            Content::List(items) => rest.extend(items),
            Content::Map(entries) => {
                total += entries.iter().map(|entry| NODE_WEIGHT + entry.key.len()).sum::<usize>();
                rest.extend(entries.iter().map(|entry| &entry.value));
            }
            Content::Null | Content::Bool(_) | Content::Number(_) => {}
        }
        if total > limit {
            return total;
        }
    }
    total
}
