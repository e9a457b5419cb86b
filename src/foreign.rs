//! Text that somebody else wrote (a server, a certificate, a policy) before a person reads it in a log, an Event or a
//! condition: one line, nothing that a terminal obeys or that changes how its neighbours are shown, no more than fits.
//! It never takes secrets out: whoever knows them does.

use std::fmt;

/// Characters of one quotation.
const LONGEST: usize = 200;
/// How a quotation ends that was longer.
const MORE: char = '…';

/// A short quotation. Whoever has one cannot have it uncleaned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Foreign(String);

impl Foreign {
    /// Cleans a text and cuts it.
    pub fn new(text: &str) -> Self {
        Self(cleaned(text, LONGEST))
    }

    /// The cleaned text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<&str> for Foreign {
    fn from(text: &str) -> Self {
        Self::new(text)
    }
}

impl fmt::Display for Foreign {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

/// The text in one line with single spaces, cut after so many characters. However long the text is, no more of it is
/// looked at than is needed.
pub(crate) fn cleaned(text: &str, longest: usize) -> String {
    let mut clean = String::new();
    let (mut length, mut gap) = (0, false);
    for letter in text.chars() {
        if letter.is_whitespace() || is_unseen(letter) {
            gap = length > 0;
            continue;
        }
        let needed = 1 + usize::from(gap);
        if length + needed > longest {
            clean.push(MORE);
            break;
        }
        if gap {
            clean.push(' ');
        }
        clean.push(letter);
        (length, gap) = (length + needed, false);
    }
    clean
}

/// Whether a character commands a terminal, takes no room, or changes how those around it are shown: controls, marks of
/// direction, joiners, fillers, variation selectors, tags, separators of lines.
pub(crate) fn is_unseen(letter: char) -> bool {
    letter.is_control()
        || matches!(letter,
            '\u{ad}' | '\u{34f}' | '\u{600}'..='\u{605}' | '\u{61c}' | '\u{6dd}' | '\u{70f}' | '\u{890}'..='\u{891}'
            | '\u{8e2}' | '\u{115f}'..='\u{1160}' | '\u{17b4}'..='\u{17b5}' | '\u{180b}'..='\u{180f}'
            | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{3164}'
            | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}' | '\u{110bd}' | '\u{110cd}'
            | '\u{13430}'..='\u{1343f}' | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}'
            | '\u{e0000}'..='\u{e0fff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_obeys_and_what_nobody_sees_is_left_out() {
        let hostile = "pod \u{1b}[2Ja\u{1b}]0;owned\u{7}\r\n\tb\u{9b}31m \u{202e}gpj.exe\u{2069}\u{200f}\u{61c} \u{feff}x\u{0}";
        assert_eq!(Foreign::new(hostile).as_str(), "pod [2Ja ]0;owned b 31m gpj.exe x");
        for letter in ('\u{202a}'..='\u{202e}').chain('\u{2066}'..='\u{2069}').chain([
            '\u{200e}', '\u{200f}', '\u{61c}', '\u{200b}', '\u{200d}', '\u{feff}', '\u{2028}', '\u{2029}',
            '\u{85}',
        ]) {
            assert_eq!(Foreign::new(&format!("a{letter}b")).as_str(), "a b", "{letter:?}");
        }
        assert_eq!(
            Foreign::new("zażółć 日本語 שלום 👍").as_str(),
            "zażółć 日本語 שלום 👍",
            "every script stays"
        );
    }

    #[test]
    fn it_is_cut_without_looking_at_all_of_it() {
        let long = Foreign::new(&"ä".repeat(1 << 20));
        assert_eq!(long.as_str().chars().count(), LONGEST + 1);
        assert!(long.as_str().ends_with('…'));
        assert_eq!(cleaned("one two", 7), "one two");
        assert_eq!(cleaned("one two ", 6), "one tw…");
        assert_eq!(cleaned("one two", 3), "one…");
        assert_eq!(cleaned("one \u{202e}", 3), "one", "what is left out is not worth a mark");
        assert_eq!(cleaned(" \u{0} ", 3), "");
    }
}
