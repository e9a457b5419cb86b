//! Decides what must hold for any body of an AdmissionReview and any text of a manifest, whoever wrote it.
//! Never says which verdict is right: the suites of admission and lint do. Shared by the fuzz targets and the replay.

use coder_k8s::admission::decide::{self, Decision};
use coder_k8s::admission::review::{self, Operation, Request};
use coder_k8s::lint::{self, Arrival, Format, Loaded, Report, Settings, Source};
use k8s_openapi::ByteString;
use serde_json::Value;
use std::path::Path;
use webhooks::{Config, Inquiry, required_access};

/// A body is answered, or refused as unreadable; defaults are written once, and both webhooks agree.
pub fn review(body: &[u8]) {
    let Ok(request) = review::read(body) else { return };
    let config = Config::default();
    let first = decide::mutate(&request, &config);
    let patch = answered(&request, &first);
    let judged = decide::validate(&request);
    assert_eq!(answered(&request, &judged), None, "the validating webhook changes nothing");
    if !first.allowed() {
        return;
    }
    let mut stored = request.clone();
    if let Some(patch) = patch {
        let patch: json_patch::Patch = serde_json::from_slice(&patch).expect("the patch is a JSON patch");
        json_patch::patch(&mut stored.object, &patch).expect("the patch applies");
    }
    let second = decide::mutate(&stored, &config);
    assert!(second.allowed() && second.patch.0.is_empty(), "defaults are not stable: {:?}", second.patch);
    let last = decide::validate(&stored);
    assert!(last.allowed(), "what was let in is refused later: {}", last.message());
    inquire(&stored);
}

/// Writes an answer, reads it back, and returns its patch.
fn answered(request: &Request, decision: &Decision) -> Option<Vec<u8>> {
    let written = review::write(request, decision);
    let answer: Value = serde_json::from_str(&written).expect("the answer is JSON");
    let response = &answer["response"];
    assert_eq!(response["uid"], request.uid.as_str());
    assert_eq!(response["allowed"], decision.allowed());
    if !decision.allowed() {
        assert_eq!(response["status"]["code"], 403, "{written}");
        assert!(response.get("patch").is_none() && response.get("patchType").is_none(), "{written}");
        let causes = response["status"]["details"]["causes"].as_array().expect("there are causes");
        assert!(!causes.is_empty() && causes.iter().all(|cause| cause["message"] != ""), "{written}");
        return None;
    }
    assert!(response.get("status").is_none(), "{written}");
    let patch = response.get("patch")?.clone();
    assert_eq!(response["patchType"], "JSONPatch");
    Some(serde_json::from_value::<ByteString>(patch).expect("the patch is base64").0)
}

/// The questions about rights come to an end, whether every answer is yes or no.
fn inquire(request: &Request) {
    let old = match &request.operation {
        Operation::Create => None,
        Operation::Update { old } => Some(old),
    };
    let required = required_access(old, &request.object, &request.namespace, request.kind);
    for allowed in [true, false] {
        let mut inquiry = Inquiry::new(required.clone());
        for _ in 0..=webhooks::authority::QUESTIONS {
            for question in inquiry.questions() {
                inquiry.record(question, allowed);
            }
        }
        assert!(inquiry.questions().is_empty(), "more rounds of questions than questions");
        inquiry.causes();
    }
}

/// Starts a file of a tree; the rest of the line is its path.
const FILE: &str = "#file: ";

/// A text is judged as what a tool rendered, and as a tree of files.
pub fn lint(bytes: &[u8]) {
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
    let settings = Settings { default_image: Config::default().default_image };
    // Origins are looked for in a folder that is not there: what a text finds must not depend on the machine.
    let report = lint::check(loaded, &settings, Path::new("/there/is/no/such/folder"));
    for finding in &report.findings {
        let of_this_name = loaded.sources.iter().filter(|source| source.name == finding.file);
        let inside = of_this_name.map(|source| points_inside(source, finding)).collect::<Vec<_>>();
        assert!(inside.contains(&true), "points outside of its file: {finding:?}");
    }
    told(&report);
}

/// Whether line, column and width lie in the text; the end of a line, and of the text, is a place too.
fn points_inside(source: &Source, finding: &lint::Finding) -> bool {
    let Some(line) = lines(&source.text).into_iter().nth(finding.line as usize - 1) else { return false };
    let (column, length) = (finding.column as usize, line.chars().count());
    let end = column - 1 + finding.width;
    finding.excerpt == line && (end <= length || (finding.width == 1 && column == length + 1))
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
