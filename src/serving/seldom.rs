//! Decides which of many equal lines is logged where anybody can cause one: one a second, and it says how many were not.
//! Takes the time as a value and never logs by itself.

use std::time::{Duration, Instant};

/// Between two lines.
const PAUSE: Duration = Duration::from_secs(1);

/// When the last line was logged, and how many were not since.
#[derive(Debug, Default)]
pub(crate) struct Seldom {
    last: Option<Instant>,
    unlogged: u64,
}

impl Seldom {
    /// If the next line is to be logged, how many were not since the last.
    pub(crate) fn next(&mut self, now: Instant) -> Option<u64> {
        if self.last.is_some_and(|last| now < last + PAUSE) {
            self.unlogged += 1;
            return None;
        }
        self.last = Some(now);
        Some(std::mem::take(&mut self.unlogged))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_makes_one_line_a_second_that_counts_the_others() {
        let (now, mut seldom) = (Instant::now(), Seldom::default());
        let logged: Vec<u64> =
            (0..3000).filter_map(|ms| seldom.next(now + Duration::from_millis(ms))).collect();
        assert_eq!(logged, [0, 999, 999]);
    }
}
