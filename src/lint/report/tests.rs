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

#[test]
fn sarif_has_what_code_scanning_requires() {
    let text = written(&report(), Format::Sarif, true);
    assert!(!text.contains('\u{1b}'));
    let value: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(value["version"], "2.1.0");
    let run = &value["runs"][0];
    let rule = &run["tool"]["driver"]["rules"][0];
    assert_eq!(rule["id"], "CODER0204");
    assert!(rule["help"]["text"].as_str().unwrap().contains("Fix:"), "{rule}");
    assert!(rule["helpUri"].as_str().unwrap().ends_with("/docs/rules.md#coder0204"), "{rule}");
    assert!(rule["fullDescription"]["text"].as_str().unwrap().len() > 20, "{rule}");
    assert_eq!(rule["defaultConfiguration"]["level"], "error");
    let result = &run["results"][0];
    assert_eq!((&result["ruleId"], &result["ruleIndex"]), (&rule["id"], &serde_json::json!(0)));
    assert_eq!(result["level"], "error");
    let place = &result["locations"][0]["physicalLocation"];
    assert_eq!(place["artifactLocation"]["uri"], "a%2Cb%3Ac.yaml");
    assert_eq!(place["region"], serde_json::json!({"startLine": 12, "startColumn": 13, "endColumn": 15}));
    assert!(result["message"]["text"].as_str().unwrap().starts_with("spec.replicas: -1 is less"), "{result}");
}

#[test]
fn sarif_without_findings_still_has_a_run_with_results() {
    let text = written(&Report { files: 1, objects: 1, ..Report::default() }, Format::Sarif, false);
    let value: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(value["runs"][0]["results"], serde_json::json!([]));
}

#[test]
fn sarif_makes_no_link_of_what_a_manifest_says() {
    let mut report = report();
    report.findings[0].message = r"\[log in](https://evil.example.com) is not a name".into();
    report.findings[0].field = "spec.extraEnv[0]".into();
    let value: serde_json::Value = serde_json::from_str(&written(&report, Format::Sarif, false)).unwrap();
    let text = value["runs"][0]["results"][0]["message"]["text"].as_str().unwrap();
    let shown = r"spec.extraEnv\[0\]: \\\[log in\](https://evil.example.com) is not a name";
    assert!(text.starts_with(shown), "{text}");
}
