//! The admission webhooks over HTTPS: an AdmissionReview in, a call of the `webhooks` crate, an AdmissionReview out.
//! It parses, asks the API server about rights, and answers; what is allowed is decided in that crate.

mod rights;

use crate::kubernetes::Kube;
use crate::serving::limits::{self, Limits};
use crate::serving::metrics::{Metrics, Named};
use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use http::StatusCode;
use http::header::CONTENT_TYPE;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;
use webhooks::Config;
use webhooks::decide::{self, Decision};
use webhooks::render::configurations::{MUTATE, VALIDATE};
use webhooks::wire::{self, Request, Unreadable};

/// The body is the API server's own limit; the time is below the shorter of the two webhook timeouts.
const LIMITS: Limits = Limits { body: 3 * 1024 * 1024, at_once: 16, time: Duration::from_millis(2800) };
/// A parsed body takes many times its size: large ones are parsed one at a time.
const LARGE: usize = 256 * 1024;

#[derive(Clone)]
struct Admission {
    kube: Kube,
    config: Arc<Config>,
    metrics: Metrics,
    large: Arc<Semaphore>,
}

/// The router of the webhook port.
pub fn router(kube: Kube, config: Config, metrics: Metrics) -> Router {
    let admission = Admission { kube, config: Arc::new(config), metrics, large: Arc::new(Semaphore::new(1)) };
    let router =
        Router::new().route(MUTATE, post(mutate)).route(VALIDATE, post(validate)).with_state(admission);
    limits::bounded(router, LIMITS)
}

async fn mutate(State(admission): State<Admission>, body: Bytes) -> Response {
    let _turn = admission.turn(&body).await;
    let mut request = match wire::read(&body) {
        Ok(request) => request,
        Err(unreadable) => return refuse(&admission, &unreadable),
    };
    let decision = decide::mutate(&mut request, &admission.config);
    admission.answer(&request, &decision, ["mutate_allowed", "mutate_denied"])
}

async fn validate(State(admission): State<Admission>, body: Bytes) -> Response {
    let _turn = admission.turn(&body).await;
    let request = match wire::read(&body) {
        Ok(request) => request,
        Err(unreadable) => return refuse(&admission, &unreadable),
    };
    let mut decision = decide::validate(&request);
    // Rights are asked for only when nothing else is wrong: the answer would not change, and questions cost.
    if decision.allowed() {
        match rights::missing(&admission.kube, &request).await {
            Ok(causes) => decision = decision.refused_for(causes),
            Err(error) => {
                // Failing closed: the API server reports that the webhook could not decide.
                tracing::warn!(%error, "rights could not be reviewed");
                return (StatusCode::SERVICE_UNAVAILABLE, "rights could not be reviewed; try again\n")
                    .into_response();
            }
        }
    }
    admission.answer(&request, &decision, ["validate_allowed", "validate_denied"])
}

impl Admission {
    async fn turn(&self, body: &Bytes) -> Option<tokio::sync::SemaphorePermit<'_>> {
        if body.len() > LARGE { self.large.acquire().await.ok() } else { None }
    }

    fn answer(
        &self,
        request: &Request,
        decision: &Decision,
        [allowed, denied]: [&'static str; 2],
    ) -> Response {
        let name = if decision.allowed() { allowed } else { denied };
        self.metrics.admissions.get_or_create(&Named { name }).inc();
        tracing::debug!(
            kind = request.kind.name(),
            namespace = request.namespace,
            name = request.name,
            verdict = name,
            causes = decision.causes.len(),
            "admission decided"
        );
        match wire::write(request, decision) {
            Ok(answer) => ([(CONTENT_TYPE, "application/json")], answer).into_response(),
            Err(error) => {
                tracing::error!(%error, "an answer could not be written");
                StatusCode::INTERNAL_SERVER_ERROR.into_response()
            }
        }
    }
}

fn refuse(admission: &Admission, unreadable: &Unreadable) -> Response {
    admission.metrics.admissions.get_or_create(&Named { name: "unreadable" }).inc();
    (StatusCode::BAD_REQUEST, format!("{unreadable}\n")).into_response()
}
