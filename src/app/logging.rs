//! Logs: format and level by flag, the level changeable at run time.
//! Only our own code speaks below `warn`: libraries may quote what they received, which may be secret.

use crate::serving::admin::SetLogLevel;
use clap::ValueEnum;
use std::sync::Arc;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Layer, fmt, reload};

/// How log lines look.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// One JSON object a line.
    Json,
    /// For people.
    Text,
}

/// How much is logged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Level {
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
pub fn start(format: Format, level: Level) -> SetLogLevel {
    let (filter, handle) = reload::Layer::new(level.filter());
    let lines = fmt::layer().with_writer(std::io::stderr).with_target(true);
    let lines = match format {
        Format::Json => {
            lines.json().flatten_event(true).with_current_span(false).with_span_list(false).boxed()
        }
        Format::Text => lines.boxed(),
    };
    tracing_subscriber::registry().with(filter).with(lines).init();
    Arc::new(move |name: &str| {
        let level = Level::from_str(name, true)
            .map_err(|_| format!("{name:?} is no log level; choose error, warn, info, debug or trace"))?;
        handle.reload(level.filter()).map_err(|error| format!("cannot change the log level: {error}"))
    })
}
