//! Decides which findings a comment `# coder-lint: disable=CODER0012` takes away: those of its document, of its line,
//! or of the next line. Never takes away more than the codes it names.

use super::node::Span;
use super::yaml::{self, Stream};
use std::collections::BTreeMap;

const MARK: &str = "# coder-lint:";
/// Most comments of one text; the rest suppresses nothing.
const MAX_COMMENTS: usize = 10_000;

/// What the comments of a text suppress.
#[derive(Debug, Default)]
pub struct Suppressions {
    /// Every code as it is written, and where.
    named: Vec<(String, Span)>,
    /// For each code in capitals, the first and last lines of what is suppressed: in order, none touching another.
    lines: BTreeMap<String, Vec<(u32, u32)>>,
}

impl Suppressions {
    /// Reads the comments of a text.
    pub fn read(text: &str, stream: &Stream) -> Self {
        if !text.contains(MARK) {
            return Self::default();
        }
        let next = next_content(text);
        let mut found = Self::default();
        let mut comments = 0;
        for ((start, line), number) in yaml::lines(text).zip(1u32..) {
            if let Some(at) = line.find(MARK).filter(|_| comments < MAX_COMMENTS) {
                comments += 1;
                let codes = codes(line, at, start, number);
                let alone = line[..at].trim().is_empty();
                let (first, last) = if alone { lines_below(number, &next, stream) } else { (number, number) };
                for (code, _) in &codes {
                    found.lines.entry(code.to_ascii_uppercase()).or_default().push((first, last));
                }
                found.named.extend(codes);
            }
        }
        found.lines.values_mut().for_each(joined);
        found
    }

    /// Whether a finding of this code on this line is suppressed.
    pub fn covers(&self, code: &str, line: u32) -> bool {
        let lines = self.lines.get(&code.to_ascii_uppercase()).map_or(&[][..], Vec::as_slice);
        let after = lines.partition_point(|(first, _)| *first <= line);
        after.checked_sub(1).and_then(|place| lines.get(place)).is_some_and(|(_, last)| line <= *last)
    }

    /// Every code that is named, and where.
    pub fn named(&self) -> impl Iterator<Item = (&str, Span)> {
        self.named.iter().map(|(code, span)| (code.as_str(), *span))
    }
}

/// Sorts ranges of lines and joins those that touch, so that one search finds the range a line is in.
fn joined(ranges: &mut Vec<(u32, u32)>) {
    ranges.sort_unstable();
    ranges.dedup_by(|next, earlier| {
        let touch = next.0 <= earlier.1;
        if touch {
            earlier.1 = earlier.1.max(next.1);
        }
        touch
    });
}

/// The codes of the comment that starts at `at` in a line, which starts at `start` in the text.
fn codes(line: &str, at: usize, start: usize, number: u32) -> Vec<(String, Span)> {
    let Some((mark, list)) = line[at..].split_once("disable=") else {
        return Vec::new();
    };
    let list = list.split_whitespace().next().unwrap_or_default();
    let mut place = at + mark.len() + "disable=".len();
    let mut before = line[..place].chars().count();
    let mut codes = Vec::new();
    for code in list.split(',') {
        let byte = |offset: usize| u32::try_from(start + offset).unwrap_or(u32::MAX);
        let column = u32::try_from(before + 1).unwrap_or(u32::MAX);
        let span = Span { start: byte(place), end: byte(place + code.len()), line: number, column };
        if !code.is_empty() {
            codes.push((code.to_owned(), span));
        }
        place += code.len() + 1;
        before += code.chars().count() + 1;
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
    fn ranges_that_touch_are_one_and_a_gap_stays_a_gap() {
        let mut ranges = vec![(7, 9), (1, 5), (2, 3), (5, 6), (12, 12)];
        joined(&mut ranges);
        assert_eq!(ranges, [(1, 6), (7, 9), (12, 12)]);
        let found =
            suppressions("# coder-lint: disable=x\na: 1\nb: 1\n---\nc: 1\nd: 1 # coder-lint: disable=X\n");
        let covered: Vec<u32> = (1..8).filter(|line| found.covers("X", *line)).collect();
        assert!(covered.contains(&3) && !covered.contains(&5) && covered.contains(&6), "{covered:?}");
    }

    #[test]
    fn every_code_has_its_place() {
        let found = suppressions("é: 1 # coder-lint: disable=CODER1,CODER22\n");
        let places: Vec<_> = found.named().map(|(code, span)| (code.to_owned(), span.column)).collect();
        assert_eq!(places, [("CODER1".to_owned(), 28), ("CODER22".to_owned(), 35)]);
        assert_eq!(suppressions("a: 1 # coder-lint: \n# coder-lint: disable=\n").named().count(), 0);
    }
}
