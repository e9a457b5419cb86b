//! What can go wrong with a call to coderd, by what the caller has to do about it.
//! It never holds a URL's query, a token or a body; coderd's own words only cut, cleaned and without what we sent.

use super::addresses::Forbidden;
use std::fmt;
use std::time::Duration;

/// The call that failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// `GET /healthz`.
    Healthz,
    /// `GET /api/v2/buildinfo`.
    BuildInfo,
    /// `GET /api/v2/entitlements`.
    Entitlements,
    /// `GET /api/v2/users/me`.
    Me,
    /// `GET /api/v2/licenses`.
    Licenses,
    /// `POST /api/v2/licenses`.
    UploadLicense,
    /// `DELETE /api/v2/users/me/keys/{id}`.
    DeleteToken,
}

impl fmt::Display for Operation {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Healthz => "asking whether coderd is up",
            Self::BuildInfo => "reading coderd's version",
            Self::Entitlements => "reading coderd's entitlements",
            Self::Me => "asking coderd who the token belongs to",
            Self::Licenses => "listing coderd's licenses",
            Self::UploadLicense => "uploading a license",
            Self::DeleteToken => "deleting a token",
        })
    }
}

impl Operation {
    /// Whether it is made without a token: who refuses it is not coderd but something in between.
    fn is_open(self) -> bool {
        matches!(self, Self::Healthz | Self::BuildInfo | Self::Entitlements)
    }

    fn unauthorized(self) -> &'static str {
        match self.is_open() {
            true => "it needs no token, yet the answer asks for one (401)",
            false => "coderd does not accept the token (401)",
        }
    }

    fn forbidden(self) -> &'static str {
        match self.is_open() {
            true => "it is open to everybody, yet the answer forbids it (403)",
            false => "the token's user may not do this (403)",
        }
    }
}

/// Where a call was lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Lost {
    /// DNS knows no address.
    #[error("the host name has no address")]
    Name,
    /// Nobody listens.
    #[error("nothing accepts the connection")]
    Connect,
    /// The connection ended before the answer was complete: a write may or may not have happened.
    #[error("the connection ended before the answer was complete")]
    Cut,
}

/// A failed call.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// No connection, or one that broke.
    #[error("{operation} failed: {lost}")]
    Unreachable {
        /// The call.
        operation: Operation,
        /// Where it was lost.
        lost: Lost,
    },
    /// No complete answer in time: a write may or may not have happened.
    #[error("{operation} failed: no answer in time")]
    TimedOut {
        /// The call.
        operation: Operation,
    },
    /// The certificate is not trusted, or TLS is not spoken there.
    #[error("{operation} failed: TLS: {reason}")]
    Tls {
        /// The call.
        operation: Operation,
        /// Why, by the TLS library.
        reason: String,
    },
    /// The host is an address we never dial.
    #[error("{operation} refused: the host is {reason}; --resolve can lead there on purpose")]
    Refused {
        /// The call.
        operation: Operation,
        /// Why.
        reason: Forbidden,
    },
    /// 401: no token, or one that is unknown, expired or of a suspended user.
    #[error("{operation} failed: {}", operation.unauthorized())]
    Unauthorized {
        /// The call.
        operation: Operation,
    },
    /// 403: the token's user may not.
    #[error("{operation} failed: {}", operation.forbidden())]
    Forbidden {
        /// The call.
        operation: Operation,
    },
    /// 403 with Premium's text.
    #[error("{operation} failed: coderd is not licensed for it (403)")]
    NotLicensed {
        /// The call.
        operation: Operation,
    },
    /// 404: gone, or hidden from the token's user.
    #[error("{operation} failed: coderd has no such thing, or hides it from the token's user (404)")]
    NotFoundOrForbidden {
        /// The call.
        operation: Operation,
    },
    /// 404 of a route: this build of coderd does not have it.
    #[error("{operation} failed: this coderd does not have the call (404)")]
    RouteMissing {
        /// The call.
        operation: Operation,
    },
    /// 409.
    #[error("{operation} failed: it conflicts with what coderd has (409)")]
    Conflict {
        /// The call.
        operation: Operation,
    },
    /// 429.
    // Without the time that is left: a message that changes by the second would be written by the second.
    #[error("{operation} failed: too many requests (429); it is asked again after the time coderd set")]
    RateLimited {
        /// The call.
        operation: Operation,
        /// How long to wait.
        retry_after: Duration,
    },
    /// 400.
    #[error("{operation} failed: coderd says: {message}")]
    Invalid {
        /// The call.
        operation: Operation,
        /// coderd's words, cut and cleaned.
        message: String,
    },
    /// 5xx.
    #[error("{operation} failed: coderd answered {status}")]
    Server {
        /// The call.
        operation: Operation,
        /// The status.
        status: u16,
    },
    /// 3xx: redirects are never followed, they could lead a token anywhere.
    #[error(
        "{operation} failed: coderd redirects ({status}), which is not followed: it could lead a token anywhere"
    )]
    Redirected {
        /// The call.
        operation: Operation,
        /// The status.
        status: u16,
    },
    /// A status that the contract does not have.
    #[error("{operation} failed: coderd answered {status}")]
    Unexpected {
        /// The call.
        operation: Operation,
        /// The status.
        status: u16,
    },
    /// More bytes than we read.
    #[error("{operation} failed: the answer is larger than {limit} bytes")]
    TooLarge {
        /// The call.
        operation: Operation,
        /// What we read at most.
        limit: usize,
    },
    /// No HTTP, or not the JSON of the contract.
    #[error("{operation} failed: the answer is not what coderd sends")]
    Malformed {
        /// The call.
        operation: Operation,
    },
}

/// When it makes sense to call again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Retry {
    /// Not before this time has passed.
    After(Duration),
    /// With growing pauses.
    Backoff,
    /// When a token, a license, a right or an address has changed.
    WhenChanged,
}

impl Error {
    /// The call that failed.
    pub fn operation(&self) -> Operation {
        match self {
            Self::Unreachable { operation, .. }
            | Self::TimedOut { operation, .. }
            | Self::Tls { operation, .. }
            | Self::Refused { operation, .. }
            | Self::RateLimited { operation, .. }
            | Self::Server { operation, .. }
            | Self::Redirected { operation, .. }
            | Self::Unauthorized { operation, .. }
            | Self::Forbidden { operation, .. }
            | Self::NotLicensed { operation, .. }
            | Self::NotFoundOrForbidden { operation, .. }
            | Self::RouteMissing { operation, .. }
            | Self::Conflict { operation, .. }
            | Self::Invalid { operation, .. }
            | Self::Unexpected { operation, .. }
            | Self::TooLarge { operation, .. }
            | Self::Malformed { operation, .. } => *operation,
        }
    }

    /// When to call again.
    pub fn retry(&self) -> Retry {
        match self {
            Self::RateLimited { retry_after, .. } => Retry::After(*retry_after),
            Self::Unreachable { .. }
            | Self::TimedOut { .. }
            | Self::Conflict { .. }
            | Self::Server { .. }
            | Self::Unexpected { .. }
            | Self::TooLarge { .. }
            | Self::Malformed { .. } => Retry::Backoff,
            Self::Tls { .. }
            | Self::Refused { .. }
            | Self::Unauthorized { .. }
            | Self::Forbidden { .. }
            | Self::NotLicensed { .. }
            | Self::NotFoundOrForbidden { .. }
            | Self::RouteMissing { .. }
            | Self::Invalid { .. }
            | Self::Redirected { .. } => Retry::WhenChanged,
        }
    }
}
