//! Decides what an absent field stands for where that follows from the spec alone: the only place where such a default is applied.
//! Admission and `render` show it, reconcilers build with it. Never decides an image or a name: those follow from elsewhere.

use crate::provisioner::ProvisionerRbacSpec;
use crate::shared::{ProbeSpec, RbacSpec, ServiceAccountSpec, ServiceSpec};
use crate::well_known::default;
use crate::workload::{DisruptionBudgetSpec, MetricsSpec, MonitorSpec, PodMetricsSpec};
use crate::{CoderControlPlaneSpec, CoderProvisionerSpec, CoderWorkspaceProxySpec};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use serde::Serialize;

impl CoderControlPlaneSpec {
    /// How many pods.
    pub fn replicas_or_default(&self) -> i32 {
        self.replicas.unwrap_or(default::REPLICAS)
    }

    /// Seconds that coderd has to stop.
    pub fn grace_period_or_default(&self) -> i64 {
        self.termination_grace_period_seconds.unwrap_or(default::CONTROL_PLANE_GRACE_PERIOD_SECONDS)
    }

    /// Port of the Service.
    pub fn service_port_or_default(&self) -> i32 {
        self.service.as_ref().map_or(default::SERVICE_PORT, ServiceSpec::port_or_default)
    }
}

impl CoderProvisionerSpec {
    /// How many pods.
    pub fn replicas_or_default(&self) -> i32 {
        self.replicas.unwrap_or(default::REPLICAS)
    }

    /// Seconds that daemons have to finish their builds.
    pub fn grace_period_or_default(&self) -> i64 {
        self.termination_grace_period_seconds.unwrap_or(default::TERMINATION_GRACE_PERIOD_SECONDS)
    }
}

impl CoderWorkspaceProxySpec {
    /// How many pods.
    pub fn replicas_or_default(&self) -> i32 {
        self.replicas.unwrap_or(default::REPLICAS)
    }

    /// Seconds that the proxy has to stop.
    pub fn grace_period_or_default(&self) -> i64 {
        self.termination_grace_period_seconds.unwrap_or(default::WORKSPACE_PROXY_GRACE_PERIOD_SECONDS)
    }

    /// Port of the Service.
    pub fn service_port_or_default(&self) -> i32 {
        self.service.as_ref().map_or(default::SERVICE_PORT, ServiceSpec::port_or_default)
    }
}

impl ServiceSpec {
    /// Its type.
    pub fn type_or_default(&self) -> &str {
        self.type_.as_deref().unwrap_or(default::SERVICE_TYPE)
    }

    /// Its port.
    pub fn port_or_default(&self) -> i32 {
        self.port.unwrap_or(default::SERVICE_PORT)
    }
}

impl ServiceAccountSpec {
    /// Whether somebody else makes the account.
    pub fn is_given(&self) -> bool {
        self.disable_create.unwrap_or(false)
    }
}

impl RbacSpec {
    /// Whether coderd may run workspaces.
    pub fn grants_workspaces(&self) -> bool {
        self.workspace_perms.unwrap_or(true)
    }

    /// Whether workspaces may be Deployments.
    pub fn grants_deployments(&self) -> bool {
        self.enable_deployments.unwrap_or(true)
    }
}

impl ProvisionerRbacSpec {
    /// Whether daemons may run workspaces.
    pub fn grants_workspaces(&self) -> bool {
        self.workspace_perms.unwrap_or(true)
    }

    /// Whether workspaces may be Deployments.
    pub fn grants_deployments(&self) -> bool {
        self.enable_deployments.unwrap_or(false)
    }
}

impl DisruptionBudgetSpec {
    /// Whether there is one: what is given is on.
    pub fn is_on(&self) -> bool {
        self.enabled.unwrap_or(true)
    }

    /// How many pods may be missing, where the spec does not say how many have to stay.
    pub fn max_unavailable_or_default(&self) -> Option<IntOrString> {
        let one = || IntOrString::Int(default::MAX_UNAVAILABLE);
        self.min_available.is_none().then(|| self.max_unavailable.clone().unwrap_or_else(one))
    }
}

impl MetricsSpec {
    /// Whether pods serve metrics: what is given is on.
    pub fn is_on(&self) -> bool {
        self.enabled.unwrap_or(true)
    }
}

