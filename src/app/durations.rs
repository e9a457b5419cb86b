//! Durations as users write them: `30s`, `10m`, `1h30m`, `7d`.

use jiff::{Span, SpanRelativeTo};
use std::time::Duration;

/// Reads a duration; a day has 24 hours.
pub(super) fn parse(text: &str) -> Result<Duration, String> {
    let hint = || format!("{text:?} is not a duration; write for example 30s, 10m, 1h30m or 7d");
    let span: Span = text.parse().map_err(|_| hint())?;
    let signed = span.to_duration(SpanRelativeTo::days_are_24_hours()).map_err(|_| hint())?;
    let duration = Duration::try_from(signed).map_err(|_| hint())?;
    if duration.is_zero() { Err(format!("{text:?} is no time at all")) } else { Ok(duration) }
}

/// The same for something that asks the API server each time.
pub(super) fn a_second_or_more(text: &str) -> Result<Duration, String> {
    let duration = parse(text)?;
    let is_short = duration < Duration::from_secs(1);
    if is_short { Err(format!("{text:?} is too short; write 1s or more")) } else { Ok(duration) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ways_people_write_durations() {
        let seconds = |text| parse(text).unwrap().as_secs();
        assert_eq!(
            [seconds("30s"), seconds("10m"), seconds("1h30m"), seconds("7d")],
            [30, 600, 5400, 604_800]
        );
        assert_eq!(parse("1500ms").unwrap(), Duration::from_millis(1500));
    }

    #[test]
    fn nonsense_is_refused_with_an_example() {
        for text in ["", "30", "-5s", "0s", "soon", "1 year from now"] {
            assert!(parse(text).is_err(), "{text}");
        }
        assert!(parse("soon").unwrap_err().contains("for example"));
    }

    #[test]
    fn what_asks_the_api_server_each_time_has_a_second_in_between() {
        assert_eq!(a_second_or_more("1s"), Ok(Duration::from_secs(1)));
        for text in ["999ms", "1us"] {
            assert_eq!(a_second_or_more(text), Err(format!("{text:?} is too short; write 1s or more")));
        }
        assert!(a_second_or_more("soon").unwrap_err().contains("for example"));
    }
}
