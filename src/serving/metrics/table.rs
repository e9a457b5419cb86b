//! The one table of metrics: what each is called, what type it has, by which labels it is split and what it says.
//! What is registered and what docs/metrics.md shows is taken from here; it never counts anything.

/// What sort of metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Type {
    /// Only grows.
    Counter,
    /// Goes up and down.
    Gauge,
    /// How many were at most so long.
    Histogram,
    /// Always 1, for its labels.
    Info,
}

impl Type {
    /// As a scrape names it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
            Self::Info => "info",
        }
    }
}

/// A metric as it is described.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Metric {
    /// As a query names it.
    pub name: &'static str,
    /// Its type.
    pub type_: Type,
    /// The names of its labels.
    pub labels: &'static [&'static str],
    /// What it says, without the full stop.
    pub help: &'static str,
}

impl Metric {
    /// The name without what the format adds to names of this type.
    pub fn family(&self) -> &'static str {
        let suffix = match self.type_ {
            Type::Counter => "_total",
            Type::Info => "_info",
            Type::Gauge | Type::Histogram => "",
        };
        self.name.strip_suffix(suffix).unwrap_or(self.name)
    }

    /// What it says as the registry would write it, for what is not in the registry.
    pub(super) fn sentence(&self) -> String {
        format!("{}.", self.help)
    }
}

