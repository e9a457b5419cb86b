//! `/healthz` and `/readyz` for the kubelet, on plain HTTP.
//! Cheap by construction: they read memory and never ask anybody.

use super::readiness::Readiness;
use axum::Router;
use axum::extract::{RawQuery, State};
use axum::routing::get;
use http::StatusCode;
use std::fmt::Write;

/// The router of the probe port.
pub(crate) fn router(readiness: Readiness) -> Router {
    Router::new()
        .route("/healthz", get(async || "ok\n"))
        .route("/livez", get(async || "ok\n"))
        .route("/readyz", get(readyz))
        .with_state(readiness)
}

async fn readyz(State(readiness): State<Readiness>, RawQuery(query): RawQuery) -> (StatusCode, String) {
    let ready = readiness.is_ready();
    let status = if ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    let verbose =
        query.is_some_and(|query| query.split('&').any(|word| word.split('=').next() == Some("verbose")));
    if !verbose {
        return (status, if ready { "ok\n" } else { "not ready; /readyz?verbose says why\n" }.to_owned());
    }
    let mut text = String::new();
    for check in readiness.checks() {
        // Writing to a String cannot fail.
        let _ = match (check.waiting_for, check.remark) {
            (None, None) => writeln!(text, "[+]{} ok", check.name),
            (None, Some(remark)) => writeln!(text, "[+]{} ok, but {remark}", check.name),
            (Some(reason), _) => writeln!(text, "[-]{} waiting: {reason}", check.name),
        };
    }
    text.push_str(if ready { "readyz check passed\n" } else { "readyz check failed\n" });
    (status, text)
}
