//! What holds for provisioner keys at every instant of a run, whoever died in it: what passes the proxies is judged as it
//! passes, and what is left in the end is judged then.
//!
//! - I1: in the end coderd has the key in use and no other of ours, and none of an object that is gone.
//! - I2: the Secret holds the plaintext of the key in use, which has the tags of the spec.
//! - I3: there are never more than three keys of ours in one coderd.
//! - I4: no key is deleted while a Ready pod uses it.
//! - I5: no key is deleted that is not recorded as ours.
//! - I6: a plaintext is nowhere but in the data of a Secret.
//! - I7: no key is made that was not recorded before.
//! - I8: a reconcile of what is in order writes nothing.
//! - I9: the number of a key only grows.
//! - I10: the token of a control plane goes to its own coderd alone.

use super::coderds::RunCoderd;
use crate::canary::Canary;
use crate::coderd::{Call, Credential};
use crate::fault_proxy::{Exchange, Inspector};
use futures::future::BoxFuture;
use http::StatusCode;
use kube::api::{Api, DynamicObject};
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Keys of ours in one coderd at most.
const MOST_KEYS: usize = 3;
const KEYS_PATH: &str = "/provisionerkeys";

/// Judges one run.
pub(super) struct Invariants {
    subjects: Api<DynamicObject>,
    subject: &'static str,
    /// The token of each control plane.
    tokens: BTreeMap<&'static str, String>,
    seen: Mutex<Seen>,
}

#[derive(Default)]
struct Seen {
    /// Every plaintext that a coderd ever showed, and whose coderd it was.
    issued: Vec<(&'static str, String)>,
    /// The highest number that a status told.
    generation: i64,
    broken: Vec<String>,
}

impl Invariants {
    pub(super) fn new(
        subjects: Api<DynamicObject>,
        subject: &'static str,
        coderds: &[RunCoderd],
    ) -> Arc<Self> {
        let tokens = coderds.iter().map(|one| (one.control_plane, one.token.clone())).collect();
        Arc::new(Self { subjects, subject, tokens, seen: Mutex::default() })
    }

    /// Who looks on before the coderd of a control plane.
    pub(super) fn at_coderd(self: &Arc<Self>, control_plane: &'static str) -> Arc<dyn Inspector> {
        Arc::new(AtCoderd { invariants: self.clone(), control_plane })
    }

    /// Who looks on before the API server.
    pub(super) fn at_api_server(self: &Arc<Self>) -> Arc<dyn Inspector> {
        Arc::new(AtApiServer(self.clone()))
    }

