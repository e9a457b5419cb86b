//! What coderd found when it last looked at a workspace proxy.
//! It reads a few cleaned lines of whatever there is: coderd quotes the proxy, and whatever answers at its address.

use crate::foreign::Foreign;
use serde::de::{IgnoredAny, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, de};
use std::fmt;

/// Lines that are kept of a report.
const MOST_LINES: usize = 8;

/// How a proxy is, by coderd's own check: about once a minute, from each replica of it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProxyHealth {
    /// In one word.
    pub status: ProxyStatus,
    /// What keeps it from being healthy, cleaned and cut.
    pub errors: Vec<String>,
    /// What should be seen to, cleaned and cut.
    pub warnings: Vec<String>,
}

/// coderd's word for how a proxy is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProxyStatus {
    /// It answers, and has nothing to complain of.
    Ok,
    /// Nothing answers at its address.
    Unreachable,
    /// It answers with an error, or something else answers.
    Unhealthy,
    /// It never came to say what its address is.
    Unregistered,
    /// coderd has not looked yet, or says a word we do not know.
    #[default]
    #[serde(other)]
    Unknown,
}

impl<'de> Deserialize<'de> for ProxyHealth {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        struct Checked {
            #[serde(default)]
            status: ProxyStatus,
            #[serde(default)]
            report: Option<Report>,
        }
        #[derive(Deserialize, Default)]
        struct Report {
            #[serde(default)]
            errors: Lines,
            #[serde(default)]
            warnings: Lines,
        }
        let Checked { status, report } = Checked::deserialize(deserializer)?;
        let Report { errors, warnings } = report.unwrap_or_default();
        Ok(Self { status, errors: errors.0, warnings: warnings.0 })
    }
}

/// The first lines of a list, each cleaned and cut; Go writes a list that was never made as null.
#[derive(Default)]
struct Lines(Vec<String>);

impl<'de> Deserialize<'de> for Lines {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(OfLines).map(Self)
    }
}

struct OfLines;

impl<'de> Visitor<'de> for OfLines {
    type Value = Vec<String>;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("a list of texts")
    }

    fn visit_unit<E: de::Error>(self) -> Result<Self::Value, E> {
        Ok(Vec::new())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
        let mut lines = Vec::new();
        while lines.len() < MOST_LINES {
            let Some(line) = list.next_element::<String>()? else { return Ok(lines) };
            let line = Foreign::new(&line);
            if !line.as_str().is_empty() {
                lines.push(line.as_str().to_owned());
            }
        }
        while list.next_element::<IgnoredAny>()?.is_some() {}
        Ok(lines)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, from_value, json};

    fn read(health: Value) -> Option<ProxyHealth> {
        from_value(health).ok()
    }

    #[test]
    fn every_word_of_coderd_has_a_status_and_a_new_one_is_unknown() {
        for (word, status) in [
            ("ok", ProxyStatus::Ok),
            ("unreachable", ProxyStatus::Unreachable),
            ("unhealthy", ProxyStatus::Unhealthy),
            ("unregistered", ProxyStatus::Unregistered),
            ("unknown", ProxyStatus::Unknown),
            ("a word to come", ProxyStatus::Unknown),
            ("", ProxyStatus::Unknown),
        ] {
            let health = read(json!({ "status": word, "report": { "errors": [], "warnings": [] } }));
            assert_eq!(health, Some(ProxyHealth { status, ..ProxyHealth::default() }), "{word}");
        }
        for nothing in [json!({}), json!({ "report": null }), json!({ "report": { "errors": null } })] {
            assert_eq!(read(nothing.clone()), Some(ProxyHealth::default()), "{nothing}");
        }
        for odd in [json!(7), json!({ "status": 7 }), json!({ "report": { "errors": "x" } })] {
            assert_eq!(read(odd.clone()), None, "{odd}");
        }
    }

    #[test]
    fn a_report_is_cleaned_and_kept_short() {
        let hostile =
            json!(["\n", "request to \u{1b}[2J\nproxy\u{202e} failed", "x".repeat(100_000), " \u{0}"]);
        let read = |lines: &Value| {
            read(json!({ "status": "unhealthy", "report": { "errors": lines, "warnings": lines } })).unwrap()
        };
        let health = read(&hostile);
        assert_eq!(health.errors.len(), 2, "empty lines say nothing");
        assert_eq!(health.errors[0], "request to [2J proxy failed");
        assert_eq!(health.errors[1].chars().count(), 201);
        assert_eq!(health.errors, health.warnings);
        let many: Vec<String> = (0..100_000).map(|number| number.to_string()).collect();
        assert_eq!(read(&json!(many)).errors, ["0", "1", "2", "3", "4", "5", "6", "7"]);
    }
}
