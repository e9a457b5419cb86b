//! What can go wrong with a call to coderd, by what the caller has to do about it.
//! It never holds a URL's query, a token or a body; coderd's own words only cut, cleaned and without what we sent. Before
//! somebody has answered as coderd does, an error says no more than that nobody has.

use super::addresses::Forbidden;
use super::endpoint::Scheme;
pub use super::operation::Operation;
use crate::foreign::Foreign;
use std::time::Duration;

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
    /// Nobody answered as coderd does, or proved by its certificate to be it. What happened instead is for
    /// [`Error::detail`] alone: it would tell whoever leads us there what listens at that address.
    #[error(
        "{operation} failed: nothing answers at its Service, or not as coderd does and with the certificate of its \
         Secret; the logs of coderd's own pods, and the operator's, say which"
    )]
    NotCoderd {
        /// The call.
        operation: Operation,
        /// What happened.
        detail: Box<Self>,
    },
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
        reason: Foreign,
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
    /// 403, or a denial that coderd takes for an error of its own: the token's user may not.
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
    /// 409, or a clash that coderd takes for an error of its own.
    #[error("{operation} failed: {}", operation.conflict())]
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
        message: Foreign,
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
            Self::NotCoderd { operation, .. }
            | Self::Unreachable { operation, .. }
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

    /// The same for the operator's log, with what is not for whoever leads us there.
    pub fn detail(&self) -> &Self {
        match self {
            Self::NotCoderd { detail, .. } => detail,
            other => other,
        }
    }

    /// The error of the first question to whoever is at an address. TLS proves who answered; without it, or before the
    /// handshake is over, nothing does. Our own refusal to dial is told.
    pub(super) fn of_first_question(self, scheme: Scheme) -> Self {
        let proven = match &self {
            Self::Refused { .. } | Self::NotCoderd { .. } => return self,
            Self::Unreachable { .. } | Self::TimedOut { .. } | Self::Tls { .. } => false,
            _ => scheme == Scheme::Https,
        };
        if proven { self } else { Self::NotCoderd { operation: self.operation(), detail: Box::new(self) } }
    }

    /// When to call again.
    pub fn retry(&self) -> Retry {
        match self {
            Self::NotCoderd { detail, .. } => detail.retry(),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_leads_us_somewhere_learns_the_same_whatever_listens_there() {
        let operation = Operation::Healthz;
        let silent = || {
            vec![
                Error::Unreachable { operation, lost: Lost::Name },
                Error::Unreachable { operation, lost: Lost::Connect },
                Error::Unreachable { operation, lost: Lost::Cut },
                Error::TimedOut { operation },
                Error::Tls { operation, reason: "peer is incompatible".into() },
            ]
        };
        let answers = || {
            vec![
                Error::Malformed { operation },
                Error::Unauthorized { operation },
                Error::Server { operation, status: 503 },
                Error::Redirected { operation, status: 301 },
                Error::RateLimited { operation, retry_after: Duration::from_secs(1) },
            ]
        };
        let told = |error: Error, scheme| error.of_first_question(scheme).to_string();
        let one = told(Error::TimedOut { operation }, Scheme::Http);
        assert!(one.len() <= 250, "{one}");
        for error in silent().into_iter().chain(answers()) {
            assert_eq!(told(error.clone(), Scheme::Http), one);
            let hidden = error.clone().of_first_question(Scheme::Http);
            assert_eq!((hidden.detail(), hidden.retry()), (&error, error.retry()), "the log has it");
        }
        for error in silent() {
            assert_eq!(told(error, Scheme::Https), one);
        }
        for error in answers() {
            assert_eq!(
                error.clone().of_first_question(Scheme::Https),
                error,
                "its certificate proved who it is"
            );
        }
        let refused = Error::Refused { operation, reason: Forbidden::Loopback };
        assert_eq!(refused.clone().of_first_question(Scheme::Http), refused);
    }
}
