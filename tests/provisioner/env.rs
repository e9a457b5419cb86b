//! What the tests of this suite share: a cluster with nodes in which an older operator ran before, our operator and doubles of
//! coderd. Each test works at a [`Site`](crate::site::Site) of its own.

use crate::take_over::{self, Former};
use futures::FutureExt;
use kube::Client;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use support::coderd::Coderd;
use support::daemons::Daemons;
use support::{Cluster, ClusterOptions, TestEnv};
use tokio::sync::OnceCell;

/// The operator under test.
pub const BINARY: &str = env!("CARGO_BIN_EXE_coder-k8s");

/// Doubles of coderd that tests may take: one for every control plane.
const DOUBLES: usize = 64;
/// The port of the Service that leads to the first double.
const FIRST_PORT: u16 = 8100;

/// A double of coderd, which every Service with this port leads to.
#[derive(Clone)]
pub struct Double {
    pub port: u16,
    pub coderd: Arc<Coderd>,
}

/// The environment that the tests share.
pub struct ProvisionerEnv {
    pub env: TestEnv,
    /// What the older operator left.
    pub former: Former,
    doubles: Vec<Double>,
    taken: AtomicUsize,
}

static SHARED: OnceCell<ProvisionerEnv> = OnceCell::const_new();

impl std::ops::Deref for ProvisionerEnv {
    type Target = TestEnv;

    fn deref(&self) -> &TestEnv {
        &self.env
    }
}

impl ProvisionerEnv {
    pub async fn shared() -> &'static Self {
        SHARED.get_or_init(Self::start).await
    }

    async fn start() -> Self {
        let mut doubles = Vec::new();
        for port in (FIRST_PORT..).take(DOUBLES) {
            let coderd = Coderd::builder().api_rate_limit(None).start().await;
            doubles.push(Double { port, coderd: Arc::new(coderd) });
        }
        let cluster = Cluster::start(ClusterOptions { nodes: 2, ..Default::default() }).await;
        let former = take_over::lay_out(&cluster, &doubles[0]).await;
        let flags = doubles
            .iter()
            .map(|double| format!("--resolve=*.svc.cluster.local:{}={}", double.port, double.coderd.addr()));
        let builder = TestEnv::builder(BINARY).in_cluster(&cluster).flags(flags);
        let env = builder.flag("--verify-interval=4s").start().await;
        Self { env, former, doubles, taken: AtomicUsize::new(1) }
    }

    /// Follows the pods of a namespace as daemons do. One that has ended is listed that much longer.
    pub fn daemons(&self, client: Client, namespace: &str, listed_for: Duration) -> Daemons {
        let doubles = self.doubles.clone();
        Daemons::follow(client, namespace, listed_for, move |url| {
            let port = url.rsplit(':').next()?.parse().ok();
            doubles.iter().find(|double| Some(double.port) == port).map(|double| double.coderd.clone())
        })
    }

    /// A double that no other test has.
    pub fn double(&self) -> Double {
        let number = self.taken.fetch_add(1, Ordering::Relaxed);
        self.doubles.get(number).expect("there are doubles for all tests").clone()
    }
}

/// A case of a table: what it is called, and what is done.
pub type Case<'a> = (String, Pin<Box<dyn Future<Output = ()> + 'a>>);

/// Runs all cases at the same time: each waits for the cluster more than it computes.
///
/// # Panics
/// If one fails, with the names of those that did.
pub async fn run_all(cases: Vec<Case<'_>>) {
    let run = cases.into_iter().map(async |(name, case)| {
        let ended = AssertUnwindSafe(case).catch_unwind().await;
        ended.is_err().then_some(name)
    });
    let failed: Vec<String> = futures::future::join_all(run).await.into_iter().flatten().collect();
    assert!(failed.is_empty(), "these cases failed, see above: {failed:?}");
}
