//! Remembers how long one coderd asked to be left alone, for every client of it and across reconciles.
//! It holds no clock and never sleeps: whoever calls too early is told how much is left.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The time until which a coderd wants no calls. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct RateLimitHold(Arc<Mutex<Option<Instant>>>);

impl RateLimitHold {
    /// Notes that coderd wants no calls until then; a shorter wish does not end a longer one.
    pub fn begin(&self, until: Instant) {
        let mut end = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *end = Some(end.map_or(until, |end| end.max(until)));
    }

    /// What is left of it; nothing when coderd may be called.
    pub fn left(&self, now: Instant) -> Option<Duration> {
        let end = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        end?.checked_duration_since(now).filter(|left| !left.is_zero())
    }

    /// Whether it may be forgotten: it is over, and nobody else holds it who could begin it anew.
    pub fn is_idle(&self, now: Instant) -> bool {
        Arc::strong_count(&self.0) == 1 && self.left(now).is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_lasts_as_long_as_was_asked_and_for_everybody() {
        let (pause, now, second) = (RateLimitHold::default(), Instant::now(), Duration::from_secs(1));
        assert_eq!(pause.left(now), None);
        pause.clone().begin(now + second * 7);
        pause.begin(now + second);
        assert_eq!(pause.left(now), Some(second * 7));
        assert_eq!(pause.left(now + second * 6), Some(second));
        assert_eq!((pause.left(now + second * 7), pause.left(now + second * 9)), (None, None));
        let held = pause.clone();
        assert!(!pause.is_idle(now + second * 7), "somebody may begin it anew");
        drop(held);
        assert!(pause.is_idle(now + second * 7) && !pause.is_idle(now));
    }
}
