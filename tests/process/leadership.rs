//! Leader election between real processes and a real API server: one leads, a dead one is followed, and a frozen one
//! steps down before anyone else can step up.

use coder_k8s::app::leader_tasks::{LeaderTask, LeaderTaskError, STOP_LIMIT, Work};
use coder_k8s::kubernetes::Kube;
use coder_k8s::kubernetes::events::Events;
use coder_k8s::kubernetes::lease::Timing;
use coder_k8s::serving::metrics::Metrics;
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use kube::api::Api;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use support::wait::holds;
use support::{Cluster, FaultProxy, Installation, Operator, until};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

const BINARY: &str = env!("CARGO_BIN_EXE_coder-k8s");
const LEASE: &str = "coder-k8s-controller.coder.com";
const LEASE_DURATION: Duration = Duration::from_secs(15);

/// The times at which this operator started and stopped leading, by its own log.
fn said(operator: &Operator, message: &str) -> Vec<Timestamp> {
    let events = operator.logged(message).into_iter().filter(|event| event["lease"] == LEASE);
    events.map(|event| event["timestamp"].as_str().unwrap().parse().unwrap()).collect()
}

async fn leads(operator: &Operator, limit: Duration) {
    until("the operator to lead", limit, async || {
        holds(!said(operator, "started leading").is_empty(), "it has not said so")
    })
    .await;
}

#[tokio::test]
async fn of_two_processes_one_leads_and_a_killed_leader_is_followed_in_time() {
    let cluster = Cluster::shared().await;
    let installation = Installation::new(cluster, "failover").await;
    let mut first = installation.start(BINARY, "controller").await;
    leads(&first, Duration::from_secs(10)).await;
    let second = installation.start(BINARY, "controller").await;
    assert!(said(&second, "started leading").is_empty(), "the second follows while the first leads");

    let leases = Api::<Lease>::namespaced(cluster.client().await, &installation.namespace);
    let before = leases.get(LEASE).await.unwrap().spec.unwrap();
    first.process().kill();
    let killed = Instant::now();
    leads(&second, LEASE_DURATION + Duration::from_secs(5)).await;
    println!("the second led {:?} after the first was killed", killed.elapsed());
    let after = leases.get(LEASE).await.unwrap().spec.unwrap();
    assert_ne!(before.holder_identity, after.holder_identity);
    assert_eq!(after.lease_transitions, before.lease_transitions.map(|count| count + 1));
}

#[tokio::test]
async fn a_leader_told_to_stop_hands_over_at_once() {
    let cluster = Cluster::shared().await;
    let installation = Installation::new(cluster, "handover").await;
    let mut first = installation.start(BINARY, "controller").await;
    leads(&first, Duration::from_secs(10)).await;
    let second = installation.start(BINARY, "controller").await;
    first.process().signal("TERM");
    assert!(first.ended(Duration::from_secs(10)).await.success());
    // Two retry periods and some: far less than the lease's duration.
    leads(&second, Duration::from_secs(6)).await;
    let (stopped, started) = (said(&first, "stopped leading"), said(&second, "started leading"));
    assert!(stopped[0] < started[0], "{stopped:?} then {started:?}");
}

#[tokio::test]
async fn a_leader_cut_off_for_thirty_seconds_steps_down_before_another_steps_up() {
    let cluster = Cluster::shared().await;
    let installation = Installation::new(cluster, "frozen").await;
    let proxy = FaultProxy::start(cluster).await;
    let mut first =
        Operator::start(BINARY, &installation.operator_through("controller", &proxy.url()).await).await;
    first.ready(Duration::from_secs(30)).await;
    leads(&first, Duration::from_secs(10)).await;
    let second = installation.start(BINARY, "controller").await;

    proxy.freeze();
    let frozen = Instant::now();
    leads(&second, LEASE_DURATION + Duration::from_secs(5)).await;
    let (stopped, started) = (said(&first, "stopped leading"), said(&second, "started leading"));
    println!("frozen; the first stopped leading at {}, the second started at {}", stopped[0], started[0]);
    assert!(stopped[0] < started[0], "{stopped:?} must be before {started:?}");

    // The freeze itself is under test: it lasts thirty seconds, and the first must not come back by itself.
    tokio::time::sleep_until((frozen + Duration::from_secs(30)).into()).await;
    proxy.thaw();
    until("the first to reach the API server again", Duration::from_secs(20), async || {
        let thawed = frozen + Duration::from_secs(30);
        holds(proxy.seen().iter().any(|seen| seen.at > thawed && seen.path.contains(LEASE)), "no call yet")
    })
    .await;
    assert_eq!(said(&first, "started leading").len(), 1, "the second leads now");
    first.process().check_running().expect("a lost lease ends a duty, not the process");
}

