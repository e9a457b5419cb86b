//! Decides in which namespaces coderd may run workspaces: a border is crossed only with the consent of the other side.
//! Pure: labels and what was granted before are given. A right that was granted goes only where the label says `none`.

use super::reasons::Reason;
use crds::well_known::label::WORKSPACES_FROM;

/// The value of the label by which a namespace takes workspaces of nobody.
const NOBODY: &str = "none";

/// Whether a namespace with this label takes back what it gave.
pub(crate) fn refuses(label: Option<&str>) -> bool {
    label == Some(NOBODY)
}

/// Whether the consent of another namespace is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub(crate) enum Consent {
    /// A namespace must name ours in its label.
    #[default]
    On,
    /// Every namespace of the cluster belongs to the same people.
    Off,
}

/// What another namespace says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Answer<'a> {
    /// There is no such namespace.
    Missing,
    /// The value of its label, if it has one.
    Label(Option<&'a str>),
    /// Nobody can tell, and why.
    Unread(&'a str),
}

/// What becomes of the rights in a namespace; the messages say why, and how to change it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// They are brought to what the spec asks for.
    Grant,
    /// Those that are there stay exactly as they are.
    Freeze(Reason, String),
    /// They are taken back, and none are granted.
    Revoke(String),
    /// None are granted; there are none yet.
    Withhold(Reason, String),
}

/// What becomes of the rights that control planes of `from` have in `to`.
pub(crate) fn verdict(
    consent: Consent,
    from: &str,
    to: &str,
    answer: Answer<'_>,
    granted_before: bool,
) -> Verdict {
    if from == to {
        return Verdict::Grant;
    }
    let fix =
        || format!("its owner can run: kubectl label namespace {to} {WORKSPACES_FROM}={from} --overwrite");
    match answer {
        Answer::Missing => {
            Verdict::Withhold(Reason::NamespaceMissing, format!("namespace {to} does not exist; create it"))
        }
        // Whatever it says by now: nothing is taken back and nothing is widened.
        Answer::Unread(why) => Verdict::Freeze(
            Reason::NamespaceUnread,
            format!("namespace {to} cannot be read, so coderd's permissions there stay as they are: {why}"),
        ),
        Answer::Label(Some(NOBODY)) => Verdict::Revoke(format!(
            "namespace {to} accepts no workspaces: its label is {NOBODY}, so coderd has no permissions there; to change that, {}",
            fix()
        )),
        Answer::Label(Some(label)) if label == from => Verdict::Grant,
        Answer::Label(_) if consent == Consent::Off => Verdict::Grant,
        Answer::Label(_) if granted_before => Verdict::Freeze(
            Reason::GrantFrozen,
            format!(
                "namespace {to} no longer consents, so coderd's permissions there stay as they are; {}; \
                 {WORKSPACES_FROM}={NOBODY} revokes them",
                fix()
            ),
        ),
        Answer::Label(label) => {
            let says = label.map(|label| format!(": its label names {label}")).unwrap_or_default();
            let message =
                format!("namespace {to} has not consented to workspaces from {from}{says}; {}", fix());
            Verdict::Withhold(Reason::NoConsent, message)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn word(verdict: Verdict) -> &'static str {
        match verdict {
            Verdict::Grant => "grant",
            Verdict::Freeze(Reason::GrantFrozen, _) => "freeze",
            Verdict::Freeze(reason, _) => reason.as_str(),
            Verdict::Revoke(_) => "revoke",
            Verdict::Withhold(reason, _) => reason.as_str(),
        }
    }

    #[test]
    fn a_border_is_crossed_with_consent_only_and_a_right_goes_by_none_alone() {
        use Answer::{Label, Missing, Unread};
        use Consent::{Off, On};
        for (consent, to, answer, before, expected) in [
            (On, "coder", Missing, false, "grant"),
            (On, "team", Label(Some("coder")), false, "grant"),
            (On, "team", Label(Some("coder")), true, "grant"),
            (On, "team", Label(Some("other")), false, "NoConsent"),
            (On, "team", Label(None), false, "NoConsent"),
            (On, "team", Label(None), true, "freeze"),
            (On, "team", Label(Some("other")), true, "freeze"),
            (On, "team", Label(Some("none")), true, "revoke"),
            (On, "team", Label(Some("none")), false, "revoke"),
            (Off, "team", Label(Some("none")), true, "revoke"),
            (Off, "team", Label(None), false, "grant"),
            (Off, "team", Label(Some("other")), true, "grant"),
            (Off, "team", Missing, true, "NamespaceMissing"),
            (On, "team", Unread("no"), true, "NamespaceUnread"),
            (On, "team", Unread("no"), false, "NamespaceUnread"),
            (Off, "team", Unread("no"), false, "NamespaceUnread"),
            (On, "coder", Unread("no"), false, "grant"),
        ] {
            let decided = word(verdict(consent, "coder", to, answer, before));
            assert_eq!(decided, expected, "{consent:?} {to} {answer:?} {before}");
        }
    }

    #[test]
    fn the_message_names_the_label_to_set_and_fits() {
        let long = "n".repeat(40);
        let fix = format!("kubectl label namespace {long} coder.com/workspaces-from=coder --overwrite");
        let other = "o".repeat(40);
        for (label, before) in
            [(None, false), (Some(&*other), false), (None, true), (Some(&*other), true), (Some("none"), true)]
        {
            let message = match verdict(Consent::On, "coder", &long, Answer::Label(label), before) {
                Verdict::Freeze(_, message) | Verdict::Revoke(message) | Verdict::Withhold(_, message) => {
                    message
                }
                Verdict::Grant => panic!("nobody agreed"),
            };
            assert!(message.contains(&fix) && message.len() <= 300, "{}: {message}", message.len());
            let revoked_by = "coder.com/workspaces-from=none revokes them";
            assert_eq!(message.contains(revoked_by), before && label != Some("none"), "{message}");
            assert_eq!(message.contains(&other), label == Some(&other) && !before, "{message}");
        }
    }
}
