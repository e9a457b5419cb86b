//! Decides what the subcommands `lint`, `render` and `explain` take, print and answer with: 0 clean, 1 findings, 2 a
//! wrong call or unreadable input. Never decides what a finding is.

use super::engine::Settings;
use super::render::{self, Choice, PrintChildren};
use super::report::{self, Format};
use super::{explain, sources};
use clap::{Args, Subcommand};
use std::io::{self, IsTerminal, Read, Write};
use std::path::PathBuf;
use std::process::ExitCode;

/// The subcommands that judge manifests without a cluster.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Check manifests as admission would, without a cluster.
    Lint(LintArgs),
    /// Print objects with their defaults, as they would be stored.
    Render(RenderArgs),
    /// Explain the code of a finding.
    Explain(ExplainArgs),
}

/// Arguments of `lint`.
#[derive(Debug, Args)]
pub(crate) struct LintArgs {
    /// Files, folders (*.yaml, *.yml and *.json below them), or `-` for what kustomize rendered.
    #[arg(default_value = ".")]
    pub paths: Vec<PathBuf>,
    /// How findings are told.
    #[arg(long, value_enum, default_value = "text")]
    pub format: Format,
    /// Fail on warnings too.
    #[arg(long)]
    pub strict: bool,
    /// The folder that was rendered to standard input; `config.kubernetes.io/origin` is relative to it.
    #[arg(long, default_value = ".")]
    pub built: PathBuf,
    /// What the operator is configured with.
    #[command(flatten)]
    pub operator: OperatorArgs,
}

/// Arguments of `render`.
#[derive(Debug, Args)]
pub(crate) struct RenderArgs {
    /// A file or folder, or `-` for standard input.
    pub path: PathBuf,
    /// Write every default into the object, also those that are computed and never stored.
    #[arg(long)]
    pub resolved: bool,
    /// Print what the operator creates from the object instead.
    #[arg(long, conflicts_with = "resolved")]
    pub children: bool,
    /// What the operator is configured with.
    #[command(flatten)]
    pub operator: OperatorArgs,
}

/// Arguments of `explain`.
#[derive(Debug, Args)]
pub(crate) struct ExplainArgs {
    /// A code such as CODER0101.
    pub code: String,
}

/// What the operator is configured with, as far as it changes a verdict.
#[derive(Debug, Args)]
pub(crate) struct OperatorArgs {
    /// Image where a manifest names none; what the operator is started with.
    #[arg(long, env = "CODER_K8S_DEFAULT_IMAGE", default_value = crds::well_known::default::IMAGE)]
    pub default_image: String,
    /// The DNS domain of the cluster; what the operator is started with.
    #[arg(long, env = "CODER_K8S_CLUSTER_DOMAIN", default_value = crds::well_known::default::CLUSTER_DOMAIN)]
    pub cluster_domain: String,
}

impl OperatorArgs {
    fn settings(&self) -> Settings {
        Settings { default_image: self.default_image.clone(), cluster_domain: self.cluster_domain.clone() }
    }
}

/// Where a command reads and writes.
pub(crate) struct Streams<'a> {
    /// Standard input.
    pub input: &'a mut dyn Read,
    /// Standard output.
    pub output: &'a mut dyn Write,
    /// Standard error.
    pub errors: &'a mut dyn Write,
    /// Whether the output may be coloured.
    pub colors: bool,
}

const CLEAN: u8 = 0;
const FOUND: u8 = 1;
const UNUSABLE: u8 = 2;

/// Runs a subcommand on the streams of the process; `children` prints what the operator creates. Colours go to a
/// terminal only, and never with `NO_COLOR`.
pub(crate) fn run(command: &Command, children: PrintChildren<'_>) -> ExitCode {
    let colors =
        io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    let mut output = io::BufWriter::new(io::stdout().lock());
    let mut streams =
        Streams { input: &mut io::stdin().lock(), output: &mut output, errors: &mut io::stderr(), colors };
    let code = run_with(command, &mut streams, Some(children));
    // Whoever closed the pipe has read enough.
    let _ = output.flush();
    ExitCode::from(code)
}

/// Runs a subcommand; the result is the exit code. `children` is whoever can print what the operator creates.
pub(crate) fn run_with(
    command: &Command,
    streams: &mut Streams<'_>,
    children: Option<PrintChildren<'_>>,
) -> u8 {
    match command {
        Command::Lint(args) => lint(args, streams),
        Command::Render(args) => render(args, streams, children),
        Command::Explain(args) => explain(&args.code, streams),
    }
}

fn lint(args: &LintArgs, streams: &mut Streams<'_>) -> u8 {
    let loaded = sources::load(&args.paths, streams.input);
    let report = super::check(&loaded, &args.operator.settings(), &args.built);
    let written = report::write(&report, args.format, streams.colors, streams.output);
    for error in &loaded.unreadable {
        say(streams, &error.to_string());
    }
    match written {
        _ if !loaded.unreadable.is_empty() => UNUSABLE,
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            say(streams, &format!("cannot print the findings: {error}"));
            UNUSABLE
        }
        _ if report.fails(args.strict) => FOUND,
        _ => CLEAN,
    }
}

fn render(args: &RenderArgs, streams: &mut Streams<'_>, children: Option<PrintChildren<'_>>) -> u8 {
    let loaded = sources::load(std::slice::from_ref(&args.path), streams.input);
    if let Some(error) = loaded.unreadable.first() {
        say(streams, &error.to_string());
        return UNUSABLE;
    }
    let choice = Choice { resolved: args.resolved, children: args.children.then_some(children) };
    match render::render(&loaded, &args.operator.settings(), choice) {
        Ok(text) => print(&text, streams),
        Err(error) => {
            say(streams, &error.to_string());
            UNUSABLE
        }
    }
}

fn explain(code: &str, streams: &mut Streams<'_>) -> u8 {
    match explain::page(code) {
        Some(page) => print(&page, streams),
        None => {
            let near = explain::near(code).join("\n  ");
            say(streams, &format!("there is no code {}; near are\n  {near}", code.escape_debug()));
            UNUSABLE
        }
    }
}

fn print(text: &str, streams: &mut Streams<'_>) -> u8 {
    match streams.output.write_all(text.as_bytes()) {
        Ok(()) => CLEAN,
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => CLEAN,
        Err(error) => {
            say(streams, &format!("cannot print: {error}"));
            UNUSABLE
        }
    }
}

/// Says why on standard error.
fn say(streams: &mut Streams<'_>, message: &str) {
    // If standard error is gone, the exit code has to be enough.
    let _ = writeln!(streams.errors, "coder-k8s: {message}");
}
