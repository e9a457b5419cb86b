//! Decides the JSON of a report: one document, whose fields keep their names and order.
//! Never leaves a field out: an empty text says that there is nothing.

use super::super::findings::{Finding, Report, Severity};
use serde::Serialize;
use std::io::{self, Write};

#[derive(Serialize)]
struct Document<'a> {
    /// Raised when a field changes its meaning.
    version: u32,
    findings: &'a [Finding],
    summary: Summary,
}

#[derive(Serialize)]
struct Summary {
    errors: usize,
    warnings: usize,
    suppressed: usize,
    objects: usize,
    files: usize,
}

pub(super) fn write(report: &Report, out: &mut dyn Write) -> io::Result<()> {
    let summary = Summary {
        errors: report.count(Severity::Error),
        warnings: report.count(Severity::Warning),
        suppressed: report.suppressed,
        objects: report.objects,
        files: report.files,
    };
    let document = Document { version: 1, findings: &report.findings, summary };
    serde_json::to_writer_pretty(&mut *out, &document)?;
    writeln!(out)
}
