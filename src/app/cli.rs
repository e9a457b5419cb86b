//! The command line as a whole: flags of the process, and subcommands that need no cluster.

use super::flags::Flags;
use crate::manifests::{self, File, ManifestError};
use crate::{controller, convert, lint};
use clap::{CommandFactory, Parser, Subcommand};
use clap_complete::Shell;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use webhooks::Kind;

/// Version, commit and build profile.
const VERSION: &str =
    concat!(env!("CARGO_PKG_VERSION"), " (", env!("BUILD_COMMIT"), ", ", env!("BUILD_PROFILE"), ")");

/// Runs Coder on Kubernetes from a Git repository: admission webhooks, reconcilers, an aggregated API and MCP.
#[derive(Debug, Parser)]
#[command(name = "coder-k8s", version = VERSION, args_conflicts_with_subcommands = true)]
pub(super) struct Cli {
    /// What to do instead of running the operator.
    #[command(subcommand)]
    pub command: Option<Command>,

    /// The flags of the process.
    #[command(flatten)]
    pub flags: Flags,
}

/// What needs no cluster.
#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Print the generated manifests (CRDs, RBAC) and reference pages, or write them below a folder.
    Manifests {
        /// Write each file below this folder instead of printing YAML.
        #[arg(long)]
        output: Option<PathBuf>,
    },
    /// Print the JSON Schema for editors, of one kind or of all together, or write all of them below a folder.
    Schema {
        /// CoderControlPlane, CoderProvisioner or CoderWorkspaceProxy; without it, a schema for files with several objects.
        #[arg(value_parser = kind, conflicts_with = "output")]
        kind: Option<Kind>,
        /// Write every schema below this folder instead of printing one.
        #[arg(long)]
        output: Option<PathBuf>,
    },
    #[command(flatten)]
    Offline(lint::Command),
    /// Print what something else than a manifest of ours becomes.
    Convert {
        /// What is converted.
        #[command(subcommand)]
        command: convert::Command,
    },
    /// Print the completion script of a shell.
    Completion {
        /// The shell.
        shell: Shell,
    },
    /// Write a manual page of every subcommand below a folder, for packages.
    #[command(hide = true)]
    Manual {
        /// The folder.
        #[arg(long)]
        output: PathBuf,
    },
}

/// Runs a subcommand.
pub(super) fn run(command: Command) -> ExitCode {
    let outcome = match command {
        Command::Offline(command) => return lint::run(&command, &controller::render),
        Command::Convert { command } => return convert::run(&command),
        Command::Completion { shell } => completion(shell),
        Command::Manual { output } => manual(&output),
        Command::Manifests { output } => manifests(output),
        Command::Schema { kind, output } => schema(kind, output.as_deref()),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => fail(&message, 1),
    }
}

/// Says why on standard error.
pub(super) fn fail(message: &str, code: u8) -> ExitCode {
    // If standard error is gone, the exit code has to be enough.
    let _ = writeln!(std::io::stderr(), "coder-k8s: {message}");
    ExitCode::from(code)
}

fn completion(shell: Shell) -> Result<(), String> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "coder-k8s", &mut script);
    std::io::stdout().write_all(&script).map_err(|error| format!("cannot print: {error}"))
}

fn manual(folder: &Path) -> Result<(), String> {
    std::fs::create_dir_all(folder)
        .and_then(|()| clap_mangen::generate_to(Cli::command(), folder))
        .map_err(|error| format!("cannot write {}: {error}", folder.display()))
}

fn manifests(output: Option<PathBuf>) -> Result<(), String> {
    let files = manifests::files().map_err(|error| error.to_string())?;
    match output {
        Some(folder) => files.iter().try_for_each(|file| write_below(&folder, file)),
        None => print_yaml(&files),
    }
}

/// A kind by its name or its plural, in letters of any case.
fn kind(name: &str) -> Result<Kind, String> {
    let is = |kind: &Kind| [kind.name(), kind.plural()].iter().any(|known| known.eq_ignore_ascii_case(name));
    let names = Kind::ALL.map(Kind::name).join(", ");
    Kind::ALL.into_iter().find(is).ok_or_else(|| format!("choose one of {names}"))
}

fn schema(kind: Option<Kind>, output: Option<&Path>) -> Result<(), String> {
    let said = |error: ManifestError| error.to_string();
    match output {
        Some(folder) => {
            manifests::editor_schemas().map_err(said)?.iter().try_for_each(|file| write_below(folder, file))
        }
        None => print(&manifests::editor_schema(kind).map_err(said)?.content),
    }
}

fn write_below(folder: &Path, file: &File) -> Result<(), String> {
    let path = folder.join(&file.path);
    let parent = path.parent().unwrap_or(folder);
    std::fs::create_dir_all(parent)
        .and_then(|()| std::fs::write(&path, &file.content))
        .map_err(|error| format!("cannot write {}: {error}", path.display()))
}

/// What `kubectl apply -f -` can read: the manifests, not the pages.
fn print_yaml(files: &[File]) -> Result<(), String> {
    let manifests = files.iter().filter(|file| file.path.ends_with(".yaml"));
    let text: String = manifests.map(|file| format!("---\n{}", file.content)).collect();
    print(&text)
}

/// Whoever closed the pipe has read enough.
fn print(text: &str) -> Result<(), String> {
    match std::io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => Err(format!("cannot print: {error}")),
        _ => Ok(()),
    }
}
