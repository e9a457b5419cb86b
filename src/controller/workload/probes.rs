//! Decides how the kubelet asks for the health of a container: `GET /healthz` on the plain port, with the times of the spec.
//! Never turns on by itself what restarts a container: a long migration of the database looks like a hang.

use crds::defaults;
use crds::shared::ProbeSpec;
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
    let wanted = defaults::Probes::of(readiness, liveness, startup);
    Probes {
        readiness: probe(wanted.readiness),
        liveness: probe(wanted.liveness),
        startup: probe(wanted.startup),
    }
}

fn probe(wanted: defaults::Probe) -> Option<Probe> {
    wanted.enabled.then(|| Probe {
        http_get: Some(HTTPGetAction {
            path: Some("/healthz".to_owned()),
            port: IntOrString::String("http".to_owned()),
            scheme: Some("HTTP".to_owned()),
            ..Default::default()
        }),
        initial_delay_seconds: Some(wanted.initial_delay_seconds).filter(|seconds| *seconds != 0),
        period_seconds: Some(wanted.period_seconds),
        timeout_seconds: Some(wanted.timeout_seconds),
        success_threshold: Some(wanted.success_threshold),
        failure_threshold: Some(wanted.failure_threshold),
        ..Default::default()
    })
}
