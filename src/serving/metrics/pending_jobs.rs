//! The builds that wait for the daemons of each provisioner, of a bounded number of them, while somebody counts.
//! It asks whoever counts at the moment of a scrape, and keeps nothing itself.

use super::table::PENDING_JOBS;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::metrics::MetricType;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Objects that have a series. Prometheus keeps each series that it ever saw for hours.
pub(crate) const MOST_JOB_COUNTS: usize = 1000;

/// How many jobs wait for an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct JobCount {
    /// Namespace of the object.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// How many.
    pub jobs: i64,
}

type Look = Arc<dyn Fn() -> Vec<JobCount> + Send + Sync>;

/// The jobs that wait. Cloning is cheap.
#[derive(Clone, Default)]
pub(crate) struct WaitingJobs {
    look: Arc<Mutex<Option<Look>>>,
}

/// Shows them until it is dropped: another replica counts then.
pub(crate) struct ShownJobs(WaitingJobs);

impl WaitingJobs {
    /// Shows what `look` counted, which gives at most [`MOST_JOB_COUNTS`].
    #[must_use = "they are shown until this is dropped"]
    pub(crate) fn show(&self, look: impl Fn() -> Vec<JobCount> + Send + Sync + 'static) -> ShownJobs {
        *self.look() = Some(Arc::new(look));
        ShownJobs(self.clone())
    }

    fn look(&self) -> MutexGuard<'_, Option<Look>> {
        self.look.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for ShownJobs {
    fn drop(&mut self) {
        *self.0.look() = None;
    }
}

impl fmt::Debug for WaitingJobs {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("WaitingJobs").field("are_shown", &self.look().is_some()).finish()
    }
}

impl Collector for WaitingJobs {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let (look, metric) = (self.look().clone(), PENDING_JOBS);
        let mut series =
            encoder.encode_descriptor(metric.name, &metric.sentence(), None, MetricType::Gauge)?;
        for JobCount { namespace, name, jobs } in look.map(|look| look()).unwrap_or_default() {
            let labels = [("namespace", namespace.as_str()), ("name", name.as_str())];
            series.encode_family(&labels)?.encode_gauge(&jobs)?;
        }
        Ok(())
    }
}
