//! Decides what is told of a registration that came, went, changed or was left, which no condition shows. Of tokens it knows nothing.

use super::reasons::Reason;
use super::registration::steps::Left;
use super::registration::work::Done;
use crate::foreign::Foreign;
use crate::kubernetes::events::{EventDraft, Severity};

/// What there is to tell of something that was done.
pub(super) fn of_done(done: &Done) -> EventDraft {
    let (reason, note) = match done {
        Done::Registered(name) => {
            (Reason::ProxyRegistered, format!("workspace proxy {} was registered in coderd", clean(name)))
        }
        Done::TokenReplaced(name) => (
            Reason::TokenReplaced,
            format!(
                "the token of workspace proxy {} was replaced; the one before is no longer valid",
                clean(name)
            ),
        ),
        Done::Renamed(from, to) => {
            (Reason::ProxyRenamed, format!("workspace proxy {} is called {} now", clean(from), clean(to)))
        }
        Done::Removed(name) => {
            (Reason::ProxyRemoved, format!("workspace proxy {} was removed from coderd", clean(name)))
        }
    };
    draft(Severity::Normal, reason, note)
}

/// What there is to tell of a registration that stays in coderd.
pub(super) fn of_left(left: &Left) -> EventDraft {
    let name = clean(&left.0);
    let note = format!(
        "workspace proxy {name} was left in coderd; if nobody uses it, run coder wsproxy delete {name}"
    );
    draft(Severity::Warning, Reason::ProxyLeftBehind, note)
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
        let left = of_left(&Left("eu".to_owned()));
        assert_eq!(left.severity, Severity::Warning);
        assert!(left.note.contains("coder wsproxy delete eu"), "{}", left.note);
        assert_eq!(of_done(&Done::Registered("eu".to_owned())).severity, Severity::Normal);
    }
}
