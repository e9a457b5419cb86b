//! What a workspace proxy and its registration go through, with two control planes, each with a coderd of its own, and proxies of
//! others in each. It never says in which order the operator gets there: that is what is recorded.

use super::{CONTROL_PLANE, SECRET, control_plane, is_gone, is_lost, is_ready, names_of};
use serde_json::{Value, json};
use support::campaign::{
    Attached, Change, Kind, Makes, Plan, Prepared, Subject, Target, Tolerance, Workload,
};
use support::objects;

const KIND: Kind = Kind("coder.com", "v1alpha1", "CoderWorkspaceProxy", "coderworkspaceproxies");
const NAME: &str = "eu";
const TOKEN_SECRET: &str = "eu-proxy-token";
/// The value of the annotation that asks for another token.
const ROTATION: &str = "2026-11";
/// An address outside of the namespace that leads to the first coderd, and the flag that allows it.
const OUTSIDE: &str = "http://coder.elsewhere.svc.cluster.local";
const ALLOWED: &str = "--allow-url=http://coder.elsewhere.svc.cluster.local";
/// The workloads in which somebody asks for another token, or takes the one there is, or a proxy of others is taken over.
const REPLACING: [&str; 4] = ["rotate-token", "token-emptied", "token-deleted", "adopt"];
/// The proxy of others that is taken over.
const ADOPTABLE: &str = "asia";

/// The operator as its reconciler of workspace proxies. It verifies registrations every second, which is what it waits by for
/// proxies that come: coderd does not tell of them by itself. What it logs is searched for tokens, so that it logs much.
pub const TARGET: Target = Target {
    binary: env!("CARGO_BIN_EXE_coder-k8s"),
    subject: Subject { kind: KIND, name: NAME },
    names: |home| [names_of(home, "coder"), names_of(home, "other")].concat(),
    email: |_| String::new(),
    flags: &["--verify-interval=1s", "--log-level=debug", ALLOWED],
    key_names: &[],
    tolerance,
    attached: Some(Attached {
        control_planes: &["coder", "other"],
        makes: Makes::Proxies { of_others: &["others", "eu-2"], adoptable: ADOPTABLE, replacements },
    }),
};

/// A registration takes no second token; a rotation takes one, and so does a Secret that lost its token.
fn replacements(workload: &str) -> usize {
    usize::from(REPLACING.contains(&workload))
}

/// A token that is lost on its way to the Secret is replaced by another.
fn tolerance(plan: &Plan) -> Tolerance {
    let replaces = REPLACING.contains(&plan.workload);
    let makes = |write: &str| {
        write.ends_with("POST /api/v2/workspaceproxies")
            || replaces && write.ends_with("PATCH /api/v2/workspaceproxies/{id}")
    };
    if is_lost(plan, makes) { Tolerance::Token } else { Tolerance::Nothing }
}

/// The proxy with these fields besides its own.
fn proxy(fields: &Value) -> Value {
    let mut object = objects::workspace_proxy("{home}", NAME, "coder");
    object["spec"]["terminationGracePeriodSeconds"] = json!(1);
    object["spec"]["registration"] = json!({ "displayName": "Europe", "icon": "/icon/europe.png" });
    for (field, value) in fields.as_object().into_iter().flatten() {
        object["spec"][field] = value.clone();
    }
    object
}

/// The proxy at an address and with credentials of its author.
fn bootstrapped() -> Value {
    let mut object = proxy(&json!({ "bootstrap": { "coderURL": OUTSIDE,
        "credentialsSecretRef": { "name": "coder-token" } } }));
    let spec = object["spec"].as_object_mut().expect("a proxy has a spec");
    spec.remove("controlPlaneRef");
    spec.remove("registration");
    object
}

/// The proxy with the annotation that takes over one of others.
fn adopting() -> Value {
    let mut object = proxy(&json!({ "registration": { "proxyName": ADOPTABLE } }));
    object["metadata"]["annotations"] = json!({ "coder.com/adopt-proxy": ADOPTABLE });
    object
}

