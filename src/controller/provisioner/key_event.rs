//! Decides what is told of a key that came, went or was left alone, which no condition shows. Of plaintexts it knows nothing.

use super::key::steps::Left;
use super::reasons::Reason;
use crate::kubernetes::events::{EventDraft, Severity};

/// Something that was done about a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum KeyEvent<'a> {
    /// It was made.
    Created(&'a str),
    /// It was deleted.
    Deleted(&'a str),
    /// It was left alone.
    Left(&'a Left),
}

impl KeyEvent<'_> {
    /// What there is to tell.
    pub(super) fn draft(&self) -> EventDraft {
        let (severity, reason, note) = match self {
            Self::Created(name) => (
                Severity::Normal,
                Reason::KeyCreated,
                format!("provisioner key {name} was created in coderd"),
            ),
            Self::Deleted(name) => (
                Severity::Normal,
                Reason::KeyDeleted,
                format!("provisioner key {name} was deleted in coderd"),
            ),
            Self::Left(Left::Taken(name)) => (
                Severity::Warning,
                Reason::KeyNameTaken,
                format!(
                    "coderd already has a provisioner key {name} that this object does not own; using the next number. To \
                     replace that key, set the annotation coder.com/adopt-key: {name}"
                ),
            ),
            Self::Left(Left::MoreTaken(number)) => (
                Severity::Warning,
                Reason::KeyNameTaken,
                format!(
                    "coderd has {number} more provisioner keys of the names that would be next; they are left alone"
                ),
            ),
            Self::Left(Left::Behind(name)) => (
                Severity::Warning,
                Reason::KeyLeftBehind,
                format!(
                    "provisioner key {name} was left in coderd; if nobody uses it, run coder provisioner keys delete {name}"
                ),
            ),
            Self::Left(Left::WithOrganization(name)) => (
                Severity::Normal,
                Reason::KeyDeleted,
                format!("provisioner key {name} is gone with its organization, which was deleted in coderd"),
            ),
        };
        EventDraft { severity, reason: reason.to_string(), action: "ProvisionerKey".to_owned(), note }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_that_was_left_is_a_warning_that_names_it_and_what_to_do() {
        assert_eq!(KeyEvent::Created("a").draft().severity, Severity::Normal);
        for left in [Left::Taken("builders".to_owned()), Left::Behind("builders".to_owned())] {
            let draft = KeyEvent::Left(&left).draft();
            assert_eq!(draft.severity, Severity::Warning);
            assert!(draft.note.contains("builders"), "{}", draft.note);
        }
    }
}
