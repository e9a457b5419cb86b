//! The time the double lives in: expiry, heartbeats and rate limits all read it, and a test moves it.
//! It never sleeps and never runs backwards.

use std::ops::{Add, Sub};
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, SystemTime};

const SECOND: i64 = 1_000_000;
const DAY: i64 = 86_400 * SECOND;

/// A moment in microseconds since 1970, the precision of coderd's database.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Timestamp(i64);

impl Timestamp {
    /// Go's zero time, which coderd sends for "never set".
    pub const GO_ZERO: Self = Self(-62_135_596_800 * SECOND);

    /// Whole seconds since 1970.
    pub fn unix_seconds(self) -> i64 {
        self.0.div_euclid(SECOND)
    }

    /// How long ago `earlier` was, zero if it lies ahead.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_micros(u64::try_from(self.0 - earlier.0).unwrap_or(0))
    }

    /// The form Go's JSON encoder gives a time: RFC 3339 with trailing zeros of the fraction cut.
    pub fn rfc3339(self) -> String {
        let (date, time) = self.date_and_time();
        format!("{date}T{time}Z")
    }

    /// The form Go's `Time.String` gives, which coderd quotes in the detail of a 401.
    pub fn go_string(self) -> String {
        let (date, time) = self.date_and_time();
        format!("{date} {time} +0000 UTC")
    }

    fn date_and_time(self) -> (String, String) {
        let (days, of_day) = (self.0.div_euclid(DAY), self.0.rem_euclid(DAY));
        let (year, month, day) = civil_date(days);
        let (seconds, micros) = (of_day / SECOND, of_day % SECOND);
        let mut time = format!("{:02}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60);
        if micros > 0 {
            time.push_str(format!(".{micros:06}").trim_end_matches('0'));
        }
        (format!("{year:04}-{month:02}-{day:02}"), time)
    }
}

impl Add<Duration> for Timestamp {
    type Output = Self;

    fn add(self, span: Duration) -> Self {
        Self(self.0.saturating_add(micros(span)))
    }
}

impl Sub<Duration> for Timestamp {
    type Output = Self;

    fn sub(self, span: Duration) -> Self {
        Self(self.0.saturating_sub(micros(span)))
    }
}

fn micros(span: Duration) -> i64 {
    i64::try_from(span.as_micros()).unwrap_or(i64::MAX)
}

/// Days since 1970 as a date of the Gregorian calendar, counted in eras of 400 years that start in March.
fn civil_date(days: i64) -> (i64, i64, i64) {
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
}

/// The clock of one double.
#[derive(Debug)]
pub struct Clock {
    frozen_at: Option<Timestamp>,
    moved: AtomicI64,
}

impl Clock {
    /// Follows the machine's clock, plus whatever a test advanced.
    pub(super) fn running() -> Self {
        Self { frozen_at: None, moved: AtomicI64::new(0) }
    }

    /// Stands still until a test advances it.
    pub(super) fn frozen() -> Self {
        Self { frozen_at: Some(machine_time()), moved: AtomicI64::new(0) }
    }

    /// The current time of the double.
    pub fn now(&self) -> Timestamp {
        let base = self.frozen_at.unwrap_or_else(machine_time);
        Timestamp(base.0.saturating_add(self.moved.load(Ordering::SeqCst)))
    }

    /// Moves the double's time forward, at once.
    pub fn advance(&self, span: Duration) {
        self.moved.fetch_add(micros(span), Ordering::SeqCst);
    }
}

fn machine_time() -> Timestamp {
    Timestamp(micros(SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_print_as_go_prints_them() {
        assert_eq!(Timestamp(0).rfc3339(), "1970-01-01T00:00:00Z");
        assert_eq!(Timestamp::GO_ZERO.rfc3339(), "0001-01-01T00:00:00Z");
        assert_eq!(Timestamp(1_709_210_096_120_000).rfc3339(), "2024-02-29T12:34:56.12Z");
        assert_eq!(Timestamp(1_798_761_599_000_001).go_string(), "2026-12-31 23:59:59.000001 +0000 UTC");
    }

    #[test]
    fn a_frozen_clock_moves_only_when_told() {
        let clock = Clock::frozen();
        let before = clock.now();
        assert_eq!(clock.now(), before);
        clock.advance(Duration::from_secs(90));
        assert_eq!(clock.now().since(before), Duration::from_secs(90));
        assert_eq!(before.since(clock.now()), Duration::ZERO);
    }
}
