//! Runs passes as the schedule says, with the workers that all kinds share, until it is told to stop.
//! It decides nothing: see `schedule` and `workers`.

use super::schedule::{Action, Namespaced, Schedule, Waiting};
use super::workers::{Place, Workers};
use std::collections::HashMap;
use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::{Notify, OwnedSemaphorePermit};
use tokio::task::{Id, JoinError, JoinSet};
use tokio_util::sync::CancellationToken;

/// With nothing due, the schedule is still looked at this often.
const IDLE: Duration = Duration::from_secs(3600);

/// The shortest pause after a reconcile that panicked.
const AFTER_A_PANIC: Duration = Duration::from_secs(60);

/// Where requests for a reconcile are left. Cloning is cheap.
pub(crate) struct Queue<K> {
    schedule: Arc<Mutex<Schedule<K>>>,
    wished: Arc<Notify>,
    workers: Workers,
}

impl<K> Clone for Queue<K> {
    fn clone(&self) -> Self {
        Self { schedule: self.schedule.clone(), wished: self.wished.clone(), workers: self.workers.clone() }
    }
}

impl<K> Queue<K> {
    /// A queue whose reconciles are run by these workers.
    pub(crate) fn with(workers: &Workers) -> Self {
        Self { schedule: Arc::default(), wished: Arc::default(), workers: workers.clone() }
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
        let (mut line, mut in_line, mut turn) = (self.workers.line(), false, None);
        loop {
            // Before the look: what comes free during it is not missed.
            let freed = self.workers.freed();
            if let Some(turn) = turn.take()
                && let Some((key, place)) = self.take()
            {
                let id = reconciles.spawn(in_turn(turn, place, reconcile(key.clone()))).id();
                keys.insert(id, key);
            }
            let next = self.schedule().next(|namespace| self.workers.has_place(namespace));
            // A place in the line is kept until it is its turn, and given back then if nothing is due any more.
            in_line |= next.is_some_and(|at| at <= Instant::now());
            let next = next.unwrap_or_else(|| Instant::now() + IDLE);
            tokio::select! {
                biased;
                () = stop.cancelled() => return,
                Some(ended) = reconciles.join_next_with_id() => self.note(ended, &mut keys),
                mine = poll_fn(|context| line.poll_acquire(context)), if in_line => (in_line, turn) = (false, mine),
                () = self.wished.notified() => {}
                () = freed => {}
                () = tokio::time::sleep_until(next.into()), if !in_line => {}
            }
        }
    }

    /// The object that is next, with a place of its namespace.
    fn take(&self) -> Option<(K, Place)> {
        let mut place = None;
        let key = self.schedule().take(Instant::now(), |namespace| {
            place = self.workers.enter(namespace);
            place.is_some()
        })?;
        Some((key, place?))
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

/// A reconcile that has a worker and a place until it ends, however it does.
async fn in_turn(
    _turn: OwnedSemaphorePermit,
    _place: Place,
    reconcile: impl Future<Output = Action>,
) -> Action {
    reconcile.await
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
        let (queue, stop) = (Queue::with(&Workers::default()), CancellationToken::new());
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
        let (queue, stop) = (Queue::with(&Workers::default()), CancellationToken::new());
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

    /// Counts how many of a namespace, and how many in all, are under way at most.
    #[derive(Default)]
    struct Busy {
        now: Mutex<HashMap<u32, usize>>,
        most: Mutex<(usize, usize)>,
    }

    impl Busy {
        fn change(&self, namespace: u32, change: impl Fn(usize) -> usize) {
            let mut now = self.now.lock().unwrap();
            let count = now.entry(namespace).or_default();
            *count = change(*count);
            let (of_one, of_all) = (*count, now.values().sum());
            let mut most = self.most.lock().unwrap();
            *most = (most.0.max(of_one), most.1.max(of_all));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn kinds_share_the_workers_and_the_places_of_a_namespace_and_take_turns() {
        let (workers, stop) = (Workers::default(), CancellationToken::new());
        let (one, other) = (Queue::with(&workers), Queue::with(&workers));
        (0..50).for_each(|key| one.enqueue(key));
        // The other kind comes when all workers are busy and forty more wait for one.
        let (busy, ended) = (Arc::new(Busy::default()), Arc::new(Mutex::new(Vec::new())));
        let run = |kind: char| {
            let (busy, ended, stop) = (busy.clone(), ended.clone(), stop.clone());
            move |key: u32| {
                let (busy, ended, stop) = (busy.clone(), ended.clone(), stop.clone());
                async move {
                    busy.change(key / 10, |count| count + 1);
                    tokio::time::sleep(Duration::from_secs(1)).await;
                    busy.change(key / 10, |count| count - 1);
                    let mut ended = ended.lock().unwrap();
                    ended.push(kind);
                    if ended.len() == 60 {
                        stop.cancel();
                    }
                    Action::AwaitChange
                }
            }
        };
        let late = async {
            tokio::time::sleep(Duration::from_millis(500)).await;
            (0..10).for_each(|key| other.enqueue(key * 5));
        };
        tokio::join!(one.run(stop.clone(), run('a')), other.run(stop.clone(), run('b')), late);
        assert_eq!(*busy.most.lock().unwrap(), (2, 8));
        let ended = ended.lock().unwrap();
        let last = ended.iter().rposition(|kind| *kind == 'b').unwrap();
        assert!(last < 40, "ten of the other kind did not wait for all fifty of this one: {last}");
    }
}
