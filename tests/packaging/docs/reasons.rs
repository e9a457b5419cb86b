//! The page of each kind says which condition has which reason: every reason of its enum and no other, and every condition.

use coder_k8s::controller::{control_plane, provisioner, workspace_proxy};
use crds::well_known::condition;
use std::collections::BTreeSet;
use support::installation::repository;

/// Conditions that every kind has.
const SHARED: [&str; 7] = [
    condition::READY,
    condition::RECONCILING,
    condition::STALLED,
    condition::SPEC_ACCEPTED,
    condition::SUSPENDED,
    condition::CLEANED_UP,
    condition::AUTHORITY_APPLIED,
];

/// The page of a kind.
struct Page {
    name: &'static str,
    text: String,
    reasons: BTreeSet<&'static str>,
}

fn pages() -> [Page; 3] {
    let page = |name: &'static str, reasons: BTreeSet<&'static str>| {
        let text = std::fs::read_to_string(repository().join("docs").join(name)).unwrap();
        assert!(reasons.len() > 60, "only these: {reasons:?}");
        Page { name, text, reasons }
    };
    [
        page(
            "control-plane.md",
            control_plane::reasons::Reason::ALL.iter().map(|one| one.as_str()).collect(),
        ),
        page("provisioner.md", provisioner::reasons::Reason::ALL.iter().map(|one| one.as_str()).collect()),
        page(
            "workspace-proxy.md",
            workspace_proxy::reasons::Reason::ALL.iter().map(|one| one.as_str()).collect(),
        ),
    ]
}

impl Page {
    /// The rows of the table of conditions: the conditions, and what is said of them.
    fn rows(&self) -> Vec<(&str, &str)> {
        let (_, status) = self.text.split_once("\n## Status\n").unwrap();
        let (_, table) = status.split_once("\n|---|---|---|\n").unwrap();
        let lines = table.lines().take_while(|line| line.starts_with("| "));
        lines.map(|line| line[2..].split_once(" | ").unwrap()).collect()
    }

    /// The conditions in the first column; what follows "only" says when they are there.
    fn conditions(&self) -> BTreeSet<&str> {
        let rows = self.rows().into_iter();
        let words = rows.flat_map(|(cell, _)| cell.split(", ").take_while(|word| !word.starts_with("only")));
        words.collect()
    }
}

fn is_camel(word: &str) -> bool {
    word.len() > 2
        && word.starts_with(|letter: char| letter.is_ascii_uppercase())
        && word.contains(|letter: char| letter.is_ascii_lowercase())
        && word.chars().all(|letter| letter.is_ascii_alphanumeric())
}

#[test]
fn every_reason_of_a_kind_is_on_its_page_and_no_other_is() {
    for page in pages() {
        let is_told = |reason: &&&str| page.text.contains(&format!("`{reason}`"));
        let missing: Vec<_> = page.reasons.iter().filter(|reason| !is_told(reason)).collect();
        assert!(missing.is_empty(), "not in {}: {missing:?}", page.name);
        let rows = page.rows();
        let told = rows.iter().flat_map(|(_, said)| said.split('`').skip(1).step_by(2));
        let unknown: Vec<_> = told.filter(|word| is_camel(word) && !page.reasons.contains(word)).collect();
        assert!(unknown.is_empty(), "{} has reasons that nobody gives: {unknown:?}", page.name);
    }
}

#[test]
fn every_condition_has_a_row_and_no_row_is_of_another() {
    let pages = pages();
    let mut told = BTreeSet::new();
    for page in &pages {
        let conditions = page.conditions();
        let missing: Vec<_> = SHARED.iter().filter(|one| !conditions.contains(*one)).collect();
        assert!(missing.is_empty(), "not in the table of {}: {missing:?}", page.name);
        told.extend(conditions);
    }
    assert_eq!(told, BTreeSet::from(condition::ALL));
}