#[tokio::test]
async fn work_that_ignores_its_end_keeps_the_lease_and_is_reported_in_time() {
    let cluster = Cluster::shared().await;
    let installation = Installation::new(cluster, "stuck").await;
    let kubeconfig = installation.operator("controller").await.kubeconfig;
    let kube = Kube::connect(Some(&kubeconfig), installation.namespace.clone(), String::new()).await.unwrap();
    let started = Arc::new(Notify::new());
    let work: Work = {
        let started = started.clone();
        Box::new(move |_ignored| {
            let started = started.clone();
            Box::pin(async move {
                started.notify_one();
                std::future::pending::<()>().await;
            })
        })
    };
    let leader_task = LeaderTask {
        lease: LEASE,
        work,
        events: Events::new(&kube, "test"),
        kube,
        identity: "stubborn".to_owned(),
        timing: Timing {
            duration: LEASE_DURATION,
            renew_deadline: Duration::from_secs(10),
            retry: Duration::from_secs(2),
        },
        metrics: Metrics::new("test", "test", true),
    };
    let stop = CancellationToken::new();
    let running = tokio::spawn(leader_task.run(stop.clone()));
    started.notified().await;
    stop.cancel();
    let outcome = tokio::time::timeout(STOP_LIMIT * 2, running).await.expect("it gives up in time").unwrap();
    assert!(matches!(outcome, Err(LeaderTaskError::Stuck(LEASE))), "{outcome:?}");
    let lease =
        Api::<Lease>::namespaced(cluster.client().await, &installation.namespace).get(LEASE).await.unwrap();
    assert_eq!(
        lease.spec.unwrap().holder_identity.as_deref(),
        Some("stubborn"),
        "nobody may follow while it works"
    );
}

/// A duty of a lease of its own that counts how often its work is begun.
fn counted(kube: &Kube, lease: &'static str, begun: &Arc<AtomicUsize>) -> LeaderTask {
    let begun = begun.clone();
    let work: Work = Box::new(move |stop| {
        begun.fetch_add(1, Ordering::SeqCst);
        Box::pin(async move { stop.cancelled().await })
    });
    LeaderTask {
        lease,
        work,
        events: Events::new(kube, "test"),
        kube: kube.clone(),
        identity: "obedient".to_owned(),
        timing: Timing {
            duration: LEASE_DURATION,
            renew_deadline: Duration::from_secs(10),
            retry: Duration::from_secs(2),
        },
        metrics: Metrics::new("test", "test", true),
    }
}

/// Each duty that chooses at random between stopping and leading again is caught with even odds: sixteen of them are.
#[tokio::test]
async fn a_duty_told_to_stop_ends_once_and_does_not_lead_again() {
    const LEASES: [&str; 16] =
        ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l", "m", "n", "o", "p"];
    let cluster = Cluster::shared().await;
    let namespace = cluster.namespace("obedient").await;
    let kube = Kube::connect(Some(&cluster.kubeconfig()), namespace, String::new()).await.unwrap();
    let (begun, stop) = (Arc::new(AtomicUsize::new(0)), CancellationToken::new());
    let running: Vec<_> =
        LEASES.iter().map(|lease| tokio::spawn(counted(&kube, lease, &begun).run(stop.clone()))).collect();
    until("all of them to lead", Duration::from_secs(30), async || {
        let count = begun.load(Ordering::SeqCst);
        holds(count == LEASES.len(), format!("{count} lead"))
    })
    .await;
    stop.cancel();
    for leader_task in running {
        assert!(matches!(leader_task.await.unwrap(), Ok(())), "it ends as it was told to");
    }
    assert_eq!(begun.load(Ordering::SeqCst), LEASES.len(), "work was begun again after the end");
}
