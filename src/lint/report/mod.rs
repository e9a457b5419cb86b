//! Decides how findings are told: to people, to programs, to GitHub, to code scanning.
//! Never prints a control character that a manifest brought along.

mod github;
mod json;
mod sarif;
mod text;

use super::findings::{Report, Severity};
use crate::foreign::is_unseen;
use clap::ValueEnum;
use std::io::{self, Write};

/// How findings are told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// With the line of the file and a caret, for people.
    Text,
    /// One JSON document.
    Json,
    /// Workflow commands that GitHub shows in a pull request.
    Github,
    /// SARIF 2.1.0, for code scanning.
    Sarif,
}

/// Writes a report.
pub fn write(report: &Report, format: Format, colors: bool, out: &mut dyn Write) -> io::Result<()> {
    match format {
        Format::Text => text::write(report, colors, out),
        Format::Json => json::write(report, out),
        Format::Github => github::write(report, out),
        Format::Sarif => sarif::write(report, out),
    }
}

/// `2 errors, 1 warning in 3 objects of 4 files`.
pub(super) fn summary(report: &Report) -> String {
    let count = |number: usize, one: &str| {
        if number == 1 { format!("1 {one}") } else { format!("{number} {one}s") }
    };
    let mut summary = format!(
        "{}, {} in {} of {}",
        count(report.count(Severity::Error), "error"),
        count(report.count(Severity::Warning), "warning"),
        count(report.objects, "object"),
        count(report.files, "file"),
    );
    if report.suppressed > 0 {
        summary.push_str(&format!(", {} suppressed", report.suppressed));
    }
    summary
}

/// A text in one line without what a terminal would obey.
fn plain(text: &str) -> String {
    text.chars().map(|letter| if is_unseen(letter) { ' ' } else { letter }).collect()
}

#[cfg(test)]
mod tests;
