//! Decides how many reconciles run at a time: eight of all kinds together, two of one namespace, so that what hangs for one tenant
//! takes a quarter of them at most. Kinds take turns. It never knows what is reconciled, and starts nothing.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::futures::Notified;
use tokio::sync::{Notify, Semaphore};
use tokio_util::sync::PollSemaphore;

/// Reconciles at the same time, of all kinds together. What memory they take is counted for this many
/// (`kubernetes/answers.rs`, docs/security.md).
const AT_ONCE: usize = 8;
/// Reconciles of one namespace at the same time, of all kinds together.
pub(super) const PER_NAMESPACE: usize = 2;

/// The workers that the queues of all kinds share. Cloning is cheap.
#[derive(Clone)]
pub(crate) struct Workers {
    /// Whoever waits longest is next: no kind keeps another one waiting for as long as it has something to do.
    turns: Arc<Semaphore>,
    namespaces: Arc<Namespaces>,
}

#[derive(Default)]
struct Namespaces {
    /// How many are under way; those without any are forgotten.
    busy: Mutex<BTreeMap<String, usize>>,
    freed: Notify,
}

impl Default for Workers {
    fn default() -> Self {
        Self { turns: Arc::new(Semaphore::new(AT_ONCE)), namespaces: Arc::default() }
    }
}

impl Workers {
    /// A place in the line for a worker, which one queue keeps for itself.
    pub(super) fn line(&self) -> PollSemaphore {
        PollSemaphore::new(self.turns.clone())
    }

    /// Takes one of the places of a namespace, if there is one.
    pub(super) fn enter(&self, namespace: &str) -> Option<Place> {
        let mut busy = self.namespaces.busy();
        let count = busy.entry(namespace.to_owned()).or_default();
        if *count >= PER_NAMESPACE {
            return None;
        }
        *count += 1;
        drop(busy);
        Some(Place { namespaces: self.namespaces.clone(), namespace: namespace.to_owned() })
    }

    /// Whether a namespace has a place left.
    pub(super) fn has_place(&self, namespace: &str) -> bool {
        self.namespaces.busy().get(namespace).is_none_or(|count| *count < PER_NAMESPACE)
    }

    /// Ends when a place comes free after this was called.
    pub(super) fn freed(&self) -> Notified<'_> {
        self.namespaces.freed.notified()
    }
}

impl Namespaces {
    fn busy(&self) -> MutexGuard<'_, BTreeMap<String, usize>> {
        self.busy.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One of the places of a namespace, until it is dropped.
pub(super) struct Place {
    namespaces: Arc<Namespaces>,
    namespace: String,
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut busy = self.namespaces.busy();
        if let Some(count) = busy.get_mut(&self.namespace) {
            *count -= 1;
            if *count == 0 {
                busy.remove(&self.namespace);
            }
        }
        drop(busy);
        self.namespaces.freed.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_namespace_has_two_places_whichever_kinds_take_them() {
        let workers = Workers::default();
        let other_kind = workers.clone();
        let (one, two) = (workers.enter("a").unwrap(), other_kind.enter("a").unwrap());
        assert!(workers.enter("a").is_none() && other_kind.enter("a").is_none() && !workers.has_place("a"));
        assert!(workers.has_place("b"));
        drop(one);
        assert!(other_kind.enter("a").is_some(), "it was given back, and so is this one");
        drop(two);
        assert!(workers.namespaces.busy().is_empty(), "nothing is left of it");
    }
}
