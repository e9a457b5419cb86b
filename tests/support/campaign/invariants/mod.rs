//! What holds at every instant of a run for what its subject has in coderd, whoever died in it: what passes the proxies is
//! judged as it passes, and what is left in the end is judged then. What is meant for provisioner keys is in `keys`, for
//! workspace proxies in `proxies`; the numbers are the same.
//!
//! - I1: in the end coderd has what is in use and nothing else of ours, and nothing of an object that is gone.
//! - I2: the Secret holds the plaintext of what is in use, which is as the spec asks for it; of a proxy, so do its pods.
//! - I3: there is never more of ours in one coderd than a change needs: three keys, one proxy.
//! - I4: nothing is deleted that a Ready pod uses; a proxy is, when its object goes.
//! - I5: nothing is changed or deleted that is not recorded as ours.
//! - I6: a plaintext is nowhere but in the data of a Secret.
//! - I7: nothing is made, and no token is replaced, that was not recorded before.
//! - I8: a reconcile of what is in order writes nothing.
//! - I9: the number of a key only grows; the token of a proxy is replaced only if somebody asks for it or it is lost.
//! - I10: the token of a control plane, and a plaintext, goes to its own coderd alone.

mod keys;
mod proxies;

use super::Makes;
use super::coderds::RunCoderd;
use crate::canary::Canary;
use crate::coderd::Credential;
use crate::daemons::{KeyUsers, by_service};
use crate::fault_proxy::{Exchange, Inspector};
use futures::future::BoxFuture;
use http::StatusCode;
use kube::api::{Api, DynamicObject};
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Judges one run.
pub(super) struct Invariants {
    subjects: Api<DynamicObject>,
    subject: &'static str,
    makes: Makes,
    /// Who uses what is in coderd.
    users: KeyUsers,
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
    /// How often a token was replaced.
    replacements: usize,
    broken: Vec<String>,
}

impl Invariants {
    pub(super) fn new(
        subjects: Api<DynamicObject>,
        subject: &'static str,
        makes: Makes,
        users: KeyUsers,
        coderds: &[RunCoderd],
    ) -> Arc<Self> {
        let tokens = coderds.iter().map(|one| (one.control_plane, one.token.clone())).collect();
        Arc::new(Self { subjects, subject, makes, users, tokens, seen: Mutex::default() })
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

    /// The field of a status that names the Secret.
    pub(super) fn secret_reference(&self) -> &'static str {
        match self.makes {
            Makes::Keys { .. } => "secretRef",
            Makes::Proxies { .. } => "proxyTokenSecretRef",
        }
    }

    /// The subject as it is right now.
    async fn now(&self) -> Value {
        let found = self.subjects.get_opt(self.subject).await.ok().flatten();
        found.map_or(Value::Null, |object| serde_json::to_value(object).expect("an object is JSON"))
    }

    /// I4, I5 and I7, by what is recorded right before.
    async fn judge_write(&self, exchange: &Exchange) {
        let broken = match self.makes {
            Makes::Keys { .. } => {
                let Some(write) = keys::KeyWrite::of(exchange) else { return };
                write.judged_by(&self.now().await["status"]["key"])
            }
            Makes::Proxies { .. } => {
                let Some(write) = proxies::ProxyWrite::of(exchange) else { return };
                let subject = self.now().await;
                let users = self.users.ready_with(|token| write.deletes(token)).await;
                [write.judged_by(&subject["status"]["registration"]), proxies::used(&subject, &users)]
                    .into_iter()
                    .flatten()
                    .collect()
            }
        };
        self.seen().broken.extend(broken);
    }

    /// I10: a token, and a plaintext as well, goes to the coderd it is of and to no other.
    fn judge_credentials(&self, exchange: &Exchange, control_plane: &str) {
        let header = |name: &str| exchange.headers.get(name).and_then(|value| value.to_str().ok());
        let token = header("coder-session-token");
        let others = self.tokens.iter().filter(|(name, _)| **name != control_plane);
        if let Some((name, _)) = others.clone().find(|(_, other)| token == Some(other.as_str())) {
            self.break_with(format!("I10: the token of {name} is sent to the coderd of {control_plane}"));
        }
        let shown = header(match self.makes {
            Makes::Keys { .. } => "coder-provisioner-daemon-key",
            Makes::Proxies { .. } => "coder-external-proxy-token",
        });
        let issuer =
            self.seen().issued.iter().find(|(_, plaintext)| shown == Some(plaintext)).map(|one| one.0);
        if let Some(name) = issuer.filter(|name| *name != control_plane) {
            self.break_with(format!("I10: a plaintext of {name} is sent to the coderd of {control_plane}"));
        }
    }

