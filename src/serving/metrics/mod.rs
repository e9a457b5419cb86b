//! What the process counts, in one registry: labels come from closed sets, so that their number is bounded.
//! It counts and prints; it never decides anything from a number.

use prometheus_client::encoding::{EncodeLabelSet, text::encode};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::Registry;
use std::sync::{Arc, Mutex, PoisonError};

/// One label called `name`, from a closed set.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct Named {
    /// The value.
    pub name: &'static str,
}

/// The metrics of the process. Cloning is cheap.
#[derive(Clone)]
pub struct Metrics {
    registry: Arc<Mutex<Registry>>,
    /// 1 while this replica holds the lease of that name.
    pub leading: Family<Named, Gauge>,
    /// Failed lists and watches, by kind.
    pub watch_errors: Family<Named, Counter>,
    /// TLS handshakes that did not succeed, by listener.
    pub failed_handshakes: Family<Named, Counter>,
    /// Open connections, by listener.
    pub connections: Family<Named, Gauge>,
    /// Connections closed at once because their caller had its share, by listener.
    pub refused_connections: Family<Named, Counter>,
    /// When a certificate of ours ends, in Unix seconds: `ca` and `leaf`.
    pub certificate_not_after: Family<Named, Gauge>,
    /// Writes of a CA bundle, by kind of target.
    pub injections: Family<Named, Counter>,
    /// Failed writes of a CA bundle, by kind of target.
    pub failed_injections: Family<Named, Counter>,
    /// Admission reviews, by webhook and verdict.
    pub admissions: Family<Named, Counter>,
    /// Callers turned away from an authorised port: `unauthenticated`, `forbidden`, `too_many`.
    pub denied: Family<Named, Counter>,
    /// 1 while the process is ready.
    pub ready: Gauge,
}

impl Metrics {
    /// A registry with every metric of the process.
    pub fn new(version: &'static str, commit: &'static str) -> Self {
        let metrics = Self {
            registry: Arc::default(),
            leading: Family::default(),
            watch_errors: Family::default(),
            failed_handshakes: Family::default(),
            connections: Family::default(),
            refused_connections: Family::default(),
            certificate_not_after: Family::default(),
            injections: Family::default(),
            failed_injections: Family::default(),
            admissions: Family::default(),
            denied: Family::default(),
            ready: Gauge::default(),
        };
        metrics.register(version, commit);
        metrics
    }

    fn register(&self, version: &'static str, commit: &'static str) {
        let mut registry = self.registry.lock().unwrap_or_else(PoisonError::into_inner);
        let own = registry.sub_registry_with_prefix("coder_k8s");
        own.register(
            "build",
            "Version and commit of this binary",
            Info::new([("version", version), ("commit", commit)]),
        );
        own.register("leading", "1 while this replica holds the lease", self.leading.clone());
        own.register("watch_errors", "Failed lists and watches by kind", self.watch_errors.clone());
        let handshakes = self.failed_handshakes.clone();
        own.register("failed_handshakes", "TLS handshakes that did not succeed by listener", handshakes);
        own.register("connections", "Open connections by listener", self.connections.clone());
        let refused = self.refused_connections.clone();
        own.register(
            "refused_connections",
            "Connections above the share of their caller by listener",
            refused,
        );
        let not_after = self.certificate_not_after.clone();
        own.register("certificate_not_after_seconds", "Unix time at which a certificate ends", not_after);
        own.register("ca_injections", "Writes of a CA bundle by kind of target", self.injections.clone());
        let failed = self.failed_injections.clone();
        own.register("failed_ca_injections", "Failed writes of a CA bundle by kind of target", failed);
        own.register("admissions", "Admission reviews by webhook and verdict", self.admissions.clone());
        own.register("denied_callers", "Callers turned away from an authorised port", self.denied.clone());
        own.register("ready", "1 while the process is ready", self.ready.clone());
    }

    /// The metrics as Prometheus text.
    pub fn text(&self) -> String {
        let registry = self.registry.lock().unwrap_or_else(PoisonError::into_inner);
        let mut text = String::new();
        // Writing to a String cannot fail.
        let _ = encode(&mut text, &registry);
        text
    }
}
