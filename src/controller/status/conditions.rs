//! Decides how a condition is written: its time changes with its status only, and it says which generation it is about.
//! It never decides what is true of an object.

use crate::kubernetes::wording::{is_cut, sentence, whole};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

/// The three values a condition has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ConditionStatus {
    /// It holds.
    True,
    /// It does not.
    False,
    /// Nobody can tell.
    Unknown,
}

impl ConditionStatus {
    /// As in `status:` of a condition.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::True => "True",
            Self::False => "False",
            Self::Unknown => "Unknown",
        }
    }
}

/// What is known about one aspect of an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Finding {
    /// Type of the condition.
    pub type_: &'static str,
    /// Whether it holds.
    pub status: ConditionStatus,
    /// Why, as one word of the catalogue.
    pub reason: &'static str,
    /// Why, for a person, with the next step.
    pub message: String,
}

impl Finding {
    /// Something that holds.
    pub(crate) fn yes(
        type_: &'static str,
        reason: impl Into<&'static str>,
        message: impl Into<String>,
    ) -> Self {
        Self { type_, status: ConditionStatus::True, reason: reason.into(), message: message.into() }
    }

    /// Something that does not hold.
    pub(crate) fn no(
        type_: &'static str,
        reason: impl Into<&'static str>,
        message: impl Into<String>,
    ) -> Self {
        Self { type_, status: ConditionStatus::False, reason: reason.into(), message: message.into() }
    }

    /// Something nobody can tell.
    pub(crate) fn unknown(
        type_: &'static str,
        reason: impl Into<&'static str>,
        message: impl Into<String>,
    ) -> Self {
        Self { type_, status: ConditionStatus::Unknown, reason: reason.into(), message: message.into() }
    }
}

/// The conditions for what was found; one whose status stays keeps its time. What a message has no room for is logged
/// when it is new.
pub(crate) fn conditions(
    findings: &[Finding],
    before: &[Condition],
    generation: i64,
    now: &Time,
) -> Vec<Condition> {
    findings
        .iter()
        .map(|finding| {
            let status = finding.status.as_str();
            let named = before.iter().find(|old| old.type_ == finding.type_);
            let same = named.filter(|old| old.status == status);
            let message = sentence(&finding.message);
            if is_cut(&message) && named.is_none_or(|old| old.message != message) {
                let (condition, whole) = (finding.type_, whole(&finding.message));
                tracing::info!(condition, whole, "the whole of a condition that is cut");
            }
            Condition {
                type_: finding.type_.to_owned(),
                status: status.to_owned(),
                reason: finding.reason.to_owned(),
                message,
                observed_generation: Some(generation),
                last_transition_time: same
                    .map_or_else(|| now.clone(), |old| old.last_transition_time.clone()),
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::jiff::Timestamp;

    #[test]
    fn the_time_moves_with_the_status_alone() {
        let (early, late) = (Time(Timestamp::UNIX_EPOCH), Time(Timestamp::from_second(100).unwrap()));
        let first = conditions(&[Finding::no("Ready", "Waiting", "a")], &[], 1, &early);
        let same = conditions(&[Finding::no("Ready", "Failing", "b")], &first, 2, &late);
        assert_eq!((&same[0].last_transition_time, &*same[0].message), (&early, "b"));
        assert_eq!(same[0].observed_generation, Some(2));
        let other = conditions(&[Finding::yes("Ready", "Available", "")], &same, 2, &late);
        assert_eq!(other[0].last_transition_time, late);
    }
}
