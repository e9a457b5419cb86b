//! The probes of coderd.

use super::super::fixtures::ControlPlane;
use serde_json::{Value, json};

fn probe(times: [i32; 5]) -> Value {
    let [delay, period, timeout, success, failure] = times;
    let mut probe = json!({
        "httpGet": {"path": "/healthz", "port": "http", "scheme": "HTTP"}, "periodSeconds": period,
        "timeoutSeconds": timeout, "successThreshold": success, "failureThreshold": failure,
    });
    if delay > 0 {
        probe["initialDelaySeconds"] = json!(delay);
    }
    probe
}

#[test]
fn readiness_is_on_and_nothing_restarts_coderd_unless_it_is_asked_for() {
    let container = ControlPlane::test().container();
    assert_eq!(container["readinessProbe"], probe([0, 10, 1, 1, 3]));
    assert!(container.get("livenessProbe").is_none() && container.get("startupProbe").is_none());
    let watched = ControlPlane::test().with("livenessProbe", json!({"enabled": true})).container();
    assert_eq!(watched["startupProbe"], probe([0, 10, 1, 1, 2160]), "hours, and liveness waits for it");
    let given = ControlPlane::test().with("startupProbe", json!({"periodSeconds": 5})).container();
    assert_eq!(given["startupProbe"], probe([0, 5, 1, 1, 2160]), "what is given is on");
}

#[test]
fn zero_is_silence() {
    let zero = json!({"periodSeconds": 0, "timeoutSeconds": 0, "successThreshold": 0, "failureThreshold": 0});
    let container = ControlPlane::test().with("startupProbe", zero).container();
    assert_eq!(container["startupProbe"], probe([0, 10, 1, 1, 2160]));
}

#[test]
fn each_is_turned_on_and_off_and_timed_by_the_spec() {
    let times = json!({
        "enabled": true, "initialDelaySeconds": 1, "periodSeconds": 2, "timeoutSeconds": 3, "successThreshold": 4,
        "failureThreshold": 5,
    });
    for name in ["readinessProbe", "livenessProbe", "startupProbe"] {
        let on = ControlPlane::test().with(name, times.clone()).container();
        assert_eq!(on[name], probe([1, 2, 3, 4, 5]), "{name}");
        let off = ControlPlane::test().with(name, json!({"enabled": false})).container();
        assert!(off.get(name).is_none(), "{name}");
    }
}
