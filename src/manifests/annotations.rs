//! Decides what the page on annotations shows: every one that the operator reads on our objects, where, and what it does.
//! It never says what the list in `crds` does not say.

use super::reference::{HEADER, cell, code};
use super::{File, Generated};
use crds::well_known::annotation::{READ, Read};

const OPENING: &str = "# Annotations\n\n\
    Every annotation that the operator reads on a CoderControlPlane, CoderProvisioner or CoderWorkspaceProxy. One that is \
    reviewed asks for the same permissions as a change of what pods run, see [rules.md](../rules.md). Any other annotation \
    of `coder.com` on such an object is told by `coder-k8s lint` and as a warning of `kubectl` (CODER0119).\n\n\
    | annotation | on | value | what it does | reviewed |\n|---|---|---|---|---|\n";

/// `docs/reference/annotations.md`.
pub(super) fn files() -> Generated {
    let rows: String = READ.iter().map(row).collect();
    let content = format!("{HEADER}\n{OPENING}{rows}");
    Ok(vec![File { path: "docs/reference/annotations.md".to_owned(), content }])
}

fn row(read: &Read) -> String {
    let Read { key, kinds, value, only: _, does, acts } = read;
    let reviewed = if *acts { "yes" } else { "no" };
    format!("| {} | {} | {value} | {} | {reviewed} |\n", code(key), kinds.join(", "), cell(does))
}
