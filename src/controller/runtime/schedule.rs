//! Decides which object is looked at next: each once however often it was named, never two reconciles of one object at a
//! time and never more than two of one namespace, failures later and later. Whether other kinds have taken the places of a
//! namespace comes in as a question. It holds no clock and starts nothing.

use super::workers::PER_NAMESPACE;
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

/// The first pause after a failure; it doubles with each further one.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// The longest pause after a failure: what heals is seen within a minute.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// A key that says whose workers it takes.
pub(crate) trait Namespaced {
    /// The namespace of the object.
    fn namespace(&self) -> &str;
}

/// What waits for a worker.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Waiting {
    /// Objects that are due.
    pub due: usize,
    /// How long the one that is due longest has been waiting.
    pub oldest: Duration,
}

/// How often something is looked at that somebody has to mend outside of the cluster: nobody tells us when it is done, and it is
/// to be seen within a minute.
pub(crate) const REFUSED: Duration = Duration::from_secs(45);
/// How often something that comes by itself is looked at when nobody tells us.
pub(crate) const SOON: Duration = Duration::from_secs(30);

/// When an object is reconciled again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Action {
    /// When something changes.
    AwaitChange,
    /// After a while, although nothing failed.
    RequeueAfter(Duration),
    /// Something failed: later each time, and not before this has passed.
    BackOff(Duration),
}

/// What is due when.
#[derive(Debug)]
pub(crate) struct Schedule<K> {
    due: BTreeMap<K, Instant>,
    /// The same by namespace and in the order of time, without those under way.
    namespaces: BTreeMap<String, Namespace<K>>,
    /// When the first object of each namespace that may have another reconcile is due: whoever takes one looks at this
    /// alone, so that a look costs the same however many objects wait, and however many of them have to.
    next: BTreeSet<(Instant, String)>,
    running: BTreeSet<K>,
    failures: BTreeMap<K, u32>,
}

/// The objects of a namespace. One without any is forgotten.
#[derive(Debug)]
struct Namespace<K> {
    waiting: BTreeSet<(Instant, K)>,
    running: usize,
}

impl<K> Default for Namespace<K> {
    fn default() -> Self {
        Self { waiting: BTreeSet::new(), running: 0 }
    }
}

impl<K: Ord> Namespace<K> {
    /// When its next object is due, if it may have another reconcile.
    fn next(&self) -> Option<Instant> {
        self.waiting.first().filter(|_| self.running < PER_NAMESPACE).map(|(at, _)| *at)
    }
}

impl<K> Default for Schedule<K> {
    fn default() -> Self {
        Self {
            due: BTreeMap::new(),
            namespaces: BTreeMap::new(),
            next: BTreeSet::new(),
            running: BTreeSet::new(),
            failures: BTreeMap::new(),
        }
    }
}

impl<K: Ord + Clone + Namespaced> Schedule<K> {
    /// Asks for a reconcile at a time, unless an earlier one is due already.
    pub(crate) fn enqueue(&mut self, key: K, at: Instant) {
        let before = self.due.get(&key).copied();
        if before.is_some_and(|before| before <= at) {
            return;
        }
        self.due.insert(key.clone(), at);
        let under_way = self.running.contains(&key);
        self.change(key.namespace().to_owned(), |namespace| {
            if let Some(before) = before {
                namespace.waiting.remove(&(before, key.clone()));
            }
            if !under_way {
                namespace.waiting.insert((at, key));
            }
        });
    }

    /// Takes the object that is due longest, is not under way and whose namespace may have another reconcile, as far as this
    /// kind knows and as `has_place` says. It says no of four namespaces at most: all workers are taken then.
    pub(crate) fn take(&mut self, now: Instant, mut has_place: impl FnMut(&str) -> bool) -> Option<K> {
        let mut due = self.next.iter().take_while(|(at, _)| *at <= now);
        let (_, name) = due.find(|(_, name)| has_place(name))?.clone();
        let key = self.change(name, |namespace| {
            let (_, key) = namespace.waiting.pop_first()?;
            namespace.running += 1;
            Some(key)
        })?;
        self.due.remove(&key);
        self.running.insert(key.clone());
        Some(key)
    }

    /// When the next object that may be taken is due.
    pub(crate) fn next(&self, mut has_place: impl FnMut(&str) -> bool) -> Option<Instant> {
        self.next.iter().find(|(_, name)| has_place(name)).map(|(at, _)| *at)
    }

    /// What is due and not under way, whether or not its namespace may have another reconcile.
    pub(crate) fn waiting(&self, now: Instant) -> Waiting {
        let since = self.namespaces.values().filter_map(|namespace| Some(namespace.waiting.first()?.0)).min();
        let due =
            |namespace: &Namespace<K>| namespace.waiting.iter().take_while(|(at, _)| *at <= now).count();
        Waiting {
            due: self.namespaces.values().map(due).sum(),
            oldest: since.map(|since| now.saturating_duration_since(since)).unwrap_or_default(),
        }
    }

