//! A workspace proxy, `eu`: what it is like when it is well, and the tables of its calls and writes. What happens to it is in
//! `attached`.

mod calls;
mod writes;

use crate::attached::Cell;
use crate::attached::subject::SubjectKind;
use serde_json::{Value, json};
use support::coderd::{Coderd, Role};
use support::objects::{condition, is_ready};

/// The Secret of its token.
const SECRET: &str = "eu-proxy-token";

pub static KIND: SubjectKind = SubjectKind {
    followed: |env| &env.workspace_proxies,
    role: Role::Owner,
    first,
    is_well,
    in_coderd,
    secret: (SECRET, "token"),
    children: &[
        ("serviceaccount", "eu-wsproxy"),
        ("service", "wsproxy-eu"),
        ("ingress", "wsproxy-eu"),
        ("poddisruptionbudget", "wsproxy-eu"),
        ("deployment", "wsproxy-eu"),
    ],
    entitled: "WorkspaceProxiesEntitled",
    unsupported: "this build of coderd (open source) has no workspace proxies",
};

fn first() -> Value {
    json!({ "podDisruptionBudget": { "minAvailable": 1 },
        "expose": { "ingress": { "host": "eu.example.com" } } })
}

fn is_well(state: &Value) -> bool {
    let registration = &state["status"]["registration"];
    is_ready(state)
        && condition(state, "ProxyRegistered")["reason"] == "ProxyRegistered"
        && registration["current"]["id"].is_string()
        && registration["pending"].is_null()
        && registration["retiring"].as_array().is_none_or(Vec::is_empty)
}

fn in_coderd(coderd: &Coderd, status: &Value) -> (usize, Option<String>) {
    let current = status["registration"]["current"]["name"].as_str().unwrap_or_default();
    (coderd.workspace_proxies().len(), coderd.token_of_proxy(current))
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
