//! Tells whoever asked for it how each request to coderd ended and how long it took, also one that nobody waited for.
//! It classes and measures; it never keeps anything, and knows neither URL nor object.

use super::client::Answer;
use super::error::{Error, Operation};
use http::StatusCode;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How a request ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// 2xx.
    Success,
    /// 3xx.
    Redirected,
    /// 4xx, but for 429.
    ClientError,
    /// 429.
    RateLimited,
    /// 5xx, and what is no status at all.
    ServerError,
    /// No connection, or one that broke.
    Unreachable,
    /// TLS did not come about.
    Tls,
    /// No answer in time.
    TimedOut,
    /// An address that is never dialled.
    Refused,
    /// No HTTP, or more than anybody reads.
    Invalid,
    /// Whoever asked did not wait for the answer.
    Cut,
}

impl Ended {
    /// One word of a closed set.
    pub fn name(self) -> &'static str {
        match self {
            Self::Success => "success",
            Self::Redirected => "redirected",
            Self::ClientError => "client_error",
            Self::RateLimited => "rate_limited",
            Self::ServerError => "server_error",
            Self::Unreachable => "unreachable",
            Self::Tls => "tls",
            Self::TimedOut => "timed_out",
            Self::Refused => "refused",
            Self::Invalid => "invalid",
            Self::Cut => "cut",
        }
    }

    fn of(answer: &Result<Answer, Error>) -> Self {
        match answer {
            Ok(answer) => Self::of_status(answer.status),
            Err(Error::Unreachable { .. }) => Self::Unreachable,
            Err(Error::Tls { .. }) => Self::Tls,
            Err(Error::TimedOut { .. }) => Self::TimedOut,
            Err(Error::Refused { .. }) => Self::Refused,
            // The rest is said of an answer, and not by the transport.
            Err(_) => Self::Invalid,
        }
    }

    fn of_status(status: StatusCode) -> Self {
        match status.as_u16() {
            429 => Self::RateLimited,
            200..300 => Self::Success,
            300..400 => Self::Redirected,
            400..500 => Self::ClientError,
            _ => Self::ServerError,
        }
    }
}

type Tell = dyn Fn(Operation, Ended, Duration) + Send + Sync;

/// Who hears of each request. Cloning is cheap; the default hears nothing.
#[derive(Clone, Default)]
pub struct Observer(Option<Arc<Tell>>);

impl Observer {
    /// One that calls `tell` at the end of every request.
    pub fn new(tell: impl Fn(Operation, Ended, Duration) + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(tell)))
    }

    /// Begins to measure a request.
    pub(super) fn begin(&self, operation: Operation) -> Observed<'_> {
        Observed { observer: self, operation, ended: Ended::Cut, began: Instant::now() }
    }
}

impl fmt::Debug for Observer {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_tuple("Observer").field(&self.0.is_some()).finish()
    }
}

/// A request under way: dropped before its end, it counts as cut.
pub(super) struct Observed<'a> {
    observer: &'a Observer,
    operation: Operation,
    ended: Ended,
    began: Instant,
}

impl Observed<'_> {
    pub(super) fn end(mut self, answer: &Result<Answer, Error>) {
        self.ended = Ended::of(answer);
    }
}

impl Drop for Observed<'_> {
    fn drop(&mut self) {
        if let Some(tell) = &self.observer.0 {
            tell(self.operation, self.ended, self.began.elapsed());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    #[test]
    fn every_end_is_told_once() {
        let told = Arc::new(Mutex::new(Vec::new()));
        let heard = told.clone();
        let observer = Observer::new(move |operation, ended, _| {
            heard.lock().unwrap().push((operation.name(), ended.name()));
        });
        drop(observer.begin(Operation::Me));
        let operation = Operation::Healthz;
        observer.begin(operation).end(&Err(Error::TimedOut { operation }));
        observer.begin(operation).end(&Err(Error::Malformed { operation }));
        assert_eq!(*told.lock().unwrap(), [("me", "cut"), ("healthz", "timed_out"), ("healthz", "invalid")]);
    }

    #[test]
    fn every_status_has_a_class() {
        let class = |status: u16| Ended::of_status(StatusCode::from_u16(status).unwrap()).name();
        assert_eq!(
            [200, 204, 307, 401, 429, 500, 999].map(class),
            [
                "success",
                "success",
                "redirected",
                "client_error",
                "rate_limited",
                "server_error",
                "server_error"
            ]
        );
    }
}
