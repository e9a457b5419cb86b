//! Decides in which namespaces coderd may run workspaces: a border is crossed only with the consent of the other side.
//! Pure: labels and what was granted before are given. It never takes a right away that was granted before.

use crds::well_known::label::WORKSPACES_FROM;

/// Whether the consent of another namespace is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub enum Consent {
    /// A namespace must name ours in its label.
    #[default]
    On,
    /// Every namespace of the cluster belongs to the same people.
    Off,
}

/// What another namespace says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer<'a> {
    /// There is no such namespace.
    Missing,
    /// The value of its label, if it has one.
    Label(Option<&'a str>),
}

/// Why coderd gets no rights in a namespace, if it does not: a reason and a message with the fix.
pub fn objection(
    consent: Consent,
    from: &str,
    to: &str,
    answer: Answer<'_>,
    granted_before: bool,
) -> Option<(&'static str, String)> {
    if from == to {
        return None;
    }
    match answer {
        Answer::Missing => Some(("NamespaceMissing", format!("namespace {to} does not exist; create it"))),
        Answer::Label(Some(label)) if label == from => None,
        Answer::Label(_) if consent == Consent::Off || granted_before => None,
        Answer::Label(_) => Some((
            "NoConsent",
            format!(
                "namespace {to} has not agreed to run workspaces of {from}; whoever owns it runs: kubectl label \
                 namespace {to} {WORKSPACES_FROM}={from}"
            ),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_border_is_crossed_with_consent_only() {
        let ask = |consent, to, answer, before| {
            objection(consent, "coder", to, answer, before).map(|(reason, _)| reason)
        };
        assert_eq!(ask(Consent::On, "coder", Answer::Missing, false), None, "the own namespace needs none");
        assert_eq!(ask(Consent::On, "team", Answer::Label(Some("coder")), false), None);
        assert_eq!(ask(Consent::On, "team", Answer::Label(Some("other")), false), Some("NoConsent"));
        assert_eq!(ask(Consent::On, "team", Answer::Label(None), false), Some("NoConsent"));
        assert_eq!(ask(Consent::On, "team", Answer::Label(None), true), None, "what was granted stays");
        assert_eq!(ask(Consent::Off, "team", Answer::Label(None), false), None);
        assert_eq!(ask(Consent::Off, "team", Answer::Missing, true), Some("NamespaceMissing"));
        let (_, message) = objection(Consent::On, "coder", "team", Answer::Label(None), false).unwrap();
        assert!(
            message.ends_with("kubectl label namespace team coder.com/workspaces-from=coder"),
            "{message}"
        );
    }
}
