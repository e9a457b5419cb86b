//! Tenants share the workers of the reconciler: what hangs in the namespace of one keeps nobody else waiting.

use crate::stage::{BINARY, LIMIT, condition, is_ready};
use serde_json::{Value, json};
use support::coderd::{Coderd, Fault, Occurrence};
use support::wait::holds;
use support::{Cluster, ClusterOptions, Installation, Operator, until};

/// More than there are workers.
const PLANES: usize = 10;

#[tokio::test(flavor = "multi_thread")]
async fn a_namespace_whose_coderd_hangs_keeps_no_other_from_becoming_ready() {
    let cluster = Cluster::start(ClusterOptions { nodes: 2, ..ClusterOptions::default() }).await;
    let installation = Installation::new(&cluster, "operator").await;
    let (slow, quick) = (cluster.namespace("slow").await, cluster.namespace("quick").await);
    let hanging = Coderd::builder().api_rate_limit(None).start().await;
    let coderd = Coderd::builder().api_rate_limit(None).start().await;
    let mut options = installation.operator("controller").await;
    options.flags.extend([
        format!("--resolve=*.{slow}.svc.cluster.local={}", hanging.addr()),
        format!("--resolve=*.svc.cluster.local={}", coderd.addr()),
        // A question that is never answered never ends within this test.
        "--coder-request-timeout=1h".to_owned(),
    ]);
    let mut operator = Operator::start(BINARY, &options).await;
    operator.ready(LIMIT).await;
    let names: Vec<String> = (0..PLANES).map(|number| format!("coder-{number}")).collect();
    for name in &names {
        apply(&cluster, &slow, name).await;
    }
    for name in &names {
        ready(&cluster, &slow, name).await;
    }

    let hang = hanging.inject("GET /healthz", Occurrence::Every, Fault::hang());
    let again = format!("annotate ccp --all -n {slow} --overwrite coder.com/reconcile-at=again");
    cluster.kubectl(&again).await.expect_ok();
    until("two reconciles to hang", LIMIT, async || holds(hang.hits() >= 2, format!("{} hang", hang.hits())))
        .await;
    apply(&cluster, &quick, "coder").await;
    ready(&cluster, &quick, "coder").await;
    assert_eq!(hang.hits(), 2, "so many workers does one namespace hold, and eight there are");

    hang.withdraw();
    hang.release();
    for name in &names {
        until("the others of the namespace to have their turn", LIMIT, async || {
            let plane = get(&cluster, &slow, name).await;
            let handled = plane["status"]["lastHandledReconcileAt"] == "again";
            holds(handled && is_ready(&plane), condition(&plane, "Ready").to_string())
        })
        .await;
    }
}

async fn apply(cluster: &Cluster, namespace: &str, name: &str) {
    let plane = json!({ "apiVersion": "coder.com/v1alpha1", "kind": "CoderControlPlane",
        "metadata": { "name": name, "namespace": namespace }, "spec": { "operatorAccess": { "disabled": true } } });
    cluster.kubectl_with_input("apply --server-side -f -", &plane.to_string()).await.expect_ok();
}

async fn get(cluster: &Cluster, namespace: &str, name: &str) -> Value {
    let text = cluster.kubectl(&format!("get ccp {name} -n {namespace} -o json")).await.expect_ok();
    serde_json::from_str(&text).unwrap()
}

async fn ready(cluster: &Cluster, namespace: &str, name: &str) {
    until(&format!("{namespace}/{name} to be ready"), LIMIT, async || {
        let plane = get(cluster, namespace, name).await;
        holds(is_ready(&plane), condition(&plane, "Ready").to_string())
    })
    .await;
}
