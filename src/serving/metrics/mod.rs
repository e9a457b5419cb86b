//! What the process counts, in one registry: labels come from closed sets, so that their number is bounded.
//! It counts and prints; it never decides anything from a number.

mod conditions;
mod labels;
mod pending_jobs;
mod process;
mod queues;
pub mod table;
mod timed;

pub(crate) use conditions::{Conditions, ShownConditions};
pub(crate) use labels::{
    CoderdRequest, Named, OfKind, Reconcile, ReconcileResult, Review, Truth, Verdict, Webhook,
};
pub(crate) use pending_jobs::{JobCount, MOST_JOB_COUNTS, WaitingJobs};
pub(crate) use queues::{Backlog, Queues, ShownQueue};
pub(crate) use timed::TimedReview;

use prometheus_client::encoding::{EncodeMetric, MetricEncoder, text::encode};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::Registry;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use table::Metric;

/// Durations by labels, in fixed buckets.
pub(crate) type Durations<L> = Family<L, Histogram, fn() -> Histogram>;

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
    /// How long admission reviews took.
    pub admission_duration: Durations<Review>,
    /// Callers turned away from an authorised port: `unauthenticated`, `forbidden`, `too_many`.
    pub denied: Family<Named, Counter>,
    /// Reconciles, by kind and result.
    pub reconciles: Family<Reconcile, Counter>,
    /// How long reconciles took, by kind.
    pub reconcile_duration: Durations<OfKind>,
    /// What waits for a reconcile.
    pub queues: Queues,
    /// What the conditions of objects say.
    pub conditions: Conditions,
    /// Builds that wait for the daemons of provisioners.
    pub(crate) pending_jobs: WaitingJobs,
    /// How long requests to coderd took.
    pub coderd_request_duration: Durations<CoderdRequest>,
    /// 1 while the process is ready.
    pub ready: Gauge,
}

impl Metrics {
    /// A registry with every metric of the process; conditions of objects are part of it or not.
    pub fn new(version: &'static str, commit: &'static str, conditions: bool) -> Self {
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
            admission_duration: Family::new_with_constructor(|| Histogram::new(WITHIN_A_REVIEW)),
            denied: Family::default(),
            reconciles: Family::default(),
            reconcile_duration: Family::new_with_constructor(|| Histogram::new(WITHIN_A_MINUTE)),
            queues: Queues::default(),
            conditions: Conditions::new(conditions),
            pending_jobs: WaitingJobs::default(),
            coderd_request_duration: Family::new_with_constructor(|| Histogram::new(WITHIN_A_MINUTE)),
            ready: Gauge::default(),
        };
        metrics.register(Info::new([("version", version), ("commit", commit)]));
        metrics
    }

    fn register(&self, build: Info<[(&'static str, &'static str); 2]>) {
        let mut registry = self.registry.lock().unwrap_or_else(PoisonError::into_inner);
        let all = &mut *registry;
        register(all, table::BUILD, build);
        register(all, table::READY, self.ready.clone());
        register(all, table::LEADING, self.leading.clone());
        register(all, table::RECONCILES, self.reconciles.clone());
        register(all, table::RECONCILE_DURATION, self.reconcile_duration.clone());
        all.register_collector(Box::new(self.queues.clone()));
        all.register_collector(Box::new(self.conditions.clone()));
        all.register_collector(Box::new(self.pending_jobs.clone()));
        register(all, table::ADMISSIONS, self.admissions.clone());
        register(all, table::ADMISSION_DURATION, self.admission_duration.clone());
        register(all, table::CODERD_REQUEST_DURATION, self.coderd_request_duration.clone());
        register(all, table::WATCH_ERRORS, self.watch_errors.clone());
        register(all, table::CONNECTIONS, self.connections.clone());
        register(all, table::REFUSED_CONNECTIONS, self.refused_connections.clone());
        register(all, table::FAILED_HANDSHAKES, self.failed_handshakes.clone());
        register(all, table::DENIED_CALLERS, self.denied.clone());
        register(all, table::CERTIFICATE_NOT_AFTER, self.certificate_not_after.clone());
        register(all, table::CA_INJECTIONS, self.injections.clone());
        register(all, table::FAILED_CA_INJECTIONS, self.failed_injections.clone());
        all.register_collector(Box::new(process::Process));
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

/// An admission review has less than three seconds.
const WITHIN_A_REVIEW: [f64; 12] =
    [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5];

/// From a reconcile that changes nothing to one that waits for every deadline.
const WITHIN_A_MINUTE: [f64; 12] = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0];

fn register(
    registry: &mut Registry,
    metric: Metric,
    value: impl EncodeMetric + Send + Sync + fmt::Debug + 'static,
) {
    registry.register(metric.family(), metric.help, Always(value));
}

/// A metric that is shown from the start: whoever looks for one that has no series yet sees that it exists.
#[derive(Debug)]
struct Always<M>(M);

impl<M: EncodeMetric> EncodeMetric for Always<M> {
    fn encode(&self, encoder: MetricEncoder<'_>) -> fmt::Result {
        self.0.encode(encoder)
    }

    fn metric_type(&self) -> MetricType {
        self.0.metric_type()
    }
}

#[cfg(test)]
mod tests;
