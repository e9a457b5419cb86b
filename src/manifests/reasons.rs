//! Decides what the page on reasons shows: every reason of each kind, who acts on it and what it means.
//! It never says what the enums do not say.

use super::reference::{HEADER, cell, code};
use super::{File, Generated};
use crate::controller::{control_plane, provisioner, workspace_proxy};

const OPENING: &str = "# Reasons\n\n\
    Every `reason` in a condition or an Event. They are API: a reason keeps its name and its meaning. \
    [control-plane.md](../control-plane.md), [provisioner.md](../provisioner.md) and \
    [workspace-proxy.md](../workspace-proxy.md) say which condition has which of them.\n\n\
    Action needed `yes`: nothing comes of it before somebody acts. `Stalled` is True only where that is a change of the spec, or of \
    what belongs to somebody else; while something is waited for that others have yet to make, the object is `Reconciling`.\n";

/// A reason, who acts on it and what it means.
type Row = [&'static str; 3];

/// `docs/reference/reasons.md`.
pub(super) fn files() -> Generated {
    let control_plane = control_plane::reasons::Reason::ALL.iter();
    let control_plane = control_plane.map(|one| [one.as_str(), one.class().as_str(), one.doc()]).collect();
    let provisioner = provisioner::reasons::Reason::ALL.iter();
    let provisioner = provisioner.map(|one| [one.as_str(), one.class().as_str(), one.doc()]).collect();
    let workspace_proxy = workspace_proxy::reasons::Reason::ALL.iter();
    let workspace_proxy =
        workspace_proxy.map(|one| [one.as_str(), one.class().as_str(), one.doc()]).collect();
    let tables = [
        table("CoderControlPlane", control_plane),
        table("CoderProvisioner", provisioner),
        table("CoderWorkspaceProxy", workspace_proxy),
    ]
    .concat();
    Ok(vec![File {
        path: "docs/reference/reasons.md".to_owned(),
        content: format!("{HEADER}\n{OPENING}{tables}"),
    }])
}

fn table(kind: &str, mut rows: Vec<Row>) -> String {
    rows.sort_unstable();
    let row =
        |[reason, action, meaning]: &Row| format!("| {} | {action} | {} |\n", code(reason), cell(meaning));
    let rows: String = rows.iter().map(row).collect();
    format!("\n## {kind}\n\n| reason | action needed | meaning |\n|---|---|---|\n{rows}")
}
