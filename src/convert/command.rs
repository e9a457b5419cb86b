//! Decides what `convert` takes, prints and answers with: 0 if every value has its place, 1 if not, 2 for a wrong call or
//! unreadable input. Never decides what a value becomes.

use super::{Chart, Converted, Release, Told, helm_values};
use crate::foreign::cleaned;
use crate::lint;
use clap::{Args, Subcommand};
use serde_json::Value;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

/// What can be converted.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Print what the values of Coder's Helm chart become; what has no place is told on standard error.
    HelmValues(HelmValuesArgs),
}

/// Arguments of `convert helm-values`.
#[derive(Debug, Args)]
pub(crate) struct HelmValuesArgs {
    /// The values, as `helm get values RELEASE` prints them, or `-` for standard input.
    pub path: PathBuf,
    /// The chart they are for.
    #[arg(long, value_enum, default_value = "coder")]
    pub chart: Chart,
    /// Name of the object, its Service and its Deployment. Default: as the chart names them.
    #[arg(long)]
    pub name: Option<String>,
    /// Namespace to write into the object. Default: none.
    #[arg(long)]
    pub namespace: Option<String>,
    /// Version of the chart, which is that of Coder where the values name no image tag.
    #[arg(long)]
    pub chart_version: Option<String>,
    /// The CoderControlPlane that provisioner daemons belong to.
    #[arg(long, default_value = "coder")]
    pub control_plane: String,
}

const EVERYTHING: u8 = 0;
const NOT_EVERYTHING: u8 = 1;
const UNUSABLE: u8 = 2;
/// Characters of what is told at once: far more than any chart needs.
const LONGEST: usize = 400;

/// Runs a subcommand on the streams of the process.
pub(crate) fn run(Command::HelmValues(args): &Command) -> ExitCode {
    let text = values(args).and_then(|values| {
        let release = Release {
            chart: args.chart,
            name: args.name.clone(),
            namespace: args.namespace.clone(),
            chart_version: args.chart_version.clone(),
            control_plane: args.control_plane.clone(),
        };
        let converted = helm_values(&values, &release).map_err(|error| error.to_string())?;
        Ok((documents(&converted.objects)?, converted))
    });
    let (text, converted) = match text {
        Ok(converted) => converted,
        Err(message) => {
            // If standard error is gone, the exit code has to be enough.
            let _ = writeln!(io::stderr(), "coder-k8s: {}", cleaned(&message, LONGEST));
            return ExitCode::from(UNUSABLE);
        }
    };
    match io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => return ExitCode::from(UNUSABLE),
        _ => {}
    }
    let _ = io::stderr().write_all(remarks(&converted).as_bytes());
    ExitCode::from(if converted.not_carried.is_empty() { EVERYTHING } else { NOT_EVERYTHING })
}

/// The one document of the input; none is a release with every default.
fn values(args: &HelmValuesArgs) -> Result<Value, String> {
    let loaded = lint::load(std::slice::from_ref(&args.path), &mut io::stdin().lock());
    if let Some(error) = loaded.unreadable.first() {
        return Err(error.to_string());
    }
    let [source] = loaded.sources.as_slice() else {
        return Err(format!("cannot convert {}: give one file", args.path.display()));
    };
    if is_without_values(&source.text) {
        return Ok(Value::Object(serde_json::Map::new()));
    }
    if let Some(flaw) = source.stream.flaws.first() {
        return Err(format!("cannot read {}, line {}: {}", source.name, flaw.span.line, flaw.message));
    }
    match source.stream.documents.as_slice() {
        [] => Ok(Value::Object(serde_json::Map::new())),
        [document] => Ok(document.root.to_value()),
        _ => Err(format!("cannot convert {}: it holds more than one document", source.name)),
    }
}

/// Whether this is what Helm prints of a release that nobody gave values: a heading and null, which together are no YAML.
fn is_without_values(text: &str) -> bool {
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    [lines.next(), lines.next(), lines.next()] == [Some("USER-SUPPLIED VALUES:"), Some("null"), None]
}

fn documents(objects: &[Value]) -> Result<String, String> {
    let mut text = String::new();
    for object in objects {
        let yaml = serde_saphyr::to_string(object).map_err(|error| format!("cannot write YAML: {error}"))?;
        text.push_str("---\n");
        text.push_str(&yaml);
    }
    Ok(text)
}

/// One line for each value that is told; keys and values in it were written by somebody else.
fn remarks(converted: &Converted) -> String {
    let line = |what: &str, Told { value, why, instead }: &Told| {
        let [value, why, instead] = [value, why, instead].map(|text| cleaned(text, LONGEST));
        format!("{what}: {value}: {why}; {instead}\n")
    };
    let Converted { objects: _, not_carried, to_do } = converted;
    let lost = not_carried.iter().map(|told| line("not carried", told));
    lost.chain(to_do.iter().map(|told| line("to do", told))).collect()
}
