//! Reads the bodies of requests within one budget of the process, which they draw on as their bytes arrive.
//! A part of it is kept for small bodies; a body that is too slow is cut, and what it drew is given back at once.

use super::peer::Peer;
use super::shares::{Refused, Shares};
use axum::body::{Body, HttpBody};
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use http::header::{CONNECTION, RETRY_AFTER};
use http_body_util::BodyExt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

/// What all bodies together may hold.
const BUDGET: usize = 24 * 1024 * 1024;
/// A quarter of it is kept for small bodies: those of ordinary objects.
const LARGE_BUDGET: usize = BUDGET / 4 * 3;
/// Up to this size a body is small.
const SMALL: usize = 64 * 1024;
/// Room is made in steps, so that a buffer holds little more than what has arrived.
const STEP: usize = 16 * 1024;
/// A body has this long to get going.
const PATIENCE: Duration = Duration::from_secs(1);
/// From then on it must have come at least as fast as this, in bytes a second: a thousandth of what a cluster network
/// carries.
const LEAST_RATE: usize = 128 * 1024;

/// Why a body is not read.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub(crate) enum Unread {
    /// Larger than any request we answer.
    #[error("the body is larger than {0} bytes")]
    TooLarge(usize),
    /// This caller, or all of them, already have much under way.
    #[error("too much is being read at the moment; try again")]
    Busy(Refused),
    /// It comes too slowly.
    #[error("the body came too slowly")]
    TooSlow,
    /// The caller went away or broke the protocol.
    #[error("the body did not come to its end")]
    Broken,
}

impl IntoResponse for Unread {
    fn into_response(self) -> Response {
        let text = format!("{self}\n");
        // The rest of such a body is not read: the connection ends with the answer.
        let close = (CONNECTION, "close");
        match self {
            Self::TooLarge(_) => (StatusCode::PAYLOAD_TOO_LARGE, [close], text).into_response(),
            Self::Busy(Refused::Share) => {
                (StatusCode::TOO_MANY_REQUESTS, [close, (RETRY_AFTER, "1")], text).into_response()
            }
            Self::Busy(Refused::Exhausted) => {
                (StatusCode::SERVICE_UNAVAILABLE, [close, (RETRY_AFTER, "1")], text).into_response()
            }
            Self::TooSlow => (StatusCode::REQUEST_TIMEOUT, [close], text).into_response(),
            Self::Broken => (StatusCode::BAD_REQUEST, [close], text).into_response(),
        }
    }
}

/// The budget. Cloning is cheap.
#[derive(Debug, Clone)]
pub(crate) struct Bodies(Arc<Mutex<Budget>>);

#[derive(Debug)]
struct Budget {
    /// What all bodies hold.
    all: Shares,
    /// What those hold that are not small.
    large: Shares,
}

impl Default for Bodies {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(Budget { all: Shares::of(BUDGET), large: Shares::of(LARGE_BUDGET) })))
    }
}

impl Bodies {
    fn budget(&self) -> MutexGuard<'_, Budget> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads a body of at most `most` bytes.
    pub(crate) async fn read(&self, peer: Peer, mut body: Body, most: usize) -> Result<Read, Unread> {
        if body.size_hint().lower() > most as u64 {
            return Err(Unread::TooLarge(most));
        }
        let mut read = Read { bytes: Vec::new(), drawn: 0, large: 0, peer, budget: self.clone() };
        let began = Instant::now();
        loop {
            let due = began + time_for(read.bytes.len());
            let frame = tokio::time::timeout_at(due, body.frame()).await.map_err(|_| Unread::TooSlow)?;
            let Some(frame) = frame else { return Ok(read) };
            // What is not data are trailers, which say nothing to us.
            let Ok(data) = frame.map_err(|_| Unread::Broken)?.into_data() else { continue };
            if read.bytes.len() + data.len() > most {
                return Err(Unread::TooLarge(most));
            }
            read.make_room(data.len())?;
            read.bytes.extend_from_slice(&data);
        }
    }
}

/// The time by which the next byte after so many is due.
fn time_for(bytes: usize) -> Duration {
    PATIENCE + Duration::from_secs_f64(bytes as f64 / LEAST_RATE as f64)
}

/// A body that was read; it counts until it is dropped.
#[derive(Debug)]
pub(crate) struct Read {
    bytes: Vec<u8>,
    drawn: usize,
    large: usize,
    peer: Peer,
    budget: Bodies,
}

