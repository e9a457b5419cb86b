//! Decides what a finding is, where it points, and in which order findings are told.
//! Never decides that something is wrong.

use super::codes::Code;
use super::node::Span;
use super::objects::Object;
use super::origin::Origins;
use super::sources::Source;
use super::yaml;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// How hard a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// It cannot work, or does harm.
    Error,
    /// It works, but probably not as meant.
    Warning,
}

impl Severity {
    /// As it is written.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warning => "warning",
        }
    }
}

/// One thing that is wrong. The order of the fields is the order in JSON and is kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// How hard it is.
    pub severity: Severity,
    /// Its stable code.
    pub code: String,
    /// What is wrong.
    pub message: String,
    /// Path of the field in its object; empty where it is about a file.
    pub field: String,
    /// The object; empty where it is about a file.
    pub object: String,
    /// The file, or `<stdin>`.
    pub file: String,
    /// Line, from one.
    pub line: u32,
    /// Column in characters, from one.
    pub column: u32,
    /// What to do.
    pub help: String,
    /// The line of the file.
    #[serde(skip)]
    pub excerpt: String,
    /// Characters to underline.
    #[serde(skip)]
    pub width: usize,
}

/// What a run found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Report {
    /// Every finding, by file, line and column.
    pub findings: Vec<Finding>,
    /// How many texts were read.
    pub files: usize,
    /// How many objects of ours they hold.
    pub objects: usize,
    /// How many findings comments took away.
    pub suppressed: usize,
}

impl Report {
    /// How many findings there are of a severity.
    pub fn count(&self, severity: Severity) -> usize {
        self.findings.iter().filter(|finding| finding.severity == severity).count()
    }

    /// Whether the run fails.
    pub fn fails(&self, strict: bool) -> bool {
        self.findings.iter().any(|finding| strict || finding.severity == Severity::Error)
    }
}

/// Which part of a field is underlined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Spot {
    /// Its key.
    Key,
    /// Its value, where that is on one line; else its key.
    Value,
}

/// A finding before it has a place in a file.
#[derive(Clone, Debug)]
pub(super) struct Draft {
    pub(super) severity: Severity,
    pub(super) code: String,
    pub(super) message: String,
    pub(super) help: String,
}

impl Draft {
    /// A finding of this module's own codes.
    pub(super) fn new(code: &Code, message: impl Into<String>) -> Self {
        Self {
            severity: code.severity,
            code: code.code.to_owned(),
            message: message.into(),
            help: code.fix.to_owned(),
        }
    }

    /// The same finding with other help.
    pub(super) fn with_help(self, help: impl Into<String>) -> Self {
        Self { help: help.into(), ..self }
    }
}

enum Place<'a> {
    Field { object: &'a Object<'a>, field: String, spot: Spot },
    Text { source: &'a Source, span: Span, object: Option<&'a Object<'a>> },
}

/// Findings of one code in one object or text that are told; more of them help nobody.
const MOST: usize = 100;

/// Findings as they come in.
#[derive(Default)]
pub(super) struct Collected<'a> {
    drafts: Vec<(Place<'a>, Draft)>,
    /// How many there are of a code in one object or text, by where that begins in memory.
    counts: BTreeMap<(usize, String), usize>,
}

impl<'a> Collected<'a> {
    /// About a field of an object.
    pub(super) fn field(
        &mut self,
        object: &'a Object<'a>,
        field: impl Into<String>,
        spot: Spot,
        draft: Draft,
    ) {
        if self.has_room(std::ptr::from_ref(object.node).addr(), &draft.code) {
            self.drafts.push((Place::Field { object, field: field.into(), spot }, draft));
        }
    }

    /// About a place in a text.
    pub(super) fn text(
        &mut self,
        source: &'a Source,
        span: Span,
        object: Option<&'a Object<'a>>,
        draft: Draft,
    ) {
        if self.has_room(source.text.as_ptr().addr(), &draft.code) {
            self.drafts.push((Place::Text { source, span, object }, draft));
        }
    }

