//! Decides what documents a YAML or JSON text holds, and which of its spellings mean something else than they show.
//! Never grows beyond its limits, and never panics: whatever it cannot read becomes a [`Flaw`].

mod builder;
pub(crate) mod scalars;

use super::node::{Node, Span};
use builder::{Builder, Refusal};
use granit_parser::{ErrorKind, Event, Parser, ScanError};

/// Largest text that is read, in bytes.
pub(super) const MAX_BYTES: usize = 8 * 1024 * 1024;
/// Most documents in one text.
pub(super) const MAX_DOCUMENTS: usize = 10_000;
/// Deepest nesting.
pub(super) const MAX_DEPTH: usize = 100;
/// Most memory of one text, aliases written out, in units of about a byte.
pub(super) const MAX_WEIGHT: usize = 64 * 1024 * 1024;

/// What a text holds.
#[derive(Debug, Default)]
pub struct Stream {
    /// The documents that could be read, without empty ones.
    pub documents: Vec<Document>,
    /// Why the others could not.
    pub flaws: Vec<Flaw>,
}

/// One document.
#[derive(Debug)]
pub struct Document {
    /// Its value.
    pub root: Node,
    /// Spellings that mean something else than they show.
    pub traps: Vec<Trap>,
    /// False where JSON cannot say what is written: kubectl does not send such a document.
    pub sendable: bool,
    /// First line after its separator.
    pub first_line: u32,
    /// Line on which it ends.
    pub last_line: u32,
}

impl Document {
    /// Whether kubectl would send it: what has no JSON never reaches a cluster.
    pub fn is_sendable(&self) -> bool {
        !self.traps.iter().any(|trap| matches!(trap.kind, TrapKind::NoJson { .. }))
    }
}

/// Why a document could not be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Flaw {
    /// What kind of mistake it is.
    pub kind: FlawKind,
    /// What the parser says.
    pub message: String,
    /// Where it was noticed.
    pub span: Span,
}

/// Kinds of mistakes that keep a document from being read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlawKind {
    /// Not YAML.
    Syntax,
    /// A tab where YAML wants spaces.
    Tab,
    /// A quote or bracket that never closes.
    Unclosed,
    /// Beyond a limit.
    TooMuch,
}

/// A spelling that means something else than it shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trap {
    /// Which one.
    pub kind: TrapKind,
    /// Where.
    pub span: Span,
}

/// Kinds of traps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TrapKind {
    /// A key that the map already has.
    DuplicateKey {
        /// The key.
        key: String,
        /// Line of the first one.
        first: u32,
    },
    /// A key that is read as another one.
    KeyReadAs {
        /// As it is written.
        written: String,
        /// As it is read.
        read: String,
    },
    /// A key that is no text at all, or a number that JSON does not have.
    NoJson {
        /// What it is.
        what: &'static str,
    },
}

/// Reads every document of a text.
pub(super) fn read(text: &str) -> Stream {
    let mut stream = Stream::default();
    if text.len() > MAX_BYTES {
        stream.flaws.push(too_much(Span::default(), &format!("has more than {MAX_BYTES} bytes")));
        return stream;
    }
    let options = granit_parser::options! {
        emit_comments: false,
        flow_nesting_limit: MAX_DEPTH,
        block_nesting_limit: MAX_DEPTH,
        // Long keys are bad style; JSON allows them.
        simple_key_max_lookahead: 64 * 1024,
    };
    let mut parser = Parser::new_from_str_with_options(text, options);
    let mut budget = MAX_WEIGHT;
    for _ in 0..MAX_DOCUMENTS {
        match document(&mut parser, &mut budget) {
            Ok(Some(document)) => stream.documents.extend(document),
            Ok(None) => return stream,
            Err(flaw) => {
                let last = flaw.kind == FlawKind::TooMuch;
                stream.flaws.push(flaw);
                if last || !parser.proceed_next_document().unwrap_or(false) {
                    return stream;
                }
            }
        }
    }
    stream.flaws.push(too_much(Span::default(), &format!("has more than {MAX_DOCUMENTS} documents")));
    stream
}

