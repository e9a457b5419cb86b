//! A provisioner, `builders`: what it is like when it is well, and the tables of its calls and writes. What happens to it is in
//! `attached`.

mod calls;
mod writes;

use crate::attached::Cell;
use crate::attached::subject::SubjectKind;
use serde_json::{Value, json};
use support::coderd::{Coderd, Role};
use support::objects::{condition, is_ready};

/// The Secret of its key.
const SECRET: &str = "builders-provisioner-key";

pub static KIND: SubjectKind = SubjectKind {
    followed: |env| &env.provisioners,
    role: Role::TemplateAdmin,
    first,
    is_well,
    in_coderd,
    secret: (SECRET, "key"),
    children: &[
        ("serviceaccount", "builders-provisioner"),
        ("role", "provisioner-builders"),
        ("rolebinding", "provisioner-builders"),
        ("poddisruptionbudget", "provisioner-builders"),
        ("deployment", "provisioner-builders"),
    ],
    entitled: "ExternalProvisionersEntitled",
    unsupported: "this build of coderd (open source) has no external provisioners",
};

fn first() -> Value {
    json!({ "podDisruptionBudget": { "minAvailable": 1 } })
}

fn is_well(state: &Value) -> bool {
    let key = &state["status"]["key"];
    is_ready(state)
        && condition(state, "ProvisionerKeyReady")["reason"] == "ProvisionerKeyReady"
        && key["current"]["id"].is_string()
        && key["pending"].is_null()
        && key["retiring"].as_array().is_none_or(Vec::is_empty)
}

fn in_coderd(coderd: &Coderd, status: &Value) -> (usize, Option<String>) {
    let current = status["key"]["current"]["name"].as_str().unwrap_or_default();
    (coderd.provisioner_keys("default").len(), coderd.plaintext_of("default", current))
}

/// Every cell of the calls.
pub fn calls() -> Vec<Cell> {
    calls::whole().into_iter().map(Cell::Call).collect()
}

/// Every cell of the writes.
pub fn writes() -> Vec<Cell> {
    writes::whole().into_iter().map(Cell::Write).collect()
}

/// A part of both.
pub fn representative() -> Vec<Cell> {
    let calls = calls::representative().into_iter().map(Cell::Call);
    calls.chain(writes::representative().into_iter().map(Cell::Write)).collect()
}