    fn has_room(&mut self, place: usize, code: &str) -> bool {
        let count = self.counts.entry((place, code.to_owned())).or_default();
        *count += 1;
        *count <= MOST
    }

    /// Takes in what was found elsewhere.
    pub(super) fn absorb(&mut self, other: Self) {
        for (place, draft) in other.drafts {
            match place {
                Place::Field { object, field, spot } => self.field(object, field, spot, draft),
                Place::Text { source, span, object } => self.text(source, span, object, draft),
            }
        }
    }

    /// Whether there is a finding of a code about exactly this field.
    pub(super) fn has(&self, object: &Object<'_>, field: &str, code: &Code) -> bool {
        self.drafts.iter().any(|(place, draft)| match place {
            Place::Field { object: other, field: at, .. } => {
                std::ptr::eq(other.node, object.node) && at == field && draft.code == code.code
            }
            Place::Text { .. } => false,
        })
    }

    /// Gives every finding its place, takes suppressed ones away, and each one that is there twice.
    pub(super) fn report(self, origins: &mut Origins, files: usize, objects: usize) -> Report {
        let mut report = Report { files, objects, ..Report::default() };
        let mut seen = BTreeSet::new();
        for (place, draft) in self.drafts {
            let (finding, suppressed) = located(place, draft, origins);
            let identity = (
                finding.file.clone(),
                finding.line,
                finding.column,
                finding.code.clone(),
                finding.field.clone(),
                finding.message.clone(),
            );
            if !seen.insert(identity) {
                continue;
            }
            if suppressed {
                report.suppressed += 1;
            } else {
                report.findings.push(finding);
            }
        }
        report.findings.sort_by(|one, other| {
            let order = |finding: &Finding| (finding.line, finding.column, finding.severity);
            one.file.cmp(&other.file).then(order(one).cmp(&order(other))).then(one.code.cmp(&other.code))
        });
        report
    }
}

fn located(place: Place<'_>, draft: Draft, origins: &mut Origins) -> (Finding, bool) {
    match place {
        Place::Text { source, span, object } => {
            let object = object.map(Object::title).unwrap_or_default();
            finding(draft, source, span, object, String::new())
        }
        Place::Field { object, field, spot } => {
            let title = object.title();
            match origins.of(object, &field) {
                Some((source, node)) => finding(draft, source, span_of(node, &field, spot), title, field),
                None => finding(draft, object.source, span_of(object.node, &field, spot), title, field),
            }
        }
    }
}

/// The part of a text that stands for a field: the value, the key, or the closest parent that is written down.
fn span_of(node: &super::node::Node, field: &str, spot: Spot) -> Span {
    let found = node.follow(field);
    let own = found.node.span;
    match (found.key, spot) {
        (Some(key), Spot::Key) => key,
        (Some(key), Spot::Value) if !found.whole || found.node.is_collection() => key,
        (None, _) if !found.whole => first_key(found.node).unwrap_or(own),
        _ => own,
    }
}

/// A map starts where its first key does.
fn first_key(node: &super::node::Node) -> Option<Span> {
    node.entries().first().map(|entry| entry.key_span)
}

fn finding(draft: Draft, source: &Source, span: Span, object: String, field: String) -> (Finding, bool) {
    let suppressed = source.suppressions.covers(&draft.code, span.line);
    let covered = yaml::lines(span.slice(&source.text)).next().map_or("", |(_, line)| line);
    let finding = Finding {
        severity: draft.severity,
        code: draft.code,
        message: draft.message,
        field,
        object,
        file: source.name.clone(),
        line: span.line.max(1),
        column: span.column.max(1),
        help: draft.help,
        excerpt: source.line(span.line.max(1)).unwrap_or_default().to_owned(),
        width: covered.trim_end().chars().count().max(1),
    };
    (finding, suppressed)
}
