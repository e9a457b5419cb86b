//! What objects go through in a crash campaign, each as the state before, a change, and how to tell that it is done.

pub mod control_plane;
pub mod provisioner;

use crds::names::control_plane::{workspace_role, workspace_role_binding};
use serde_json::Value;
use support::campaign::{Plan, Tolerance};
use support::fault_proxy::CrashTiming;
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

/// A plaintext is in the answer to one request and nowhere else until the Secret has it: who dies in between has lost it, and
/// the key that comes instead has another number.
fn tolerance(plan: &Plan) -> Tolerance {
    let mutation = &plan.point.mutation;
    let makes = mutation.starts_with("coderd POST ") && mutation.ends_with("/provisionerkeys");
    let keeps = mutation.starts_with("kubernetes ") && mutation.contains("/namespaces/{home}/secrets");
    let is_lost = match plan.timing {
        CrashTiming::BeforeForwarding => keeps,
        CrashTiming::AnswerLost | CrashTiming::AfterAnswer => makes,
    };
    if is_lost { Tolerance::KeyNumber } else { Tolerance::Nothing }
}
