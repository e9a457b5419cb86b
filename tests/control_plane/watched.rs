//! Every kind of child is watched: what somebody changes or deletes is mended within seconds, and what stood in the way
//! and is gone is noticed.

use crate::shared::shared;
use serde_json::{Value, json};
use std::time::{Duration, Instant};
use support::objects::condition;

/// Far below the minutes after which everything is looked at anyway.
const SECONDS: Duration = Duration::from_secs(20);

#[tokio::test(flavor = "multi_thread")]
async fn every_kind_of_child_that_is_changed_or_deleted_is_mended_within_seconds() {
    let env = shared().await;
    let ns = env.cluster.namespace("watched").await;
    let gateway = json!({ "host": "coder.example.com", "parentRefs": [{ "name": "edge" }] });
    let spec = json!({ "expose": { "gateway": gateway }, "podDisruptionBudget": { "maxUnavailable": 1 },
        "metrics": { "serviceMonitor": { "interval": "30s" } } });
    env.apply_control_plane(&ns, "coder", &spec).await;
    env.ready(&ns, "coder").await;
    for (kind, strange) in [
        ("httproute", json!({ "spec": { "hostnames": ["elsewhere.example.com"] } })),
        ("poddisruptionbudget", json!({ "spec": { "maxUnavailable": 7 } })),
        ("servicemonitor", json!({ "spec": { "endpoints": [] } })),
    ] {
        let wanted = env.get(kind, &ns, "coder").await.unwrap();
        let began = Instant::now();
        let words = format!("patch {kind} coder -n {ns} --type=merge -p {strange}");
        env.cluster.kubectl(&words).await.expect_ok();
        let is_mended = |object: &Value| object["spec"] == wanted["spec"];
        env.until_object(kind, &ns, "coder", "to be mended", is_mended).await;
        assert!(began.elapsed() < SECONDS, "{kind} was mended after {:?}", began.elapsed());
        let began = Instant::now();
        env.cluster.kubectl(&format!("delete {kind} coder -n {ns}")).await.expect_ok();
        env.until_object(kind, &ns, "coder", "to be back", is_mended).await;
        assert!(began.elapsed() < SECONDS, "{kind} came back after {:?}", began.elapsed());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_child_that_an_earlier_object_of_the_name_left_is_missed_when_it_goes() {
    let env = shared().await;
    let ns = env.cluster.namespace("earlier").await;
    // As the garbage collector finds it; the finalizer holds it until we have looked.
    let service = json!({ "apiVersion": "v1", "kind": "Service", "metadata": { "name": "coder", "namespace": ns,
            "labels": { "app.kubernetes.io/managed-by": "coder-k8s" }, "finalizers": ["example.com/hold"],
            "ownerReferences": [{ "apiVersion": "coder.com/v1alpha1", "kind": "CoderControlPlane", "name": "coder",
                "uid": "11111111-2222-4333-8444-555555555555", "controller": true, "blockOwnerDeletion": true }] },
        "spec": { "ports": [{ "port": 80 }] } });
    env.apply(&service).await;
    env.apply_control_plane(&ns, "coder", &json!({})).await;
    let is_in_the_way = |plane: &Value| {
        condition(plane, "Stalled")["reason"] == "ChildConflict"
            && condition(plane, "DeploymentAvailable")["status"] == "True"
    };
    env.until(&ns, "coder", "the conflict", is_in_the_way).await;
    let release = json!({ "metadata": { "finalizers": null } });
    let began = Instant::now();
    env.cluster.kubectl(&format!("delete service coder -n {ns} --wait=false")).await.expect_ok();
    let words = format!("patch service coder -n {ns} --type=merge -p {release}");
    env.cluster.kubectl(&words).await.expect_ok();
    env.ready(&ns, "coder").await;
    assert!(began.elapsed() < SECONDS, "noticed after {:?}", began.elapsed());
}
