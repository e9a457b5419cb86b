//! The query of the daemon listing: its parameters, coderd's words for bad ones, and which rows they admit.
//! It never lists anything itself.

use std::time::Duration;

use super::Daemon;
use crate::coderd::clock::Timestamp;
use crate::coderd::ids::Uuid;
use crate::coderd::routes::tags::{self, Tags};

type Problem = (String, String);

const DEFAULT_LIMIT: u32 = 50;

#[derive(Debug)]
pub(super) struct Filter {
    limit: u32,
    ids: Vec<Uuid>,
    statuses: Vec<String>,
    tags: Tags,
    offline: bool,
    max_age: Option<Duration>,
}

impl Filter {
    /// Reads the query; every wrong or unknown parameter is named.
    pub(super) fn parse(query: &[(String, String)]) -> Result<Self, Vec<Problem>> {
        let mut filter = Self {
            limit: DEFAULT_LIMIT,
            ids: Vec::new(),
            statuses: Vec::new(),
            tags: Tags::new(),
            offline: false,
            max_age: None,
        };
        let mut problems = Vec::new();
        for (name, value) in query {
            let known = ["limit", "ids", "status", "tags", "offline", "max_age"].contains(&name.as_str());
            let outcome = match known {
                false => Err(format!("{name:?} is not a valid query param")),
                true if value.is_empty() => Ok(()),
                true => {
                    filter.set(name, value).map_err(|kind| format!("Query param {name:?} must be {kind}"))
                }
            };
            problems.extend(outcome.err().map(|detail| (name.clone(), detail)));
        }
        if problems.is_empty() { Ok(filter) } else { Err(problems) }
    }

    fn set(&mut self, name: &str, value: &str) -> Result<(), &'static str> {
        let items = || value.split(',').map(str::trim);
        match name {
            "limit" => {
                let limit: i32 = value.parse().map_err(|_| "a valid 32-bit positive integer")?;
                self.limit = u32::try_from(limit).map_err(|_| "a valid 32-bit positive integer")?;
            }
            "ids" => {
                self.ids = items().map(Uuid::parse).collect::<Option<_>>().ok_or("a list of valid uuids")?
            }
            "status" => self.statuses = items().map(str::to_owned).collect(),
            "tags" => self.tags = serde_json::from_str(value).map_err(|_| "a valid JSON object")?,
            "offline" => self.offline = go_bool(value).ok_or("a valid boolean")?,
            _ => {
                let problem = "a valid duration (e.g., '24h', '30m', '1h30m')";
                self.max_age = Some(go_duration(value).ok_or(problem)?);
            }
        }
        Ok(())
    }

    /// Zero means no limit, as in coderd's SQL.
    pub(super) fn limit(&self) -> usize {
        if self.limit == 0 { usize::MAX } else { self.limit as usize }
    }

    fn wants_offline(&self) -> bool {
        self.offline || self.asks_for("offline")
    }

    fn asks_for(&self, status: &str) -> bool {
        self.statuses.iter().any(|asked| asked == status)
    }

    /// The WHERE of coderd's query.
    pub(super) fn admits(&self, daemon: &Daemon, now: Timestamp) -> bool {
        let stale = daemon.is_stale(now);
        let busy = daemon.job.is_some();
        let by_status = self.statuses.is_empty()
            || (busy && self.asks_for("busy"))
            || (!busy && self.asks_for("idle"))
            || (stale && self.wants_offline());
        let by_id = self.ids.is_empty() || self.ids.contains(&daemon.id);
        let by_age = self.max_age.is_none_or(|limit| now.since(daemon.last_seen(now)) <= limit);
        by_status
            && by_id
            && by_age
            && tags::contains(&daemon.tags, &self.tags)
            && (!stale || self.wants_offline())
    }

    /// The status column: offline is said only to those who asked for offline ones.
    pub(super) fn status_of(&self, daemon: &Daemon, now: Timestamp) -> &'static str {
        match daemon.job {
            Some(_) => "busy",
            None if self.wants_offline() && daemon.is_stale(now) => "offline",
            None => "idle",
        }
    }
}

/// What Go's `strconv.ParseBool` reads.
fn go_bool(text: &str) -> Option<bool> {
    match text {
        "1" | "t" | "T" | "TRUE" | "true" | "True" => Some(true),
        "0" | "f" | "F" | "FALSE" | "false" | "False" => Some(false),
        _ => None,
    }
}

/// What Go's `time.ParseDuration` reads, whole numbers only: `1h30m`, `90s`, `250ms`.
fn go_duration(text: &str) -> Option<Duration> {
    let mut total = Duration::ZERO;
    let mut rest = text;
    while !rest.is_empty() {
        let digits = rest.find(|letter: char| !letter.is_ascii_digit())?;
        let number: u32 = rest[..digits].parse().ok()?;
        let unit_end = rest[digits..].find(|letter: char| letter.is_ascii_digit());
        let unit_end = unit_end.map_or(rest.len(), |length| digits + length);
        let unit = match &rest[digits..unit_end] {
            "h" => Duration::from_secs(3600),
            "m" => Duration::from_secs(60),
            "s" => Duration::from_secs(1),
            "ms" => Duration::from_millis(1),
            "us" => Duration::from_micros(1),
            "ns" => Duration::from_nanos(1),
            _ => return None,
        };
        total += unit * number;
        rest = &rest[unit_end..];
    }
    (!text.is_empty()).then_some(total)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_as_go_writes_them() {
        assert_eq!(go_duration("1h30m"), Some(Duration::from_secs(5400)));
        assert_eq!(go_duration("250ms"), Some(Duration::from_millis(250)));
        for bad in ["", "5", "h", "3 s", "1d"] {
            assert_eq!(go_duration(bad), None, "{bad}");
        }
    }
}
