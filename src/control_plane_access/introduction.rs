//! Asks coderd whether it is up and who it is. It never sends a token: who answers is not proven yet.

use crate::coderd::client::BuildInfo;
use crate::coderd::{Client, Error};

/// Who coderd is, as far as it is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Identity {
    /// Its version.
    pub version: String,
    /// The identity of its database, if it told: behind the same address, another one is another coderd.
    pub deployment_id: Option<String>,
}

/// Why it is not known who it is.
#[derive(Debug)]
pub(crate) enum Unintroduced {
    /// Nobody is there who answers as coderd does.
    Absent(Error),
    /// It is there and does not say who it is.
    Silent(Error),
}

/// Asks coderd, and gives the client to go on with. It is there when `/healthz` says so, which a coderd that redirects
/// everything else to its access URL answers, too.
pub(crate) async fn introduce(client: Client) -> Result<(Client, Identity), Unintroduced> {
    client.healthz().await.map_err(Unintroduced::Absent)?;
    let (client, info) = client.introduced().await;
    Ok((client, identity(&info.map_err(Unintroduced::Silent)?)))
}

/// What to do about a coderd that redirects, which its error does not know; nothing for other errors.
pub(crate) fn hint(error: &Error) -> &'static str {
    match error {
        Error::Redirected { .. } => {
            "; with an https access URL and CODER_REDIRECT_TO_ACCESS_URL it answers over TLS only: set spec.tls of the CoderControlPlane, \
             or unset that variable"
        }
        _ => "",
    }
}

/// Characters of a text that are kept.
const LONGEST: usize = 64;

/// What is kept of it: whoever answers chooses the texts, and everybody keeps them.
fn identity(info: &BuildInfo) -> Identity {
    let kept = |text: &str| text.chars().filter(char::is_ascii_graphic).take(LONGEST).collect::<String>();
    // A UUID: it is written among other things, with slashes between them.
    let is_of_id = |letter: &char| letter.is_ascii_alphanumeric() || *letter == '-';
    let id: String = info.deployment_id.chars().filter(is_of_id).take(LONGEST).collect();
    let deployment_id = Some(id).filter(|id| !id.is_empty());
    Identity { version: kept(&info.version), deployment_id }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_of_an_answer_is_short_and_printable() {
        let kept = |version: &str, deployment_id: &str| {
            let (version, deployment_id) = (version.to_owned(), deployment_id.to_owned());
            identity(&BuildInfo { version, deployment_id, external_url: String::new() })
        };
        let one = kept("v2.36.1+abc", "6f1f6a3e");
        assert_eq!((one.version.as_str(), one.deployment_id.as_deref()), ("v2.36.1+abc", Some("6f1f6a3e")));
        let long = kept(&"x\n ".repeat(1000), &"y\u{1b}".repeat(1000));
        assert_eq!((long.version.len(), long.deployment_id.map(|id| id.len())), (LONGEST, Some(LONGEST)));
        assert_eq!(kept("v2", " \n").deployment_id, None, "it did not tell");
        assert_eq!(
            kept("v2", "a/b\0c-7").deployment_id.as_deref(),
            Some("abc-7"),
            "nothing that parts things"
        );
    }
}
