//! Children that are refused and rollouts that are late: who must act is told, and nobody is called for nothing.

use crate::shared::shared;
use serde_json::{Value, json};
use support::TestEnv;
use support::objects::{condition, is_ready, text};

/// A quota of none of a kind: the API server refuses each.
async fn forbid(env: &TestEnv, ns: &str, name: &str, what: &str) {
    let words = format!("create quota {name} -n {ns} --hard=count/{what}=0");
    env.cluster.kubectl(&words).await.expect_ok();
}

async fn allow(env: &TestEnv, ns: &str, name: &str) {
    env.cluster.kubectl(&format!("delete quota {name} -n {ns}")).await.expect_ok();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_way_from_outside_is_stalled_until_it_is_mended() {
    let env = shared().await;
    let ns = env.cluster.namespace("refused").await;
    forbid(env, &ns, "ingresses", "ingresses.networking.k8s.io").await;
    forbid(env, &ns, "routes", "httproutes.gateway.networking.k8s.io").await;
    env.apply_control_plane(&ns, "coder", &json!({ "expose": { "ingress": { "host": "a.example.com" } } }))
        .await;
    let gateway = json!({ "host": "b.example.com", "parentRefs": [{ "name": "edge" }] });
    env.apply_control_plane(&ns, "route", &json!({ "expose": { "gateway": gateway } })).await;
    for name in ["coder", "route"] {
        let stalled = |plane: &Value| condition(plane, "Stalled")["status"] == "True";
        let plane = env.until(&ns, name, "Stalled", stalled).await;
        assert_eq!(condition(&plane, "Stalled")["reason"], "ChildRefused");
        assert_eq!(condition(&plane, "Exposed")["status"], "False");
        let message = text(condition(&plane, "Ready"), "/message");
        assert!(message.contains("exceeded quota"), "{message}");
    }
    allow(env, &ns, "ingresses").await;
    allow(env, &ns, "routes").await;
    for name in ["coder", "route"] {
        env.reconcile(&ns, name, "allowed").await;
        env.ready(&ns, name).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_change_takes_neither_coderd_nor_the_way_to_it_away() {
    let env = shared().await;
    let ns = env.cluster.namespace("unchanged").await;
    env.apply_control_plane(&ns, "coder", &json!({})).await;
    env.ready(&ns, "coder").await;
    let wrong =
        json!({ "nodeSelector": { "a": "not a value!" }, "service": { "annotations": { "a/b/c": "x" } } });
    env.apply_control_plane(&ns, "coder", &wrong).await;
    let plane = env
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
    let env = shared().await;
    let ns = env.cluster.namespace("instead").await;
    env.apply_control_plane(&ns, "coder", &json!({ "expose": { "ingress": { "host": "a.example.com" } } }))
        .await;
    env.ready(&ns, "coder").await;
    forbid(env, &ns, "routes", "httproutes.gateway.networking.k8s.io").await;
    let gateway = json!({ "host": "a.example.com", "parentRefs": [{ "name": "edge" }] });
    env.apply_control_plane(&ns, "coder", &json!({ "expose": { "gateway": gateway } })).await;
    env.until(&ns, "coder", "ExposureFailed", |plane| {
        condition(plane, "Exposed")["reason"] == "ExposureFailed"
    })
    .await;
    env.reconcile(&ns, "coder", "forbidden").await;
    assert!(env.get("ingress", &ns, "coder").await.is_some(), "users have no other way");
    allow(env, &ns, "routes").await;
    env.reconcile(&ns, "coder", "allowed").await;
    env.ready(&ns, "coder").await;
    env.until_gone("ingress", &ns, "coder").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_service_monitor_that_is_refused_is_told_and_coderd_is_ready_all_the_same() {
    let env = shared().await;
    let ns = env.cluster.namespace("unmonitored").await;
    forbid(env, &ns, "monitors", "servicemonitors.monitoring.coreos.com").await;
    env.apply_control_plane(&ns, "coder", &json!({ "metrics": { "serviceMonitor": {} } })).await;
    let plane = env.ready(&ns, "coder").await;
    let message = text(condition(&plane, "Ready"), "/message");
    assert!(message.contains("ServiceMonitor") && message.contains("exceeded quota"), "{message}");
    allow(env, &ns, "monitors").await;
    env.reconcile(&ns, "coder", "allowed").await;
    let told =
        |plane: &Value| is_ready(plane) && !text(condition(plane, "Ready"), "/message").contains("quota");
    env.until(&ns, "coder", "nothing more to be told", told).await;
    assert!(env.get("servicemonitor", &ns, "coder").await.is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_late_rollout_is_stuck_only_where_its_pods_are_not_alive() {
    let env = shared().await;
    let ns = env.cluster.namespace("late").await;
    // On no node, so that the test says how the pod is.
    env.apply_control_plane(&ns, "coder", &json!({ "nodeSelector": { "example.com/nowhere": "true" } }))
        .await;
    env.until_object("deployment", &ns, "coder", "to be there", |one| one["spec"].is_object()).await;
    let hurry = r#"{"spec":{"progressDeadlineSeconds":1}}"#;
    env.cluster.kubectl(&format!("patch deployment coder -n {ns} -p {hurry}")).await.expect_ok();
    let late = |one: &Value| one["status"].to_string().contains("ProgressDeadlineExceeded");
    env.until_object("deployment", &ns, "coder", "to be late", late).await;
    let plane = env
        .until(&ns, "coder", "RolloutStuck", |plane| condition(plane, "Ready")["reason"] == "RolloutStuck")
        .await;
    assert_eq!(condition(&plane, "Stalled")["status"], "True");
    let message = text(condition(&plane, "Ready"), "/message");
    assert!(message.contains("Unschedulable"), "{message}");

    let pod = env.cluster.kubectl(&format!("get pod -n {ns} -o name")).await.expect_ok();
    let migrating = r#"{"status":{"phase":"Running","containerStatuses":[{"name":"coder","image":"x","imageID":"x","ready":false,"restartCount":0,"state":{"running":{"startedAt":"2026-01-01T00:00:00Z"}}}]}}"#;
    let words = format!("patch {} -n {ns} --subresource=status --type=merge -p {migrating}", pod.trim());
    env.cluster.kubectl(&words).await.expect_ok();
    let plane = env.reconcile(&ns, "coder", "migrating").await;
    assert_eq!(condition(&plane, "Stalled")["status"], "False", "{}", plane["status"]);
    assert_eq!(condition(&plane, "Reconciling")["status"], "True");
    assert_eq!(condition(&plane, "DeploymentAvailable")["reason"], "RolloutSlow");
    let container = env.get("deployment", &ns, "coder").await.unwrap();
    let container = container.pointer("/spec/template/spec/containers/0").unwrap();
    assert!(container["startupProbe"].is_null(), "nothing kills a migration");
}
