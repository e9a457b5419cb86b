//! The admission webhooks over HTTPS: an AdmissionReview in, a call of the `webhooks` crate, an AdmissionReview out.
//! It parses, asks the API server about rights, and answers; what is allowed is decided in that crate.

mod rights;

use crate::serving::bodies::Bodies;
use crate::serving::callers::{Callers, Denied};
use crate::serving::limits;
use crate::serving::metrics::{Metrics, Named, TimedReview, Webhook};
use crate::serving::peer::Peer;
use crate::serving::rates::{Rate, Rates};
use crate::serving::seldom::Seldom;
use crate::serving::turns::{Turn, Turns};
use axum::body::Body;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use axum::{Extension, Router};
use http::StatusCode;
use http::header::CONTENT_TYPE;
use k8s_openapi::api::authentication::v1::UserInfo;
use serde_json::Value;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use webhooks::Config;
use webhooks::admission_review::{self, Request, Unreadable};
use webhooks::admit::{self, Decision};
use webhooks::render::configurations::{MUTATE, VALIDATE};

/// Two objects as large as etcd keeps them, and room for the rest of a review.
const BODY: usize = 3 * 1024 * 1024 + 256 * 1024;
/// Below the shorter of the two webhook timeouts.
const TIME: Duration = Duration::from_millis(2800);
/// What one place of work stands for in memory. An ordinary review takes one place; the largest that is built takes as
/// many as one caller can have.
const PLACE: usize = 1024 * 1024;
/// Places of work: all requests that are built at a time take at most 32 MiB, half of it of one caller. What that comes to
/// with everything else is in docs/security.md, under Limits.
const PLACES: u32 = 32;
const _: () = assert!(admission_review::MEMORY <= PLACE * PLACES as usize / 2);
/// What a review costs in time goes with its size: it is counted in units of this many bytes built.
const UNIT: usize = 16 * 1024;
/// Units of a caller: an ordinary review has two or three, the largest a thousand.
const REVIEWS: Rate = Rate { burst: 100_000, per_second: 20_000 };
/// A user whose description takes no more than this is kept without a place while the API server is asked: with the
/// questions of a review, a crowd on all connections makes 8 MiB of them, and the groups of an ordinary user fit.
const SMALL_USER: usize = 8 * 1024;
/// How long the API server is asked about a user who is larger and so keeps the places of its review.
const ASKING: Duration = Duration::from_secs(1);

#[derive(Clone)]
struct Admission {
    callers: Callers,
    config: Arc<Config>,
    metrics: Metrics,
    bodies: Bodies,
    turns: Turns,
    reviews: Arc<Mutex<Rates>>,
    unasked: Arc<Mutex<Seldom>>,
}

/// The router of the webhook port.
pub(crate) fn router(callers: Callers, config: Config, metrics: Metrics) -> Router {
    let admission = Admission {
        callers,
        config: Arc::new(config),
        metrics,
        bodies: Bodies::default(),
        turns: Turns::of(PLACES),
        reviews: Arc::new(Mutex::new(Rates::new(REVIEWS, Instant::now()))),
        unasked: Arc::default(),
    };
    let router =
        Router::new().route(MUTATE, post(mutate)).route(VALIDATE, post(validate)).with_state(admission);
    limits::timed(router, TIME)
}

async fn mutate(
    State(admission): State<Admission>,
    Extension(peer): Extension<Peer>,
    body: Body,
) -> Response {
    let timed = admission.metrics.review(Webhook::Mutate);
    let (mut request, _turn) = match admission.read(peer, body).await {
        Ok(read) => read,
        Err(refusal) => return refusal,
    };
    let decision = admit::mutate(&mut request, &admission.config);
    admission.answer(&request, &decision, timed, ["mutate_allowed", "mutate_denied"])
}

async fn validate(
    State(admission): State<Admission>,
    Extension(peer): Extension<Peer>,
    body: Body,
) -> Response {
    let timed = admission.metrics.review(Webhook::Validate);
    let (mut request, turn) = match admission.read(peer, body).await {
        Ok(read) => read,
        Err(refusal) => return refusal,
    };
    let mut decision = admit::validate(&request);
    // Rights are asked for only when nothing else is wrong: the answer would not change, and questions cost.
    if decision.allowed() {
        let reviews = rights::reviews(&request);
        // Neither the answers nor ours need the objects. Their places are given back: asking takes its time, and whoever
        // makes many ask would leave none to others.
        (request.object, request.old_object) = (Value::Null, None);
        let asking = rights::missing(&admission.callers, peer, &request.user, reviews);
        let asked = if size(&request.user) <= SMALL_USER {
            drop(turn);
            asking.await
        } else {
            let asked = tokio::time::timeout(ASKING, asking).await;
            drop(turn);
            asked.unwrap_or(Err(Denied::TooMany))
        };
        match asked {
            Ok(causes) => decision = decision.denied_for(causes),
            Err(denied) => return admission.unasked(&denied),
        }
    }
    admission.answer(&request, &decision, timed, ["validate_allowed", "validate_denied"])
}

