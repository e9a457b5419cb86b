//! Decides how a finding is told to GitHub: one workflow command a finding.
//! Never lets a manifest write a command of its own: what separates commands is escaped.

use super::super::findings::{Report, Severity};
use super::{plain, summary};
use std::io::{self, Write};

pub(super) fn write(report: &Report, out: &mut dyn Write) -> io::Result<()> {
    for finding in &report.findings {
        let level = match finding.severity {
            Severity::Error => "error",
            Severity::Warning => "warning",
        };
        let file = property(&finding.file);
        let field = if finding.field.is_empty() { String::new() } else { format!("{}: ", finding.field) };
        let help = if finding.help.is_empty() { String::new() } else { format!("; {}", finding.help) };
        let text = data(&plain(&format!("{field}{}{help}", finding.message)));
        let (line, column, code) = (finding.line, finding.column, property(&finding.code));
        writeln!(out, "::{level} file={file},line={line},col={column},title={code}::{text}")?;
    }
    writeln!(out, "coder-k8s lint: {}", summary(report))
}

/// Escaped for the text of a command.
fn data(text: &str) -> String {
    text.replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A")
}

/// Escaped for a property of a command. The name of a file may hold anything but a slash.
fn property(text: &str) -> String {
    plain(&data(text)).replace(':', "%3A").replace(',', "%2C")
}
