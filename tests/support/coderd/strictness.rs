//! What the client may send: known routes, listed headers, listed query parameters, listed body fields, and
//! credentials only in their own header.
//! It never changes an answer: coderd would have tolerated most of this, the test must not.

use std::fmt;
use std::sync::{Mutex, PoisonError};

use serde_json::Value;

use super::identity::SESSION_HEADER;
use super::limits::BYPASS_HEADER;
use super::pipeline::Inbound;
use super::route::{Route, Wanted};
use super::routes::provisioner_keys::DAEMON_KEY_HEADER;
use super::routes::workspace_proxies::PROXY_TOKEN_HEADER;
use super::server::Coderd;

const HEADERS: [&str; 9] = [
    "host",
    // By which a coderd that redirects to its access URL knows whoever comes another way.
    "x-forwarded-host",
    "user-agent",
    "accept",
    "accept-encoding",
    "content-type",
    "content-length",
    "connection",
    // Part of the contract, and answered by it: 428 for everybody but owners.
    BYPASS_HEADER,
];

/// Something a client of ours must not send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The call, as in [`super::Call::index`].
    pub call: usize,
    /// The method and path of the call, secrets replaced.
    pub request: String,
    /// What was wrong with it.
    pub problem: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "call {} ({}): {}", self.call, self.request, self.problem)
    }
}

/// The problems of one request; `route` is none for an unknown one.
pub(super) fn problems(route: Option<&Route>, inbound: &Inbound) -> Vec<String> {
    let mut found = exposed_secrets(inbound);
    let Some(route) = route else {
        found.push("unknown route".to_owned());
        return found;
    };
    found.extend(strange_headers(route, inbound));
    let strange = inbound.query.iter().filter(|(name, _)| !route.query.contains(&name.as_str()));
    found.extend(strange.map(|(name, _)| format!("unknown query parameter {name:?}")));
    found.extend(strange_body(route, inbound));
    found
}

fn strange_headers(route: &Route, inbound: &Inbound) -> Vec<String> {
    let allowed = |name: &str| match name {
        SESSION_HEADER => matches!(route.wanted, Wanted::Session | Wanted::OptionalSession),
        DAEMON_KEY_HEADER => route.wanted == Wanted::DaemonKey,
        PROXY_TOKEN_HEADER => route.wanted == Wanted::ProxyToken,
        other => HEADERS.contains(&other),
    };
    let names = inbound.headers.keys().map(http::HeaderName::as_str);
    names.filter(|name| !allowed(name)).map(|name| format!("unexpected header {name:?}")).collect()
}

/// A credential outside its header ends up in access logs.
fn exposed_secrets(inbound: &Inbound) -> Vec<String> {
    let mut found = Vec::new();
    for secret in inbound.presented_secrets() {
        if inbound.raw_target.contains(secret) {
            found.push("a credential in the URL".to_owned());
        }
        if String::from_utf8_lossy(&inbound.body).contains(secret) {
            found.push("a credential in the body".to_owned());
        }
    }
    let by_query = ["coder_session_token", "access_token"];
    let named = inbound.query.iter().filter(|(name, _)| by_query.contains(&name.as_str()));
    found.extend(named.map(|(name, _)| format!("a credential in query parameter {name:?}")));
    found
}

fn strange_body(route: &Route, inbound: &Inbound) -> Vec<String> {
    if inbound.body.is_empty() {
        return Vec::new();
    }
    if route.body.is_empty() {
        return vec!["unexpected body".to_owned()];
    }
    let mut found = Vec::new();
    let content_type = inbound.headers.get(http::header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    if !content_type.unwrap_or_default().starts_with("application/json") {
        found.push(format!("content type {content_type:?} for a JSON body"));
    }
    let Some(body) = &inbound.json else {
        found.push("a body that is not JSON".to_owned());
        return found;
    };
    let mut leaves = Vec::new();
    collect_leaves(body, String::new(), &mut leaves);
    let strange = leaves.iter().filter(|leaf| !route.body.iter().any(|known| leaf_fits(known, leaf)));
    found.extend(strange.map(|leaf| format!("unknown body field {leaf:?}")));
    found
}

/// The paths of all values that are neither object nor array, or are empty ones.
fn collect_leaves(value: &Value, path: String, leaves: &mut Vec<String>) {
    match value {
        Value::Object(fields) if !fields.is_empty() => {
            for (name, inner) in fields {
                let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                collect_leaves(inner, path, leaves);
            }
        }
        Value::Array(items) if !items.is_empty() => {
            for inner in items {
                collect_leaves(inner, format!("{path}[]"), leaves);
            }
        }
        _ if path.is_empty() => {}
        _ => leaves.push(path),
    }
}

fn leaf_fits(known: &str, leaf: &str) -> bool {
    let container = |suffix: &str| known.strip_suffix(suffix);
    match container(".*") {
        Some(map) => leaf == map || leaf.strip_prefix(map).is_some_and(|rest| rest.starts_with('.')),
        // An empty list or object stands for its own leaves.
        None => {
            known == leaf || known.starts_with(&format!("{leaf}[]")) || known.starts_with(&format!("{leaf}."))
        }
    }
}

/// The violations nobody has looked at yet.
#[derive(Debug, Default)]
pub(super) struct Violations(Mutex<Vec<Violation>>);

impl Violations {
    pub(super) fn add(&self, violation: Violation) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(violation);
    }

    pub(super) fn take(&self) -> Vec<Violation> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// One line each, or nothing when there are none; the list is empty afterwards.
    pub(super) fn report(&self) -> Option<String> {
        let pending = self.take();
        let lines: Vec<String> = pending.iter().map(Violation::to_string).collect();
        (!lines.is_empty())
            .then(|| format!("coderd was sent what it must not be sent:\n{}", lines.join("\n")))
    }
}

impl Coderd {
    /// Hands over the pending violations; what is taken no longer fails the test.
    pub fn take_violations(&self) -> Vec<Violation> {
        self.violations().take()
    }

    /// Fails now rather than when the double is dropped.
    ///
    /// # Panics
    /// If the double was sent anything outside the contract.
    pub fn assert_no_violations(&self) {
        if let Some(report) = self.violations().report() {
            panic!("{report}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leaves_name_nested_fields_by_their_path() {
        let mut leaves = Vec::new();
        let body = serde_json::json!({"name": "a", "tags": {}, "list": [{"name": "x", "value": 1}]});
        collect_leaves(&body, String::new(), &mut leaves);
        assert_eq!(leaves, ["list[].name", "list[].value", "name", "tags"]);
    }

    #[test]
    fn a_free_map_admits_any_key_and_a_list_only_its_fields() {
        assert!(leaf_fits("tags.*", "tags.zone") && leaf_fits("tags.*", "tags"));
        assert!(!leaf_fits("tags.*", "tagsy"));
        assert!(leaf_fits("list[].name", "list") && !leaf_fits("list[].name", "list[].value"));
    }
}
