//! docs/control-plane.md says which condition has which reason: every reason of the enum, and no other.

use coder_k8s::controller::control_plane::reasons::Reason;
use std::collections::BTreeSet;
use support::installation::repository;

fn is_camel(word: &str) -> bool {
    word.len() > 2
        && word.starts_with(|letter: char| letter.is_ascii_uppercase())
        && word.contains(|letter: char| letter.is_ascii_lowercase())
        && word.chars().all(|letter| letter.is_ascii_alphanumeric())
}

#[test]
fn every_reason_of_a_control_plane_is_on_its_page_and_no_other_is() {
    let page = std::fs::read_to_string(repository().join("docs/control-plane.md")).unwrap();
    let reasons: BTreeSet<&str> = Reason::ALL.iter().map(|reason| reason.as_str()).collect();
    assert!(reasons.len() > 60, "only these: {reasons:?}");
    let missing: Vec<_> = reasons.iter().filter(|reason| !page.contains(&format!("`{reason}`"))).collect();
    assert!(missing.is_empty(), "not on the page: {missing:?}");
    let (_, status) = page.split_once("\n## Status\n").unwrap();
    let table =
        status.lines().filter(|line| line.starts_with("| ")).take_while(|line| !line.contains("Warning"));
    let told = table.flat_map(|line| line.split('`').skip(1).step_by(2)).filter(|word| is_camel(word));
    let unknown: Vec<_> = told.filter(|word| !reasons.contains(word)).collect();
    assert!(unknown.is_empty(), "the page has reasons that nobody gives: {unknown:?}");
}
