//! Logs: format and level by flag, the level changeable at run time.
//! Only our own code speaks below `warn`: libraries may quote what they received, which may be secret. Whoever is quoted,
//! no line holds what a terminal would obey or what would look like another line.

use super::log_lines::JsonLines;
use crate::foreign::is_unseen;
use crate::serving::admin::SetLogLevel;
use clap::ValueEnum;
use std::io::{self, Write};
use std::sync::Arc;
use tracing_subscriber::fmt::format::JsonFields;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Layer, fmt, reload};

/// How log lines look.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// One JSON object a line.
    Json,
    /// For people.
    Text,
}

/// How much is logged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Level {
    /// What failed for good.
    Error,
    /// What failed and is tried again, and what looks wrong.
    Warn,
    /// What changed.
    Info,
    /// What was decided.
    Debug,
    /// Everything.
    Trace,
}

impl Level {
    /// `kube_client` quotes answers it cannot parse, `kube_runtime` repeats errors we report: both are silent.
    fn filter(self) -> EnvFilter {
        let level = format!("{self:?}").to_lowercase();
        EnvFilter::new(format!("warn,kube_client=off,kube_runtime=off,coder_k8s={level}"))
    }
}

/// Starts logging; the result changes the level later.
pub(super) fn start(format: Format, level: Level) -> SetLogLevel {
    let (filter, handle) = reload::Layer::new(level.filter());
    let lines = fmt::layer().with_writer(|| Visible(io::stderr())).with_target(true);
    let lines = match format {
        Format::Json => lines.fmt_fields(JsonFields::new()).event_format(JsonLines).boxed(),
        Format::Text => lines.boxed(),
    };
    tracing_subscriber::registry().with(filter).with(lines).init();
    Arc::new(move |name: &str| {
        let level = Level::from_str(name, true)
            .map_err(|_| format!("{name:?} is no log level; choose error, warn, info, debug or trace"))?;
        handle.reload(level.filter()).map_err(|error| format!("cannot change the log level: {error}"))
    })
}

/// Writes each line without what nobody should see. A line comes in one piece.
struct Visible<W>(W);

impl<W: Write> Write for Visible<W> {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.0.write_all(visible(&String::from_utf8_lossy(line)).as_bytes())?;
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// The line with a space for each character that is not to be seen; its end stays.
fn visible(line: &str) -> String {
    let (text, end) = line.strip_suffix('\n').map_or((line, ""), |text| (text, "\n"));
    let text: String = text.chars().map(|letter| if is_unseen(letter) { ' ' } else { letter }).collect();
    text + end
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_who_is_quoted_writes_lines_or_commands() {
        let mut out = Vec::new();
        let line = "WARN said=\"no\nERROR forged \u{1b}[2J\u{202e}x\u{85}\" ok\n";
        assert_eq!(Visible(&mut out).write(line.as_bytes()).unwrap(), line.len());
        assert_eq!(String::from_utf8(out).unwrap(), "WARN said=\"no ERROR forged  [2J x \" ok\n");
        assert_eq!(visible("zażółć 日本語\n"), "zażółć 日本語\n");
    }
}
