//! Carries out what `step` decides about one lease and publishes who leads.
//! It never runs the leader task: that is for whoever follows the published leadership.

use super::record::Record;
use super::step::{Candidate, Command, Observation, State, Timing, release, step};
use crate::kubernetes::Kube;
use crate::kubernetes::objects::{CallError, as_us, within};
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;
use std::time::{Duration, Instant};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// No call about a lease takes longer; three fit into the renew deadline.
const CALL_LIMIT: Duration = Duration::from_secs(3);

/// Whether this process leads, and until when it may act on that.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Leadership {
    /// Somebody else leads, or nobody.
    Following,
    /// We lead.
    Leading {
        /// The moment it ends unless renewed.
        until: Instant,
        /// The number of this leadership.
        term: i32,
    },
}

/// A candidate for one lease.
pub(crate) struct Elector {
    leases: Api<Lease>,
    name: &'static str,
    namespace: String,
    candidate: Candidate,
    state: State,
    publish: watch::Sender<Leadership>,
}

impl Elector {
    /// A candidate that follows until [`Elector::run`] wins, and where to hear of it.
    pub(crate) fn new(
        kube: &Kube,
        name: &'static str,
        identity: &str,
        timing: Timing,
    ) -> (Self, watch::Receiver<Leadership>) {
        let (publish, leadership) = watch::channel(Leadership::Following);
        let elector = Self {
            leases: Api::namespaced(kube.leases.clone(), kube.namespace()),
            name,
            namespace: kube.namespace().to_owned(),
            candidate: Candidate { identity: identity.to_owned(), timing },
            state: State::default(),
            publish,
        };
        (elector, leadership)
    }

    /// Campaigns and renews until `stop`, then gives the lease up if it is ours.
    /// Cancel `stop` only after the leader task has ended: a released lease is taken at once.
    pub(crate) async fn run(mut self, stop: CancellationToken) {
        let mut observation = Observation::Due;
        while !stop.is_cancelled() {
            observation = match self.decide(observation) {
                Command::Sleep(time) => {
                    let _ = tokio::time::timeout(jittered(time), stop.cancelled()).await;
                    Observation::Due
                }
                // A call under way is awaited: a write whose answer we miss could not be given up.
                Command::Get => match self.get().await {
                    Ok(record) => Observation::Read(record),
                    Err(error) => self.failed(&error),
                },
                Command::Create(record) => self.write(record, true).await,
                Command::Replace(record) => self.write(record, false).await,
            };
        }
        self.decide(observation);
        self.give_up().await;
    }

    fn decide(&mut self, observation: Observation) -> Command {
        let state = std::mem::take(&mut self.state);
        let (state, command) = step(&self.candidate, state, observation, Instant::now(), Timestamp::now());
        self.state = state;
        let leadership = match self.state.leading {
            Some(leading) => Leadership::Leading { until: leading.until, term: leading.term },
            None => Leadership::Following,
        };
        self.publish.send_if_modified(|published| std::mem::replace(published, leadership) != leadership);
        command
    }

    async fn get(&self) -> Result<Option<Record>, CallError> {
        let read =
            within(CALL_LIMIT, || format!("get Lease {}", self.name), self.leases.get_opt(self.name)).await?;
        Ok(read.as_ref().map(Record::of))
    }

    async fn write(&self, record: Record, create: bool) -> Observation {
        let lease = record.to_lease(self.name, &self.namespace);
        let params = as_us();
        let sent = Instant::now();
        let written = if create {
            within(CALL_LIMIT, || format!("create Lease {}", self.name), self.leases.create(&params, &lease))
                .await
        } else {
            let call = self.leases.replace(self.name, &params, &lease);
            within(CALL_LIMIT, || format!("replace Lease {}", self.name), call).await
        };
        match written {
            Ok(lease) => Observation::Written { record: Record::of(&lease), sent },
            // Somebody was faster: ordinary, and the next read shows who.
            Err(error) if error.is_conflict() || error.is_already_exists() => Observation::Failed,
            Err(error) => self.failed(&error),
        }
    }

    fn failed(&self, error: &CallError) -> Observation {
        tracing::warn!(lease = self.name, %error, "lease call failed");
        Observation::Failed
    }

    async fn give_up(&self) {
        self.publish.send_replace(Leadership::Following);
        let Some(record) = release(&self.candidate, &self.state, Timestamp::now()) else { return };
        let lease = record.to_lease(self.name, &self.namespace);
        let params = as_us();
        let call = self.leases.replace(self.name, &params, &lease);
        match within(CALL_LIMIT, || format!("release Lease {}", self.name), call).await {
            Ok(_) => tracing::info!(lease = self.name, "lease released"),
            // It runs out by itself; the next leader waits a little longer.
            Err(error) => tracing::warn!(lease = self.name, %error, "lease not released"),
        }
    }
}

/// Up to a tenth more, so that replicas that started together do not stay in step.
fn jittered(time: Duration) -> Duration {
    time.mul_f64(1.0 + fastrand::f64() / 10.0)
}