impl Read {
    /// Its bytes.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Draws what the buffer will hold, before it does.
    fn make_room(&mut self, more: usize) -> Result<(), Unread> {
        let needed = self.bytes.len() + more;
        if needed <= self.drawn {
            return Ok(());
        }
        // A large buffer grows by an eighth: few copies, and little held for nothing.
        let room = (needed + needed / 8).next_multiple_of(STEP);
        let mut budget = self.budget.budget();
        if room > SMALL {
            budget.large.take(self.peer, room - self.large).map_err(Unread::Busy)?;
            self.large = room;
        }
        budget.all.take(self.peer, room - self.drawn).map_err(Unread::Busy)?;
        self.drawn = room;
        drop(budget);
        self.bytes.reserve_exact(room - self.bytes.len());
        Ok(())
    }
}

impl Drop for Read {
    fn drop(&mut self) {
        let mut budget = self.budget.budget();
        budget.all.give(self.peer, self.drawn);
        budget.large.give(self.peer, self.large);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use futures::{Stream, StreamExt, stream};
    use std::convert::Infallible;
    use std::net::IpAddr;

    const MOST: usize = 3 * 1024 * 1024;

    fn peer(address: &str) -> Peer {
        Peer::from(address.parse::<IpAddr>().unwrap())
    }

    fn chunks(number: usize) -> impl Stream<Item = Result<Bytes, Infallible>> + Send + 'static {
        stream::iter(std::iter::repeat_n(Ok(Bytes::from(vec![b'x'; 1024])), number))
    }

    fn body(number: usize) -> Body {
        Body::from_stream(chunks(number))
    }

    /// As many bodies as a caller can hold.
    async fn hoard(bodies: &Bodies, peer: Peer, kilobytes: usize) -> (Vec<Read>, Unread) {
        let mut held = Vec::new();
        loop {
            match bodies.read(peer, body(kilobytes), MOST).await {
                Ok(read) => held.push(read),
                Err(refused) => return (held, refused),
            }
        }
    }

    #[tokio::test]
    async fn a_body_arrives_whole_and_what_it_drew_comes_back() {
        let bodies = Bodies::default();
        let read = bodies.read(peer("127.0.0.1"), body(1000), MOST).await.unwrap();
        assert_eq!(read.bytes().len(), 1000 * 1024);
        let drawn = bodies.budget().all.held();
        assert!(drawn >= read.bytes.capacity() && drawn < 1200 * 1024, "{drawn}");
        drop(read);
        let budget = bodies.budget();
        assert_eq!((budget.all.held(), budget.large.held()), (0, 0));
    }

    #[tokio::test]
    async fn one_caller_holds_no_more_than_half_and_another_is_read() {
        let bodies = Bodies::default();
        let (held, refused) = hoard(&bodies, peer("127.0.0.2"), 1000).await;
        assert_eq!(refused, Unread::Busy(Refused::Share));
        assert!(bodies.budget().all.held() <= LARGE_BUDGET / 2);
        bodies.read(peer("127.0.0.1"), body(3000), MOST).await.expect("the largest review of another");
        drop(held);
    }

    #[tokio::test]
    async fn many_callers_with_large_bodies_leave_a_quarter_to_small_ones() {
        let bodies = Bodies::default();
        let mut held = Vec::new();
        for number in 2..60 {
            held.extend(hoard(&bodies, peer(&format!("127.0.0.{number}")), 100).await.0);
        }
        assert!(bodies.budget().large.held() <= LARGE_BUDGET);
        let (small, _) = hoard(&bodies, peer("127.0.0.1"), 20).await;
        assert!(small.len() > 50, "{}", small.len());
    }

    #[tokio::test]
    async fn too_large_is_refused_by_its_announcement_or_as_it_comes() {
        let bodies = Bodies::default();
        let announced = bodies.read(peer("127.0.0.1"), Body::from(vec![0; MOST + 1]), MOST).await;
        assert_eq!(announced.unwrap_err(), Unread::TooLarge(MOST));
        let endless = Body::from_stream(chunks(usize::MAX / 1024));
        assert_eq!(bodies.read(peer("127.0.0.1"), endless, MOST).await.unwrap_err(), Unread::TooLarge(MOST));
        assert_eq!(bodies.budget().all.held(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_body_is_cut_and_gives_back_what_it_drew() {
        let bodies = Bodies::default();
        let silent = chunks(3).chain(stream::pending());
        let cut = bodies.read(peer("127.0.0.2"), Body::from_stream(silent), MOST).await;
        assert_eq!(cut.unwrap_err(), Unread::TooSlow);
        let dripping = stream::unfold((), async |()| {
            tokio::time::sleep(Duration::from_millis(100)).await;
            Some((Ok::<_, Infallible>(Bytes::from_static(b"x")), ()))
        });
        let began = Instant::now();
        let cut = bodies.read(peer("127.0.0.2"), Body::from_stream(dripping), MOST).await;
        assert_eq!(cut.unwrap_err(), Unread::TooSlow);
        assert!(began.elapsed() < 2 * PATIENCE, "a drip does not help");
        assert_eq!(bodies.budget().all.held(), 0);
    }
}
