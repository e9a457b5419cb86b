//! The environment that the tests of this suite share; each test works in a namespace of its own.

use crate::take_over;
use support::{Cluster, ClusterOptions, TestEnv};
use tokio::sync::OnceCell;

pub const BINARY: &str = env!("CARGO_BIN_EXE_coder-k8s");

/// An environment in whose cluster an older operator ran before, and the namespace in which it did; see `take_over`.
async fn start() -> (TestEnv, String) {
    let cluster = Cluster::start(ClusterOptions { nodes: 2, audit: true, optional_kinds: true }).await;
    let former = take_over::lay_out(&cluster).await;
    (TestEnv::builder(BINARY).in_cluster(&cluster).start().await, former)
}

async fn started() -> &'static (TestEnv, String) {
    static STARTED: OnceCell<(TestEnv, String)> = OnceCell::const_new();
    STARTED.get_or_init(start).await
}

/// The one that all tests share, started by whoever comes first.
pub async fn shared() -> &'static TestEnv {
    &started().await.0
}

/// The namespace of what was there before us.
pub async fn former() -> &'static str {
    &started().await.1
}

/// One for a test alone, which may restart its operator.
pub async fn own() -> TestEnv {
    start().await.0
}
