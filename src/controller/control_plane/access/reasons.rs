//! Decides what the condition OperatorAccessReady says of each trouble: the reason, whether it passes by itself, the fix.
//! The words of the database and of coderd are their own errors' words, which hold no URL and no secret.

use crate::coderd::database::{self, UrlError};
use crate::coderd::{Error, Retry};
use crate::controller::control_plane::status::{Wish, WishState};

/// A wish that stands somewhere for some reason.
pub fn wish(state: WishState, reason: &'static str, message: impl Into<String>) -> Wish {
    Wish { state, reason, message: message.into() }
}

/// Something that passes by itself.
pub fn pending(reason: &'static str, message: impl Into<String>) -> Wish {
    wish(WishState::Pending, reason, message)
}

/// Something that stays until somebody acts.
pub fn refused(reason: &'static str, message: impl Into<String>) -> Wish {
    wish(WishState::Refused, reason, message)
}

/// A trouble, and when to try again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trouble {
    /// What to say.
    pub wish: Wish,
    /// When to try again.
    pub retry: Retry,
}

impl Trouble {
    /// Something that passes by itself.
    pub fn passing(reason: &'static str, message: impl Into<String>) -> Self {
        Self { wish: pending(reason, message), retry: Retry::Backoff }
    }

    /// Something that stays until somebody acts.
    pub fn lasting(reason: &'static str, message: impl Into<String>) -> Self {
        Self { wish: refused(reason, message), retry: Retry::WhenChanged }
    }
}

impl From<database::Error> for Trouble {
    fn from(error: database::Error) -> Self {
        use database::Error::{
            ConnectionLost, Deleted, ForeignUser, NoFreeName, NoLogin, NotMigrated, Other, PermissionDenied,
            Refused, Request, Suspended, TimedOut, TlsRefused, TokenTaken, Unreachable, UnsupportedSchema,
            UserElsewhere, WrongPassword,
        };
        let reason = match &error {
            Unreachable | ConnectionLost => "DatabaseUnreachable",
            NoLogin(_) => "DatabaseLoginFailed",
            TimedOut => "DatabaseTimedOut",
            NotMigrated => "DatabaseNotMigrated",
            TokenTaken | Other(_) | Request(_) => "DatabaseError",
            Refused(_) => "DatabaseAddressRefused",
            WrongPassword => "DatabaseLoginRefused",
            TlsRefused(_) => "DatabaseTlsRefused",
            PermissionDenied => "DatabasePermissionDenied",
            UnsupportedSchema { .. } => "DatabaseSchemaUnknown",
            Suspended => "UserSuspended",
            Deleted => "UserDeleted",
            ForeignUser | UserElsewhere | NoFreeName => "UserConflict",
        };
        match error.retry() {
            database::Retry::Backoff => Self::passing(reason, error.to_string()),
            database::Retry::WhenChanged => Self::lasting(reason, format!("{error}; {}", fix(&error))),
        }
    }
}

fn fix(error: &database::Error) -> &'static str {
    match error {
        database::Error::Suspended => "or set spec.operatorAccess.tokenSecretRef",
        database::Error::Deleted => {
            "remove the Secret with the operator's token to have another user made, or set spec.operatorAccess.disabled"
        }
        _ => "correct CODER_PG_CONNECTION_URL, or set spec.operatorAccess.tokenSecretRef",
    }
}

impl From<UrlError> for Trouble {
    fn from(error: UrlError) -> Self {
        let fix = "correct CODER_PG_CONNECTION_URL, or set spec.operatorAccess.tokenSecretRef";
        Self::lasting("DatabaseUrlInvalid", format!("{error}; {fix}"))
    }
}

/// What it means that coderd did not confirm a token.
pub fn unproven(error: &Error) -> Trouble {
    match error {
        Error::Unauthorized { .. } => Trouble::lasting("TokenRejected", error.to_string()),
        // That coderd itself is there was seen a moment ago.
        other => {
            let retry =
                Some(other.retry()).filter(|retry| *retry != Retry::WhenChanged).unwrap_or(Retry::Backoff);
            Trouble { wish: pending("ProofFailed", other.to_string()), retry }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::coderd::error::Operation;
    use std::time::Duration;

    #[test]
    fn what_passes_is_pending_and_what_stays_is_refused_with_a_fix() {
        use database::Error as E;
        for (error, state, reason) in [
            (E::Unreachable, WishState::Pending, "DatabaseUnreachable"),
            (E::TimedOut, WishState::Pending, "DatabaseTimedOut"),
            (E::ConnectionLost, WishState::Pending, "DatabaseUnreachable"),
            (E::NotMigrated, WishState::Pending, "DatabaseNotMigrated"),
            (E::TokenTaken, WishState::Pending, "DatabaseError"),
            (E::Other(database::State::new("53300")), WishState::Pending, "DatabaseError"),
            (E::NoLogin(Box::new(E::WrongPassword)), WishState::Pending, "DatabaseLoginFailed"),
            (E::WrongPassword, WishState::Refused, "DatabaseLoginRefused"),
            (E::TlsRefused("no".into()), WishState::Refused, "DatabaseTlsRefused"),
            (E::PermissionDenied, WishState::Refused, "DatabasePermissionDenied"),
            (E::UnsupportedSchema { problems: vec![] }, WishState::Refused, "DatabaseSchemaUnknown"),
            (E::Suspended, WishState::Refused, "UserSuspended"),
            (E::Deleted, WishState::Refused, "UserDeleted"),
            (E::ForeignUser, WishState::Refused, "UserConflict"),
        ] {
            let wish = Trouble::from(error).wish;
            assert_eq!((wish.state, wish.reason), (state, reason));
            assert_eq!(wish.message.contains("spec.operatorAccess"), state == WishState::Refused, "{wish:?}");
        }
    }

    #[test]
    fn a_token_coderd_does_not_know_is_refused_and_any_other_answer_is_asked_again() {
        let operation = Operation::Me;
        let rejected = unproven(&Error::Unauthorized { operation });
        assert_eq!((rejected.wish.state, rejected.wish.reason), (WishState::Refused, "TokenRejected"));
        let limited = unproven(&Error::RateLimited { operation, retry_after: Duration::from_secs(7) });
        assert_eq!(
            (limited.wish.reason, limited.retry),
            ("ProofFailed", Retry::After(Duration::from_secs(7)))
        );
        assert_eq!(unproven(&Error::Server { operation, status: 502 }).retry, Retry::Backoff);
    }
}
