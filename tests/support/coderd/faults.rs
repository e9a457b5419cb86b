//! What can go wrong between a client and coderd, planned by a test for one route and one occurrence.
//! It never acts at random, and nothing it holds back outlives the double.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http::StatusCode;
use serde_json::Value;
use tokio::sync::watch;

use super::limits;
use super::reply::Reply;
use super::routes;
use super::server::Coderd;

/// Which calls to a route a fault strikes, counted from its injection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Occurrence {
    /// Only the next one.
    Next,
    /// Only the n-th, from 1.
    Nth(u64),
    /// The first n.
    First(u64),
    /// All until withdrawn.
    Every,
}

impl Occurrence {
    fn includes(self, number: u64) -> bool {
        match self {
            Self::Next => number == 1,
            Self::Nth(nth) => number == nth,
            Self::First(count) => number <= count,
            Self::Every => true,
        }
    }
}

/// Something that happens to a call.
#[derive(Clone, Debug)]
pub struct Fault(pub(super) Kind);

#[derive(Clone, Debug)]
pub(super) enum Kind {
    Answer(Reply),
    AnswerAfterProcessing(Reply),
    HoldBefore(Option<Duration>),
    HoldAfter(Option<Duration>),
    CutBefore,
    ResponseLost,
    MalformedJson,
    HalfBody,
}

impl Fault {
    /// An error of coderd, with its error body; the call changes nothing.
    pub fn status(status: u16) -> Self {
        Self(Kind::Answer(Reply::detailed(
            code(status),
            "An injected error occurred.",
            "injected by the test",
        )))
    }

    /// This JSON instead of an answer; the call changes nothing.
    pub fn answer(status: u16, body: &Value) -> Self {
        Self(Kind::Answer(Reply::json(code(status), body)))
    }

    /// An answer of something between client and coderd, say a gateway's page; the call changes nothing.
    pub fn answer_text(status: u16, content_type: &str, body: &str) -> Self {
        Self(Kind::Answer(Reply::typed(code(status), content_type, body)))
    }

    /// The call takes effect, then this JSON is answered: a gateway that gave up too early.
    pub fn answer_after_processing(status: u16, body: &Value) -> Self {
        Self(Kind::AnswerAfterProcessing(Reply::json(code(status), body)))
    }

    /// A 429 with that `Retry-After`; the call changes nothing.
    pub fn too_many_requests(retry_after: Duration) -> Self {
        Self(Kind::Answer(limits::too_many(512, retry_after)))
    }

    /// A redirect to another place; the call changes nothing.
    pub fn redirect(status: u16, location: &str) -> Self {
        Self(Kind::Answer(Reply::empty(code(status)).with(http::header::LOCATION, location)))
    }

    /// The call waits before coderd sees it, until released or that long at most.
    pub fn delay(at_most: Duration) -> Self {
        Self(Kind::HoldBefore(Some(at_most)))
    }

    /// The call waits before coderd sees it, until released.
    pub fn hang() -> Self {
        Self(Kind::HoldBefore(None))
    }

    /// The call takes effect at once but its answer waits until released.
    pub fn hang_after_processing() -> Self {
        Self(Kind::HoldAfter(None))
    }

    /// The call takes effect at once but its answer waits until released or that long at most.
    pub fn delay_after_processing(at_most: Duration) -> Self {
        Self(Kind::HoldAfter(Some(at_most)))
    }

    /// The connection is cut before coderd sees the call.
    pub fn cut_before_processing() -> Self {
        Self(Kind::CutBefore)
    }

    /// The call takes effect, then the connection is cut without a single byte of an answer.
    pub fn response_lost() -> Self {
        Self(Kind::ResponseLost)
    }

    /// The call takes effect; its answer has the right status and a complete body that is not JSON.
    pub fn malformed_json() -> Self {
        Self(Kind::MalformedJson)
    }

    /// The call takes effect; the connection is cut in the middle of the answer's body.
    pub fn half_body() -> Self {
        Self(Kind::HalfBody)
    }
}

