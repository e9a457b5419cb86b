//! What a provisioner and its keys go through, with two control planes, each with a coderd of its own, and keys of others in
//! each. It never says in which order the operator gets there: that is what is recorded.

use super::{CONTROL_PLANE, SECRET, control_plane, is_gone, is_ready, names_of};
use serde_json::{Value, json};
use support::campaign::{
    Attached, Change, Kind, Makes, Plan, Prepared, Subject, Target, Then, Tolerance, Workload,
};
use support::objects;

const KEY_SECRET: &str = "builders-provisioner-key";
/// The workload whose second change comes while nobody runs.
const THERE_AND_BACK: &str = "there-and-back";

/// The operator as its reconciler of provisioners. It verifies keys every second, which is what it waits by for daemons that
/// come and go: coderd does not tell of them by itself. What it logs is searched for plaintexts, so that it logs much.
pub const TARGET: Target = Target {
    binary: env!("CARGO_BIN_EXE_coder-k8s"),
    subject: Subject {
        kind: Kind("coder.com", "v1alpha1", "CoderProvisioner", "coderprovisioners"),
        name: "builders",
    },
    names: |home| [names_of(home, "coder"), names_of(home, "other")].concat(),
    email: |_| String::new(),
    flags: &["--verify-interval=1s", "--log-level=debug"],
    key_names: &["farm", "forge"],
    tolerance,
    attached: Some(Attached {
        control_planes: &["coder", "other"],
        makes: Makes::Keys {
            organizations: &["staff"],
            // One has the name that the second key would have.
            of_others: &[("default", "farm-2"), ("default", "others"), ("staff", "farm")],
        },
    }),
};

/// There and back, who dies early enough never made the second key.
fn tolerance(plan: &Plan) -> Tolerance {
    if plan.workload == THERE_AND_BACK { Tolerance::Rollouts } else { super::tolerance(plan) }
}

/// The provisioner with these fields instead of its own.
fn provisioner(fields: &Value) -> Value {
    let mut object = objects::provisioner("{home}", "builders", "coder");
    object["spec"]["key"] = json!({ "name": "farm" });
    object["spec"]["tags"] = json!({ "environment": "a" });
    object["spec"]["terminationGracePeriodSeconds"] = json!(1);
    for (field, value) in fields.as_object().into_iter().flatten() {
        object["spec"][field] = value.clone();
    }
    object
}

fn other_tags() -> Value {
    json!({ "tags": { "environment": "b" } })
}

/// Whether it is ready, with one key and no other on its way in or out.
fn is_settled(subject: Option<&Value>) -> bool {
    let has_one =
        |key: &Value| key["current"].is_object() && key["pending"].is_null() && key["retiring"].is_null();
    is_ready(subject) && subject.is_some_and(|object| has_one(&object["status"]["key"]))
}

/// Whether that is not the first key.
fn is_replaced(subject: Option<&Value>) -> bool {
    is_settled(subject) && subject.is_some_and(|object| number(&object["status"]["key"]) > 1)
}

fn number(key: &Value) -> i64 {
    key["current"]["generation"].as_i64().unwrap_or_default()
}

/// Whether another key is in use, and the one before it is not gone yet.
fn is_rotating(subject: Option<&Value>) -> bool {
    let is_rotating = |key: &Value| number(key) > 1 && key["retiring"].is_array();
    subject.is_some_and(|object| is_rotating(&object["status"]["key"]))
}

fn has_other_control_plane(subject: Option<&Value>) -> bool {
    is_settled(subject) && subject.is_some_and(|object| object["status"]["controlPlaneRefName"] == "other")
}

const NEW_IMAGE: &str = "ghcr.io/coder/coder:v2.36.0";

fn is_upgraded(subject: Option<&Value>) -> bool {
    is_settled(subject) && subject.is_some_and(|object| object["status"]["resolved"]["image"] == NEW_IMAGE)
}

/// A change of a provisioner that has a key.
fn changing(name: &'static str, change: Change, done: fn(Option<&Value>) -> bool) -> Workload {
    Workload {
        name,
        other_namespaces: &[],
        before: [control_plane("coder"), vec![provisioner(&json!({}))]].concat(),
        prepared: Prepared::Subject(is_settled),
        change,
        then: None,
        done,
    }
}

fn applying(name: &'static str, fields: &Value) -> Workload {
    changing(name, Change::Apply(vec![provisioner(fields)]), is_replaced)
}

/// Somebody changes the data of the key's Secret.
fn tampering(name: &'static str, plaintext: &str) -> Workload {
    changing(name, Change::Patch(SECRET, KEY_SECRET, json!({ "data": { "key": plaintext } })), is_replaced)
}

/// Everything a provisioner goes through.
pub fn all() -> Vec<Workload> {
    [lifetime(), rotations(), tampered()].concat()
}

fn lifetime() -> Vec<Workload> {
    vec![
        Workload {
            before: control_plane("coder"),
            prepared: Prepared::Other(CONTROL_PLANE, is_ready),
            ..changing("create", Change::Apply(vec![provisioner(&json!({}))]), is_settled)
        },
        changing(
            "upgrade-image",
            Change::Apply(vec![provisioner(&json!({ "image": NEW_IMAGE }))]),
            is_upgraded,
        ),
        changing("delete", Change::Delete, is_gone),
        changing("delete-namespace", Change::DeleteNamespace, is_gone),
    ]
}

fn rotations() -> Vec<Workload> {
    let both = [control_plane("coder"), control_plane("other"), vec![provisioner(&json!({}))]].concat();
    let back = Change::Apply(vec![provisioner(&json!({}))]);
    let swap = Change::Apply(vec![provisioner(&json!({ "controlPlaneRef": { "name": "other" } }))]);
    vec![
        applying("rotate-tags", &other_tags()),
        applying("rename-key", &json!({ "key": { "name": "forge" } })),
        applying("change-organization", &json!({ "organizationName": "staff" })),
        Workload { before: both, ..changing("swap-control-plane", swap, has_other_control_plane) },
        Workload {
            then: Some(Then { when: is_rotating, while_dead: true, change: back }),
            ..changing(THERE_AND_BACK, Change::Apply(vec![provisioner(&other_tags())]), is_settled)
        },
    ]
}

fn tampered() -> Vec<Workload> {
    vec![
        tampering("secret-emptied", ""),
        // As long as a plaintext, and of no key.
        tampering("secret-overwritten", "bm90LWEta2V5LW5vdC1hLWtleS1ub3QtYS1rZXktbm90LWEta2V5LW5vdA=="),
        changing("secret-deleted", Change::DeleteObject(SECRET, KEY_SECRET), is_replaced),
    ]
}
