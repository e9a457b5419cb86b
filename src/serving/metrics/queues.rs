//! How many objects wait for a reconcile, and for how long, as it is at the moment of a scrape.
//! It asks whoever has a queue; it never keeps a count of its own that could be wrong.

use super::labels::OfKind;
use super::table::{OLDEST_DUE, QUEUE_DEPTH};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::metrics::MetricType;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// What waits in a queue.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Backlog {
    /// Objects that are due.
    pub due: usize,
    /// How long the one that is due longest has been waiting.
    pub oldest: Duration,
}

type Look = Arc<dyn Fn(Instant) -> Backlog + Send + Sync>;

/// The queues of the process. Cloning is cheap.
#[derive(Clone, Default)]
pub struct Queues {
    /// By kind; one that nobody works on has no look.
    looks: Arc<Mutex<BTreeMap<&'static str, Option<Look>>>>,
}

/// Shows a queue until it is dropped; after that it is empty.
pub struct ShownQueue {
    queues: Queues,
    kind: &'static str,
}

impl Queues {
    /// Shows the queue of a kind, which `look` looks into.
    #[must_use = "it is shown until this is dropped"]
    pub fn show(
        &self,
        kind: &'static str,
        look: impl Fn(Instant) -> Backlog + Send + Sync + 'static,
    ) -> ShownQueue {
        self.looks().insert(kind, Some(Arc::new(look)));
        ShownQueue { queues: self.clone(), kind }
    }

    fn looks(&self) -> MutexGuard<'_, BTreeMap<&'static str, Option<Look>>> {
        self.looks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for ShownQueue {
    fn drop(&mut self) {
        self.queues.looks().insert(self.kind, None);
    }
}

impl fmt::Debug for Queues {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_tuple("Queues").field(&self.looks().keys()).finish()
    }
}

impl Collector for Queues {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let looks = self.looks().clone();
        let now = Instant::now();
        let backlogs: Vec<(OfKind, Backlog)> = looks
            .into_iter()
            .map(|(kind, look)| (OfKind { kind }, look.map(|look| look(now)).unwrap_or_default()))
            .collect();
        let (depth, oldest) = (QUEUE_DEPTH, OLDEST_DUE);
        let mut depths = encoder.encode_descriptor(depth.name, &depth.sentence(), None, MetricType::Gauge)?;
        for (kind, backlog) in &backlogs {
            let due = i64::try_from(backlog.due).unwrap_or(i64::MAX);
            depths.encode_family(kind)?.encode_gauge(&due)?;
        }
        let mut ages = encoder.encode_descriptor(oldest.name, &oldest.sentence(), None, MetricType::Gauge)?;
        for (kind, backlog) in &backlogs {
            ages.encode_family(kind)?.encode_gauge(&backlog.oldest.as_secs_f64())?;
        }
        Ok(())
    }
}