    /// What was broken so far.
    pub(super) fn broken(&self) -> Vec<String> {
        self.seen().broken.clone()
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn break_with(&self, what: String) {
        self.seen().broken.push(what);
    }

    /// What the status records of keys right now.
    async fn recorded(&self) -> Value {
        let found = self.subjects.get_opt(self.subject).await.ok().flatten();
        found.map_or(Value::Null, |object| object.data["status"]["key"].clone())
    }

    /// I7: nothing is made that was not recorded before. I5: nothing is deleted that is not recorded as ours.
    async fn judge_write(&self, exchange: &Exchange) {
        let Some((organization, name)) = key_of(exchange) else { return };
        let recorded = self.recorded().await;
        if exchange.method == "POST" && !is_intended(&recorded, &organization, &name) {
            self.break_with(format!("I7: key {name} is made, and the status does not say so: {recorded}"));
        }
        if exchange.method == "DELETE" && !is_recorded(&recorded, &organization, &name) {
            self.break_with(format!("I5: key {name} is deleted, and is not recorded as ours: {recorded}"));
        }
    }

    /// I10: a token, and a plaintext as well, goes to the coderd it is of and to no other.
    fn judge_credentials(&self, exchange: &Exchange, control_plane: &str) {
        let header = |name: &str| exchange.headers.get(name).and_then(|value| value.to_str().ok());
        let token = header("coder-session-token");
        let others = self.tokens.iter().filter(|(name, _)| **name != control_plane);
        if let Some((name, _)) = others.clone().find(|(_, other)| token == Some(other.as_str())) {
            self.break_with(format!("I10: the token of {name} is sent to the coderd of {control_plane}"));
        }
        let key = header("coder-provisioner-daemon-key");
        let issuer = self.seen().issued.iter().find(|(_, plaintext)| key == Some(plaintext)).map(|one| one.0);
        if let Some(name) = issuer.filter(|name| *name != control_plane) {
            self.break_with(format!("I10: a key of {name} is sent to the coderd of {control_plane}"));
        }
    }

    /// I6: a plaintext is nowhere but in the data of a Secret.
    pub(super) fn judge_text(&self, place: &str, text: &str) {
        let issued: Vec<String> = self.seen().issued.iter().map(|(_, plaintext)| plaintext.clone()).collect();
        for plaintext in issued {
            let forms = Canary::of(&plaintext).found_in(text);
            if !forms.is_empty() {
                self.break_with(format!("I6: {place} shows the plaintext of a key ({})", forms.join(", ")));
            }
        }
    }

    /// I9: the number of a key only ever grows.
    fn judge_generation(&self, object: &Value) {
        let Some(now) = object["status"]["key"]["generation"].as_i64() else { return };
        let mut seen = self.seen();
        if now < seen.generation {
            let before = seen.generation;
            seen.broken.push(format!("I9: the generation of the key goes from {before} back to {now}"));
        }
        seen.generation = seen.generation.max(now);
    }

    /// Everything that is judged by what a coderd has seen of us, in order: I3, I4, I5 and I10.
    pub(super) fn judge_coderd(&self, coderd: &RunCoderd) {
        let calls = coderd.double.calls();
        let (name, most) = (coderd.control_plane, most_keys(&calls));
        if most > MOST_KEYS {
            self.break_with(format!("I3: the coderd of {name} had {most} keys of ours at once"));
        }
        for call in calls.iter().filter(|call| call.credential == Credential::RefusedToken) {
            self.break_with(format!(
                "I10: the coderd of {name} refuses the token of {} {}",
                call.method, call.path
            ));
        }
        for violation in coderd.double.take_violations() {
            self.break_with(violation.to_string());
        }
    }

    /// I1 and I2: in the end there is one key, of which the Secret holds the plaintext, or none if nobody wants one.
    pub(super) fn judge_keys(&self, coderds: &[RunCoderd], subject: Option<&Value>, plaintext: Option<&str>) {
        for coderd in coderds {
            let own: Vec<String> = coderd.own_keys().into_iter().map(|(_, key)| key.id.to_string()).collect();
            let wanted = subject.filter(|one| one["spec"]["controlPlaneRef"]["name"] == coderd.control_plane);
            let wanted: Vec<&str> =
                wanted.into_iter().filter_map(|one| one["status"]["key"]["current"]["id"].as_str()).collect();
            if own != wanted {
                let name = coderd.control_plane;
                self.break_with(format!(
                    "I1: the coderd of {name} has keys of ours {own:?}, recorded are {wanted:?}"
                ));
            }
            if let Some(subject) = subject.filter(|_| !wanted.is_empty()) {
                self.judge_material(coderd, subject, plaintext.unwrap_or_default());
            }
        }
    }

    fn judge_material(&self, coderd: &RunCoderd, subject: &Value, plaintext: &str) {
        let proven = coderd.double.key_proven_by(plaintext);
        let current = &subject["status"]["key"]["current"];
        let key = coderd.own_keys().into_iter().find(|(_, key)| Some(key.id) == proven).map(|(_, key)| key);
        let Some(key) = key.filter(|key| current["id"] == key.id.to_string()) else {
            return self.break_with(format!("I2: the Secret proves {proven:?}, in use is {current}"));
        };
        let tags = serde_json::to_value(&key.tags).expect("tags are JSON");
        let wanted = subject["spec"]["tags"].clone();
        let wanted = if wanted.is_null() { Value::Object(Default::default()) } else { wanted };
        if tags != wanted {
            self.break_with(format!("I2: key {} has the tags {tags}, not {wanted}", key.name));
        }
    }
}

/// The organization and the name of the key that a write is about.
fn key_of(exchange: &Exchange) -> Option<(String, String)> {
    let (before, after) = exchange.path.split_once(KEYS_PATH)?;
    let organization = before.rsplit('/').next().unwrap_or_default().to_owned();
    match exchange.method.as_str() {
        "POST" => {
            let body: Value = serde_json::from_slice(&exchange.body).unwrap_or_default();
            Some((organization, body["name"].as_str().unwrap_or_default().to_owned()))
        }
        "DELETE" => Some((organization, after.trim_start_matches('/').to_owned())),
        _ => None,
    }
}

fn is_entry(entry: &Value, organization: &str, name: &str) -> bool {
    let named = entry["name"].as_str().is_some_and(|one| one.eq_ignore_ascii_case(name));
    named && entry["organizationID"] == organization
}

fn is_intended(recorded: &Value, organization: &str, name: &str) -> bool {
    let pending = &recorded["pending"];
    is_entry(pending, organization, name) && pending["attempted"] == true
}

fn is_recorded(recorded: &Value, organization: &str, name: &str) -> bool {
    let retiring = recorded["retiring"].as_array().into_iter().flatten();
    let mut entries = [&recorded["current"], &recorded["pending"]].into_iter().chain(retiring);
    entries.any(|entry| is_entry(entry, organization, name))
}

/// How many keys clients had at once, by what they made and deleted.
fn most_keys(calls: &[Call]) -> usize {
    let (mut now, mut most) = (0_usize, 0);
    for call in calls.iter().filter(|call| call.path.contains(KEYS_PATH)) {
        match (call.method.as_str(), call.status()) {
            ("POST", Some(201)) => now += 1,
            ("DELETE", Some(204)) => now = now.saturating_sub(1),
            _ => {}
        }
        most = most.max(now);
    }
    most
}

struct AtCoderd {
    invariants: Arc<Invariants>,
    control_plane: &'static str,
}

impl Inspector for AtCoderd {
    fn request<'a>(&'a self, exchange: &'a Exchange) -> BoxFuture<'a, ()> {
        self.invariants.judge_credentials(exchange, self.control_plane);
        Box::pin(self.invariants.judge_write(exchange))
    }

