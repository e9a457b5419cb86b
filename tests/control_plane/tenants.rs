//! Tenants share the workers of the reconciler: what hangs in the namespace of one keeps nobody else waiting.

use crate::shared::BINARY;
use serde_json::{Value, json};
use support::coderd::{Coderd, Fault, Occurrence};
use support::objects::is_ready;
use support::test_env::LIMIT;
use support::wait::holds;
use support::{Cluster, ClusterOptions, TestEnv, until};

/// More than there are workers.
const PLANES: usize = 10;

#[tokio::test(flavor = "multi_thread")]
async fn a_namespace_whose_coderd_hangs_keeps_no_other_from_becoming_ready() {
    let cluster = Cluster::start(ClusterOptions { nodes: 2, ..Default::default() }).await;
    let (slow, quick) = (cluster.namespace("slow").await, cluster.namespace("quick").await);
    let hanging = Coderd::builder().api_rate_limit(None).start().await;
    let env = TestEnv::builder(BINARY)
        .in_cluster(&cluster)
        .flag(format!("--resolve=*.{slow}.svc.cluster.local={}", hanging.addr()))
        // A question that is never answered never ends within this test.
        .flag("--coder-request-timeout=1h")
        .start()
        .await;
    let spec = json!({ "operatorAccess": { "disabled": true } });
    let names: Vec<String> = (0..PLANES).map(|number| format!("coder-{number}")).collect();
    for name in &names {
        env.apply_control_plane(&slow, name, &spec).await;
    }
    for name in &names {
        env.ready(&slow, name).await;
    }

    let hang = hanging.inject("GET /healthz", Occurrence::Every, Fault::hang());
    let again = format!("annotate ccp --all -n {slow} --overwrite coder.com/reconcile-at=again");
    cluster.kubectl(&again).await.expect_ok();
    until("two reconciles to hang", LIMIT, async || holds(hang.hits() >= 2, format!("{} hang", hang.hits())))
        .await;
    env.apply_control_plane(&quick, "coder", &spec).await;
    env.ready(&quick, "coder").await;
    assert_eq!(hang.hits(), 2, "so many workers does one namespace hold, and eight there are");

    hang.withdraw();
    hang.release();
    let handled = |plane: &Value| plane["status"]["lastHandledReconcileAt"] == "again" && is_ready(plane);
    for name in &names {
        env.until(&slow, name, "the others of the namespace to have their turn", handled).await;
    }
}