impl PodMetricsSpec {
    /// Whether pods serve metrics: what is given is on.
    pub fn is_on(&self) -> bool {
        self.enabled.unwrap_or(true)
    }
}

impl MonitorSpec {
    /// Whether there is one: what is given is on.
    pub fn is_on(&self) -> bool {
        self.enabled.unwrap_or(true)
    }
}

/// A probe with every value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Probe {
    /// Whether the kubelet probes at all.
    pub enabled: bool,
    /// Seconds before the first one.
    pub initial_delay_seconds: i32,
    /// Seconds between two.
    pub period_seconds: i32,
    /// Seconds that one may take.
    pub timeout_seconds: i32,
    /// Successes in a row that count.
    pub success_threshold: i32,
    /// Failures in a row that count.
    pub failure_threshold: i32,
}

impl Probe {
    fn of(spec: Option<&ProbeSpec>, on: bool, failures: i32) -> Self {
        let spec = spec.cloned().unwrap_or_default();
        // Kubernetes takes 0 for silence.
        let number = |given: Option<i32>, default| given.filter(|number| *number != 0).unwrap_or(default);
        Self {
            enabled: spec.enabled.unwrap_or(on),
            initial_delay_seconds: number(spec.initial_delay_seconds, 0),
            period_seconds: number(spec.period_seconds, default::PROBE_PERIOD_SECONDS),
            timeout_seconds: number(spec.timeout_seconds, default::PROBE_TIMEOUT_SECONDS),
            success_threshold: number(spec.success_threshold, default::PROBE_SUCCESSES),
            failure_threshold: number(spec.failure_threshold, failures),
        }
    }
}

/// The three probes of a container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Probes {
    /// When a pod receives traffic: on.
    pub readiness: Probe,
    /// When a container is restarted: off, since a long migration of the database looks like a hang.
    pub liveness: Probe,
    /// How long a container may take to start: on where it is given, or where something else would restart the container.
    pub startup: Probe,
}

impl Probes {
    /// Those that a spec asks for.
    pub fn of(
        readiness: Option<&ProbeSpec>,
        liveness: Option<&ProbeSpec>,
        startup: Option<&ProbeSpec>,
    ) -> Self {
        let liveness = Probe::of(liveness, false, default::PROBE_FAILURES);
        let awaited = startup.is_some() || liveness.enabled;
        Self {
            readiness: Probe::of(readiness, true, default::PROBE_FAILURES),
            startup: Probe::of(startup, awaited, default::STARTUP_FAILURES),
            liveness,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_given_counts_and_a_probe_takes_zero_for_silence() {
        let spec = ServiceSpec { port: Some(8080), ..Default::default() };
        assert_eq!((spec.port_or_default(), spec.type_or_default()), (8080, "ClusterIP"));
        let given = ProbeSpec { period_seconds: Some(0), timeout_seconds: Some(5), ..Default::default() };
        let Probes { readiness, liveness, startup } = Probes::of(Some(&given), None, None);
        assert_eq!((readiness.period_seconds, readiness.timeout_seconds), (10, 5));
        assert_eq!([readiness.enabled, liveness.enabled, startup.enabled], [true, false, false]);
    }

    #[test]
    fn the_start_is_waited_for_where_something_restarts_a_container_or_somebody_asks() {
        let (on, asked) = (ProbeSpec { enabled: Some(true), ..Default::default() }, ProbeSpec::default());
        let off = ProbeSpec { enabled: Some(false), ..Default::default() };
        for (liveness, startup, expected) in [
            (None, None, false),
            (Some(&on), None, true),
            (None, Some(&asked), true),
            (Some(&on), Some(&off), false),
        ] {
            assert_eq!(Probes::of(None, liveness, startup).startup.enabled, expected);
        }
    }

    #[test]
    fn a_budget_promises_one_thing() {
        let none = DisruptionBudgetSpec::default();
        assert_eq!(none.max_unavailable_or_default(), Some(IntOrString::Int(1)));
        let min = DisruptionBudgetSpec { min_available: Some(IntOrString::Int(2)), ..none };
        assert_eq!(min.max_unavailable_or_default(), None);
    }
}