    /// Notes the end of a reconcile. What was enqueued meanwhile stays due.
    pub(crate) fn finished(&mut self, key: K, action: Action, now: Instant) {
        self.running.remove(&key);
        let due = self.due.get(&key).copied();
        self.change(key.namespace().to_owned(), |namespace| {
            namespace.running = namespace.running.saturating_sub(1);
            namespace.waiting.extend(due.map(|at| (at, key.clone())));
        });
        match action {
            Action::AwaitChange => _ = self.failures.remove(&key),
            Action::RequeueAfter(pause) => {
                self.failures.remove(&key);
                self.enqueue(key, now + pause);
            }
            Action::BackOff(at_least) => {
                let count = self.failures.entry(key.clone()).or_default();
                let pause = pause_after(*count).max(at_least);
                *count = count.saturating_add(1);
                self.enqueue(key, now + pause);
            }
        }
    }

    /// Forgets an object that is gone.
    pub(crate) fn forget(&mut self, key: &K) {
        if let Some(at) = self.due.remove(key) {
            self.change(key.namespace().to_owned(), |namespace| {
                namespace.waiting.remove(&(at, key.clone()));
            });
        }
        self.failures.remove(key);
    }

    /// Changes a namespace and keeps what is derived from it: when it is next, and that it exists at all.
    fn change<T>(&mut self, name: String, change: impl FnOnce(&mut Namespace<K>) -> T) -> T {
        let namespace = self.namespaces.entry(name.clone()).or_default();
        let before = namespace.next();
        let changed = change(namespace);
        let after = namespace.next();
        if namespace.running == 0 && namespace.waiting.is_empty() {
            self.namespaces.remove(&name);
        }
        if before != after {
            if let Some(at) = before {
                self.next.remove(&(at, name.clone()));
            }
            self.next.extend(after.map(|at| (at, name)));
        }
        changed
    }
}

