//! What can go wrong with coderd's database, by what somebody has to do about it.
//! It never holds the URL, a password, a statement or a row; of the server's words only its SQLSTATE. Whoever writes a URL
//! chooses what we dial: before a server has proven itself, its errors say no more than that nobody could log in.

use crate::coderd::addresses::Forbidden;
use crate::coderd::dial::DialError;
use crate::foreign::Foreign;
use tokio_postgres::error::SqlState;

/// A failed use of the database.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// DNS knows no address, nobody listens, or the server is still starting.
    #[error("the database cannot be reached")]
    Unreachable,
    /// The host is an address we never dial.
    #[error("the database's host is {0}, which is refused; --resolve can lead there on purpose")]
    Refused(Forbidden),
    /// No login, and the server had not proven who it is. What stood in the way is for [`Error::detail`] alone: it would
    /// tell whoever chose the address what listens there.
    #[error(
        "cannot log in to coderd's database: nothing answers there, or not with the TLS that sslmode asks for, or it \
         does not accept the user and password; the logs of coderd's own pods say which"
    )]
    NoLogin(Box<Self>),
    /// The server refuses user or password.
    #[error("the database does not accept the user and password of the URL")]
    WrongPassword,
    /// The URL asks for TLS and the server or its certificate does not comply.
    #[error("no TLS connection to the database, which the URL's sslmode asks for: {0}")]
    TlsRefused(Foreign),
    /// Connecting, a lock or a statement took too long; nothing was changed.
    #[error("the database did not answer in time")]
    TimedOut,
    /// The connection ended. If that was during a commit, whether it happened is unknown: ask again.
    #[error("the connection to the database was lost")]
    ConnectionLost,
    /// The URL's user may not read or write coderd's tables.
    #[error("the database user of the URL may not read or write coderd's tables")]
    PermissionDenied,
    /// coderd's tables are not there yet.
    #[error("coderd has not created its tables yet")]
    NotMigrated,
    /// coderd's tables are not as we know them.
    #[error("coderd's database has a schema we do not know: {}", problems.join(", "))]
    UnsupportedSchema {
        /// What is missing or unknown.
        problems: Vec<String>,
    },
    /// An administrator suspended the operator's user; that is respected.
    #[error("the operator's user in coderd is suspended; an administrator can activate it again")]
    Suspended,
    /// An administrator deleted the operator's user; a new one needs a new id.
    #[error("the operator's user in coderd was deleted")]
    Deleted,
    /// The recorded id or the reserved address belongs to a user that is not ours.
    #[error("the operator's user id or address belongs to another user of coderd")]
    ForeignUser,
    /// The recorded id is that of another control plane's user, which a cluster that shares this database may have.
    #[error("the operator's user belongs to another control plane on the same database")]
    UserElsewhere,
    /// Every name we tried is taken.
    #[error("no user name is free for the operator's user")]
    NoFreeName,
    /// The token's id is taken: make another token.
    #[error("the token's id is taken in coderd")]
    TokenTaken,
    /// The request itself cannot be right.
    #[error("{0}")]
    Request(&'static str),
    /// Anything else, by its SQLSTATE.
    #[error("the database answered with {0}")]
    Other(State),
}

/// A SQLSTATE: five capital letters and digits, whatever the server sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct State([u8; 5]);

impl State {
    /// What stands for a text that is none.
    const UNKNOWN: Self = Self(*b"?????");

    /// Reads a SQLSTATE; a text that is none is not kept.
    pub fn new(text: &str) -> Self {
        let plain =
            |state: &[u8; 5]| state.iter().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit());
        text.as_bytes().try_into().ok().filter(plain).map_or(Self::UNKNOWN, Self)
    }
}

impl std::fmt::Display for State {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            &Self::UNKNOWN => out.write_str("an error without a SQLSTATE"),
            Self(state) => write!(out, "error {}", std::str::from_utf8(state).unwrap_or_default()),
        }
    }
}

/// When it makes sense to try again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Retry {
    /// With growing pauses.
    Backoff,
    /// When the URL, a right, the schema or the user has changed.
    WhenChanged,
}

impl Error {
    /// The same for the operator's log, with what is not for whoever chose the address.
    pub fn detail(&self) -> &Self {
        match self {
            Self::NoLogin(detail) => detail,
            other => other,
        }
    }

    /// An error before the login, given whether the server's certificate has proven who it is. Our own refusals are told.
    /// So is what a server says only to somebody it has let in: that there is no such database, or none for this user.
    pub(super) fn before_login(self, proven: bool) -> Self {
        let let_in = matches!(self, Self::PermissionDenied) || self == Self::Other(State::new("3D000"));
        match self {
            Self::Refused(_) | Self::NoLogin(_) => self,
            other if proven || let_in => other,
            other => Self::NoLogin(Box::new(other)),
        }
    }

