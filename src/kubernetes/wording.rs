//! Decides how a text becomes a sentence that a person can read in a condition or an Event: one line, no dumped values,
//! nothing that a terminal obeys, at most 300 characters. It never changes what comes first, which is what failed.

use crate::foreign::{Foreign, cleaned};
use std::borrow::Cow;

/// Characters of a condition's message or an Event's note.
pub(crate) const LONGEST: usize = 300;
/// How a sentence ends that was longer.
const CUT: &str = "… (more in the operator's log)";

/// Characters of anything the API server says that are looked at or logged.
const WHOLE: usize = 32 * 1024;

/// The text as a sentence. Pods, webhooks and coderd say what they like, and `kubectl` prints it.
pub(crate) fn sentence(text: &str) -> String {
    let plain = without_dumps(&whole(text));
    if plain.chars().count() <= LONGEST {
        return plain;
    }
    let room = LONGEST - CUT.chars().count();
    let kept: String = plain.chars().take(room).collect();
    // A word that was cut in two says something else, and a stop before the dots nothing.
    let whole = kept.rsplit_once(' ').map_or(kept.as_str(), |(before, _)| before);
    format!("{}{CUT}", whole.trim_end_matches([',', ';', ':', '.']))
}

/// The whole text for the log, where a sentence is cut: cleaned all the same.
pub(crate) fn whole(text: &str) -> String {
    cleaned(text, WHOLE)
}

/// Whether a sentence says less than its text.
pub(crate) fn is_cut(sentence: &str) -> bool {
    sentence.ends_with(CUT)
}

/// The API server quotes whole objects in what it says about them; the field and what is wrong with it stand beside.
fn without_dumps(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut depth = 0_usize;
    for letter in text.chars() {
        match letter {
            '{' => {
                if depth == 0 {
                    plain.push('…');
                }
                depth += 1;
            }
            '}' if depth > 0 => depth -= 1,
            '}' => plain.push('…'),
            _ if depth > 0 => {}
            letter => plain.push(letter),
        }
    }
    plain.replace("Invalid value: …: ", "").replace(": … ", ": ")
}

/// A failed call in the words of whoever refused it. What the client library prints is for its developers: it repeats
/// the whole answer, and quotes what it could not read.
pub(super) fn reason(error: &kube::Error) -> Cow<'static, str> {
    match error {
        kube::Error::Api(status) if status.message.is_empty() => {
            let reason = Foreign::new(&status.reason);
            Cow::Owned(format!("the API server answered {} {reason}", status.code).trim_end().to_owned())
        }
        // Webhooks and policies of others speak through it.
        kube::Error::Api(status) => Cow::Owned(without_preamble(&whole(&status.message))),
        kube::Error::SerdeError(_) | kube::Error::FromUtf8(_) | kube::Error::ReadEvents(_) => {
            Cow::Borrowed("the answer of the API server cannot be read")
        }
        kube::Error::Auth(_) => Cow::Borrowed("the credentials for the API server cannot be used"),
        kube::Error::Service(_) | kube::Error::HyperError(_) => {
            Cow::Owned(format!("the API server cannot be reached: {}", Foreign::new(&root(error))))
        }
        _ => Cow::Borrowed("the request cannot be made"),
    }
}

/// The API server begins with the object, which whoever called it has named, and names a policy's binding beside it.
fn without_preamble(message: &str) -> String {
    // `roles.rbac.authorization.k8s.io "name` and no more.
    let is_subject = |before: &str| before.split(' ').count() == 2 && before.contains(" \"");
    let mut said = message;
    for verdict in ["\" is forbidden: ", "\" is invalid: "] {
        said =
            said.split_once(verdict).filter(|(before, _)| is_subject(before)).map_or(said, |(_, rest)| rest);
    }
    match said
        .split_once(" with binding '")
        .and_then(|(policy, rest)| Some((policy, rest.split_once("' ")?.1)))
    {
        Some((policy, rest)) => format!("{policy} {rest}"),
        None => said.to_owned(),
    }
}

