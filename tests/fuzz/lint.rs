//! Decides what must hold for any text given to lint, whoever wrote it.
//! Never says which findings are right: the suite of lint does. Shared by the fuzz target and the replay.

use coder_k8s::lint::{self, Arrival, Format, Loaded, Report, Settings, Source};
use serde_json::Value;
use std::path::Path;

/// Starts a file of a tree; the rest of the line is its path.
const FILE: &str = "#file: ";

/// A text is judged as what a tool rendered, and as a tree of files.
pub fn holds(bytes: &[u8]) {
    let mut stdin = bytes;
    let rendered = lint::load(&["-".into()], &mut stdin);
    judge(&rendered);
    if let Ok(text) = std::str::from_utf8(bytes) {
        judge(&tree(text));
    }
}

/// The files of a text. What comes before the first `#file: ` is one too.
fn tree(text: &str) -> Loaded {
    let mut loaded = Loaded::default();
    let mut add = |path: &str, text: &str| {
        let arrival = if loaded.sources.is_empty() { Arrival::Named } else { Arrival::Found };
        loaded.sources.push(Source::new(path.to_owned(), Some(path.into()), arrival, text.to_owned()));
    };
    let mut parts = text.split(FILE);
    let first = parts.next().unwrap_or_default();
    if !first.is_empty() {
        add("manifest.yaml", first);
    }
    for part in parts {
        let (path, text) = part.split_once('\n').unwrap_or((part, ""));
        add(path, text);
    }
    loaded
}

fn judge(loaded: &Loaded) {
    let settings = Settings::default();
    // Origins are looked for in a folder that is not there: what a text finds must not depend on the machine.
    let report = lint::check(loaded, &settings, Path::new("/there/is/no/such/folder"));
    let texts: Vec<_> = loaded.sources.iter().map(|source| (&source.name, lines(&source.text))).collect();
    for finding in &report.findings {
        let mut of_this_name = texts.iter().filter(|(name, _)| **name == finding.file);
        let inside = of_this_name.any(|(_, lines)| points_inside(lines, finding));
        assert!(inside, "points outside of its file: {finding:?}");
    }
    told(&report);
}

/// Whether line, column and width lie in the text; the end of a line, and of the text, is a place too.
fn points_inside(lines: &[&str], finding: &lint::Finding) -> bool {
    let Some(line) = lines.get(finding.line as usize - 1) else { return false };
    let (column, length) = (finding.column as usize, line.chars().count());
    let end = column - 1 + finding.width;
    finding.excerpt == *line && (end <= length || (finding.width == 1 && column == length + 1))
}

/// Lines as YAML counts them: a carriage return alone ends one too.
fn lines(text: &str) -> Vec<&str> {
    let mut lines = Vec::new();
    let mut rest = text;
    while let Some(place) = rest.find(['\n', '\r']) {
        lines.push(&rest[..place]);
        let width = if rest[place..].starts_with("\r\n") { 2 } else { 1 };
        rest = &rest[place + width..];
    }
    lines.push(rest);
    lines
}

/// Every format holds every finding, and no control character of the text reaches a terminal.
fn told(report: &Report) {
    let written = |format| {
        let mut out = Vec::new();
        lint::write(report, format, false, &mut out).expect("memory can be written");
        String::from_utf8(out).expect("reports are text")
    };
    let json: Value = serde_json::from_str(&written(Format::Json)).expect("the report is JSON");
    assert_eq!(json["findings"].as_array().map(Vec::len), Some(report.findings.len()));
    let (text, github) = (written(Format::Text), written(Format::Github));
    for told in [&text, &github] {
        let control = told.chars().find(|letter| letter.is_control() && *letter != '\n');
        assert_eq!(control, None, "{told:?}");
    }
    assert_eq!(github.lines().count(), report.findings.len() + 1, "{github}");
    assert!(github.lines().take(report.findings.len()).all(|line| line.starts_with("::")), "{github}");
    assert_eq!(
        text.lines().filter(|line| line.trim_start().starts_with("--> ")).count(),
        report.findings.len()
    );
}