const fn counter(name: &'static str, labels: &'static [&'static str], help: &'static str) -> Metric {
    Metric { name, type_: Type::Counter, labels, help }
}

const fn gauge(name: &'static str, labels: &'static [&'static str], help: &'static str) -> Metric {
    Metric { name, type_: Type::Gauge, labels, help }
}

const fn histogram(name: &'static str, labels: &'static [&'static str], help: &'static str) -> Metric {
    Metric { name, type_: Type::Histogram, labels, help }
}

pub(super) const BUILD: Metric = Metric {
    name: "coder_k8s_build_info",
    type_: Type::Info,
    labels: &["version", "commit"],
    help: "Version and commit of this binary",
};
pub(super) const READY: Metric = gauge("coder_k8s_ready", &[], "1 while the process is ready");
pub(super) const LEADING: Metric =
    gauge("coder_k8s_leading", &["name"], "1 while this replica holds the lease");
pub(super) const RECONCILES: Metric = counter(
    "coder_k8s_reconcile_total",
    &["kind", "result"],
    "Reconciles by kind and result: settled, requeued (to be looked at again after a while), failed, panicked",
);
pub(super) const RECONCILE_DURATION: Metric = histogram(
    "coder_k8s_reconcile_duration_seconds",
    &["kind"],
    "How long reconciles took by kind, from the moment a worker took the object",
);
pub(super) const QUEUE_DEPTH: Metric = gauge(
    "coder_k8s_queue_depth",
    &["kind"],
    "Objects that are due and wait for a worker by kind; 0 on a replica that does not lead",
);
pub(super) const OLDEST_DUE: Metric = gauge(
    "coder_k8s_oldest_due_seconds",
    &["kind"],
    "How long the object that is due longest has been waiting for a worker by kind; 0 if none is due",
);
pub(super) const CONDITION: Metric = gauge(
    "coder_k8s_resource_condition",
    &["kind", "namespace", "name", "type", "status"],
    "1 for the status (True, False, Unknown) that each condition of an object has, of at most 1000 objects; \
     --condition-metrics=false leaves it out",
);
pub(super) const CONDITIONS_LEFT_OUT: Metric = counter(
    "coder_k8s_resource_condition_left_out_total",
    &[],
    "Statuses that coder_k8s_resource_condition does not show because as many objects as it may have are shown",
);
pub(super) const PENDING_JOBS: Metric = gauge(
    "coder_k8s_provisioner_pending_jobs",
    &["namespace", "name"],
    "Builds that wait for daemons with the tags of a provisioner, where coderd shows them to the operator's user, of at \
     most 1000 objects; 50 may be more",
);
pub(super) const ADMISSIONS: Metric =
    counter("coder_k8s_admissions_total", &["name"], "Admission reviews by webhook and verdict");
pub(super) const ADMISSION_DURATION: Metric = histogram(
    "coder_k8s_admission_duration_seconds",
    &["webhook", "verdict"],
    "How long admission reviews took by webhook (mutate, validate) and verdict (allowed, denied, failed), from the first \
     byte of the body to the answer",
);
pub(super) const CODERD_REQUEST_DURATION: Metric = histogram(
    "coder_k8s_coderd_request_duration_seconds",
    &["operation", "result"],
    "How long requests to coderd took by operation and result: success, redirected, client_error, rate_limited, \
     server_error, unreachable, tls, timed_out, refused (an address that is never dialled), invalid, cut (the reconcile \
     had its time)",
);
pub(super) const WATCH_ERRORS: Metric =
    counter("coder_k8s_watch_errors_total", &["name"], "Failed lists and watches by kind");
pub(super) const CONNECTIONS: Metric =
    gauge("coder_k8s_connections", &["name"], "Open connections by listener");
pub(super) const REFUSED_CONNECTIONS: Metric = counter(
    "coder_k8s_refused_connections_total",
    &["name"],
    "Connections above the share of their caller by listener",
);
pub(super) const FAILED_HANDSHAKES: Metric = counter(
    "coder_k8s_failed_handshakes_total",
    &["name"],
    "TLS handshakes that did not succeed by listener",
);
pub(super) const DENIED_CALLERS: Metric =
    counter("coder_k8s_denied_callers_total", &["name"], "Callers turned away from an authorised port");
pub(super) const CERTIFICATE_NOT_AFTER: Metric =
    gauge("coder_k8s_certificate_not_after_seconds", &["name"], "Unix time at which a certificate ends");
pub(super) const CA_INJECTIONS: Metric =
    counter("coder_k8s_ca_injections_total", &["name"], "Writes of a CA bundle by kind of target");
pub(super) const FAILED_CA_INJECTIONS: Metric = counter(
    "coder_k8s_failed_ca_injections_total",
    &["name"],
    "Failed writes of a CA bundle by kind of target",
);
pub(super) const RESIDENT_MEMORY: Metric =
    gauge("process_resident_memory_bytes", &[], "Resident memory of the process");
pub(super) const CPU: Metric =
    counter("process_cpu_seconds_total", &[], "Processor time of the process, user and system");
pub(super) const OPEN_FDS: Metric = gauge("process_open_fds", &[], "Open file descriptors of the process");
pub(super) const START_TIME: Metric =
    gauge("process_start_time_seconds", &[], "Unix time at which the process started");

/// Every metric of the process, in the order in which people read of them.
pub const TABLE: [Metric; 25] = [
    BUILD,
    READY,
    LEADING,
    RECONCILES,
    RECONCILE_DURATION,
    QUEUE_DEPTH,
    OLDEST_DUE,
    CONDITION,
    CONDITIONS_LEFT_OUT,
    PENDING_JOBS,
    ADMISSIONS,
    ADMISSION_DURATION,
    CODERD_REQUEST_DURATION,
    WATCH_ERRORS,
    CONNECTIONS,
    REFUSED_CONNECTIONS,
    FAILED_HANDSHAKES,
    DENIED_CALLERS,
    CERTIFICATE_NOT_AFTER,
    CA_INJECTIONS,
    FAILED_CA_INJECTIONS,
    RESIDENT_MEMORY,
    CPU,
    OPEN_FDS,
    START_TIME,
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_the_conventions() {
        for metric in TABLE {
            let Metric { name, type_, help, .. } = metric;
            assert!(name.bytes().all(|byte| byte.is_ascii_lowercase() || b"_8".contains(&byte)), "{name}");
            assert!(name.starts_with("coder_k8s_") || name.starts_with("process_"), "{name}");
            assert_eq!(name.ends_with("_total"), type_ == Type::Counter, "{name}");
            assert_eq!(name.ends_with("_info"), type_ == Type::Info, "{name}");
            assert!(type_ != Type::Histogram || name.ends_with("_seconds"), "{name}");
            assert!(!help.ends_with('.'), "{name}: the format adds it");
        }
    }
}
