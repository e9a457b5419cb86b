//! The rate limiter of the API: a sliding minute per caller and cleaned path, counted on the double's clock.
//! It never limits `/healthz`, and never delays a request: it answers 429 or 428, or lets it through.

use std::collections::HashMap;
use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};

use super::clock::Timestamp;
use super::identity::User;
use super::reply::Reply;

pub(super) const BYPASS_HEADER: &str = "x-coder-bypass-ratelimit";
const WINDOW: Duration = Duration::from_secs(60);

#[derive(Debug)]
pub(super) struct Limiter {
    /// Calls a minute; none means `CODER_DANGEROUS_DISABLE_RATE_LIMITS`.
    limit: Option<u32>,
    counts: HashMap<(String, String), Counts>,
}

#[derive(Debug, Default, Clone, Copy)]
struct Counts {
    window: i64,
    current: u32,
    previous: u32,
}

impl Limiter {
    pub(super) fn new(limit: Option<u32>) -> Self {
        // As in coderd, a limit of zero is no limit.
        Self { limit: limit.filter(|limit| *limit > 0), counts: HashMap::new() }
    }

    pub(super) fn set_limit(&mut self, limit: Option<u32>) {
        *self = Self::new(limit);
    }

    /// The headers of an admitted call, or the answer of a refused one.
    pub(super) fn admit(
        &mut self,
        caller: Option<&User>,
        headers: &HeaderMap,
        path: &str,
        now: Timestamp,
    ) -> Result<Vec<(HeaderName, HeaderValue)>, Reply> {
        let Some(limit) = self.limit else { return Ok(Vec::new()) };
        let window = now.unix_seconds().div_euclid(60);
        let reset = (window + 1) * 60;
        // Without a valid token coderd counts by address, and every test calls from the same one.
        let who = caller.map_or_else(|| "127.0.0.1".to_owned(), |user| user.id.to_string());
        if let Some(user) = caller.filter(|_| asks_to_bypass(headers)) {
            return if user.is_owner() {
                Ok(described(limit, limit - 1, reset))
            } else {
                Err(bypass_refused())
            };
        }
        let counts = self.counts.entry((who, clean(path))).or_default();
        counts.roll_to(window);
        let elapsed = f64::from(u32::try_from(now.unix_seconds().rem_euclid(60)).unwrap_or(0));
        let rate = counts.rate(elapsed);
        if rate + 1 > limit {
            let mut refusal = too_many(limit, WINDOW);
            refusal.headers.extend(described(limit, limit.saturating_sub(rate), reset));
            return Err(refusal);
        }
        counts.current += 1;
        Ok(described(limit, limit - rate - 1, reset))
    }
}

impl Counts {
    fn roll_to(&mut self, window: i64) {
        match window - self.window {
            0 => {}
            1 => *self = Self { window, current: 0, previous: self.current },
            _ => *self = Self { window, current: 0, previous: 0 },
        }
    }

    /// The last minute's calls, the part of the previous window estimated by its share.
    fn rate(self, elapsed: f64) -> u32 {
        let share = (60.0 - elapsed) / 60.0;
        (f64::from(self.previous) * share + f64::from(self.current)).round() as u32
    }
}

/// The 429 of coderd's limiter, also used by injected faults.
pub(super) fn too_many(limit: u32, retry_after: Duration) -> Reply {
    let text = format!("You've been rate limited for sending more than {limit} requests in 1m0s.");
    Reply::error(StatusCode::TOO_MANY_REQUESTS, &text)
        .with(header::RETRY_AFTER, &retry_after.as_secs().to_string())
}

/// Plain text with Go's trailing newline: the limiter's own error page, not coderd's error body.
fn bypass_refused() -> Reply {
    let text = "\"X-Coder-Bypass-Ratelimit\" provided but user is not owner\n";
    Reply::typed(StatusCode::PRECONDITION_REQUIRED, "text/plain; charset=utf-8", text)
}

fn asks_to_bypass(headers: &HeaderMap) -> bool {
    let value = headers.get(BYPASS_HEADER).and_then(|value| value.to_str().ok()).unwrap_or_default();
    ["1", "t", "T", "TRUE", "true", "True"].contains(&value)
}

fn described(limit: u32, remaining: u32, reset: i64) -> Vec<(HeaderName, HeaderValue)> {
    vec![
        (HeaderName::from_static("x-ratelimit-limit"), HeaderValue::from(limit)),
        (HeaderName::from_static("x-ratelimit-remaining"), HeaderValue::from(remaining)),
        (HeaderName::from_static("x-ratelimit-reset"), HeaderValue::from(reset)),
    ]
}

/// The path without empty, `.` and `..` segments, as Go's `path.Clean`.
fn clean(path: &str) -> String {
    let mut kept: Vec<&str> = Vec::new();
    for segment in path.split('/') {
        match segment {
            "" | "." => {}
            ".." => drop(kept.pop()),
            name => kept.push(name),
        }
    }
    format!("/{}", kept.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cleaned_path_hides_tricks_with_slashes_and_dots() {
        assert_eq!(clean("/api//v2/./users/../users/me/"), "/api/v2/users/me");
    }

    #[test]
    fn calls_of_the_previous_minute_count_by_the_share_that_is_left() {
        let mut counts = Counts { window: 7, current: 100, previous: 0 };
        counts.roll_to(8);
        assert_eq!(counts.rate(0.0), 100);
        assert_eq!(counts.rate(45.0), 25);
        counts.roll_to(10);
        assert_eq!(counts.rate(0.0), 0);
    }
}