    fn answered(&self, exchange: &Exchange, status: StatusCode, body: &[u8]) {
        if exchange.method != "POST" || !exchange.path.ends_with(KEYS_PATH) || status != StatusCode::CREATED {
            return;
        }
        let body: Value = serde_json::from_slice(body).unwrap_or_default();
        if let Some(plaintext) = body["key"].as_str() {
            self.invariants.seen().issued.push((self.control_plane, plaintext.to_owned()));
        }
    }
}

struct AtApiServer(Arc<Invariants>);

impl Inspector for AtApiServer {
    fn request<'a>(&'a self, exchange: &'a Exchange) -> BoxFuture<'a, ()> {
        let body = String::from_utf8_lossy(&exchange.body);
        if exchange.path.contains("/secrets") {
            let written: Value = serde_json::from_str(&body).unwrap_or_default();
            self.0.judge_text(&exchange.path, &without_data(written).to_string());
        } else {
            self.0.judge_text(&exchange.path, &body);
        }
        Box::pin(async {})
    }

    fn answered(&self, exchange: &Exchange, status: StatusCode, body: &[u8]) {
        let subject = format!("/{}/status", self.0.subject);
        if status.is_success() && exchange.path.ends_with(&subject) {
            self.0.judge_generation(&serde_json::from_slice(body).unwrap_or_default());
        }
    }
}

/// What is written to a Secret, or a Secret, besides its data.
pub(super) fn without_data(mut written: Value) -> Value {
    match &mut written {
        Value::Array(operations) => {
            let is_data = |one: &Value| one["path"].as_str().is_some_and(|path| path.starts_with("/data"));
            operations.retain(|one| !is_data(one));
        }
        Value::Object(fields) => drop(fields.remove("data")),
        _ => {}
    }
    written
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn only_what_is_recorded_for_this_organization_is_ours() {
        let key = |name: &str, attempted: bool| json!({ "name": name, "organizationID": "o", "attempted": attempted });
        let recorded = json!({ "current": key("farm", true), "pending": key("farm-2", true), "retiring": [key("a", true)] });
        assert!(["FARM", "farm-2", "a"].iter().all(|name| is_recorded(&recorded, "o", name)));
        assert!(!is_recorded(&recorded, "p", "farm") && !is_recorded(&recorded, "o", "others"));
        assert!(is_intended(&recorded, "o", "farm-2") && !is_intended(&recorded, "o", "farm"));
        assert!(
            !is_intended(&json!({ "pending": key("farm", false) }), "o", "farm"),
            "it is not attempted yet"
        );
    }

    #[test]
    fn of_a_secret_everything_counts_but_its_data() {
        let patch = json!([{ "op": "add", "path": "/data/key", "value": "x" }, { "op": "add", "path": "/metadata/a", "value": "y" }]);
        assert_eq!(without_data(patch), json!([{ "op": "add", "path": "/metadata/a", "value": "y" }]));
        assert_eq!(
            without_data(json!({ "data": { "key": "x" }, "kind": "Secret" })),
            json!({ "kind": "Secret" })
        );
    }
}