/// The lines of a text as the parser counts them, each with the byte it starts at: a carriage return alone ends one too.
/// The end of the text is the end of a line, also where that line is empty.
pub(super) fn lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut next = Some(0);
    std::iter::from_fn(move || {
        let start = next?;
        let rest = text.get(start..)?;
        let line = rest.split(['\n', '\r']).next().unwrap_or_default();
        let after = &rest[line.len()..];
        let ending = if after.starts_with("\r\n") { 2 } else { 1 };
        next = (!after.is_empty()).then_some(start + line.len() + ending);
        Some((start, line))
    })
}

fn too_much(span: Span, what: &str) -> Flaw {
    Flaw { kind: FlawKind::TooMuch, message: format!("the text {what}"), span }
}

/// The next document; `Some(None)` is an empty one, `None` the end.
#[expect(clippy::option_option, reason = "an empty document and the end are different answers")]
fn document<'a>(
    parser: &mut Parser<'a, granit_parser::StrInput<'a>>,
    budget: &mut usize,
) -> Result<Option<Option<Document>>, Flaw> {
    let mut builder = Builder::new(budget);
    let mut first_line = 1;
    loop {
        let Some(next) = parser.next_event() else { return Ok(None) };
        let (event, place) = next.map_err(|error| scan_flaw(&error))?;
        let span = span(&place);
        match event {
            Event::StreamEnd => return Ok(None),
            Event::DocumentStart(..) => first_line = span.line,
            Event::DocumentEnd => {
                let (root, traps) = builder.finish();
                let last_line = span.line;
                let filled = root.filter(|root| root.content != super::node::Content::Null);
                return Ok(Some(filled.map(|root| {
                    let sendable = !traps.iter().any(|trap| matches!(trap.kind, TrapKind::NoJson { .. }));
                    Document { root, traps, sendable, first_line, last_line }
                })));
            }
            event => builder.take(event, span).map_err(|refusal| refused(refusal, span))?,
        }
    }
}

fn refused(refusal: Refusal, span: Span) -> Flaw {
    match refusal {
        Refusal::OverBudget => too_much(span, "is too large once its aliases are written out"),
        Refusal::UnknownAnchor => Flaw {
            kind: FlawKind::Syntax,
            message: "the alias has no anchor, or stands inside of it".to_owned(),
            span,
        },
    }
}

fn span(place: &granit_parser::Span) -> Span {
    let number = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
    let range = place.byte_range().unwrap_or_default();
    Span {
        start: number(range.start),
        end: number(range.end),
        line: number(place.start.line()),
        column: number(place.start.col() + 1),
    }
}

fn scan_flaw(error: &ScanError) -> Flaw {
    let marker = error.marker();
    let kind = match error.kind() {
        ErrorKind::TabNotAllowed
        | ErrorKind::TabInBlockIndentation
        | ErrorKind::TabInIndentation
        | ErrorKind::TabAtBlockScalarStart => FlawKind::Tab,
        ErrorKind::UnexpectedEofFlowSequence
        | ErrorKind::UnexpectedEofFlowMapping
        | ErrorKind::UnexpectedEofImplicitFlowMapping
        | ErrorKind::UnexpectedEofBlockSequence
        | ErrorKind::UnexpectedEofBlockMapping
        | ErrorKind::UnexpectedEof
        | ErrorKind::UnclosedFlowCollection { .. }
        | ErrorKind::UnclosedQuotedScalar
        // The next line is not indented: nearly always the quote was meant to close before it.
        | ErrorKind::InvalidQuotedScalarIndent
        | ErrorKind::DocumentIndicatorInQuotedScalar => FlawKind::Unclosed,
        ErrorKind::RecursionLimitExceeded => FlawKind::TooMuch,
        _ => FlawKind::Syntax,
    };
    Flaw { kind, message: error.info(), span: span(&granit_parser::Span::empty(*marker)) }
}

#[cfg(test)]
mod tests;
