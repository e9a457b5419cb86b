//! The metrics of daemons and the PodMonitor.

use super::super::fixtures::Provisioner;
use serde_json::{Value, json};

fn with(metrics: Value) -> Provisioner {
    Provisioner::test().with("metrics", metrics)
}

#[test]
fn metrics_are_a_port_of_the_pods_and_two_variables() {
    for (given, served) in
        [(Provisioner::test(), false), (with(json!({})), true), (with(json!({"enabled": false})), false)]
    {
        let container = given.container();
        let port = json!([{"name": "prometheus", "containerPort": 2112, "protocol": "TCP"}]);
        assert_eq!(container.get("ports"), served.then_some(&port));
        let env = container["env"].as_array().unwrap();
        let address = json!({"name": "CODER_PROMETHEUS_ADDRESS", "value": "0.0.0.0:2112"});
        assert_eq!(env.contains(&address), served);
        assert_eq!(env.contains(&json!({"name": "CODER_PROMETHEUS_ENABLE", "value": "true"})), served);
    }
}

#[test]
fn a_pod_monitor_reads_that_port_of_these_pods() {
    let labels = json!({"release": "prometheus", "app.kubernetes.io/name": "mine"});
    let given = with(json!({"podMonitor": {"interval": "30s", "labels": labels}}));
    let monitor = given.children().pod_monitor.unwrap();
    assert_eq!(monitor.kind.names(), ["monitoring.coreos.com/v1", "PodMonitor", "podmonitors"]);
    let selector = &given.deployment()["spec"]["selector"];
    let endpoints = json!([{"port": "prometheus", "interval": "30s"}]);
    assert_eq!(monitor.manifest["spec"], json!({"selector": selector, "podMetricsEndpoints": endpoints}));
    let labels = &monitor.manifest["metadata"]["labels"];
    assert_eq!(labels["release"], "prometheus");
    assert_eq!(labels["app.kubernetes.io/name"], "coder-provisioner");
}

#[test]
fn there_is_none_without_metrics_or_without_being_asked_for() {
    for metrics in
        [json!({}), json!({"podMonitor": {"enabled": false}}), json!({"enabled": false, "podMonitor": {}})]
    {
        assert_eq!(with(metrics).children().pod_monitor, None);
    }
    assert_eq!(Provisioner::test().children().pod_monitor, None);
}
