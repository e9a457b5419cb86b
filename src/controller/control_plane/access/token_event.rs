//! Decides what is told of a token that came or went, which no condition shows because access is there before and
//! after. Of the token itself it knows nothing.

use crate::controller::control_plane::reasons::Reason;
use crate::kubernetes::events::{EventDraft, Severity};

/// Something that was done about a token of our own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum TokenEvent {
    /// The first token works.
    Issued,
    /// Another token works and took the place of the one before.
    Renewed,
    /// It was taken back.
    Revoked,
    /// Its Secret was removed, but the database was not asked or did not answer; why.
    LeftToExpire(String),
    /// The object goes, and a token that the older operator made for it stays valid; why.
    FormerLeft(String),
}

impl TokenEvent {
    /// What there is to tell.
    pub(crate) fn draft(&self) -> EventDraft {
        let (severity, reason, note) = match self {
            Self::Issued => {
                (Severity::Normal, Reason::TokenIssued, "the operator made a token of its own".to_owned())
            }
            Self::Renewed => (
                Severity::Normal,
                Reason::TokenRenewed,
                "the operator's token was replaced by a new one".to_owned(),
            ),
            Self::Revoked => {
                (Severity::Normal, Reason::TokenRevoked, "the operator's token was revoked".to_owned())
            }
            Self::LeftToExpire(why) => (
                Severity::Warning,
                Reason::TokenNotRevoked,
                format!("the operator's token could not be revoked and expires within a day: {why}"),
            ),
            Self::FormerLeft(why) => (
                Severity::Warning,
                Reason::FormerTokenNotRevoked,
                format!(
                    "a token of the older operator is valid for up to a year and could not be revoked: {why}; delete \
                     the tokens of the user coder-k8s-operator in coderd"
                ),
            ),
        };
        EventDraft { severity, reason: reason.to_string(), action: "OperatorToken".to_owned(), note }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_token_that_stays_is_bad_news() {
        let told = |deed: TokenEvent| (deed.draft().severity, deed.draft().reason);
        assert_eq!(told(TokenEvent::Issued), (Severity::Normal, "TokenIssued".to_owned()));
        assert_eq!(told(TokenEvent::Renewed), (Severity::Normal, "TokenRenewed".to_owned()));
        assert_eq!(told(TokenEvent::Revoked), (Severity::Normal, "TokenRevoked".to_owned()));
        let left = TokenEvent::LeftToExpire("the database cannot be reached".to_owned()).draft();
        assert_eq!((left.severity, left.reason.as_str()), (Severity::Warning, "TokenNotRevoked"));
        assert!(left.note.ends_with("the database cannot be reached"), "{}", left.note);
        let former = TokenEvent::FormerLeft("the database cannot be reached".to_owned()).draft();
        assert_eq!((former.severity, former.reason.as_str()), (Severity::Warning, "FormerTokenNotRevoked"));
        assert!(former.note.contains("delete the tokens of the user"), "{}", former.note);
    }
}