/// The proxy with the annotation that asks for another token.
fn rotated() -> Value {
    let mut object = proxy(&json!({}));
    object["metadata"]["annotations"] = json!({ "coder.com/rotate-token": ROTATION });
    object
}

/// Whether it is ready, with one registration and no other on its way in or out.
fn is_settled(subject: Option<&Value>) -> bool {
    let has_one =
        |one: &Value| one["current"].is_object() && one["pending"].is_null() && one["retiring"].is_null();
    is_ready(subject) && subject.is_some_and(|object| has_one(&object["status"]["registration"]))
}

fn is_rotated(subject: Option<&Value>) -> bool {
    let rotation = |object: &Value| object["status"]["registration"]["rotatedFor"] == ROTATION;
    is_settled(subject) && subject.is_some_and(rotation)
}

fn is_renamed(subject: Option<&Value>) -> bool {
    let name = |object: &Value| object["status"]["registration"]["current"]["name"] == "frankfurt";
    is_settled(subject) && subject.is_some_and(name)
}

fn is_moved(subject: Option<&Value>) -> bool {
    let secret = |object: &Value| object["status"]["proxyTokenSecretRef"]["name"] == "moved";
    is_settled(subject) && subject.is_some_and(secret)
}

/// A change of a proxy that is registered.
fn changing(name: &'static str, change: Change, done: fn(Option<&Value>) -> bool) -> Workload {
    Workload {
        name,
        other_namespaces: &[],
        before: [control_plane("coder"), vec![proxy(&json!({}))]].concat(),
        prepared: Prepared::Subject(is_settled),
        change,
        then: None,
        done,
    }
}

fn applying(name: &'static str, fields: &Value, done: fn(Option<&Value>) -> bool) -> Workload {
    changing(name, Change::Apply(vec![proxy(fields)]), done)
}

/// A proxy that was not there before.
fn creating(name: &'static str, object: Value) -> Workload {
    Workload {
        before: control_plane("coder"),
        prepared: Prepared::Other(CONTROL_PLANE, is_ready),
        ..changing(name, Change::Apply(vec![object]), is_settled)
    }
}

/// Everything a workspace proxy goes through.
pub fn all() -> Vec<Workload> {
    [lifetime(), changes(), tokens()].concat()
}

fn lifetime() -> Vec<Workload> {
    vec![
        creating("create", proxy(&json!({}))),
        creating("bootstrap", bootstrapped()),
        creating("adopt", adopting()),
        changing("delete", Change::Delete, is_gone),
        changing("delete-namespace", Change::DeleteNamespace, is_gone),
    ]
}

fn changes() -> Vec<Workload> {
    let other_name = json!({ "registration": { "proxyName": "frankfurt", "displayName": "Europe" } });
    let appearance = json!({ "registration": { "displayName": "Frankfurt", "icon": "/icon/frankfurt.png" } });
    let both = [control_plane("coder"), control_plane("other"), vec![proxy(&json!({}))]].concat();
    let other = json!({ "controlPlaneRef": { "name": "other" } });
    vec![
        applying("rename", &other_name, is_renamed),
        applying("change-appearance", &appearance, is_settled),
        Workload { before: both, ..applying("swap-control-plane", &other, is_settled) },
        applying("move-secret", &json!({ "registration": { "tokenSecretName": "moved" } }), is_moved),
    ]
}

fn tokens() -> Vec<Workload> {
    let emptied = Change::Patch(SECRET, TOKEN_SECRET, json!({ "data": { "token": "" } }));
    vec![
        changing("rotate-token", Change::Apply(vec![rotated()]), is_rotated),
        changing("token-emptied", emptied, is_settled),
        changing("token-deleted", Change::DeleteObject(SECRET, TOKEN_SECRET), is_settled),
    ]
}
