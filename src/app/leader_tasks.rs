//! Leader tasks: one replica does each at a time, while its lease is ours, and it ends before that can be anybody else's.
//! It decides when a task starts and stops; what a task does is not known here.

use crate::kubernetes::Kube;
use crate::kubernetes::events::{Events, Reason};
use crate::kubernetes::lease::{Elector, Leadership, Timing};
use crate::serving::metrics::{Metrics, Named};
use futures::future::BoxFuture;
use k8s_openapi::api::core::v1::ObjectReference;
use prometheus_client::metrics::gauge::Gauge;
use std::time::{Duration, Instant};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// How long a task may take to stop. Renew deadline and this together stay below the lease duration.
pub const STOP_LIMIT: Duration = Duration::from_secs(3);

/// What a leader does: started with every leadership, it works until its token is cancelled.
pub type Work = Box<dyn Fn(CancellationToken) -> BoxFuture<'static, ()> + Send + Sync>;

/// A task and what it needs to be elected for it.
pub struct LeaderTask {
    /// The lease that guards it.
    pub lease: &'static str,
    /// What the leader does.
    pub work: Work,
    /// The API server.
    pub kube: Kube,
    /// Who we are.
    pub identity: String,
    /// How long things take.
    pub timing: Timing,
    /// Where an election is told.
    pub events: Events,
    /// Where leading is shown.
    pub metrics: Metrics,
}

/// Why a task makes the process end.
#[derive(Debug, thiserror::Error)]
pub enum LeaderTaskError {
    /// It did not stop when its leadership was over: only the end of the process is safe now.
    #[error("the leader task of lease {0} did not stop within {limit} seconds", limit = STOP_LIMIT.as_secs())]
    Stuck(&'static str),
    /// It ended although nobody told it to.
    #[error("the leader task of lease {0} ended by itself: {1}")]
    Ended(&'static str, String),
}

impl LeaderTask {
    /// Campaigns, works while leading and follows otherwise, until `stop`; then releases the lease.
    pub async fn run(self, stop: CancellationToken) -> Result<(), LeaderTaskError> {
        // Shown from the start: "nobody leads" must be seen, too.
        self.leading().set(0);
        let (elector, mut leadership) = Elector::new(&self.kube, self.lease, &self.identity, self.timing);
        let release = CancellationToken::new();
        let electing = tokio::spawn(elector.run(release.clone()));
        let outcome = self.follow(&mut leadership, &stop).await;
        if matches!(outcome, Err(LeaderTaskError::Stuck(_))) {
            // The work goes on: a lease given up now would be led by two. It runs out after the process has ended.
            electing.abort();
            return outcome;
        }
        // Released only now: the work has ended.
        release.cancel();
        if electing.await.is_err() {
            tracing::error!(lease = self.lease, "the elector failed");
        }
        outcome
    }

    fn leading(&self) -> Gauge {
        self.metrics.leading.get_or_create(&Named { name: self.lease }).clone()
    }

    async fn follow(
        &self,
        leadership: &mut watch::Receiver<Leadership>,
        stop: &CancellationToken,
    ) -> Result<(), LeaderTaskError> {
        loop {
            let elected = tokio::select! {
                // The lease is still ours when we are told to stop: a fair choice would lead again.
                biased;
                () = stop.cancelled() => return Ok(()),
                elected = leadership.wait_for(in_force) => elected.map(|now| *now),
            };
            let Ok(Leadership::Leading { term, .. }) = elected else {
                return Err(LeaderTaskError::Ended(self.lease, "its elector is gone".to_owned()));
            };
            self.lead(term, leadership, stop).await?;
        }
    }

    async fn lead(
        &self,
        term: i32,
        leadership: &mut watch::Receiver<Leadership>,
        stop: &CancellationToken,
    ) -> Result<(), LeaderTaskError> {
        let leading = self.leading();
        tracing::info!(lease = self.lease, term, identity = self.identity, "started leading");
        leading.set(1);
        let enough = CancellationToken::new();
        let mut work = tokio::spawn((self.work)(enough.clone()));
        let note = format!("{} became leader", self.identity);
        let told = self.events.record(Reason::LeaderElected, self.reference(), note);
        let telling = async {
            told.await;
            std::future::pending::<()>().await;
        };
        let ended = tokio::select! {
            biased;
            () = stop.cancelled() => None,
            () = over(leadership) => None,
            ended = &mut work => Some(ended),
            () = telling => None,
        };
        enough.cancel();
        let outcome = match ended {
            Some(Ok(())) => Err(LeaderTaskError::Ended(self.lease, "its work was done".to_owned())),
            Some(Err(error)) => Err(LeaderTaskError::Ended(self.lease, error.to_string())),
            None => self.stopped(work).await,
        };
        leading.set(0);
        tracing::info!(lease = self.lease, term, "stopped leading");
        outcome
    }

    fn reference(&self) -> ObjectReference {
        ObjectReference {
            api_version: Some("coordination.k8s.io/v1".to_owned()),
            kind: Some("Lease".to_owned()),
            name: Some(self.lease.to_owned()),
            ..ObjectReference::default()
        }
    }

    async fn stopped(&self, mut work: JoinHandle<()>) -> Result<(), LeaderTaskError> {
        match tokio::time::timeout(STOP_LIMIT, &mut work).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => Err(LeaderTaskError::Ended(self.lease, error.to_string())),
            Err(_) => Err(LeaderTaskError::Stuck(self.lease)),
        }
    }
}

/// A claim that ran out while the elector waits for a frozen API server is still published, but counts no more.
fn in_force(leadership: &Leadership) -> bool {
    matches!(leadership, Leadership::Leading { until, .. } if *until > Instant::now())
}

/// Returns when the leadership is over by the clock or by word, whichever is first.
async fn over(leadership: &mut watch::Receiver<Leadership>) {
    loop {
        let Leadership::Leading { until, .. } = *leadership.borrow_and_update() else { return };
        tokio::select! {
            () = tokio::time::sleep_until(until.into()) => {
                // Renewed at the last moment counts; the clock alone ends it, however the network hangs.
                if !in_force(&leadership.borrow()) {
                    return;
                }
            }
            changed = leadership.changed() => if changed.is_err() { return },
        }
    }
}
