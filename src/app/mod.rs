//! The composition root: what runs in which mode, who leads, when we are ready, and the order in which things stop.
//! It wires the other rooms together; none of them knows it.

mod certificates;
mod cli;
mod durations;
mod flags;
mod kinds;
pub mod leader_tasks;
mod listeners;
mod log_lines;
mod logging;
mod modes;
mod permissions;
mod process;
mod reconcilers;
mod shutdown;

use clap::Parser;
use std::process::ExitCode;

/// Parses the command line and runs what it asks for.
pub fn main() -> ExitCode {
    let cli = cli::Cli::parse();
    match cli.command {
        Some(command) => cli::run(command),
        None => process::run(cli.flags),
    }
}
