//! Bounds what a router may cost: requests at once, of each caller no more than half of them, the size of a body, and
//! the time from head to answer. Beyond them a caller is told to come back; nothing waits and nothing is read without end.

use super::peer::Peer;
use super::turns::{Turn, Turns};
use axum::body::{Body, Bytes, HttpBody};
use axum::extract::{DefaultBodyLimit, Request, State};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Router};
use http::StatusCode;
use http::header::RETRY_AFTER;
use hyper::body::{Frame, SizeHint};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

/// How much of everything.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    /// The largest body, in bytes.
    pub body: usize,
    /// The most requests at once.
    pub at_once: u32,
    /// The longest time for one request, its body included.
    pub time: Duration,
}

/// The router within limits.
pub(crate) fn bounded(router: Router, limits: Limits) -> Router {
    let router = router.layer(from_fn_with_state(Turns::of(limits.at_once), in_turn));
    timed(router.layer(DefaultBodyLimit::max(limits.body)), limits.time)
}

/// The router with an end to the time of each request.
pub(crate) fn timed(router: Router, time: Duration) -> Router {
    router.layer(from_fn_with_state(time, within))
}

/// The answer to a caller that asks for more than its share.
pub(crate) fn too_many() -> Response {
    let text = "too many requests of this caller are under way; try again\n";
    (StatusCode::TOO_MANY_REQUESTS, [(RETRY_AFTER, "1")], text).into_response()
}

async fn in_turn(
    State(turns): State<Turns>,
    Extension(peer): Extension<Peer>,
    request: Request,
    next: Next,
) -> Response {
    // A short burst waits for its turn; the time limit ends the wait.
    let turn = turns.take(peer, 1).await;
    next.run(request).await.map(|body| Body::new(Sent { body, _turn: turn }))
}

/// An answer that keeps its turn until it is sent: whoever does not read it cannot have many of them.
struct Sent {
    body: Body,
    _turn: Option<Turn>,
}

impl HttpBody for Sent {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

async fn within(State(time): State<Duration>, request: Request, next: Next) -> Response {
    match tokio::time::timeout(time, next.run(request)).await {
        Ok(response) => response,
        Err(_) => {
            let text = "too busy, or the request took too long; try again\n";
            (StatusCode::SERVICE_UNAVAILABLE, [(RETRY_AFTER, "1")], text).into_response()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::routing::get;
    use tower::ServiceExt;

    /// A caller that does not read its answers is not given more of them than its share.
    #[tokio::test]
    async fn an_answer_keeps_its_turn_until_it_is_sent() {
        let router = Router::new().route("/", get(async || "x".repeat(1000)));
        let time = Duration::from_millis(200);
        let router = bounded(router, Limits { body: 10, at_once: 2, time })
            .layer(Extension(Peer::from(std::net::IpAddr::from([10, 0, 0, 1]))));
        let ask = async || router.clone().oneshot(Request::new(Body::empty())).await.unwrap();
        let unread = ask().await;
        assert_eq!((unread.status(), unread.body().size_hint().exact()), (StatusCode::OK, Some(1000)));
        assert_eq!(ask().await.status(), StatusCode::SERVICE_UNAVAILABLE, "the first is not read yet");
        drop(unread);
        assert_eq!(ask().await.status(), StatusCode::OK);
    }
}
