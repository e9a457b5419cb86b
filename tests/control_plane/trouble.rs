//! Children that are refused and rollouts that are late: who must act is told, and nobody is called for nothing.

use crate::stage::{Stage, condition, is_ready};
use crate::text;
use serde_json::{Value, json};

/// A quota of none of a kind: the API server refuses each.
async fn forbid(stage: &Stage, ns: &str, name: &str, what: &str) {
    let words = format!("create quota {name} -n {ns} --hard=count/{what}=0");
    stage.cluster.kubectl(&words).await.expect_ok();
}

async fn allow(stage: &Stage, ns: &str, name: &str) {
    stage.cluster.kubectl(&format!("delete quota {name} -n {ns}")).await.expect_ok();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_way_from_outside_is_stalled_until_it_is_mended() {
    let stage = Stage::shared().await;
    let ns = stage.cluster.namespace("refused").await;
    forbid(stage, &ns, "ingresses", "ingresses.networking.k8s.io").await;
    forbid(stage, &ns, "routes", "httproutes.gateway.networking.k8s.io").await;
    stage.apply(&ns, "coder", &json!({ "expose": { "ingress": { "host": "a.example.com" } } })).await;
    let gateway = json!({ "host": "b.example.com", "parentRefs": [{ "name": "edge" }] });
    stage.apply(&ns, "route", &json!({ "expose": { "gateway": gateway } })).await;
    for name in ["coder", "route"] {
        let stalled = |plane: &Value| condition(plane, "Stalled")["status"] == "True";
        let plane = stage.until(&ns, name, "Stalled", stalled).await;
        assert_eq!(condition(&plane, "Stalled")["reason"], "ChildRefused");
        assert_eq!(condition(&plane, "Exposed")["status"], "False");
        let message = text(condition(&plane, "Ready"), "/message");
        assert!(message.contains("exceeded quota"), "{message}");
    }
    allow(stage, &ns, "ingresses").await;
    allow(stage, &ns, "routes").await;
    for name in ["coder", "route"] {
        stage.pass(&ns, name, "allowed").await;
        stage.ready(&ns, name).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_change_takes_neither_coderd_nor_the_way_to_it_away() {
    let stage = Stage::shared().await;
    let ns = stage.cluster.namespace("unchanged").await;
    stage.apply(&ns, "coder", &json!({})).await;
    stage.ready(&ns, "coder").await;
    let wrong =
        json!({ "nodeSelector": { "a": "not a value!" }, "service": { "annotations": { "a/b/c": "x" } } });
    stage.apply(&ns, "coder", &wrong).await;
    let plane = stage
        .until(&ns, "coder", "Stalled", |plane| condition(plane, "Stalled")["reason"] == "ChildRefused")
        .await;
    let message = text(condition(&plane, "Ready"), "/message");
    assert!(message.contains("cannot apply Service"), "{message}");
    assert_eq!(condition(&plane, "DeploymentAvailable")["reason"], "NotApplied");
    let reachable = condition(&plane, "CoderdReachable");
    assert_eq!((&reachable["status"], &reachable["reason"]), (&json!("True"), &json!("Answered")));
    assert_eq!(plane["status"]["readyReplicas"], 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_way_from_outside_stays_until_the_one_in_its_place_stands() {
    let stage = Stage::shared().await;
    let ns = stage.cluster.namespace("instead").await;
    stage.apply(&ns, "coder", &json!({ "expose": { "ingress": { "host": "a.example.com" } } })).await;
    stage.ready(&ns, "coder").await;
    forbid(stage, &ns, "routes", "httproutes.gateway.networking.k8s.io").await;
    let gateway = json!({ "host": "a.example.com", "parentRefs": [{ "name": "edge" }] });
    stage.apply(&ns, "coder", &json!({ "expose": { "gateway": gateway } })).await;
    stage
        .until(&ns, "coder", "ExposureFailed", |plane| {
            condition(plane, "Exposed")["reason"] == "ExposureFailed"
        })
        .await;
    stage.pass(&ns, "coder", "forbidden").await;
    assert!(stage.get("ingress", &ns, "coder").await.is_some(), "users have no other way");
    allow(stage, &ns, "routes").await;
    stage.pass(&ns, "coder", "allowed").await;
    stage.ready(&ns, "coder").await;
    stage.until_gone("ingress", &ns, "coder").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_service_monitor_that_is_refused_is_told_and_coderd_is_ready_all_the_same() {
    let stage = Stage::shared().await;
    let ns = stage.cluster.namespace("unmonitored").await;
    forbid(stage, &ns, "monitors", "servicemonitors.monitoring.coreos.com").await;
    stage.apply(&ns, "coder", &json!({ "metrics": { "serviceMonitor": {} } })).await;
    let plane = stage.ready(&ns, "coder").await;
    let message = text(condition(&plane, "Ready"), "/message");
    assert!(message.contains("ServiceMonitor") && message.contains("exceeded quota"), "{message}");
    allow(stage, &ns, "monitors").await;
    stage.pass(&ns, "coder", "allowed").await;
    let told =
        |plane: &Value| is_ready(plane) && !text(condition(plane, "Ready"), "/message").contains("quota");
    stage.until(&ns, "coder", "nothing more to be told", told).await;
    assert!(stage.get("servicemonitor", &ns, "coder").await.is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_late_rollout_is_stuck_only_where_its_pods_are_not_alive() {
    let stage = Stage::shared().await;
    let ns = stage.cluster.namespace("late").await;
    // On no node, so that the test says how the pod is.
    stage.apply(&ns, "coder", &json!({ "nodeSelector": { "example.com/nowhere": "true" } })).await;
    stage.until_object("deployment", &ns, "coder", "to be there", |one| one["spec"].is_object()).await;
    let hurry = r#"{"spec":{"progressDeadlineSeconds":1}}"#;
    stage.cluster.kubectl(&format!("patch deployment coder -n {ns} -p {hurry}")).await.expect_ok();
    let late = |one: &Value| one["status"].to_string().contains("ProgressDeadlineExceeded");
    stage.until_object("deployment", &ns, "coder", "to be late", late).await;
    let plane = stage
        .until(&ns, "coder", "RolloutStuck", |plane| condition(plane, "Ready")["reason"] == "RolloutStuck")
        .await;
    assert_eq!(condition(&plane, "Stalled")["status"], "True");
    let message = text(condition(&plane, "Ready"), "/message");
    assert!(message.contains("Unschedulable"), "{message}");

    let pod = stage.cluster.kubectl(&format!("get pod -n {ns} -o name")).await.expect_ok();
    let migrating = r#"{"status":{"phase":"Running","containerStatuses":[{"name":"coder","image":"x","imageID":"x","ready":false,"restartCount":0,"state":{"running":{"startedAt":"2026-01-01T00:00:00Z"}}}]}}"#;
    let words = format!("patch {} -n {ns} --subresource=status --type=merge -p {migrating}", pod.trim());
    stage.cluster.kubectl(&words).await.expect_ok();
    let plane = stage.pass(&ns, "coder", "migrating").await;
    assert_eq!(condition(&plane, "Stalled")["status"], "False", "{}", plane["status"]);
    assert_eq!(condition(&plane, "Reconciling")["status"], "True");
    assert_eq!(condition(&plane, "DeploymentAvailable")["reason"], "RolloutSlow");
    let container = stage.get("deployment", &ns, "coder").await.unwrap();
    let container = container.pointer("/spec/template/spec/containers/0").unwrap();
    assert!(container["startupProbe"].is_null(), "nothing kills a migration");
}
