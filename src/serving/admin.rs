//! The metrics port: `GET /metrics` and `PUT /loglevel`, each for callers the API server allows.
//! Authorised before anything is read from the request's body.

use super::callers::{Callers, Denied, bearer};
use super::limits::{self, Limits};
use super::metrics::{Metrics, Named};
use super::peer::Peer;
use super::readiness::Readiness;
use super::seldom::Seldom;
use axum::extract::{Request, State};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, put};
use axum::{Extension, Router};
use http::header::{CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{Method, StatusCode};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Unknown callers cost the API server a review each: a few at a time are enough for Prometheus.
const LIMITS: Limits = Limits { body: 256, at_once: 8, time: Duration::from_secs(10) };

/// Changes the log level, or says why not.
pub(crate) type SetLogLevel = Arc<dyn Fn(&str) -> Result<(), String> + Send + Sync>;

#[derive(Clone)]
struct Admin {
    callers: Callers,
    metrics: Metrics,
    readiness: Readiness,
    set_log_level: SetLogLevel,
    unasked: Arc<Mutex<Seldom>>,
}

/// The router of the metrics port.
pub(crate) fn router(
    callers: Callers,
    metrics: Metrics,
    readiness: Readiness,
    set_log_level: SetLogLevel,
) -> Router {
    let admin = Admin { callers, metrics, readiness, set_log_level, unasked: Arc::default() };
    let router = Router::new()
        .route("/metrics", get(metrics_text))
        .route("/loglevel", put(log_level))
        .route_layer(from_fn_with_state(admin.clone(), authorised))
        .with_state(admin);
    limits::bounded(router, LIMITS)
}

async fn authorised(
    State(admin): State<Admin>,
    Extension(peer): Extension<Peer>,
    request: Request,
    next: Next,
) -> Response {
    let verb = match *request.method() {
        Method::PUT => "put",
        _ => "get",
    };
    let allowed = match bearer(request.headers()) {
        Ok(token) => admin.callers.authorise(peer, token, verb, request.uri().path()).await,
        Err(denied) => Err(denied),
    };
    match allowed {
        Ok(()) => next.run(request).await,
        Err(denied) => turn_away(&admin, &denied),
    }
}

fn turn_away(admin: &Admin, denied: &Denied) -> Response {
    let count = |name| admin.metrics.denied.get_or_create(&Named { name }).inc();
    let text = format!("{denied}\n");
    match denied {
        Denied::Unauthenticated => {
            count("unauthenticated");
            (StatusCode::UNAUTHORIZED, [(WWW_AUTHENTICATE, "Bearer")], text).into_response()
        }
        Denied::Forbidden { .. } => {
            count("forbidden");
            (StatusCode::FORBIDDEN, text).into_response()
        }
        Denied::TooMany => {
            count("too_many");
            (StatusCode::TOO_MANY_REQUESTS, [(RETRY_AFTER, "5")], text).into_response()
        }
        Denied::Unavailable(error) => {
            let mut seldom = admin.unasked.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(unlogged) = seldom.next(Instant::now()) {
                tracing::warn!(%error, unlogged, "caller not reviewed");
            }
            (StatusCode::SERVICE_UNAVAILABLE, "the API server could not be asked; try again\n")
                .into_response()
        }
    }
}

async fn metrics_text(State(admin): State<Admin>) -> impl IntoResponse {
    admin.metrics.ready.set(admin.readiness.is_ready().into());
    ([(CONTENT_TYPE, "application/openmetrics-text; version=1.0.0; charset=utf-8")], admin.metrics.text())
}

async fn log_level(State(admin): State<Admin>, level: String) -> Response {
    match (admin.set_log_level)(level.trim()) {
        Ok(()) => {
            tracing::warn!(level = level.trim(), "log level changed at run time");
            StatusCode::NO_CONTENT.into_response()
        }
        Err(reason) => (StatusCode::BAD_REQUEST, format!("{reason}\n")).into_response(),
    }
}
