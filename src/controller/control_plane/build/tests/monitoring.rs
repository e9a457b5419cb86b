//! The metrics and the ServiceMonitor of a control plane.

use super::super::fixtures::ControlPlane;
use serde_json::{Value, json};

fn with(metrics: Value) -> ControlPlane {
    ControlPlane::test().with("metrics", metrics)
}

#[test]
fn metrics_are_a_port_of_the_pods_and_two_variables() {
    for (given, served) in
        [(ControlPlane::test(), false), (with(json!({})), true), (with(json!({"enabled": false})), false)]
    {
        let container = given.container();
        let ports = container["ports"].as_array().unwrap();
        let port = json!({"name": "prometheus", "containerPort": 2112, "protocol": "TCP"});
        assert_eq!(ports.contains(&port), served);
        let env = container["env"].as_array().unwrap();
        let address = json!({"name": "CODER_PROMETHEUS_ADDRESS", "value": "0.0.0.0:2112"});
        assert_eq!(env.contains(&address), served);
        assert_eq!(env.contains(&json!({"name": "CODER_PROMETHEUS_ENABLE", "value": "true"})), served);
    }
}

#[test]
fn a_service_monitor_reads_the_port_of_the_pods_behind_the_service() {
    let labels = json!({"release": "prometheus", "app.kubernetes.io/name": "mine"});
    let given = with(json!({"serviceMonitor": {"interval": "30s", "labels": labels}}));
    let children = given.children();
    let monitor = children.serving.service_monitor.unwrap();
    assert_eq!(monitor.kind.names(), ["monitoring.coreos.com/v1", "ServiceMonitor", "servicemonitors"]);
    let selector = json!({"matchLabels": children.serving.service.manifest["metadata"]["labels"]});
    let endpoints = json!([{"targetPort": "prometheus", "interval": "30s"}]);
    assert_eq!(monitor.manifest["spec"], json!({"selector": selector, "endpoints": endpoints}));
    let labels = &monitor.manifest["metadata"]["labels"];
    assert_eq!(
        (&labels["release"], &labels["app.kubernetes.io/name"]),
        (&json!("prometheus"), &json!("coder-control-plane"))
    );
}

#[test]
fn there_is_none_without_metrics_or_without_being_asked_for() {
    for metrics in [
        json!({}),
        json!({"serviceMonitor": {"enabled": false}}),
        json!({"enabled": false, "serviceMonitor": {}}),
    ] {
        assert_eq!(with(metrics).children().serving.service_monitor, None);
    }
    assert_eq!(ControlPlane::test().children().serving.service_monitor, None);
}
