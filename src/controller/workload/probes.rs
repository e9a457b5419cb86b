//! Decides how the kubelet asks for the health of a container: `GET /healthz` on the plain port, with the times of the spec.
//! Never turns on by itself what restarts a container: a long migration of the database looks like a hang.

use crds::shared::ProbeSpec;
use crds::well_known::default;
use k8s_openapi::api::core::v1::{HTTPGetAction, Probe};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

/// The three probes of a container.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Probes {
    /// When a pod receives traffic.
    pub readiness: Option<Probe>,
    /// When a container is restarted.
    pub liveness: Option<Probe>,
    /// How long a container may take to start; until then the other two wait.
    pub startup: Option<Probe>,
}

/// The probes that a spec asks for. Without liveness nothing has to wait for the start, and nothing is to be restarted.
pub(crate) fn resolve(
    readiness: Option<&ProbeSpec>,
    liveness: Option<&ProbeSpec>,
    startup: Option<&ProbeSpec>,
) -> Probes {
    let liveness = probe(liveness, false, 3);
    let awaited = startup.is_some() || liveness.is_some();
    Probes {
        readiness: probe(readiness, true, 3),
        startup: probe(startup, awaited, default::STARTUP_FAILURES),
        liveness,
    }
}

fn probe(spec: Option<&ProbeSpec>, on: bool, failures: i32) -> Option<Probe> {
    let spec = spec.cloned().unwrap_or_default();
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