    /// I6: a plaintext is nowhere but in the data of a Secret.
    pub(super) fn judge_text(&self, place: &str, text: &str) {
        let issued: Vec<String> = self.seen().issued.iter().map(|(_, plaintext)| plaintext.clone()).collect();
        for plaintext in issued {
            let secret = match self.makes {
                Makes::Keys { .. } => plaintext.as_str(),
                Makes::Proxies { .. } => proxies::secret(&plaintext),
            };
            let forms = Canary::of(secret).found_in(text);
            if !forms.is_empty() {
                self.break_with(format!("I6: {place} shows a plaintext ({})", forms.join(", ")));
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

    /// I9: tokens were replaced as often as the workload asks for it; once more where one was lost.
    pub(super) fn judge_replacements(&self, workload: &str, lost: usize) {
        let Makes::Proxies { replacements, .. } = self.makes else { return };
        let (replaced, asked_for) = (self.seen().replacements, replacements(workload));
        if replaced < asked_for || replaced > asked_for + lost {
            self.break_with(format!(
                "I9: tokens were replaced {replaced} times, asked for is {asked_for}, and {lost} may be lost"
            ));
        }
    }

    /// Everything that is judged by what a coderd has seen of us, in order: I3, I4, I5 and I10.
    pub(super) fn judge_coderd(&self, coderd: &RunCoderd) {
        let calls = coderd.double.calls();
        let name = coderd.control_plane;
        let (most, allowed, what) = match self.makes {
            Makes::Keys { .. } => (keys::most(&calls), keys::MOST, "keys"),
            Makes::Proxies { .. } => (proxies::most(&calls), proxies::MOST, "proxies"),
        };
        if most > allowed {
            self.break_with(format!("I3: the coderd of {name} had {most} {what} of ours at once"));
        }
        for call in calls.iter().filter(|call| call.credential == Credential::RefusedToken) {
            self.break_with(format!(
                "I10: the coderd of {name} refuses the token of {} {}",
                call.method, call.path
            ));
        }
        for (proxy, token) in &coderd.foreign_tokens {
            if coderd.double.token_of_proxy(proxy).as_ref() != Some(token) {
                self.break_with(format!("I5: the proxy {proxy} of others is not what it was"));
            }
        }
        for violation in coderd.double.take_violations() {
            self.break_with(violation.to_string());
        }
    }

    /// I1 and I2: in the end there is what the subject uses, of which the Secret holds the plaintext, or nothing if nobody
    /// wants anything.
    pub(super) fn judge_end(&self, coderds: &[RunCoderd], subject: Option<&Value>, plaintext: Option<&str>) {
        for coderd in coderds {
            let leads_here = |one: &&Value| match one["spec"]["bootstrap"]["coderURL"].as_str() {
                Some(url) => by_service(url) == coderd.control_plane,
                None => one["spec"]["controlPlaneRef"]["name"] == coderd.control_plane,
            };
            let wanted = subject.filter(leads_here);
            let broken = match self.makes {
                Makes::Keys { .. } => keys::in_the_end(coderd, wanted, plaintext.unwrap_or_default()),
                Makes::Proxies { .. } => {
                    let pods = self.users.plaintexts();
                    proxies::in_the_end(coderd, wanted, plaintext.unwrap_or_default(), &pods)
                }
            };
            self.seen().broken.extend(broken);
        }
    }
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
        if !status.is_success() {
            return;
        }
        let body: Value = serde_json::from_slice(body).unwrap_or_default();
        let (plaintext, is_replaced) = match self.invariants.makes {
            Makes::Keys { .. } => (keys::shown(exchange, &body), false),
            Makes::Proxies { .. } => proxies::shown(exchange, &body),
        };
        let mut seen = self.invariants.seen();
        seen.replacements += usize::from(is_replaced);
        seen.issued.extend(plaintext.map(|plaintext| (self.control_plane, plaintext)));
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
    fn of_a_secret_everything_counts_but_its_data() {
        let patch = json!([{ "op": "add", "path": "/data/key", "value": "x" }, { "op": "add", "path": "/metadata/a", "value": "y" }]);
        assert_eq!(without_data(patch), json!([{ "op": "add", "path": "/metadata/a", "value": "y" }]));
        assert_eq!(
            without_data(json!({ "data": { "key": "x" }, "kind": "Secret" })),
            json!({ "kind": "Secret" })
        );
    }
}
