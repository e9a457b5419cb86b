//! Decides whether the pods serve metrics, on which port, and the ServiceMonitor or PodMonitor that makes Prometheus read
//! them. Never puts metrics on the Service: both name the port of the pods instead.

use k8s_openapi::api::core::v1::{ContainerPort, EnvVar};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::{Value, json};

use super::environment::variable;
use super::ports;
use crate::controller::children::{Child, ChildKind, ChildOwner};
use crds::workload::{MetricsSpec, MonitorSpec, PodMetricsSpec};

/// Name of the port of the pods.
const PORT_NAME: &str = "prometheus";
const PORT: i32 = 2112;

/// Metrics that the pods serve.
#[derive(Clone, Debug, PartialEq)]
pub struct Metrics {
    /// The monitor that is asked for.
    pub monitor: Option<MonitorSpec>,
}

/// The metrics that a spec asks for, if any, of pods behind a Service.
pub(crate) fn resolve(spec: Option<&MetricsSpec>) -> Option<Metrics> {
    let spec = spec?;
    served(spec.is_on(), spec.service_monitor.as_ref())
}

/// The same of pods that no Service leads to.
pub(crate) fn resolve_of_pods(spec: Option<&PodMetricsSpec>) -> Option<Metrics> {
    let spec = spec?;
    served(spec.is_on(), spec.pod_monitor.as_ref())
}

fn served(is_on: bool, monitor: Option<&MonitorSpec>) -> Option<Metrics> {
    let monitor = monitor.filter(|monitor| monitor.is_on()).cloned();
    is_on.then_some(Metrics { monitor })
}

/// What makes the process serve metrics.
pub(crate) fn environment() -> [EnvVar; 2] {
    [
        variable("CODER_PROMETHEUS_ENABLE", "true"),
        variable("CODER_PROMETHEUS_ADDRESS", &format!("0.0.0.0:{PORT}")),
    ]
}

/// The port of the pods they are served on.
pub(crate) fn port() -> ContainerPort {
    ports::port(PORT_NAME, PORT)
}

/// The ServiceMonitor.
pub(crate) fn service_monitor(owner: &ChildOwner, spec: &MonitorSpec) -> Child {
    let endpoint = endpoint("targetPort", spec);
    let manifest = json!({"selector": owner.selector(), "endpoints": [endpoint]});
    Child::extension(ChildKind::ServiceMonitor, metadata(owner, spec), manifest)
}

/// The PodMonitor.
pub(crate) fn pod_monitor(owner: &ChildOwner, spec: &MonitorSpec) -> Child {
    let endpoint = endpoint("port", spec);
    let manifest = json!({"selector": owner.selector(), "podMetricsEndpoints": [endpoint]});
    Child::extension(ChildKind::PodMonitor, metadata(owner, spec), manifest)
}

fn metadata(owner: &ChildOwner, spec: &MonitorSpec) -> ObjectMeta {
    let labels = Some(owner.labels_over(&spec.labels));
    ObjectMeta { labels, ..owner.workload_metadata() }
}

/// The port of the pods, under the name that the kind has for it.
fn endpoint(port: &str, spec: &MonitorSpec) -> Value {
    let mut endpoint = json!({ port: PORT_NAME });
    if let Some(interval) = spec.interval.as_deref().filter(|interval| !interval.is_empty()) {
        endpoint["interval"] = json!(interval);
    }
    endpoint
}