impl Admission {
    /// Reads a request and the places it takes; it is built only when it has them all.
    async fn read(&self, peer: Peer, body: Body) -> Result<(Request, Option<Turn>), Response> {
        let body = match self.bodies.read(peer, body, BODY).await {
            Ok(body) => body,
            Err(unread) => {
                self.count("unread");
                return Err(unread.into_response());
            }
        };
        // Measuring takes time, so that it needs a place too; it takes no memory.
        let mut turn = self.turns.take(peer, 1).await;
        let measured =
            admission_review::measure(body.bytes()).map_err(|unreadable| self.refuse(&unreadable))?;
        let (units, places) = (in_units(measured.memory(), UNIT), in_units(measured.memory(), PLACE));
        if !self.is_within_rate(peer, units) {
            self.count("too_many");
            return Err(limits::too_many());
        }
        if places > 1 {
            // Given back first: whoever holds one place and waits for more could wait for another that does the same.
            drop(turn);
            turn = self.turns.take(peer, places).await;
        }
        let request = measured.build().map_err(|unreadable| self.refuse(&unreadable))?;
        Ok((request, turn))
    }

    fn is_within_rate(&self, peer: Peer, units: u32) -> bool {
        let mut reviews = self.reviews.lock().unwrap_or_else(PoisonError::into_inner);
        reviews.take(peer, units, Instant::now()).is_ok()
    }

    /// Failing closed: the API server reports that the webhook could not decide.
    fn unasked(&self, denied: &Denied) -> Response {
        if matches!(denied, Denied::TooMany) {
            self.count("too_many");
            return limits::too_many();
        }
        let mut seldom = self.unasked.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(unlogged) = seldom.next(Instant::now()) {
            tracing::warn!(error = %denied, unlogged, "permissions could not be reviewed");
        }
        (StatusCode::SERVICE_UNAVAILABLE, "permissions could not be reviewed; try again\n").into_response()
    }

    fn count(&self, name: &'static str) {
        self.metrics.admissions.get_or_create(&Named { name }).inc();
    }

    fn refuse(&self, unreadable: &Unreadable) -> Response {
        self.count("unreadable");
        let status = match unreadable {
            Unreadable::TooLarge | Unreadable::TooDeep => StatusCode::PAYLOAD_TOO_LARGE,
            _ => StatusCode::BAD_REQUEST,
        };
        (status, format!("{unreadable}\n")).into_response()
    }

    fn answer(
        &self,
        request: &Request,
        decision: &Decision,
        mut timed: TimedReview,
        [allowed, denied]: [&'static str; 2],
    ) -> Response {
        let name = if decision.allowed() { allowed } else { denied };
        self.count(name);
        tracing::debug!(
            kind = request.kind.name(),
            namespace = request.namespace,
            name = request.name,
            verdict = name,
            causes = decision.verdict.causes.len(),
            "admission decided"
        );
        match admission_review::write(request, decision) {
            Ok(answer) => {
                timed.decided(decision.allowed());
                ([(CONTENT_TYPE, "application/json")], answer).into_response()
            }
            Err(error) => {
                tracing::error!(%error, "an answer could not be written");
                StatusCode::INTERNAL_SERVER_ERROR.into_response()
            }
        }
    }
}

/// Bytes that the description of a user takes.
fn size(user: &UserInfo) -> usize {
    let extra = user.extra.iter().flatten().flat_map(|(key, values)| std::iter::once(key).chain(values));
    let texts = user.username.iter().chain(&user.uid).chain(user.groups.iter().flatten()).chain(extra);
    texts.map(|text| text.len() + 64).sum()
}

/// How many units, at least one.
fn in_units(bytes: usize, unit: usize) -> u32 {
    u32::try_from(bytes.div_ceil(unit).max(1)).unwrap_or(u32::MAX)
}
