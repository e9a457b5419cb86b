//! Shows each format on the same finding.
//! Never reads a file.

use super::super::findings::Finding;
use super::*;

fn report() -> Report {
    let finding = Finding {
        severity: Severity::Error,
        code: "CODER0204".into(),
        message: "-1 is less than 0\u{1b}[2J".into(),
        field: "spec.replicas".into(),
        object: "CoderControlPlane coder".into(),
        file: "a,b:c.yaml".into(),
        line: 12,
        column: 13,
        help: "say 100% or\n::error::more".into(),
        excerpt: "  replicas: -1".into(),
        width: 2,
    };
    Report { findings: vec![finding], files: 1, objects: 1, suppressed: 2 }
}

fn written(report: &Report, format: Format, colors: bool) -> String {
    let mut out = Vec::new();
    write(report, format, colors, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

#[test]
fn text_shows_line_and_caret() {
    let expected = "\
error[CODER0204]: spec.replicas: -1 is less than 0 [2J
  --> a,b:c.yaml:12:13
   |
12 |   replicas: -1
   |             ^^
   = in: CoderControlPlane coder
   = help: say 100% or ::error::more

1 error, 0 warnings in 1 object of 1 file, 2 suppressed
";
    assert_eq!(written(&report(), Format::Text, false), expected);
    let colored = written(&report(), Format::Text, true);
    assert!(colored.contains("\u{1b}[1;31merror[CODER0204]\u{1b}[0m") && !colored.contains("\u{1b}[2J"));
}

#[test]
fn long_lines_are_cut_around_the_caret() {
    let mut report = report();
    report.findings[0].excerpt = format!("{}X{}", "a".repeat(5000), "b".repeat(5000));
    report.findings[0].column = 5001;
    let text = written(&report, Format::Text, false);
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines.iter().all(|line| line.len() < 140));
    assert_eq!(lines[3].find('X'), lines[4].find('^'));
}

#[test]
fn github_commands_cannot_be_broken_out_of() {
    let text = written(&report(), Format::Github, true);
    let expected = "::error file=a%2Cb%3Ac.yaml,line=12,col=13,title=CODER0204::spec.replicas: -1 is less than 0 [2J; say 100%25 or ::error::more";
    assert_eq!(text.lines().next(), Some(expected));
    assert_eq!(text.lines().count(), 2);
}

#[test]
fn json_is_one_stable_document() {
    let text = written(&report(), Format::Json, true);
    let value: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(value["version"], 1);
    assert_eq!(
        value["summary"],
        serde_json::json!({"errors": 1, "warnings": 0, "suppressed": 2, "objects": 1, "files": 1})
    );
    let order = ["severity", "code", "message", "field", "object", "file", "line", "column", "help"];
    let places: Vec<_> = order.iter().map(|key| text.find(&format!("\"{key}\":")).unwrap()).collect();
    assert!(places.is_sorted(), "{text}");
}
