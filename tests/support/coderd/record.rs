//! Every call the double received: route, redacted credential, outcome and, for mutating calls, the redacted body.
//! It never keeps a secret, and never forgets a call that was cut or abandoned.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::Value;
use tokio::sync::watch;

use super::clock::Timestamp;
use super::ids::Uuid;
use super::routes;
use super::server::Coderd;

/// Who sent a call, without anything that could be used to send another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Credential {
    /// No credential at all.
    None,
    /// A valid session token of this user.
    User(String),
    /// A session token coderd refuses.
    RefusedToken,
    /// The plaintext of this provisioner key.
    ProvisionerKey(Uuid),
    /// A provisioner key coderd does not know.
    UnknownProvisionerKey,
    /// The token of this workspace proxy.
    WorkspaceProxy(Uuid),
    /// A token of a workspace proxy that coderd refuses.
    RefusedProxyToken,
}

impl fmt::Display for Credential {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => out.write_str("nobody"),
            Self::User(name) => write!(out, "user {name}"),
            Self::RefusedToken => out.write_str("a refused token"),
            Self::ProvisionerKey(id) => write!(out, "provisioner key {id}"),
            Self::UnknownProvisionerKey => out.write_str("an unknown provisioner key"),
            Self::WorkspaceProxy(id) => write!(out, "workspace proxy {id}"),
            Self::RefusedProxyToken => out.write_str("a refused token of a workspace proxy"),
        }
    }
}

/// What became of a call, seen from the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Still held by the double.
    InFlight,
    /// A response head with this status went out, whatever happened to its body.
    Answered(u16),
    /// The double cut the connection.
    Cut,
    /// The client went away first.
    Abandoned,
}

/// One call as the double saw it.
#[derive(Clone, Debug)]
pub struct Call {
    /// Position among all calls, from 0.
    pub index: usize,
    /// The route in the words of [`Coderd::calls_to`], or `unknown route`.
    pub route: String,
    /// The HTTP method.
    pub method: String,
    /// Path and query as sent; presented secrets are replaced.
    pub path: String,
    /// Who sent it.
    pub credential: Credential,
    /// When it arrived, on the double's clock.
    pub at: Timestamp,
    /// The JSON body of a mutating call; secret fields are replaced.
    pub body: Option<Value>,
    /// What became of it.
    pub outcome: Outcome,
    /// Whether the double acted on it (an injected refusal or a cut before processing leaves the state alone).
    pub processed: bool,
}

impl Call {
    /// The status the client saw, if it saw one.
    pub fn status(&self) -> Option<u16> {
        match self.outcome {
            Outcome::Answered(status) => Some(status),
            Outcome::InFlight | Outcome::Cut | Outcome::Abandoned => None,
        }
    }
}

/// The list of calls, with a bell for those who wait.
#[derive(Debug)]
pub(super) struct Ledger {
    calls: Mutex<Vec<Call>>,
    bell: watch::Sender<()>,
}

impl Ledger {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self { calls: Mutex::new(Vec::new()), bell: watch::Sender::new(()) })
    }

    fn calls(&self) -> MutexGuard<'_, Vec<Call>> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes down a call on arrival; the returned entry must say how it ended.
    pub(super) fn open(self: &Arc<Self>, mut call: Call) -> Entry {
        let index = {
            let mut calls = self.calls();
            call.index = calls.len();
            calls.push(call);
            calls.len() - 1
        };
        self.bell.send_replace(());
        Entry { ledger: Arc::clone(self), index }
    }
}

/// A call that is under way. Dropped without an end, the client has gone away.
pub(super) struct Entry {
    ledger: Arc<Ledger>,
    pub(super) index: usize,
}

impl Entry {
    pub(super) fn processed(&self) {
        self.ledger.calls()[self.index].processed = true;
    }

    pub(super) fn ended(&self, outcome: Outcome) {
        self.ledger.calls()[self.index].outcome = outcome;
        self.ledger.bell.send_replace(());
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        if self.ledger.calls()[self.index].outcome == Outcome::InFlight {
            self.ended(Outcome::Abandoned);
        }
    }
}

impl Coderd {
    /// Every call so far, in order of arrival.
    pub fn calls(&self) -> Vec<Call> {
        self.ledger().calls().clone()
    }

    /// The calls to one route, named like `POST /organizations/{org}/provisionerkeys`.
    ///
    /// # Panics
    /// If the double has no such route: a misspelt route would make an assertion about nothing.
    pub fn calls_to(&self, route: &str) -> Vec<Call> {
        let name = routes::canonical_name(route);
        self.calls().into_iter().filter(|call| call.route == name).collect()
    }

    /// How many calls went to one route.
    ///
    /// # Panics
    /// As [`Coderd::calls_to`].
    pub fn count(&self, route: &str) -> usize {
        self.calls_to(route).len()
    }

    /// How many calls went to each route that was called.
    pub fn counts(&self) -> BTreeMap<String, usize> {
        let mut counts = BTreeMap::new();
        for call in self.calls() {
            *counts.entry(call.route).or_default() += 1;
        }
        counts
    }

    /// Calls that may have changed something, in order of arrival.
    pub fn mutating_calls(&self) -> Vec<Call> {
        self.calls().into_iter().filter(|call| call.method != "GET" && call.method != "HEAD").collect()
    }

    /// Waits until that many calls to the route have ended, and returns them.
    ///
    /// # Panics
    /// If they have not after `within`, or as [`Coderd::calls_to`].
    pub async fn wait_for_calls(&self, route: &str, count: usize, within: Duration) -> Vec<Call> {
        let mut bell = self.ledger().bell.subscribe();
        let ended = async {
            loop {
                bell.borrow_and_update();
                let mut calls = self.calls_to(route);
                calls.retain(|call| call.outcome != Outcome::InFlight);
                if calls.len() >= count {
                    return calls;
                }
                if bell.changed().await.is_err() {
                    std::future::pending::<()>().await;
                }
            }
        };
        let seen = tokio::time::timeout(within, ended).await;
        seen.unwrap_or_else(|_| panic!("{} of {count} calls to {route} within {within:?}", self.count(route)))
    }
}
