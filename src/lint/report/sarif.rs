//! Decides the SARIF 2.1.0 document of a report, which code scanning reads: the rules that were broken, and each finding with
//! its place. Never names a rule that no finding refers to.

use super::super::explain;
use super::super::findings::{Finding, Report};
use super::plain;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::io::{self, Write};

const SCHEMA: &str = "https://json.schemastore.org/sarif-2.1.0.json";

/// The page with a section for every code, as it was when this version was released.
const RULES: &str =
    concat!(env!("CARGO_PKG_REPOSITORY"), "/blob/v", env!("CARGO_PKG_VERSION"), "/docs/rules.md");

pub(super) fn write(report: &Report, out: &mut dyn Write) -> io::Result<()> {
    let codes: BTreeSet<&str> = report.findings.iter().map(|finding| finding.code.as_str()).collect();
    let codes: Vec<&str> = codes.into_iter().collect();
    let rules: Vec<Value> = codes.iter().map(|code| rule(code)).collect();
    let results: Vec<Value> = report.findings.iter().map(|finding| result(finding, &codes)).collect();
    let driver = json!({
        "name": "coder-k8s lint",
        "informationUri": env!("CARGO_PKG_REPOSITORY"),
        "semanticVersion": env!("CARGO_PKG_VERSION"),
        "rules": rules,
    });
    let run = json!({ "tool": { "driver": driver }, "columnKind": "unicodeCodePoints", "results": results });
    let document = json!({ "$schema": SCHEMA, "version": "2.1.0", "runs": [run] });
    serde_json::to_writer_pretty(&mut *out, &document)?;
    writeln!(out)
}

/// A rule, with the same page that `coder-k8s explain` prints.
fn rule(code: &str) -> Value {
    let page = explain::page(code).unwrap_or_default();
    let mut rule = json!({
        "id": code,
        "help": { "text": page, "markdown": page },
        "helpUri": format!("{RULES}#{}", code.to_lowercase()),
    });
    if let Some((title, why, severity)) = explain::about(code) {
        rule["shortDescription"] = json!({ "text": title });
        rule["fullDescription"] = json!({ "text": why });
        rule["defaultConfiguration"] = json!({ "level": severity.as_str() });
    }
    rule
}

fn result(finding: &Finding, codes: &[&str]) -> Value {
    let field = if finding.field.is_empty() { String::new() } else { format!("{}: ", finding.field) };
    let help = if finding.help.is_empty() { String::new() } else { format!("; {}", finding.help) };
    let width = u32::try_from(finding.width).unwrap_or(1);
    let region = json!({
        "startLine": finding.line,
        "startColumn": finding.column,
        "endColumn": finding.column.saturating_add(width),
    });
    let place = json!({ "artifactLocation": { "uri": uri(&finding.file) }, "region": region });
    json!({
        "ruleId": finding.code,
        "ruleIndex": codes.iter().position(|code| *code == finding.code),
        "level": finding.severity.as_str(),
        "message": { "text": unlinked(&plain(&format!("{field}{}{help}", finding.message))) },
        "locations": [{ "physicalLocation": place }],
    })
}

/// A text in which nothing is a link: in SARIF, `[words](target)` is one also in a plain text, and a manifest may hold such words.
fn unlinked(text: &str) -> String {
    text.replace('\\', r"\\").replace('[', r"\[").replace(']', r"\]")
}

/// A path as a URI, relative where the path is: whatever a name holds besides plain letters is written by its bytes.
fn uri(file: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~/".contains(&byte);
    let written = |byte: u8| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") };
    let path: String = file.strip_prefix("./").unwrap_or(file).bytes().map(written).collect();
    if file.starts_with('/') { format!("file://{path}") } else { path }
}
