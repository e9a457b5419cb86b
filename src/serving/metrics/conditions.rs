//! The conditions of objects as series, of a bounded number of objects, while somebody says that they are there.
//! It shows what it was told last; it never reads an object.

use super::labels::Truth;
use super::table::{CONDITION, CONDITIONS_LEFT_OUT};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Objects that have series. Prometheus keeps each series that it ever saw for hours.
const MOST: usize = 1000;

/// The types of the conditions of an object, and what each says.
type Said = Box<[(&'static str, Truth)]>;
type Exists = Box<dyn Fn(&str, &str) -> bool + Send + Sync>;

/// The conditions of the objects of the process. Cloning is cheap.
#[derive(Clone, Default)]
pub struct Conditions {
    /// None if they are not to be shown.
    shown: Option<Arc<Mutex<Shown>>>,
}

#[derive(Default)]
struct Shown {
    kinds: BTreeMap<&'static str, Kind>,
    left_out: u64,
}

struct Kind {
    exists: Exists,
    /// By namespace and name.
    objects: BTreeMap<(String, String), Said>,
}

/// Shows the conditions of a kind until it is dropped.
pub struct ShownConditions {
    conditions: Conditions,
    kind: &'static str,
}

impl Conditions {
    /// Conditions that are shown, or not.
    pub fn new(shown: bool) -> Self {
        Self { shown: shown.then(Arc::default) }
    }

    /// Whether they are shown.
    pub fn are_shown(&self) -> bool {
        self.shown.is_some()
    }

    /// Shows the conditions of a kind from now on, of those objects that exist by this word at the time of a scrape.
    #[must_use = "they are shown until this is dropped"]
    pub fn show(
        &self,
        kind: &'static str,
        exists: impl Fn(&str, &str) -> bool + Send + Sync + 'static,
    ) -> ShownConditions {
        if let Some(mut shown) = self.shown() {
            shown.kinds.insert(kind, Kind { exists: Box::new(exists), objects: BTreeMap::new() });
        }
        ShownConditions { conditions: self.clone(), kind }
    }

    /// Takes over what the conditions of an object say; the types are from a closed set.
    pub fn report(
        &self,
        kind: &'static str,
        namespace: &str,
        name: &str,
        conditions: impl Iterator<Item = (&'static str, Truth)>,
    ) {
        let Some(mut shown) = self.shown() else { return };
        let is_full =
            |shown: &Shown| shown.kinds.values().map(|kind| kind.objects.len()).sum::<usize>() >= MOST;
        if is_full(&shown) {
            // Those that are gone keep nobody out.
            for Kind { exists, objects } in shown.kinds.values_mut() {
                objects.retain(|(namespace, name), _| exists(namespace, name));
            }
        }
        let full = is_full(&shown);
        let Some(of_kind) = shown.kinds.get_mut(kind) else { return };
        let key = (namespace.to_owned(), name.to_owned());
        if !full || of_kind.objects.contains_key(&key) {
            of_kind.objects.insert(key, conditions.collect());
            return;
        }
        shown.left_out += 1;
        if shown.left_out == 1 {
            tracing::warn!(
                most = MOST,
                metric = CONDITION.name,
                "further objects are left out of a metric: as many as it may have are shown"
            );
        }
    }

    fn shown(&self) -> Option<MutexGuard<'_, Shown>> {
        let shown = self.shown.as_ref()?;
        Some(shown.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Drop for ShownConditions {
    fn drop(&mut self) {
        if let Some(mut shown) = self.conditions.shown() {
            shown.kinds.remove(self.kind);
        }
    }
}

impl fmt::Debug for Conditions {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Conditions").field("are_shown", &self.are_shown()).finish()
    }
}

impl Collector for Conditions {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let Some(mut shown) = self.shown() else { return Ok(()) };
        let metric = CONDITION;
        let mut series =
            encoder.encode_descriptor(metric.name, &metric.sentence(), None, MetricType::Gauge)?;
        for (kind, Kind { exists, objects }) in &mut shown.kinds {
            objects.retain(|(namespace, name), _| exists(namespace, name));
            for ((namespace, name), conditions) in objects.iter() {
                for (type_, status) in conditions {
                    let labels = [
                        ("kind", *kind),
                        ("namespace", namespace.as_str()),
                        ("name", name.as_str()),
                        ("type", type_),
                        ("status", status.name()),
                    ];
                    series.encode_family(&labels)?.encode_gauge(&1_i64)?;
                }
            }
        }
        let (metric, counter) = (CONDITIONS_LEFT_OUT, ConstCounter::new(shown.left_out));
        let left_out =
            encoder.encode_descriptor(metric.family(), &metric.sentence(), None, MetricType::Counter)?;
        counter.encode(left_out)
    }
}
