//! Decides which object is looked at next: each once however often it was named, never two passes of one object at a
//! time, failures later and later. It holds no clock and starts nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

/// The first pause after a failure; it doubles with each further one.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// The longest pause after a failure: what heals is seen within a minute.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// How a pass ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// Nothing more to do until something changes.
    Settled,
    /// To be looked at again after a while, although nothing failed.
    After(Duration),
    /// Something failed: to be tried again, later each time, and not before this has passed.
    Failed(Duration),
}

/// What is due when.
#[derive(Debug)]
pub struct Schedule<K> {
    due: BTreeMap<K, Instant>,
    /// The same in the order of time, without those under way: a look at it must not cost more with every object.
    waiting: BTreeSet<(Instant, K)>,
    running: BTreeSet<K>,
    failures: BTreeMap<K, u32>,
}

impl<K> Default for Schedule<K> {
    fn default() -> Self {
        Self {
            due: BTreeMap::new(),
            waiting: BTreeSet::new(),
            running: BTreeSet::new(),
            failures: BTreeMap::new(),
        }
    }
}

impl<K: Ord + Clone> Schedule<K> {
    /// Asks for a pass at a time, unless an earlier one is due already.
    pub fn wish(&mut self, key: K, at: Instant) {
        let before = self.due.get(&key).copied();
        if before.is_some_and(|before| before <= at) {
            return;
        }
        self.due.insert(key.clone(), at);
        if let Some(before) = before {
            self.waiting.remove(&(before, key.clone()));
        }
        if !self.running.contains(&key) {
            self.waiting.insert((at, key));
        }
    }

    /// Takes the object that is due longest and not under way.
    pub fn take(&mut self, now: Instant) -> Option<K> {
        if self.next()? > now {
            return None;
        }
        let (_, key) = self.waiting.pop_first()?;
        self.due.remove(&key);
        self.running.insert(key.clone());
        Some(key)
    }

    /// When the next object that is not under way is due.
    pub fn next(&self) -> Option<Instant> {
        self.waiting.first().map(|(at, _)| *at)
    }

    /// Notes the end of a pass. What was wished for meanwhile stays due.
    pub fn finished(&mut self, key: K, outcome: Outcome, now: Instant) {
        self.running.remove(&key);
        if let Some(at) = self.due.get(&key) {
            self.waiting.insert((*at, key.clone()));
        }
        match outcome {
            Outcome::Settled => _ = self.failures.remove(&key),
            Outcome::After(pause) => {
                self.failures.remove(&key);
                self.wish(key, now + pause);
            }
            Outcome::Failed(at_least) => {
                let count = self.failures.entry(key.clone()).or_default();
                let pause = pause_after(*count).max(at_least);
                *count = count.saturating_add(1);
                self.wish(key, now + pause);
            }
        }
    }

    /// Forgets an object that is gone.
    pub fn forget(&mut self, key: &K) {
        if let Some(at) = self.due.remove(key) {
            self.waiting.remove(&(at, key.clone()));
        }
        self.failures.remove(key);
    }
}

fn pause_after(failures: u32) -> Duration {
    FIRST_PAUSE.saturating_mul(1 << failures.min(16)).min(LONGEST_PAUSE)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(count: u64) -> Duration {
        Duration::from_secs(count)
    }

    #[test]
    fn a_name_called_often_is_taken_once_and_never_while_under_way() {
        let (mut schedule, now) = (Schedule::default(), Instant::now());
        for _ in 0..3 {
            schedule.wish("a", now);
        }
        assert_eq!(schedule.take(now), Some("a"));
        assert_eq!(schedule.take(now), None);
        schedule.wish("a", now);
        assert_eq!((schedule.take(now), schedule.next()), (None, None));
        schedule.finished("a", Outcome::Settled, now);
        assert_eq!(schedule.take(now), Some("a"), "what was wished for meanwhile is not lost");
    }

    #[test]
    fn who_waited_longest_is_first_and_nobody_before_his_time() {
        let (mut schedule, now) = (Schedule::default(), Instant::now());
        schedule.wish("b", now + seconds(2));
        schedule.wish("a", now + seconds(3));
        assert_eq!((schedule.take(now), schedule.next()), (None, Some(now + seconds(2))));
        assert_eq!(schedule.take(now + seconds(9)), Some("b"));
        schedule.wish("a", now + seconds(1));
        assert_eq!(schedule.next(), Some(now + seconds(1)), "the earlier wish counts");
    }

    #[test]
    fn failures_come_later_each_time_up_to_a_limit_and_success_forgives() {
        let (mut schedule, mut now) = (Schedule::default(), Instant::now());
        let mut pauses = Vec::new();
        schedule.wish("a", now);
        for _ in 0..12 {
            assert_eq!(schedule.take(now), Some("a"));
            schedule.finished("a", Outcome::Failed(Duration::ZERO), now);
            let next = schedule.next().unwrap();
            pauses.push((next - now).as_secs());
            now = next;
        }
        assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 60, 60, 60, 60, 60, 60]);
        assert_eq!(schedule.take(now), Some("a"));
        schedule.finished("a", Outcome::After(seconds(60)), now);
        assert_eq!(schedule.next(), Some(now + seconds(60)));
        now += seconds(60);
        schedule.take(now);
        schedule.finished("a", Outcome::Failed(seconds(7)), now);
        assert_eq!(schedule.next(), Some(now + seconds(7)), "a pause that was asked for is kept");
    }

    #[test]
    fn what_was_wished_for_during_a_pass_is_kept_when_the_pass_asks_for_less() {
        let (mut schedule, now) = (Schedule::default(), Instant::now());
        schedule.wish("a", now);
        schedule.take(now);
        schedule.wish("a", now + seconds(1));
        schedule.wish("a", now);
        schedule.finished("a", Outcome::After(seconds(300)), now);
        assert_eq!(schedule.next(), Some(now));
        assert_eq!((schedule.take(now), schedule.next()), (Some("a"), None), "and once only");
    }

    #[test]
    fn what_is_gone_is_forgotten() {
        let (mut schedule, now) = (Schedule::default(), Instant::now());
        schedule.wish("a", now);
        schedule.forget(&"a");
        assert_eq!(schedule.take(now), None);
    }
}
