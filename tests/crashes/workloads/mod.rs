//! What objects go through in a crash campaign, each as the state before, a change, and how to tell that it is done.

pub mod control_plane;
pub mod provisioner;
pub mod workspace_proxy;

use crds::names::control_plane::{workspace_role, workspace_role_binding};
use serde_json::{Value, json};
use support::campaign::{Kind, Plan, Subject, Tolerance};
use support::fault_proxy::CrashTiming;
use support::objects;

const SECRET: Kind = Kind("", "v1", "Secret", "secrets");
const CONTROL_PLANE: Subject =
    Subject { kind: Kind("coder.com", "v1alpha1", "CoderControlPlane", "codercontrolplanes"), name: "coder" };

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

/// A control plane, and the token that its operator is given.
fn control_plane(name: &str) -> Vec<Value> {
    let secret = format!("{name}-token");
    let spec = json!({ "operatorAccess": { "tokenSecretRef": { "name": secret } } });
    let token = json!({ "token": format!("{{token:{name}}}") });
    vec![objects::secret("{home}", &secret, &token), objects::control_plane("{home}", name, &spec)]
}

/// Whether a plaintext is lost by this plan. It is in the answer to one request, which `makes` knows, and nowhere else until the
/// Secret has it.
fn is_lost(plan: &Plan, makes: impl Fn(&str) -> bool) -> bool {
    let mutation = &plan.point.mutation;
    let keeps = mutation.starts_with("kubernetes ") && mutation.contains("/namespaces/{home}/secrets");
    match plan.timing {
        CrashTiming::BeforeForwarding => keeps,
        CrashTiming::AnswerLost | CrashTiming::AfterAnswer => makes(mutation),
    }
}

/// The key that comes instead of one whose plaintext is lost has another number.
fn tolerance(plan: &Plan) -> Tolerance {
    let makes = |write: &str| write.starts_with("coderd POST ") && write.ends_with("/provisionerkeys");
    if is_lost(plan, makes) { Tolerance::KeyNumber } else { Tolerance::Nothing }
}