/// What it all began with, which is what a person can do something about.
fn root(error: &dyn std::error::Error) -> String {
    let mut last = error;
    while let Some(cause) = last.source() {
        last = cause;
    }
    last.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use kube::core::Status;

    #[test]
    fn a_short_text_stays_as_it_is() {
        assert_eq!(sentence("the Deployment is being made"), "the Deployment is being made");
        assert!(!is_cut("the Deployment is being made"));
    }

    #[test]
    fn a_long_text_ends_after_a_word_and_says_where_the_rest_is() {
        let long = sentence(&"word, ".repeat(100));
        assert!(long.chars().count() <= LONGEST && is_cut(&long), "{long}");
        assert!(long.ends_with("word… (more in the operator's log)"), "{long}");
        let letters = sentence(&"ä".repeat(1000));
        assert_eq!(letters.chars().count(), LONGEST, "one word without end is cut where it must be");
    }

    #[test]
    fn what_a_terminal_would_obey_is_left_out() {
        assert_eq!(
            sentence("pod a: \u{1b}[2J\u{1b}]0;owned\u{7}gone\u{9b}31m"),
            "pod a: [2J ]0;owned gone 31m"
        );
        assert_eq!(sentence("image \u{202e}gpj.exe\u{2069} of\u{200f} x\u{0}\u{7f}"), "image gpj.exe of x");
        assert_eq!(sentence("zażółć 日本語 שלום"), "zażółć 日本語 שלום", "letters of every script stay");
    }

    #[test]
    fn objects_that_are_quoted_are_left_out_and_lines_joined() {
        let immutable = "Deployment.apps \"coder\" is invalid: spec.selector: Invalid value: \
                         {\"matchLabels\":{\"app\":\"x\"}}: field is immutable";
        assert_eq!(
            sentence(immutable),
            "Deployment.apps \"coder\" is invalid: spec.selector: field is immutable"
        );
        assert_eq!(
            sentence("not currently held:\n{APIGroups:[\"\"], Resources:[\"x\"]}\n{Verbs:[\"get\"]}"),
            "not currently held: …"
        );
        assert_eq!(sentence("half } a { brace"), "half … a …");
    }

    #[test]
    fn a_refusal_is_told_in_the_words_of_the_api_server() {
        let status = Status::failure("roles are kept here", "Forbidden").with_code(403);
        assert_eq!(reason(&kube::Error::Api(Box::new(status))), "roles are kept here");
        let told = |message: &str| {
            reason(&kube::Error::Api(Box::new(Status::failure(message, "Invalid")))).into_owned()
        };
        assert_eq!(
            told(
                "roles.rbac.authorization.k8s.io \"a\" is forbidden: ValidatingAdmissionPolicy 'keep' with binding 'keep-all' \
                 denied request: roles are kept here"
            ),
            "ValidatingAdmissionPolicy 'keep' denied request: roles are kept here"
        );
        assert_eq!(told("Service \"a\" is invalid: spec.type: Required value"), "spec.type: Required value");
        assert_eq!(
            told("somebody said \"no\" is forbidden: here"),
            "somebody said \"no\" is forbidden: here"
        );
        let hostile = format!("no \u{1b}[2J\u{202e}way\u{2028}{}", "x".repeat(1 << 20));
        let cut = told(&hostile);
        assert!(cut.starts_with("no [2J way xxx") && cut.chars().count() == WHOLE + 1, "{cut:.20}");
        let silent = Status::failure("", "Forbidden").with_code(403);
        assert_eq!(reason(&kube::Error::Api(Box::new(silent))), "the API server answered 403 Forbidden");
        let refused = std::io::Error::from(std::io::ErrorKind::ConnectionRefused);
        assert_eq!(
            reason(&kube::Error::Service(Box::new(refused))),
            "the API server cannot be reached: connection refused"
        );
        let quoting = serde_json::from_str::<u8>("\"hunter2\"").unwrap_err();
        assert!(!reason(&kube::Error::SerdeError(quoting)).contains("hunter2"));
    }
}
