//! The pages against the schemas they are made from.

use super::*;
use std::collections::BTreeSet;

fn pages() -> Vec<File> {
    files().unwrap()
}

fn between<'a>(text: &'a str, start: &str, end: char) -> BTreeSet<&'a str> {
    text.split(start).skip(1).filter_map(|rest| rest.split(end).next()).collect()
}

#[test]
fn every_kind_has_a_page_with_its_short_name_and_columns() {
    let paths: Vec<_> = pages().into_iter().map(|page| page.path).collect();
    assert_eq!(
        paths,
        [
            "docs/reference/codercontrolplane.md",
            "docs/reference/coderprovisioner.md",
            "docs/reference/coderworkspaceproxy.md"
        ]
    );
    let provisioner = &pages()[1].content;
    for wanted in ["`coder.com/v1alpha1`", "`cprov`", "`scale`", "| Ready |", "Only with `-o wide`"] {
        assert!(provisioner.contains(wanted), "{wanted} is missing");
    }
}

#[test]
fn every_link_inside_a_page_leads_to_an_anchor_and_no_anchor_comes_twice() {
    for File { path, content } in pages() {
        let anchors = between(&content, "<a id=\"", '"');
        assert_eq!(anchors.len(), content.matches("<a id=").count(), "{path}");
        assert!(!anchors.is_empty(), "{path}");
        let linked = between(&content, "](#", ')');
        assert_eq!(linked.difference(&anchors).next(), None, "{path}");
    }
}

#[test]
fn every_row_of_a_table_has_three_cells_or_two() {
    for File { path, content } in pages() {
        for row in content.lines().filter(|line| line.starts_with('|')) {
            let bars = row.replace("\\|", "").matches('|').count();
            assert!((3..=4).contains(&bars), "{path}: {row}");
        }
    }
}

#[test]
fn every_message_of_a_rule_is_shown() {
    for (definition, page) in super::super::definitions().iter().zip(pages()) {
        let schema = serde_json::to_value(&definition.spec.versions).unwrap().to_string();
        let messages = between(&schema, "\"message\":\"", '"');
        for message in messages {
            assert!(page.content.contains(&cell(message)), "{}: {message}", page.path);
        }
    }
}

#[test]
fn core_types_are_named_with_a_link_and_not_opened() {
    let page = &pages()[0].content;
    assert!(page.contains("list of [EnvVar](https://kubernetes.io/docs/"), "{page}");
    assert!(!page.contains("valueFrom"));
}

#[test]
fn a_type_without_a_name_is_an_error_and_not_an_empty_cell() {
    for field in crds::schema::EMBEDDED_CORE_PROPERTIES {
        assert!(core_types::link(field).is_some(), "{field}");
    }
}

#[test]
fn brackets_and_bars_in_prose_do_not_break_a_table() {
    assert_eq!(cell("a < b | `<org>|x`"), "a &lt; b \\| `<org>\\|x`");
}

#[test]
fn a_table_and_the_text_after_it_are_apart_and_no_two_lines_are_empty() {
    for File { path, content } in pages() {
        let lines: Vec<&str> = content.lines().collect();
        for pair in lines.windows(2) {
            let table = |line: &str| line.starts_with('|');
            assert!(!table(pair[0]) || table(pair[1]) || pair[1].is_empty(), "{path}: {pair:?}");
            assert!(!pair[0].is_empty() || !pair[1].is_empty(), "{path}: two empty lines");
        }
    }
}
