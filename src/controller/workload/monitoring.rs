//! Decides whether the pods serve metrics, on which port, and the ServiceMonitor that makes Prometheus read them.
//! Never puts metrics on the Service: the ServiceMonitor names the port of the pods instead.

use k8s_openapi::api::core::v1::{ContainerPort, EnvVar};
use serde_json::json;

use super::ports;
use crate::controller::children::{Child, ChildKind, ChildOwner};
use crds::control_plane::{MetricsSpec, ServiceMonitorSpec};

/// Name of the port of the pods.
const PORT_NAME: &str = "prometheus";
const PORT: i32 = 2112;

/// Metrics that the pods serve.
#[derive(Clone, Debug, PartialEq)]
pub struct Metrics {
    /// The ServiceMonitor that is asked for.
    pub monitor: Option<ServiceMonitorSpec>,
}

/// The metrics that a spec asks for, if any.
pub(crate) fn resolve(spec: Option<&MetricsSpec>) -> Option<Metrics> {
    let spec = spec.filter(|spec| spec.enabled != Some(false))?;
    Some(Metrics { monitor: spec.service_monitor.clone().filter(|monitor| monitor.enabled != Some(false)) })
}

/// What makes the process serve metrics.
pub(crate) fn environment() -> [EnvVar; 2] {
    let variable = |name: &str, value: String| EnvVar {
        name: name.to_owned(),
        value: Some(value),
        ..Default::default()
    };
    [
        variable("CODER_PROMETHEUS_ENABLE", "true".to_owned()),
        variable("CODER_PROMETHEUS_ADDRESS", format!("0.0.0.0:{PORT}")),
    ]
}

/// The port of the pods they are served on.
pub(crate) fn port() -> ContainerPort {
    ports::port(PORT_NAME, PORT)
}

/// The ServiceMonitor.
pub(crate) fn child(owner: &ChildOwner, spec: &ServiceMonitorSpec) -> Child {
    let mut metadata = owner.workload_metadata();
    metadata.labels = Some(owner.labels_over(&spec.labels));
    let mut endpoint = json!({ "targetPort": PORT_NAME });
    if let Some(interval) = spec.interval.as_deref().filter(|interval| !interval.is_empty()) {
        endpoint["interval"] = json!(interval);
    }
    let spec = json!({"selector": owner.selector(), "endpoints": [endpoint]});
    Child::extension(ChildKind::ServiceMonitor, metadata, spec)
}
