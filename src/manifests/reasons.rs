//! Decides what the page on reasons shows: every reason of a kind, who acts on it and what it means.
//! It never says what the enum does not say.

use super::reference::{HEADER, cell, code};
use super::{File, Generated};
use crate::controller::control_plane::reasons::Reason;

const OPENING: &str = "# Reasons\n\n\
    Every `reason` in a condition or an Event. They are API: a reason keeps its name and its meaning. \
    [control-plane.md](../control-plane.md) says which condition has which of them.\n\n\
    ## CoderControlPlane\n\n| reason | action needed | meaning |\n|---|---|---|\n";

/// `docs/reference/reasons.md`.
pub(super) fn files() -> Generated {
    let mut reasons = Reason::ALL.to_vec();
    reasons.sort_by_key(|reason| reason.as_str());
    let row = |reason: &Reason| {
        format!("| {} | {} | {} |\n", code(reason.as_str()), reason.class().as_str(), cell(reason.doc()))
    };
    let rows: String = reasons.iter().map(row).collect();
    Ok(vec![File {
        path: "docs/reference/reasons.md".to_owned(),
        content: format!("{HEADER}\n{OPENING}{rows}"),
    }])
}
