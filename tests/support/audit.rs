//! What somebody asked of the API server, by the server's own audit log: one entry a request, however often it is named.
//! It reads and sorts; it never judges whether a request was right.

use crate::cluster::Cluster;
use serde_json::Value;
use std::collections::BTreeSet;

/// One request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// As the API server names it: `get`, `list`, `watch`, `create`, `update`, `patch`, `delete`.
    pub verb: String,
    /// The plural, with the subresource if there is one: `codercontrolplanes/status`.
    pub resource: String,
    /// Where; empty for the whole cluster.
    pub namespace: String,
    /// Which; empty for a list, and for a name that the API server makes up.
    pub name: String,
    /// Path and query, as it was sent: a list says there whom it is about.
    pub uri: String,
    /// The status code of the answer; zero while there is none.
    pub code: u64,
    /// With whose rights: the user that was impersonated, or the one who asked.
    pub with_rights_of: String,
}

impl Request {
    /// Whether it asks for no change.
    pub fn is_read(&self) -> bool {
        ["get", "list", "watch"].contains(&self.verb.as_str())
    }

    /// Whether it asks what would become of a change, and for none.
    pub fn is_dry_run(&self) -> bool {
        self.uri.contains("dryRun=All")
    }

    /// `verb resource`, as people count requests.
    pub fn sort(&self) -> String {
        format!("{} {}", self.verb, self.resource)
    }

    fn of(event: &Value) -> Self {
        let text = |path: &str| event.pointer(path).and_then(Value::as_str).unwrap_or_default();
        let resource = match text("/objectRef/subresource") {
            "" => text("/objectRef/resource").to_owned(),
            part => format!("{}/{part}", text("/objectRef/resource")),
        };
        Self {
            verb: text("/verb").to_owned(),
            resource,
            namespace: text("/objectRef/namespace").to_owned(),
            name: text("/objectRef/name").to_owned(),
            uri: text("/requestURI").to_owned(),
            code: event.pointer("/responseStatus/code").and_then(Value::as_u64).unwrap_or_default(),
            with_rights_of: rights_of(event).to_owned(),
        }
    }
}

/// With whose rights a request of the audit log was made: those of the user that was impersonated, if somebody was.
pub fn rights_of(event: &Value) -> &str {
    let text = |path: &str| event.pointer(path).and_then(Value::as_str);
    text("/impersonatedUser/username").or_else(|| text("/user/username")).unwrap_or_default()
}

impl Cluster {
    /// How much of the audit log there is: what comes later is counted from here.
    pub fn audit_mark(&self) -> usize {
        self.audit_log().len()
    }

    /// Everything that anybody but an administrator asked since that mark, in order.
    pub fn requests_since(&self, mark: usize) -> Vec<Request> {
        let (log, mut seen) = (self.audit_log(), BTreeSet::new());
        assert!(!log.is_empty(), "this cluster writes no audit log");
        let events = log[mark..].lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let once = events.filter(|event| seen.insert(event["auditID"].to_string()));
        once.map(|event| Request::of(&event)).collect()
    }

    /// Everything this user asked, as itself or as somebody else, in order; the cluster must have been started with an audit log.
    pub fn requests_of(&self, user: &str) -> Vec<Request> {
        let (log, mut seen) = (self.audit_log(), BTreeSet::new());
        assert!(!log.is_empty(), "this cluster writes no audit log");
        log.lines()
            // Parsing is dear, and most lines are of others.
            .filter(|line| line.contains(user))
            .filter_map(|line| serde_json::from_str::<Value>(line).ok())
            .filter(|event| event["user"]["username"] == user)
            // A watch is told when it begins and when it ends.
            .filter(|event| seen.insert(event["auditID"].to_string()))
            .map(|event| Request::of(&event))
            .collect()
    }
}
