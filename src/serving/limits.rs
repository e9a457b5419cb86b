//! Bounds what a router may cost: requests at once, the size of a body, and the time from head to answer.
//! Beyond them a caller is told to come back; nothing waits without end and nothing is read without end.

use axum::Router;
use axum::extract::{DefaultBodyLimit, Request, State};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use http::header::RETRY_AFTER;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;

/// How much of everything.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// The largest body, in bytes.
    pub body: usize,
    /// The most requests at once; together with the body it bounds memory.
    pub at_once: usize,
    /// The longest time for one request, its body included.
    pub time: Duration,
}

/// The router within limits.
pub fn bounded(router: Router, limits: Limits) -> Router {
    let places = Arc::new(Semaphore::new(limits.at_once));
    router.layer(DefaultBodyLimit::max(limits.body)).layer(from_fn_with_state((places, limits.time), within))
}

async fn within(
    State((places, time)): State<(Arc<Semaphore>, Duration)>,
    request: Request,
    next: Next,
) -> Response {
    let answer = async {
        // A short burst waits for its turn; the time limit ends the wait.
        let _place = places.acquire().await;
        next.run(request).await
    };
    match tokio::time::timeout(time, answer).await {
        Ok(response) => response,
        Err(_) => {
            let text = "too busy, or the request took too long; try again\n";
            (StatusCode::SERVICE_UNAVAILABLE, [(RETRY_AFTER, "1")], text).into_response()
        }
    }
}
