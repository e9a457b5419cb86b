//! A proxy in front of the API server or of coderd that can delay, hold, refuse, cut and freeze what one client sends,
//! hide what it watches, and end it at a write of the test's choice.
//! Other clients use the API server directly: a frozen operator meets a cluster that goes on without it.

mod inspector;
mod journal;
mod mutation;
mod relay;
mod rules;
mod watches;

pub use inspector::{Exchange, Inspector};
pub(crate) use journal::Delivered;
pub use journal::{CrashTiming, Journal, Point};
pub use mutation::{System, in_every_run};
pub use rules::Fault;

use crate::cluster::Cluster;
use crate::ports;
use relay::Upstream;
use rules::Rules;
use serde_json::Value;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Instant;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio_util::task::AbortOnDropHandle;
use watches::{End, Watches};

/// A request as the proxy saw it.
#[derive(Debug, Clone)]
pub struct Seen {
    /// When it arrived.
    pub at: Instant,
    /// Its method.
    pub method: String,
    /// Its path with the query.
    pub path: String,
}

struct Shared {
    upstream: Upstream,
    rules: Mutex<Rules>,
    watches: Mutex<Watches>,
    seen: Mutex<Vec<Seen>>,
    frozen: watch::Sender<bool>,
    held: watch::Sender<bool>,
    journal: Arc<Journal>,
    inspector: OnceLock<Arc<dyn Inspector>>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A running proxy. Dropping it cuts every connection.
pub struct FaultProxy {
    address: SocketAddr,
    shared: Arc<Shared>,
    _server: AbortOnDropHandle<()>,
}

impl FaultProxy {
    /// Starts a proxy to the cluster's API server. It adds no credentials: callers bring a token.
    pub async fn start(cluster: &Cluster) -> Self {
        Self::recording(cluster, Arc::default()).await
    }

    /// The same; what is written through it is counted in that journal.
    pub async fn recording(cluster: &Cluster, journal: Arc<Journal>) -> Self {
        Self::serving(Upstream::ApiServer(cluster.anonymous_client()), journal).await
    }

    /// Starts a proxy to a coderd; what is written through it is counted in that journal.
    pub async fn before_coderd(coderd: SocketAddr, journal: Arc<Journal>) -> Self {
        Self::serving(Upstream::coderd(coderd), journal).await
    }

    async fn serving(upstream: Upstream, journal: Arc<Journal>) -> Self {
        let listener = TcpListener::bind(ports::loopback(0)).await.expect("a free loopback port");
        let address = listener.local_addr().expect("a bound socket has an address");
        let shared = Arc::new(Shared {
            upstream,
            rules: Mutex::default(),
            watches: Mutex::default(),
            seen: Mutex::default(),
            frozen: watch::Sender::new(false),
            held: watch::Sender::new(true),
            journal,
            inspector: OnceLock::new(),
        });
        let server = tokio::spawn(relay::serve(listener, shared.clone()));
        Self { address, shared, _server: AbortOnDropHandle::new(server) }
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The URL for a kubeconfig.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// From now on, requests for which `matches(method, path)` holds suffer `fault`.
    pub fn on(&self, fault: Fault, matches: impl Fn(&str, &str) -> bool + Send + 'static) {
        self.shared.held.send_replace(true);
        locked(&self.shared.rules).add(fault, None, Box::new(matches));
    }

    /// The next so many requests for which `matches(method, path)` holds suffer `fault`.
    pub fn on_next(&self, times: usize, fault: Fault, matches: impl Fn(&str, &str) -> bool + Send + 'static) {
        self.shared.held.send_replace(true);
        locked(&self.shared.rules).add(fault, Some(times), Box::new(matches));
    }

    /// Forgets all rules and lets held requests through.
    pub fn release(&self) {
        locked(&self.shared.rules).clear();
        self.shared.held.send_replace(false);
    }

    /// Nothing moves any more: no request, no answer, no event of a running watch.
    pub fn freeze(&self) {
        self.shared.frozen.send_replace(true);
    }

    /// Everything moves again.
    pub fn thaw(&self) {
        self.shared.frozen.send_replace(false);
    }

    /// Lists and watches of the whole cluster show these namespaces alone. It stands in for an operator that is told
    /// which namespaces to watch, so that several can work in one cluster.
    pub fn show_only<'a>(&self, namespaces: impl IntoIterator<Item = &'a str>) {
        locked(&self.shared.watches).show_only(namespaces.into_iter().map(str::to_owned).collect());
    }

    /// Ends the running watches whose URL matches, without a word; returns how many.
    pub fn cut_watches(&self, matches: impl Fn(&str) -> bool) -> usize {
        locked(&self.shared.watches).end(End::Cut, false, matches)
    }

    /// The same, and each of them goes on from the first version it told: everything since is told again.
    pub fn rewind_watches(&self, matches: impl Fn(&str) -> bool) -> usize {
        locked(&self.shared.watches).end(End::Cut, true, matches)
    }

    /// Ends the running watches whose URL matches with 410 Gone; returns how many.
    pub fn expire_watches(&self, matches: impl Fn(&str) -> bool) -> usize {
        locked(&self.shared.watches).end(End::Gone, false, matches)
    }

    /// The next event for which `matches(URL of the watch, event)` holds is never told.
    pub fn drop_event(&self, matches: impl Fn(&str, &Value) -> bool + Send + 'static) {
        locked(&self.shared.watches).drop_next(Box::new(matches));
    }

    /// The events that were dropped so far.
    pub fn dropped(&self) -> Vec<Value> {
        locked(&self.shared.watches).dropped()
    }

    /// Shows every write to somebody from now on, before it is forwarded and when it was answered.
    ///
    /// # Panics
    /// If somebody is shown them already.
    pub fn inspect(&self, inspector: Arc<dyn Inspector>) {
        assert!(self.shared.inspector.set(inspector).is_ok(), "somebody inspects this proxy already");
    }

    /// Every request so far.
    pub fn seen(&self) -> Vec<Seen> {
        locked(&self.shared.seen).clone()
    }
}
