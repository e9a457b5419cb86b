//! Decides whether a request to coderd that failed certainly changed nothing there. Pure.

use crate::coderd::{Error, Lost};

/// Whether a request to make something certainly made nothing: it was never sent, or coderd refused it.
pub(crate) fn is_refusal(error: &Error) -> bool {
    match error {
        Error::Unreachable { lost: Lost::Name | Lost::Connect, .. }
        | Error::Tls { .. }
        | Error::Refused { .. }
        | Error::Unauthorized { .. }
        | Error::Forbidden { .. }
        | Error::NotLicensed { .. }
        | Error::NotFoundOrForbidden { .. }
        | Error::RouteMissing { .. }
        | Error::Conflict { .. }
        | Error::RateLimited { .. }
        | Error::Invalid { .. } => true,
        Error::NotCoderd { .. }
        | Error::Unreachable { lost: Lost::Cut, .. }
        | Error::TimedOut { .. }
        | Error::Server { .. }
        | Error::Redirected { .. }
        | Error::Unexpected { .. }
        | Error::TooLarge { .. }
        | Error::Malformed { .. } => false,
    }
}
