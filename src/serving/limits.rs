//! Bounds what a router may cost: requests at once, of each caller no more than half of them, the size of a body, and
//! the time from head to answer. Beyond them a caller is told to come back; nothing waits and nothing is read without end.

use super::peer::Peer;
use super::turns::Turns;
use axum::extract::{DefaultBodyLimit, Request, State};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Router};
use http::StatusCode;
use http::header::RETRY_AFTER;
use std::time::Duration;

/// How much of everything.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// The largest body, in bytes.
    pub body: usize,
    /// The most requests at once.
    pub at_once: u32,
    /// The longest time for one request, its body included.
    pub time: Duration,
}

/// The router within limits.
pub fn bounded(router: Router, limits: Limits) -> Router {
    let router = router.layer(from_fn_with_state(Turns::of(limits.at_once), in_turn));
    timed(router.layer(DefaultBodyLimit::max(limits.body)), limits.time)
}

/// The router with an end to the time of each request.
pub fn timed(router: Router, time: Duration) -> Router {
    router.layer(from_fn_with_state(time, within))
}

/// The answer to a caller that asks for more than its share.
pub fn too_many() -> Response {
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
    let _turn = turns.take(peer, 1).await;
    next.run(request).await
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
