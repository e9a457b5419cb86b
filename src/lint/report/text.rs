//! Decides how a finding looks in a terminal: message, place, the line with a caret, help.
//! Never shows more of a line than fits a screen.

use super::super::findings::{Finding, Report, Severity};
use super::{plain, summary};
use std::io::{self, Write};

/// Characters of a line that are shown.
const WIDTH: usize = 120;
/// Characters before the caret that are kept of a longer line.
const BEFORE: usize = 60;

/// Escape codes of a terminal, or nothing.
struct Paint {
    error: &'static str,
    warning: &'static str,
    frame: &'static str,
    strong: &'static str,
    end: &'static str,
}

const COLORS: Paint = Paint {
    error: "\u{1b}[1;31m",
    warning: "\u{1b}[1;33m",
    frame: "\u{1b}[34m",
    strong: "\u{1b}[1m",
    end: "\u{1b}[0m",
};
const NO_COLORS: Paint = Paint { error: "", warning: "", frame: "", strong: "", end: "" };

pub(super) fn write(report: &Report, colors: bool, out: &mut dyn Write) -> io::Result<()> {
    let paint = if colors { &COLORS } else { &NO_COLORS };
    for finding in &report.findings {
        write_finding(finding, paint, out)?;
    }
    writeln!(out, "{}", summary(report))
}

fn write_finding(finding: &Finding, paint: &Paint, out: &mut dyn Write) -> io::Result<()> {
    let Paint { frame, strong, end, .. } = paint;
    let level = match finding.severity {
        Severity::Error => paint.error,
        Severity::Warning => paint.warning,
    };
    let margin = finding.line.to_string().len();
    let severity = finding.severity.as_str();
    // Rules of admission say what a field is: without it a message is half a sentence.
    let field = if finding.field.is_empty() { String::new() } else { format!("{}: ", finding.field) };
    let message = plain(&format!("{field}{}", finding.message));
    writeln!(out, "{level}{severity}[{}]{end}{strong}: {message}{end}", finding.code)?;
    let place = format!("{}:{}:{}", plain(&finding.file), finding.line, finding.column);
    writeln!(out, "{:margin$}{frame}-->{end} {place}", "")?;
    let (line, caret) = excerpt(finding);
    writeln!(out, "{:margin$} {frame}|{end}", "")?;
    writeln!(out, "{frame}{} |{end} {line}", finding.line)?;
    writeln!(out, "{:margin$} {frame}|{end} {level}{caret}{end}", "")?;
    for (word, text) in [("in", &finding.object), ("help", &finding.help)] {
        if !text.is_empty() {
            writeln!(out, "{:margin$} {frame}={end} {word}: {}", "", plain(text))?;
        }
    }
    writeln!(out)
}

/// The part of the line around the finding, and a caret below it.
fn excerpt(finding: &Finding) -> (String, String) {
    let column = (finding.column as usize).saturating_sub(1);
    let line = plain(&finding.excerpt);
    let length = line.chars().count();
    let skipped = if length > WIDTH { column.saturating_sub(BEFORE).min(length - WIDTH) } else { 0 };
    let shown: String = line.chars().skip(skipped).take(WIDTH).collect();
    let column = column - skipped.min(column);
    let room = shown.chars().count().saturating_sub(column).max(1);
    let caret = format!("{:column$}{}", "", "^".repeat(finding.width.min(room)), column = column.min(WIDTH));
    (shown.trim_end().to_owned(), caret)
}
