//! Decides how the kubelet asks coderd for its health: `GET /healthz` on the plain port, with the times of the spec.
//! Never turns on by itself what restarts coderd: a long migration of the database looks like a hang.

use crds::shared::ProbeSpec;
use crds::well_known::default;
use k8s_openapi::api::core::v1::{HTTPGetAction, Probe};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::origin::Origin;

/// When a pod receives traffic.
pub(super) fn readiness(origin: &Origin<'_>) -> Option<Probe> {
    probe(&origin.spec.readiness_probe, true, 3)
}

/// When a container is restarted.
pub(super) fn liveness(origin: &Origin<'_>) -> Option<Probe> {
    probe(&origin.spec.liveness_probe, false, 3)
}

/// How long a container may take to start; until then the other two wait. Without liveness there is nothing that would
/// have to wait, and nothing is to be restarted.
pub(super) fn startup(origin: &Origin<'_>) -> Option<Probe> {
    let given = origin.spec.startup_probe.is_some();
    probe(&origin.spec.startup_probe, given || liveness(origin).is_some(), default::STARTUP_FAILURES)
}

fn probe(spec: &Option<ProbeSpec>, on: bool, failures: i32) -> Option<Probe> {
    let spec = spec.clone().unwrap_or_default();
    if !spec.enabled.unwrap_or(on) {
        return None;
    }
    // Kubernetes takes 0 for silence.
    let given = |number: Option<i32>| number.filter(|number| *number != 0);
    Some(Probe {
        http_get: Some(HTTPGetAction {
            path: Some("/healthz".to_owned()),
            port: IntOrString::String("http".to_owned()),
            scheme: Some("HTTP".to_owned()),
            ..Default::default()
        }),
        initial_delay_seconds: given(spec.initial_delay_seconds),
        period_seconds: given(spec.period_seconds).or(Some(10)),
        timeout_seconds: given(spec.timeout_seconds).or(Some(1)),
        success_threshold: given(spec.success_threshold).or(Some(1)),
        failure_threshold: given(spec.failure_threshold).or(Some(failures)),
        ..Default::default()
    })
}

#[cfg(test)]
mod tests {
    use super::super::given::ControlPlane;
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
        let zero =
            json!({"periodSeconds": 0, "timeoutSeconds": 0, "successThreshold": 0, "failureThreshold": 0});
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
}