fn code(status: u16) -> StatusCode {
    StatusCode::from_u16(status).expect("a fault has a status of HTTP")
}

/// A fault waiting for its calls.
#[derive(Debug)]
pub(super) struct Plan {
    /// None strikes every route.
    route: Option<String>,
    occurrence: Occurrence,
    pub(super) fault: Fault,
    seen: AtomicU64,
    withdrawn: AtomicBool,
    hits: watch::Sender<u64>,
    released: watch::Sender<bool>,
}

impl Plan {
    fn strikes(&self, route: &str) -> bool {
        if self.route.as_deref().is_some_and(|only| only != route) {
            return false;
        }
        let number = self.seen.fetch_add(1, Ordering::SeqCst) + 1;
        self.occurrence.includes(number) && !self.withdrawn.load(Ordering::SeqCst)
    }

    /// Waits for the release, or for the bound if there is one.
    pub(super) async fn hold(&self, at_most: Option<Duration>) {
        let mut released = self.released.subscribe();
        let release = async { drop(released.wait_for(|released| *released).await) };
        match at_most {
            Some(bound) => drop(tokio::time::timeout(bound, release).await),
            None => release.await,
        }
    }
}

/// All plans of one double.
#[derive(Debug, Default)]
pub(super) struct Faults(Mutex<Vec<Arc<Plan>>>);

impl Faults {
    /// Counts the call for every plan and gives the first one that strikes it.
    pub(super) fn strike(&self, route: &str) -> Option<Arc<Plan>> {
        let plans = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let striking: Vec<&Arc<Plan>> = plans.iter().filter(|plan| plan.strikes(route)).collect();
        let first = striking.first().map(|plan| Arc::clone(plan))?;
        first.hits.send_modify(|hits| *hits += 1);
        Some(first)
    }
}

/// The test's end of an injected fault.
#[derive(Clone, Debug)]
pub struct FaultHandle(Arc<Plan>);

impl FaultHandle {
    /// How many calls it has struck.
    pub fn hits(&self) -> u64 {
        *self.0.hits.borrow()
    }

    /// Waits until it has struck once: the call has arrived and, for a hold, is being held.
    ///
    /// # Panics
    /// If that does not happen within the bound.
    pub async fn reached(&self, within: Duration) {
        let mut hits = self.0.hits.subscribe();
        let struck = tokio::time::timeout(within, hits.wait_for(|hits| *hits > 0)).await;
        assert!(struck.is_ok(), "the fault on {:?} struck nothing within {within:?}", self.0.route);
    }

    /// Lets go of the calls it holds and holds no further ones.
    pub fn release(&self) {
        self.0.released.send_replace(true);
    }

    /// Strikes no further calls; those it holds stay held.
    pub fn withdraw(&self) {
        self.0.withdrawn.store(true, Ordering::SeqCst);
    }
}

impl Coderd {
    /// Plans a fault for a route named as in [`Coderd::calls_to`], or `*` for every route.
    ///
    /// # Panics
    /// If the double has no such route.
    pub fn inject(&self, route: &str, occurrence: Occurrence, fault: Fault) -> FaultHandle {
        let plan = Arc::new(Plan {
            route: (route != "*").then(|| routes::canonical_name(route)),
            occurrence,
            fault,
            seen: AtomicU64::new(0),
            withdrawn: AtomicBool::new(false),
            hits: watch::Sender::new(0),
            released: watch::Sender::new(false),
        });
        let mut plans = self.faults().0.lock().unwrap_or_else(PoisonError::into_inner);
        plans.push(Arc::clone(&plan));
        FaultHandle(plan)
    }

    /// Forgets every fault; calls being held go on.
    pub fn clear_faults(&self) {
        let plans = std::mem::take(&mut *self.faults().0.lock().unwrap_or_else(PoisonError::into_inner));
        for plan in plans {
            plan.released.send_replace(true);
        }
    }
}
