//! Which parts of the operator a mode runs. Pure: a table, and nothing is started here.

use clap::ValueEnum;

/// The value of `--app`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Mode {
    /// Everything in one process.
    All,
    /// The reconcilers.
    Controller,
    /// The admission webhooks.
    Webhooks,
    /// The aggregated API `aggregation.coder.com`.
    AggregatedApiserver,
    /// The MCP endpoint.
    McpHttp,
}

/// A part of the operator that a mode may run. Probes, metrics and certificates come with every mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    /// The reconcilers and the watches they need.
    Controller,
    /// The webhook listener.
    Webhooks,
    /// The aggregated API listener and the front-proxy trust it needs.
    AggregatedApi,
    /// The MCP listener.
    Mcp,
}

impl Mode {
    /// Whether this mode runs a part.
    pub(crate) fn runs(self, part: Part) -> bool {
        match self {
            Self::All => true,
            Self::Controller => part == Part::Controller,
            Self::Webhooks => part == Part::Webhooks,
            Self::AggregatedApiserver => part == Part::AggregatedApi,
            Self::McpHttp => part == Part::Mcp,
        }
    }
}