    /// When to try again.
    pub fn retry(&self) -> Retry {
        match self {
            Self::Unreachable
            | Self::NoLogin(_)
            | Self::TimedOut
            | Self::ConnectionLost
            | Self::NotMigrated
            | Self::TokenTaken
            | Self::UserElsewhere
            | Self::Other(_) => Retry::Backoff,
            Self::Refused(_)
            | Self::WrongPassword
            | Self::TlsRefused(_)
            | Self::PermissionDenied
            | Self::UnsupportedSchema { .. }
            | Self::Suspended
            | Self::Deleted
            | Self::ForeignUser
            | Self::NoFreeName
            | Self::Request(_) => Retry::WhenChanged,
        }
    }

    /// The class of an error that the server sent, by its SQLSTATE.
    fn of_state(state: &SqlState) -> Self {
        let unknown = |what: &str| Self::UnsupportedSchema { problems: vec![what.to_owned()] };
        match state {
            s if *s == SqlState::INVALID_PASSWORD || *s == SqlState::INVALID_AUTHORIZATION_SPECIFICATION => {
                Self::WrongPassword
            }
            s if *s == SqlState::QUERY_CANCELED
                || *s == SqlState::LOCK_NOT_AVAILABLE
                || *s == SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT =>
            {
                Self::TimedOut
            }
            s if *s == SqlState::ADMIN_SHUTDOWN || *s == SqlState::CRASH_SHUTDOWN => Self::ConnectionLost,
            s if *s == SqlState::CANNOT_CONNECT_NOW => Self::Unreachable,
            s if *s == SqlState::INSUFFICIENT_PRIVILEGE => Self::PermissionDenied,
            s if *s == SqlState::UNDEFINED_COLUMN => unknown("a column is missing"),
            s if *s == SqlState::UNDEFINED_TABLE => unknown("a table is missing"),
            s if *s == SqlState::UNDEFINED_OBJECT || *s == SqlState::INVALID_TEXT_REPRESENTATION => {
                unknown("a type or one of its values is missing")
            }
            s if *s == SqlState::NOT_NULL_VIOLATION => unknown("a column needs a value we do not know"),
            other => Self::Other(State::new(other.code())),
        }
    }
}

impl From<tokio_postgres::Error> for Error {
    fn from(error: tokio_postgres::Error) -> Self {
        match error.code() {
            Some(state) => Self::of_state(state),
            None if error.is_closed() => Self::ConnectionLost,
            None => match std::error::Error::source(&error) {
                Some(cause) if cause.is::<std::io::Error>() => Self::ConnectionLost,
                // Not the server's words: a value or column that is not of the type we expect.
                _ => Self::UnsupportedSchema { problems: vec!["a column has another type".to_owned()] },
            },
        }
    }
}

impl From<DialError> for Error {
    fn from(error: DialError) -> Self {
        match error {
            DialError::Name | DialError::Connect => Self::Unreachable,
            DialError::Forbidden(reason) => Self::Refused(reason),
            DialError::TimedOut => Self::TimedOut,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_have_their_classes() {
        let class = |code: &str| Error::of_state(&SqlState::from_code(code));
        assert_eq!(class("28P01"), Error::WrongPassword);
        assert_eq!(class("28000"), Error::WrongPassword);
        assert_eq!(class("57014"), Error::TimedOut);
        assert_eq!(class("55P03"), Error::TimedOut);
        assert_eq!(class("57P01"), Error::ConnectionLost);
        assert_eq!(class("57P03"), Error::Unreachable);
        assert_eq!(class("42501"), Error::PermissionDenied);
        for code in ["42703", "42P01", "42704", "22P02", "23502"] {
            assert!(matches!(class(code), Error::UnsupportedSchema { .. }), "{code}");
        }
        assert_eq!(class("53300"), Error::Other(State::new("53300")));
    }

    #[test]
    fn a_state_is_five_letters_and_digits_or_none() {
        let told = |code: &str| Error::of_state(&SqlState::from_code(code)).to_string();
        assert_eq!(told("XX000"), "the database answered with error XX000");
        for hostile in
            ["", "xx000", "XX00", "XX0000", "\u{1b}[2J0", "\u{202e}XX", "53 00", &"A".repeat(1 << 20)]
        {
            assert_eq!(
                told(hostile),
                "the database answered with an error without a SQLSTATE",
                "{hostile:.9}"
            );
        }
    }

    #[test]
    fn whoever_chose_the_address_learns_the_same_whatever_listens_there() {
        let obstacles = || {
            [
                Error::Unreachable,
                Error::TimedOut,
                Error::ConnectionLost,
                Error::WrongPassword,
                Error::TlsRefused("the server does not offer TLS".into()),
                Error::Other(State::new("53300")),
                Error::UnsupportedSchema { problems: Vec::new() },
            ]
        };
        let told: Vec<(String, Retry)> = obstacles()
            .map(|error| error.before_login(false))
            .map(|error| (error.to_string(), error.retry()))
            .into();
        assert!(told.iter().all(|one| *one == told[0]), "{told:?}");
        for error in obstacles() {
            assert_eq!(error.clone().before_login(false).detail(), &error, "the log has it");
            assert_eq!(
                error.clone().before_login(true),
                error,
                "a server that is known may say what it likes"
            );
        }
        for told in
            [Error::Refused(Forbidden::Loopback), Error::PermissionDenied, Error::Other(State::new("3D000"))]
        {
            assert_eq!(told.clone().before_login(false), told);
        }
    }
}
