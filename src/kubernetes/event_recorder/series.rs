//! Decides whether an Event is new or one that happened before, from what was sent lately and the time.
//! It holds no clock and sends nothing; an Event costs the logarithm of how many are remembered, which has a bound.

use k8s_openapi::jiff::{SignedDuration, Timestamp};
use std::collections::{BTreeMap, BTreeSet};

/// How long after it was last seen an Event is counted on: the time that the library of Kubernetes has for a series.
const REMEMBERED: SignedDuration = SignedDuration::from_mins(6);
/// Events that are remembered; of more, those not seen for longest are told anew if they happen again.
const MOST: usize = 4096;
/// Bytes of the name of an object.
const LONGEST_NAME: usize = 253;

/// What tells an Event from others.
pub(super) type Identity = [u8; 32];

/// What to send.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Step {
    /// An Event of its own.
    Create {
        /// The name it gets.
        name: String,
    },
    /// One more of an Event that is there.
    Count {
        /// Its name.
        name: String,
        /// How often it happened, this time included.
        count: i32,
    },
}

/// The Events that were sent lately.
#[derive(Debug, Default)]
pub(super) struct Recent {
    entries: BTreeMap<Identity, Entry>,
    /// The same in the order in which they are forgotten.
    by_age: BTreeSet<(Timestamp, Identity)>,
    /// The last number that made a name unique.
    last_number: i128,
}

#[derive(Debug)]
struct Entry {
    name: String,
    count: i32,
    last_seen: Timestamp,
}

impl Recent {
    /// What to send for an Event about the object of this name, which is taken as sent.
    pub(super) fn next(&mut self, identity: Identity, subject: &str, now: Timestamp) -> Step {
        self.forget_old(now);
        if let Some(entry) = self.entries.get_mut(&identity) {
            self.by_age.remove(&(entry.last_seen, identity));
            // A clock that was set back makes nothing older than it was.
            entry.last_seen = entry.last_seen.max(now);
            entry.count = entry.count.saturating_add(1);
            self.by_age.insert((entry.last_seen, identity));
            return Step::Count { name: entry.name.clone(), count: entry.count };
        }
        if self.entries.len() >= MOST {
            self.forget_oldest();
        }
        let name = self.name(subject, now);
        self.entries.insert(identity, Entry { name: name.clone(), count: 1, last_seen: now });
        self.by_age.insert((now, identity));
        Step::Create { name }
    }

    /// Forgets an Event that is not there.
    pub(super) fn forget(&mut self, identity: &Identity) {
        if let Some(entry) = self.entries.remove(identity) {
            self.by_age.remove(&(entry.last_seen, *identity));
        }
    }

    fn forget_old(&mut self, now: Timestamp) {
        while self.by_age.first().is_some_and(|(seen, _)| now.duration_since(*seen) >= REMEMBERED) {
            self.forget_oldest();
        }
    }

    fn forget_oldest(&mut self) {
        if let Some((_, identity)) = self.by_age.pop_first() {
            self.entries.remove(&identity);
        }
    }

    /// The name of the object and a number that no other Event of this process has, as every client names Events.
    fn name(&mut self, subject: &str, now: Timestamp) -> String {
        self.last_number = now.as_nanosecond().max(self.last_number + 1);
        let number = format!("{:x}", self.last_number);
        let room = LONGEST_NAME - 1 - number.len();
        let subject = subject.get(..subject.floor_char_boundary(room)).unwrap_or_default();
        match subject.trim_end_matches(['-', '.']) {
            "" => number,
            subject => format!("{subject}.{number}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + seconds).unwrap()
    }

    fn identity(number: usize) -> Identity {
        let mut identity = Identity::default();
        identity[..8].copy_from_slice(&number.to_be_bytes());
        identity
    }

    fn created(step: Step) -> String {
        match step {
            Step::Create { name } => name,
            Step::Count { .. } => panic!("{step:?} is no new Event"),
        }
    }

    #[test]
    fn what_happens_again_is_counted_on_the_first() {
        let mut recent = Recent::default();
        let name = created(recent.next(identity(1), "coder", at(0)));
        assert_eq!(name, format!("coder.{:x}", at(0).as_nanosecond()));
        assert_ne!(created(recent.next(identity(2), "coder", at(0))), name, "another one, at the same time");
        for (second, count) in [(1, 2), (300, 3), (600, 4)] {
            let again = recent.next(identity(1), "coder", at(second));
            assert_eq!(again, Step::Count { name: name.clone(), count }, "six minutes from the last time");
        }
    }

    #[test]
    fn after_six_minutes_it_is_told_anew() {
        let mut recent = Recent::default();
        let first = created(recent.next(identity(1), "coder", at(0)));
        let second = created(recent.next(identity(1), "coder", at(360)));
        assert_ne!(first, second);
        recent.next(identity(2), "coder", at(1000));
        assert_eq!((recent.entries.len(), recent.by_age.len()), (1, 1), "nothing old is kept");
    }

    #[test]
    fn what_is_not_there_is_not_counted_on() {
        let mut recent = Recent::default();
        let first = created(recent.next(identity(1), "coder", at(0)));
        recent.forget(&identity(1));
        recent.forget(&identity(2));
        assert!(recent.entries.is_empty() && recent.by_age.is_empty());
        assert_ne!(created(recent.next(identity(1), "coder", at(0))), first, "a name of its own");
    }

    #[test]
    fn no_more_are_remembered_than_the_bound_and_those_seen_last_stay() {
        let mut recent = Recent::default();
        for number in 0..MOST {
            recent.next(identity(number), "coder", at(0));
        }
        recent.next(identity(0), "coder", at(1));
        recent.next(identity(MOST), "coder", at(2));
        assert_eq!((recent.entries.len(), recent.by_age.len()), (MOST, MOST));
        assert!(matches!(recent.next(identity(0), "coder", at(3)), Step::Count { count: 3, .. }));
        created(recent.next(identity(1), "coder", at(3)));
        assert_eq!(recent.entries.len(), MOST);
    }

    #[test]
    fn a_clock_that_is_set_back_breaks_nothing() {
        let mut recent = Recent::default();
        let name = created(recent.next(identity(1), "coder", at(100)));
        assert_ne!(created(recent.next(identity(2), "coder", at(0))), name);
        assert_eq!(recent.next(identity(1), "coder", at(0)), Step::Count { name, count: 2 });
        recent.next(identity(3), "coder", at(1000));
        assert_eq!((recent.entries.len(), recent.by_age.len()), (1, 1));
    }

    #[test]
    fn names_are_names_of_objects_however_long_the_subject() {
        let mut recent = Recent::default();
        for subject in ["", "a", &"a".repeat(253), &format!("{}.-x", "a".repeat(233))] {
            let name = created(recent.next(identity(subject.len()), subject, at(0)));
            assert!(name.len() <= LONGEST_NAME && !name.contains("..") && !name.contains("-."), "{name}");
            assert!(name.starts_with(|letter: char| letter.is_ascii_alphanumeric()), "{name}");
        }
    }
}
