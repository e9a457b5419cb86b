//! Decides how long coderd is not asked for another key or token after one that it made had to be given up: a coderd that does not
//! know what it has just made is not asked again at once, whatever else wakes the reconcile. Pure, the time too.

use std::time::{Duration, Instant};

/// The first pause; it doubles with each further one.
const FIRST: Duration = Duration::from_secs(1);
/// The longest pause.
const LONGEST: Duration = Duration::from_secs(300);

/// What is remembered of what was given up, one after another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Pause {
    /// Uid of the object.
    uid: String,
    given_up: u32,
    until: Instant,
}

impl Pause {
    /// After another one was given up.
    pub(crate) fn after(before: Option<&Self>, uid: &str, now: Instant) -> Self {
        let given_up = before.filter(|before| before.uid == uid).map_or(0, |before| before.given_up);
        let pause = FIRST.saturating_mul(2_u32.saturating_pow(given_up.min(16))).min(LONGEST);
        Self { uid: uid.to_owned(), given_up: given_up.saturating_add(1), until: now + pause }
    }

    /// What is left of it for this object.
    pub(crate) fn left(&self, uid: &str, now: Instant) -> Duration {
        if self.uid == uid { self.until.saturating_duration_since(now) } else { Duration::ZERO }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_that_is_given_up_doubles_the_pause_before_the_next() {
        let (mut now, mut pause, mut made) = (Instant::now(), None, 0);
        let end = now + Duration::from_secs(3600);
        // Something wakes the reconcile every second.
        while now < end {
            let left = pause.as_ref().map_or(Duration::ZERO, |pause: &Pause| pause.left("u1", now));
            if left.is_zero() {
                made += 1;
                pause = Some(Pause::after(pause.as_ref(), "u1", now));
            }
            now += Duration::from_secs(1);
        }
        assert!(made <= 20, "{made} keys in an hour");
        let pause = pause.unwrap();
        assert_eq!(pause.left("u2", now), Duration::ZERO, "another object of the name begins anew");
        assert!(Pause::after(Some(&pause), "u2", now).left("u2", now) <= FIRST);
    }
}
