//! The life of the process: start everything the mode asks for, wait for a signal or a failure, stop in order.
//! Listeners drain and leader tasks end first, then leases are released, then watches stop.

use super::certificates;
use super::cli::fail;
use super::flags::Flags;
use super::kinds;
use super::leader_tasks::{LeaderTask, LeaderTaskError, Work};
use super::listeners;
use super::logging;
use super::modes::Part;
use super::permissions;
use super::reconcilers;
use super::shutdown::Signals;
use crate::kubernetes::events::Events;
use crate::kubernetes::lease::CONTROLLER_LEASE;
use crate::kubernetes::{ConnectError, Kube, own_namespace};
use crate::serving::admin::SetLogLevel;
use crate::serving::listener::BindError;
use crate::serving::metrics::Metrics;
use crate::serving::readiness::Readiness;
use std::process::ExitCode;
use tokio::task::{JoinError, JoinSet};
use tokio_util::sync::CancellationToken;

/// Flags that cannot work together.
const MISUSED: u8 = 2;

/// Why the process ends with an error.
#[derive(Debug, thiserror::Error)]
pub(super) enum Fatal {
    /// Signals cannot be received.
    #[error("cannot listen for signals: {0}")]
    Signals(std::io::Error),
    /// No way to the API server.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// A port is taken.
    #[error(transparent)]
    Bind(#[from] BindError),
    /// TLS cannot be set up.
    #[error("cannot set up TLS: {0}")]
    Tls(#[from] rustls::Error),
    /// A leader task failed.
    #[error(transparent)]
    LeaderTask(#[from] LeaderTaskError),
    /// A task panicked or ended although it runs for ever.
    #[error("a part of the process failed: {0}")]
    Task(String),
}

/// What every part is started with.
pub(super) struct Context {
    /// The flags.
    pub flags: Flags,
    /// The API server.
    pub kube: Kube,
    /// The gates of `/readyz`.
    pub readiness: Readiness,
    /// The counters.
    pub metrics: Metrics,
    /// The one recorder of Events.
    pub events: Events,
    /// Who we are among the replicas.
    pub identity: String,
    /// Changes the log level.
    pub set_log_level: SetLogLevel,
    /// Cancelled by a signal: stop taking on work.
    pub stop: CancellationToken,
    /// Cancelled when all work has ended: stop following the cluster.
    pub unfollow: CancellationToken,
}

/// The running parts: workers end at a signal, followers when the workers have ended.
#[derive(Default)]
pub(super) struct Running {
    /// Listeners and leader tasks.
    pub workers: JoinSet<Result<(), Fatal>>,
    /// Watches and what is derived from them.
    pub followers: JoinSet<Result<(), Fatal>>,
}

/// Runs the operator until it is told to stop.
pub(super) fn run(flags: Flags) -> ExitCode {
    let warnings = match flags.check() {
        Ok(warnings) => warnings,
        Err(misused) => return fail(&misused.to_string(), MISUSED),
    };
    let set_log_level = logging::start(flags.log_format, flags.log_level);
    for warning in warnings {
        tracing::warn!("{warning}");
    }
    // The kube client asks for the process default; an error means that it is installed already.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return fail(&format!("cannot start: {error}"), 1),
    };
    match runtime.block_on(operate(flags, set_log_level)) {
        Ok(()) => {
            tracing::info!("stopped");
            ExitCode::SUCCESS
        }
        Err(fatal) => {
            tracing::error!(error = %fatal, "ending");
            // Tasks that ignore cancellation must not keep a process alive that has to end.
            runtime.shutdown_background();
            fail(&fatal.to_string(), 1)
        }
    }
}

async fn operate(flags: Flags, set_log_level: SetLogLevel) -> Result<(), Fatal> {
    let context = prepare(flags, set_log_level).await?;
    let signals = Signals::listen().map_err(Fatal::Signals)?;
    let signals = tokio::spawn(signals.run(context.stop.clone()));
    let stopping = context.readiness.gate("process");
    let mut running = Running::default();
    start(&context, &mut running).await?;
    stopping.open();

    let ended = tokio::select! {
        // A part may end so soon after the signal that both are seen at once: the signal counts.
        biased;
        () = context.stop.cancelled() => Ok(()),
        Some(ended) = running.workers.join_next() => Err(early(ended)),
        Some(ended) = running.followers.join_next() => Err(early(ended)),
    };
    if matches!(ended, Err(Fatal::LeaderTask(LeaderTaskError::Stuck(_)))) {
        // Work that cannot be stopped must not outlive its lease: no time for an orderly end.
        return ended;
    }
    stopping.close("shutting down");
    context.stop.cancel();
    let workers = all(&mut running.workers).await;
    context.unfollow.cancel();
    let followers = all(&mut running.followers).await;
    signals.abort();
    ended.and(workers).and(followers)
}

async fn prepare(flags: Flags, set_log_level: SetLogLevel) -> Result<Context, Fatal> {
    let account = flags.grants_account.clone();
    let kube = Kube::connect(flags.kubeconfig.as_deref(), own_namespace(), account).await?;
    let kube = kube.watching(flags.scope());
    let name = std::env::var("POD_NAME")
        .or_else(|_| std::env::var("HOSTNAME"))
        .unwrap_or_else(|_| "coder-k8s".into());
    // A restarted pod keeps its name; its identity must differ from the one that may still hold a lease.
    let identity = format!("{name}_{:016x}", fastrand::u64(..));
    let metrics = Metrics::new(env!("CARGO_PKG_VERSION"), env!("BUILD_COMMIT"), flags.condition_metrics);
    let events = Events::new(&kube, &identity);
    tracing::info!(
        version = env!("CARGO_PKG_VERSION"), commit = env!("BUILD_COMMIT"), app = ?flags.app,
        namespace = kube.namespace(), identity, "starting"
    );
    let (stop, unfollow) = (CancellationToken::new(), CancellationToken::new());
    let readiness = Readiness::default();
    Ok(Context { flags, kube, readiness, metrics, events, identity, set_log_level, stop, unfollow })
}

/// Ports are bound before anybody campaigns: a replica that cannot serve must not lead.
async fn start(context: &Context, running: &mut Running) -> Result<(), Fatal> {
    let mut leader_tasks = Vec::new();
    permissions::follow(context, running);
    let (leaf, api_services) = certificates::start(context, running, &mut leader_tasks);
    if context.flags.app.runs(Part::Controller) {
        let api_services =
            api_services.unwrap_or_else(|| certificates::follow_api_services(context, running));
        let (control_planes, dependants) = kinds::follow(context, running, api_services);
        leader_tasks.push(
            context.leader_task(CONTROLLER_LEASE, reconcilers::work(context, control_planes, dependants)),
        );
    }
    listeners::start(context, running, &leaf).await?;
    for leader_task in leader_tasks {
        let stop = context.stop.clone();
        running.workers.spawn(async move { Ok(leader_task.run(stop).await?) });
    }
    Ok(())
}

impl Context {
    /// A leader task of this process.
    pub(super) fn leader_task(&self, lease: &'static str, work: Work) -> LeaderTask {
        LeaderTask {
            lease,
            work,
            kube: self.kube.clone(),
            identity: self.identity.clone(),
            timing: self.flags.lease_timing(),
            events: self.events.clone(),
            metrics: self.metrics.clone(),
        }
    }
}

/// A part that ends before it is told to has failed, whatever it says.
fn early(ended: Result<Result<(), Fatal>, JoinError>) -> Fatal {
    match ended {
        Ok(Ok(())) => Fatal::Task("it ended before it was told to".to_owned()),
        Ok(Err(fatal)) => fatal,
        Err(error) => Fatal::Task(error.to_string()),
    }
}

/// Waits for all; the first failure is the answer.
async fn all(tasks: &mut JoinSet<Result<(), Fatal>>) -> Result<(), Fatal> {
    let mut outcome = Ok(());
    while let Some(ended) = tasks.join_next().await {
        let ended = ended.unwrap_or_else(|error| Err(Fatal::Task(error.to_string())));
        outcome = outcome.and(ended);
    }
    outcome
}
