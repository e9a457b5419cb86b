//! Decides what is told about a code: its page, or which codes are near.
//! Never guesses: a code that does not exist has no page.

use super::Severity;
use super::codes;
use super::engine;

/// Most codes that are suggested.
const NEAR: usize = 5;

/// Whether a code exists.
pub(super) fn is_known(code: &str) -> bool {
    let own = codes::ALL.iter().map(|known| known.code);
    let known = engine::codes().into_iter().map(|(known, _)| known);
    known.chain(own).any(|known| known.eq_ignore_ascii_case(code))
}

/// The page of a code.
pub(super) fn page(code: &str) -> Option<String> {
    codes::page(code).or_else(|| engine::explain(code))
}

/// Title, reason and severity of a code.
pub(super) fn about(code: &str) -> Option<(&'static str, &'static str, Severity)> {
    let own = codes::ALL.iter().find(|known| known.code == code);
    own.map(|known| (known.title, known.why, known.severity)).or_else(|| engine::about(code))
}

/// The sections of the codes that only a file can have, as they follow the rules of admission in `docs/rules.md`.
pub(crate) fn own_sections() -> String {
    const GROUPS: [(&str, &str); 2] = [("CODER07", "YAML"), ("CODER08", "The way to the cluster")];
    let mut text = String::new();
    for (prefix, title) in GROUPS {
        text.push_str(&format!("\n## {title}\n"));
        for code in codes::ALL.iter().filter(|known| known.code.starts_with(prefix)) {
            text.push_str(&format!("\n{}", codes::page(code.code).unwrap_or_default()));
        }
    }
    text
}

/// The codes nearest to one that does not exist, each with its title.
pub(super) fn near(code: &str) -> Vec<String> {
    let wanted = code.to_ascii_uppercase();
    let mut all = all();
    all.sort_by_key(|(known, _)| distance(known, &wanted));
    all.into_iter().take(NEAR).map(|(known, title)| format!("{known}: {title}")).collect()
}

/// Every code with its title.
fn all() -> Vec<(&'static str, &'static str)> {
    let own = codes::ALL.iter().map(|code| (code.code, code.title));
    let mut all: Vec<_> = engine::codes().into_iter().chain(own).collect();
    all.sort_unstable();
    all
}

/// Letters that differ, place by place, and letters that are missing.
fn distance(one: &str, other: &str) -> usize {
    let differing = one.bytes().zip(other.bytes()).filter(|(one, other)| one != other).count();
    differing + one.len().abs_diff(other.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_codes_are_listed_first() {
        let near = near("coder0799");
        assert_eq!(near.len(), NEAR);
        assert!(near[0].starts_with("CODER07"), "{near:?}");
        assert_eq!(own_sections().matches("\n### CODER").count(), codes::ALL.len());
        assert!(is_known("coder0701") && !is_known("CODER9999") && !is_known(""));
    }

    #[test]
    fn every_code_has_a_page() {
        for (code, title) in all() {
            let page = page(code).unwrap_or_default();
            assert!(page.contains(code) && page.contains(title), "{code}: {page}");
        }
    }
}
