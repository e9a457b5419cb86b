//! Runs passes as the schedule says, a bounded number at a time, until it is told to stop.
//! It decides nothing: see `schedule`.

use super::schedule::{Action, Namespaced, Schedule, Waiting};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::Notify;
use tokio::task::{Id, JoinError, JoinSet};
use tokio_util::sync::CancellationToken;

/// Passes at the same time.
const AT_ONCE: usize = 8;
/// With nothing due, the schedule is still looked at this often.
const IDLE: Duration = Duration::from_secs(3600);

/// The shortest pause after a reconcile that panicked.
const AFTER_A_PANIC: Duration = Duration::from_secs(60);

/// Where requests for a reconcile are left. Cloning is cheap.
pub(crate) struct Queue<K> {
    schedule: Arc<Mutex<Schedule<K>>>,
    wished: Arc<Notify>,
}

impl<K> Clone for Queue<K> {
    fn clone(&self) -> Self {
        Self { schedule: self.schedule.clone(), wished: self.wished.clone() }
    }
}

impl<K> Default for Queue<K> {
    fn default() -> Self {
        Self { schedule: Arc::default(), wished: Arc::default() }
    }
}

impl<K: Ord + Clone + Namespaced + Send + 'static> Queue<K> {
    /// Asks for a reconcile of an object soon.
    pub(crate) fn enqueue(&self, key: K) {
        self.schedule().enqueue(key, Instant::now());
        self.wished.notify_one();
    }

    /// Forgets an object that is gone.
    pub(crate) fn forget(&self, key: &K) {
        self.schedule().forget(key);
    }

    /// What waits for a worker.
    pub(crate) fn waiting(&self, now: Instant) -> Waiting {
        self.schedule().waiting(now)
    }

    /// Runs passes until `stop`; those under way are cut there: every effect survives a kill anyway.
    pub(crate) async fn run<P>(&self, stop: CancellationToken, reconcile: impl Fn(K) -> P)
    where
        P: Future<Output = Action> + Send + 'static,
    {
        let mut reconciles: JoinSet<Action> = JoinSet::new();
        let mut keys: HashMap<Id, K> = HashMap::new();
        loop {
            while reconciles.len() < AT_ONCE && !stop.is_cancelled() {
                let Some(key) = self.schedule().take(Instant::now()) else { break };
                let id = reconciles.spawn(reconcile(key.clone())).id();
                keys.insert(id, key);
            }
            let next = self.schedule().next().filter(|_| reconciles.len() < AT_ONCE);
            let next = next.unwrap_or_else(|| Instant::now() + IDLE);
            tokio::select! {
                biased;
                () = stop.cancelled() => return,
                Some(ended) = reconciles.join_next_with_id() => self.note(ended, &mut keys),
                () = self.wished.notified() => {}
                () = tokio::time::sleep_until(next.into()) => {}
            }
        }
    }

    fn note(&self, ended: Result<(Id, Action), JoinError>, keys: &mut HashMap<Id, K>) {
        let (id, outcome) = ended.unwrap_or_else(|error| {
            tracing::error!(%error, "a reconcile panicked; its object is tried again, later each time");
            (error.id(), Action::BackOff(AFTER_A_PANIC))
        });
        if let Some(key) = keys.remove(&id) {
            self.schedule().finished(key, outcome, Instant::now());
        }
    }

    fn schedule(&self) -> MutexGuard<'_, Schedule<K>> {
        self.schedule.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    impl Namespaced for u32 {
        /// Those with the same number of tens share one.
        fn namespace(&self) -> &str {
            ["0", "1", "2", "3", "4"].get(*self as usize / 10).copied().unwrap_or("more")
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_namespace_that_hangs_keeps_nobody_else_from_a_worker() {
        let (queue, stop) = (Queue::default(), CancellationToken::new());
        for key in (0..10).chain([10, 20]) {
            queue.enqueue(key);
        }
        let (hanging, ended) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let (hung, done, enough) = (hanging.clone(), ended.clone(), stop.clone());
        queue
            .run(stop, move |key: u32| {
                let (hung, done, enough) = (hung.clone(), done.clone(), enough.clone());
                async move {
                    if key < 10 {
                        hung.fetch_add(1, Ordering::SeqCst);
                        std::future::pending::<()>().await;
                    }
                    if done.fetch_add(1, Ordering::SeqCst) == 1 {
                        enough.cancel();
                    }
                    Action::AwaitChange
                }
            })
            .await;
        assert_eq!((hanging.load(Ordering::SeqCst), ended.load(Ordering::SeqCst)), (2, 2));
    }

    #[tokio::test(start_paused = true)]
    async fn wishes_are_run_until_told_to_stop() {
        let (queue, stop) = (Queue::default(), CancellationToken::new());
        let count = Arc::new(AtomicUsize::new(0));
        for key in 0..20 {
            queue.enqueue(key);
        }
        let (counted, enough) = (count.clone(), stop.clone());
        queue
            .run(stop, move |_: u32| {
                let (counted, enough) = (counted.clone(), enough.clone());
                async move {
                    if counted.fetch_add(1, Ordering::SeqCst) == 19 {
                        enough.cancel();
                    }
                    Action::AwaitChange
                }
            })
            .await;
        assert_eq!(count.load(Ordering::SeqCst), 20);
    }
}
