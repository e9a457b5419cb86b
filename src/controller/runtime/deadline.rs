//! Decides whether a part of a reconcile has time for another step, and tells which one took long when it has not.
//! It never cuts a step that is under way: whatever that does outside is done or refused by then, and known.

use std::time::{Duration, Instant};

/// How long a part of a reconcile may begin another step. The last one still has its own limits: a call to coderd takes
/// `--coder-request-timeout` at most, 15 seconds unless somebody says otherwise.
const LIMIT: Duration = Duration::from_secs(30);

/// When a part of a reconcile has had its time.
#[derive(Debug, Clone)]
pub(crate) struct Deadline {
    until: Instant,
    /// When the last step ended.
    last: Instant,
    longest: Option<(&'static str, Duration)>,
}

impl Deadline {
    /// For a part that begins now.
    pub(crate) fn from(now: Instant) -> Self {
        Self { until: now + LIMIT, last: now, longest: None }
    }

    /// Begins the next part, which has a time of its own: what the one before took is not taken from it.
    pub(crate) fn begin_next(&mut self, now: Instant) {
        *self = Self::from(now);
    }

    /// Notes that a step has ended, with the words for what it did.
    pub(crate) fn ended(&mut self, step: &'static str, now: Instant) {
        let took = now.saturating_duration_since(self.last);
        self.last = now;
        if self.longest.is_none_or(|(_, longest)| took > longest) {
            self.longest = Some((step, took));
        }
    }

    /// Whether no further step may begin.
    pub(crate) fn is_over(&self, now: Instant) -> bool {
        now >= self.until
    }

    /// How much time is left.
    pub(crate) fn left(&self, now: Instant) -> Duration {
        self.until.saturating_duration_since(now)
    }

    /// Until when.
    pub(crate) fn until(&self) -> Instant {
        self.until
    }

    /// What there is to say of a reconcile that is out of time; nothing while it is not.
    pub(crate) fn told(&self, now: Instant) -> Option<String> {
        let (step, took) = self.longest.filter(|_| self.is_over(now))?;
        let (limit, took) = (LIMIT.as_secs(), took.as_secs());
        Some(format!(
            "the reconcile ran out of its {limit} seconds, of which {took} went into {step}; the rest follows in the next one"
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_ends_between_steps_and_the_longest_one_is_named() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut deadline = Deadline::from(start);
        deadline.ended("applying its children", at(2));
        assert!(!deadline.is_over(at(29)) && deadline.told(at(29)).is_none());
        deadline.ended("asking coderd", at(29));
        deadline.ended("the operator's access", at(41));
        assert!(deadline.is_over(at(30)) && deadline.is_over(at(41)));
        assert_eq!((deadline.left(at(29)), deadline.left(at(41))), (Duration::from_secs(1), Duration::ZERO));
        let told = deadline.told(at(41)).unwrap();
        assert!(told.contains("30 seconds, of which 27 went into asking coderd;"), "{told}");
    }

    #[test]
    fn the_next_part_has_its_own_time_however_long_the_one_before_took() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut deadline = Deadline::from(start);
        deadline.ended("bringing its children into place", at(500));
        assert!(deadline.is_over(at(500)));
        deadline.begin_next(at(500));
        assert!(!deadline.is_over(at(529)) && deadline.is_over(at(530)));
        deadline.ended("asking coderd", at(531));
        let told = deadline.told(at(531)).unwrap();
        assert!(told.contains("of which 31 went into asking coderd;"), "{told}");
    }
}