fn pause_after(failures: u32) -> Duration {
    FIRST_PAUSE.saturating_mul(1 << failures.min(16)).min(LONGEST_PAUSE)
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Namespaced for &str {
        /// What stands before a slash; without one, each has a namespace of its own.
        fn namespace(&self) -> &str {
            self.split('/').next().unwrap_or_default()
        }
    }

    fn take(schedule: &mut Schedule<&'static str>, now: Instant) -> Option<&'static str> {
        schedule.take(now, |_| true)
    }

    fn next(schedule: &Schedule<&'static str>) -> Option<Instant> {
        schedule.next(|_| true)
    }

    #[test]
    fn a_namespace_whose_places_another_kind_has_waits_and_keeps_nobody_else_waiting() {
        let (mut schedule, now) = (Schedule::default(), Instant::now());
        schedule.enqueue("a/1", now);
        schedule.enqueue("b/1", now + seconds(1));
        let later = now + seconds(2);
        assert_eq!(schedule.next(|name| name != "a"), Some(now + seconds(1)));
        assert_eq!(schedule.take(later, |name| name != "a"), Some("b/1"));
        assert_eq!((schedule.take(later, |_| false), schedule.next(|_| false)), (None, None));
        assert_eq!(take(&mut schedule, later), Some("a/1"), "it is not forgotten");
    }

    fn seconds(count: u64) -> Duration {
        Duration::from_secs(count)
    }

    #[test]
    fn a_namespace_has_two_at_a_time_and_keeps_nobody_else_waiting() {
        let (mut schedule, now) = (Schedule::default(), Instant::now());
        for (age, key) in ["a/1", "a/2", "a/3", "a/4", "b/1", "c/1"].into_iter().enumerate() {
            schedule.enqueue(key, now + seconds(age as u64));
        }
        let now = now + seconds(9);
        let taken: Vec<_> = std::iter::from_fn(|| take(&mut schedule, now)).collect();
        assert_eq!(taken, ["a/1", "a/2", "b/1", "c/1"], "those that waited longest, two of each namespace");
        assert_eq!(next(&schedule), None, "nothing to wake up for before one has ended");
        schedule.finished("b/1", Action::AwaitChange, now);
        assert_eq!(take(&mut schedule, now), None, "another namespace's end frees none of this one's");
        schedule.finished("a/2", Action::BackOff(Duration::ZERO), now);
        assert_eq!(next(&schedule), Some(now - seconds(7)), "overdue since it was wished for");
        assert_eq!((take(&mut schedule, now), take(&mut schedule, now)), (Some("a/3"), None));
        schedule.finished("a/1", Action::AwaitChange, now);
        assert_eq!(take(&mut schedule, now), Some("a/4"));
    }

    #[test]
    fn what_is_gone_while_its_namespace_is_full_is_not_taken_later() {
        let (mut schedule, now) = (Schedule::default(), Instant::now());
        for key in ["a/1", "a/2", "a/3", "a/4"] {
            schedule.enqueue(key, now);
        }
        assert_eq!((take(&mut schedule, now), take(&mut schedule, now)), (Some("a/1"), Some("a/2")));
        schedule.forget(&"a/3");
        schedule.forget(&"a/1");
        schedule.finished("a/1", Action::AwaitChange, now);
        assert_eq!((take(&mut schedule, now), take(&mut schedule, now)), (Some("a/4"), None));
        schedule.finished("a/2", Action::AwaitChange, now);
        schedule.finished("a/4", Action::AwaitChange, now);
        assert!(schedule.namespaces.is_empty() && schedule.next.is_empty() && schedule.due.is_empty());
    }

    #[test]
    fn a_name_called_often_is_taken_once_and_never_while_under_way() {
        let (mut schedule, now) = (Schedule::default(), Instant::now());
        for _ in 0..3 {
            schedule.enqueue("a", now);
        }
        assert_eq!(take(&mut schedule, now), Some("a"));
        assert_eq!(take(&mut schedule, now), None);
        schedule.enqueue("a", now);
        assert_eq!((take(&mut schedule, now), next(&schedule)), (None, None));
        schedule.finished("a", Action::AwaitChange, now);
        assert_eq!(take(&mut schedule, now), Some("a"), "what was wished for meanwhile is not lost");
    }

    #[test]
    fn who_waited_longest_is_first_and_nobody_before_his_time() {
        let (mut schedule, now) = (Schedule::default(), Instant::now());
        schedule.enqueue("b", now + seconds(2));
        schedule.enqueue("a", now + seconds(3));
        assert_eq!((take(&mut schedule, now), next(&schedule)), (None, Some(now + seconds(2))));
        assert_eq!(take(&mut schedule, now + seconds(9)), Some("b"));
        schedule.enqueue("a", now + seconds(1));
        assert_eq!(next(&schedule), Some(now + seconds(1)), "the earlier wish counts");
    }

    #[test]
    fn failures_come_later_each_time_up_to_a_limit_and_success_forgives() {
        let (mut schedule, mut now) = (Schedule::default(), Instant::now());
        let mut pauses = Vec::new();
        schedule.enqueue("a", now);
        for _ in 0..12 {
            assert_eq!(take(&mut schedule, now), Some("a"));
            schedule.finished("a", Action::BackOff(Duration::ZERO), now);
            let next = next(&schedule).unwrap();
            pauses.push((next - now).as_secs());
            now = next;
        }
        assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 60, 60, 60, 60, 60, 60]);
        assert_eq!(take(&mut schedule, now), Some("a"));
        schedule.finished("a", Action::RequeueAfter(seconds(60)), now);
        assert_eq!(next(&schedule), Some(now + seconds(60)));
        now += seconds(60);
        take(&mut schedule, now);
        schedule.finished("a", Action::BackOff(seconds(7)), now);
        assert_eq!(next(&schedule), Some(now + seconds(7)), "a pause that was asked for is kept");
    }

    #[test]
    fn what_was_wished_for_during_a_pass_is_kept_when_the_pass_asks_for_less() {
        let (mut schedule, now) = (Schedule::default(), Instant::now());
        schedule.enqueue("a", now);
        take(&mut schedule, now);
        schedule.enqueue("a", now + seconds(1));
        schedule.enqueue("a", now);
        schedule.finished("a", Action::RequeueAfter(seconds(300)), now);
        assert_eq!(next(&schedule), Some(now));
        assert_eq!((take(&mut schedule, now), next(&schedule)), (Some("a"), None), "and once only");
    }

    #[test]
    fn what_waits_is_what_is_due_and_not_under_way() {
        let (mut schedule, now) = (Schedule::default(), Instant::now());
        assert_eq!(schedule.waiting(now), Waiting::default());
        for (age, key) in ["a/1", "a/2", "a/3", "a/4", "b/1"].into_iter().enumerate() {
            schedule.enqueue(key, now + seconds(age as u64));
        }
        schedule.enqueue("c/1", now + seconds(60));
        let now = now + seconds(10);
        assert_eq!(schedule.waiting(now), Waiting { due: 5, oldest: seconds(10) });
        while take(&mut schedule, now).is_some() {}
        assert_eq!(schedule.waiting(now), Waiting { due: 2, oldest: seconds(8) }, "its namespace is full");
        schedule.enqueue("b/1", now);
        assert_eq!(schedule.waiting(now).due, 2, "one under way does not wait for a worker");
        for key in ["a/1", "a/2", "b/1"] {
            schedule.finished(key, Action::AwaitChange, now);
        }
        assert_eq!(schedule.waiting(now), Waiting { due: 3, oldest: seconds(8) });
        while take(&mut schedule, now).is_some() {}
        assert_eq!(schedule.waiting(now), Waiting::default(), "what is due later does not wait");
    }

    #[test]
    fn what_is_gone_is_forgotten() {
        let (mut schedule, now) = (Schedule::default(), Instant::now());
        schedule.enqueue("a", now);
        schedule.forget(&"a");
        assert_eq!(take(&mut schedule, now), None);
    }
}
