//! Decides which findings a comment `# coder-lint: disable=CODER0012` takes away: those of its document, of its line,
//! or of the next line. Never takes away more than the codes it names.

use super::node::Span;
use super::yaml::{self, Stream};

const MARK: &str = "# coder-lint:";
/// Most comments of one text; the rest suppresses nothing.
const MAX_COMMENTS: usize = 10_000;

/// What the comments of a text suppress.
#[derive(Debug, Default)]
pub struct Suppressions {
    comments: Vec<Comment>,
}

#[derive(Debug)]
struct Comment {
    codes: Vec<(String, Span)>,
    /// Lines on which findings are suppressed.
    first: u32,
    last: u32,
}

impl Suppressions {
    /// Reads the comments of a text.
    pub fn read(text: &str, stream: &Stream) -> Self {
        if !text.contains(MARK) {
            return Self::default();
        }
        let next = next_content(text);
        let mut comments = Vec::new();
        for ((start, line), number) in yaml::lines(text).zip(1u32..) {
            if let Some(at) = line.find(MARK).filter(|_| comments.len() < MAX_COMMENTS) {
                let codes = codes(line, at, start, number);
                let alone = line[..at].trim().is_empty();
                let (first, last) = if alone { lines_below(number, &next, stream) } else { (number, number) };
                comments.push(Comment { codes, first, last });
            }
        }
        Self { comments }
    }

    /// Whether a finding of this code on this line is suppressed.
    pub fn covers(&self, code: &str, line: u32) -> bool {
        self.comments.iter().any(|comment| {
            (comment.first..=comment.last).contains(&line)
                && comment.codes.iter().any(|(named, _)| named.eq_ignore_ascii_case(code))
        })
    }

    /// Every code that is named, and where.
    pub fn named(&self) -> impl Iterator<Item = (&str, Span)> {
        self.comments.iter().flat_map(|comment| &comment.codes).map(|(code, span)| (code.as_str(), *span))
    }
}

/// The codes of the comment that starts at `at` in a line, which starts at `start` in the text.
fn codes(line: &str, at: usize, start: usize, number: u32) -> Vec<(String, Span)> {
    let Some((before, list)) = line[at..].split_once("disable=") else {
        return Vec::new();
    };
    let list = list.split_whitespace().next().unwrap_or_default();
    let mut place = at + before.len() + "disable=".len();
    let mut codes = Vec::new();
    for code in list.split(',') {
        let byte = |offset: usize| u32::try_from(start + offset).unwrap_or(u32::MAX);
        let column = u32::try_from(line[..place].chars().count() + 1).unwrap_or(u32::MAX);
        let span = Span { start: byte(place), end: byte(place + code.len()), line: number, column };
        if !code.is_empty() {
            codes.push((code.to_owned(), span));
        }
        place += code.len() + 1;
    }
    codes
}

/// For each line, counted from zero, the number of the first line from there on that is neither blank nor a comment.
fn next_content(text: &str) -> Vec<u32> {
    let mut next: Vec<u32> = Vec::new();
    for ((_, line), number) in yaml::lines(text).zip(1u32..) {
        let line = line.trim_start();
        if !line.is_empty() && !line.starts_with('#') {
            next.resize(number as usize, number);
        }
    }
    next
}

/// A comment on a line of its own stands for its document when nothing of the document comes before it, else for the
/// next line with content.
fn lines_below(number: u32, next: &[u32], stream: &Stream) -> (u32, u32) {
    let content = next.get(number as usize).copied().unwrap_or(number);
    let after = stream.documents.partition_point(|document| document.root.span.line < content);
    // The separator is content of its own: the document begins below it.
    let headed = stream.documents.get(after).filter(|document| {
        content == document.root.span.line
            || (document.first_line..document.root.span.line).contains(&content)
    });
    match headed {
        Some(document) => (number, document.last_line.max(document.root.span.line)),
        None => (content, content),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lint::yaml;

    fn suppressions(text: &str) -> Suppressions {
        Suppressions::read(text, &yaml::read(text))
    }

    #[test]
    fn a_comment_at_the_end_of_a_line_stands_for_that_line() {
        let found = suppressions("a: 1\nb: 2 # coder-lint: disable=CODER0101,CODER0102 because\nc: 3\n");
        assert!(found.covers("CODER0101", 2) && found.covers("CODER0102", 2));
        assert!(
            !found.covers("CODER0103", 2) && !found.covers("CODER0101", 1) && !found.covers("CODER0101", 3)
        );
    }

    #[test]
    fn a_comment_at_the_head_stands_for_its_document() {
        let text = "# coder-lint: disable=CODER0101\na: 1\nb: 2\n---\n# coder-lint: disable=CODER0102\nc: 3\nd: 4\n---\ne: 5\n";
        let found = suppressions(text);
        assert!(
            found.covers("CODER0101", 2) && found.covers("CODER0101", 3) && !found.covers("CODER0101", 6)
        );
        assert!(
            found.covers("CODER0102", 6) && found.covers("CODER0102", 7) && !found.covers("CODER0102", 9)
        );
        assert!(!found.covers("CODER0102", 2));
    }

    #[test]
    fn a_comment_before_the_separator_stands_for_the_document_after_it() {
        let found = suppressions("# coder-lint: disable=CODER0101\n---\na: 1\nb: 2\n");
        assert!(found.covers("CODER0101", 3) && found.covers("CODER0101", 4));
    }

    #[test]
    fn a_comment_inside_a_document_stands_for_the_next_line() {
        let found = suppressions("a: 1\n# coder-lint: disable=CODER0101\n# why\nb: 2\nc: 3\n");
        assert!(
            found.covers("CODER0101", 4) && !found.covers("CODER0101", 5) && !found.covers("CODER0101", 1)
        );
    }

    #[test]
    fn every_code_has_its_place() {
        let found = suppressions("é: 1 # coder-lint: disable=CODER1,CODER22\n");
        let places: Vec<_> = found.named().map(|(code, span)| (code.to_owned(), span.column)).collect();
        assert_eq!(places, [("CODER1".to_owned(), 28), ("CODER22".to_owned(), 35)]);
        assert_eq!(suppressions("a: 1 # coder-lint: \n# coder-lint: disable=\n").named().count(), 0);
    }
}
