//! What objects go through in a crash campaign, each as the state before, a change, and how to tell that it is done.

pub mod control_plane;
pub mod provisioner;

use crds::names::control_plane::{workspace_role, workspace_role_binding};
use serde_json::Value;
use support::objects;

fn is_ready(subject: Option<&Value>) -> bool {
    subject.is_some_and(objects::is_ready)
}

fn is_gone(subject: Option<&Value>) -> bool {
    subject.is_none()
}

/// The names of a control plane's rights to run workspaces carry a hash of where they come from.
fn names_of(home: &str, control_plane: &str) -> [(String, String); 2] {
    let role = workspace_role(home, control_plane, control_plane);
    let binding = workspace_role_binding(home, control_plane, control_plane);
    [(role, format!("{{{control_plane}:role}}")), (binding, format!("{{{control_plane}:role-binding}}"))]
}
