//! Decides what the condition OperatorAccessReady says of each trouble: the reason, whether it passes by itself, the fix.
//! The words of the database and of coderd are their own errors' words, which hold no URL and no secret.

use crate::coderd::database::{self, UrlError};
use crate::coderd::{Error, Retry};
use crate::controller::control_plane::observed::{ExternalPhase, ExternalState};
use crate::controller::control_plane::reasons::Reason;

/// A state for the condition.
pub(super) fn state(phase: ExternalPhase, reason: Reason, message: impl Into<String>) -> ExternalState {
    ExternalState { phase, reason, message: message.into() }
}

/// Something that passes by itself.
pub(super) fn pending(reason: Reason, message: impl Into<String>) -> ExternalState {
    state(ExternalPhase::Pending, reason, message)
}

/// Something that stays until somebody acts.
pub(super) fn refused(reason: Reason, message: impl Into<String>) -> ExternalState {
    state(ExternalPhase::Refused, reason, message)
}

/// A trouble, and when to try again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Trouble {
    /// What to say.
    pub state: ExternalState,
    /// When to try again.
    pub retry: Retry,
}

impl Trouble {
    /// Something that passes by itself.
    pub(super) fn passing(reason: Reason, message: impl Into<String>) -> Self {
        Self { state: pending(reason, message), retry: Retry::Backoff }
    }

    /// Something that stays until somebody acts.
    pub(super) fn lasting(reason: Reason, message: impl Into<String>) -> Self {
        Self { state: refused(reason, message), retry: Retry::WhenChanged }
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
            Unreachable | ConnectionLost => Reason::DatabaseUnreachable,
            NoLogin(_) => Reason::DatabaseLoginFailed,
            TimedOut => Reason::DatabaseTimedOut,
            NotMigrated => Reason::DatabaseNotMigrated,
            TokenTaken | Other(_) | Request(_) => Reason::DatabaseError,
            Refused(_) => Reason::DatabaseAddressRefused,
            WrongPassword => Reason::DatabaseLoginRefused,
            TlsRefused(_) => Reason::DatabaseTlsRefused,
            PermissionDenied => Reason::DatabasePermissionDenied,
            UnsupportedSchema { .. } => Reason::DatabaseSchemaUnknown,
            Suspended => Reason::UserSuspended,
            Deleted => Reason::UserDeleted,
            ForeignUser | UserElsewhere | NoFreeName => Reason::UserConflict,
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
        Self::lasting(Reason::DatabaseUrlInvalid, format!("{error}; {fix}"))
    }
}

/// What it means that coderd did not confirm a token.
pub(super) fn unproven(error: &Error) -> Trouble {
    match error {
        Error::Unauthorized { .. } => Trouble::lasting(Reason::TokenRejected, error.to_string()),
        // That coderd itself is there was seen a moment ago.
        other => {
            let retry =
                Some(other.retry()).filter(|retry| *retry != Retry::WhenChanged).unwrap_or(Retry::Backoff);
            Trouble { state: pending(Reason::ProofFailed, other.to_string()), retry }
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
        for (error, phase, reason) in [
            (E::Unreachable, ExternalPhase::Pending, Reason::DatabaseUnreachable),
            (E::TimedOut, ExternalPhase::Pending, Reason::DatabaseTimedOut),
            (E::ConnectionLost, ExternalPhase::Pending, Reason::DatabaseUnreachable),
            (E::NotMigrated, ExternalPhase::Pending, Reason::DatabaseNotMigrated),
            (E::TokenTaken, ExternalPhase::Pending, Reason::DatabaseError),
            (E::Other(database::State::new("53300")), ExternalPhase::Pending, Reason::DatabaseError),
            (E::NoLogin(Box::new(E::WrongPassword)), ExternalPhase::Pending, Reason::DatabaseLoginFailed),
            (E::WrongPassword, ExternalPhase::Refused, Reason::DatabaseLoginRefused),
            (E::TlsRefused("no".into()), ExternalPhase::Refused, Reason::DatabaseTlsRefused),
            (E::PermissionDenied, ExternalPhase::Refused, Reason::DatabasePermissionDenied),
            (
                E::UnsupportedSchema { problems: vec![] },
                ExternalPhase::Refused,
                Reason::DatabaseSchemaUnknown,
            ),
            (E::Suspended, ExternalPhase::Refused, Reason::UserSuspended),
            (E::Deleted, ExternalPhase::Refused, Reason::UserDeleted),
            (E::ForeignUser, ExternalPhase::Refused, Reason::UserConflict),
        ] {
            let state = Trouble::from(error).state;
            assert_eq!((state.phase, state.reason), (phase, reason));
            assert_eq!(
                state.message.contains("spec.operatorAccess"),
                phase == ExternalPhase::Refused,
                "{state:?}"
            );
        }
    }

    #[test]
    fn a_token_coderd_does_not_know_is_refused_and_any_other_answer_is_asked_again() {
        let operation = Operation::Me;
        let rejected = unproven(&Error::Unauthorized { operation });
        assert_eq!(
            (rejected.state.phase, rejected.state.reason),
            (ExternalPhase::Refused, Reason::TokenRejected)
        );
        let limited = unproven(&Error::RateLimited { operation, retry_after: Duration::from_secs(7) });
        assert_eq!(
            (limited.state.reason, limited.retry),
            (Reason::ProofFailed, Retry::After(Duration::from_secs(7)))
        );
        assert_eq!(unproven(&Error::Server { operation, status: 502 }).retry, Retry::Backoff);
    }
}
