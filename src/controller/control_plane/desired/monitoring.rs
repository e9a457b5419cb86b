//! Decides whether coderd serves metrics, on which port, and the ServiceMonitor that makes Prometheus read them.
//! Never puts metrics on the Service: the ServiceMonitor names the port of the pods instead.

use k8s_openapi::api::core::v1::{ContainerPort, EnvVar};
use serde_json::json;

use super::Child;
use super::environment::variable;
use super::origin::Origin;
use super::pod;

/// Its kind, which comes with the Prometheus operator.
pub const SERVICE_MONITOR: [&str; 3] = ["monitoring.coreos.com/v1", "ServiceMonitor", "servicemonitors"];
/// Name of the port of the pods.
const PORT_NAME: &str = "prometheus";
const PORT: i32 = 2112;

impl Origin<'_> {
    fn serves_metrics(&self) -> bool {
        self.spec.metrics.as_ref().is_some_and(|metrics| metrics.enabled != Some(false))
    }
}

/// What makes coderd serve metrics.
pub(super) fn environment(origin: &Origin<'_>) -> Vec<EnvVar> {
    if !origin.serves_metrics() {
        return Vec::new();
    }
    vec![
        variable("CODER_PROMETHEUS_ENABLE", "true"),
        variable("CODER_PROMETHEUS_ADDRESS", &format!("0.0.0.0:{PORT}")),
    ]
}

/// The port of the pods they are served on.
pub(super) fn port(origin: &Origin<'_>) -> Option<ContainerPort> {
    origin.serves_metrics().then(|| pod::port(PORT_NAME, PORT))
}

/// The ServiceMonitor, where the spec wants one and there is something to read.
pub(super) fn child(origin: &Origin<'_>) -> Option<Child> {
    let metrics = origin.spec.metrics.as_ref().filter(|_| origin.serves_metrics())?;
    let spec = metrics.service_monitor.as_ref().filter(|spec| spec.enabled != Some(false))?;
    let mut metadata = origin.namesake();
    metadata.labels = Some(origin.labels_over(&spec.labels));
    let mut endpoint = json!({ "targetPort": PORT_NAME });
    if let Some(interval) = spec.interval.as_deref().filter(|interval| !interval.is_empty()) {
        endpoint["interval"] = json!(interval);
    }
    let spec = json!({"selector": origin.selector(), "endpoints": [endpoint]});
    Some(Child::extension(SERVICE_MONITOR, metadata, spec))
}

#[cfg(test)]
mod tests {
    use super::super::given::ControlPlane;
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
        let monitor = children.service_monitor.unwrap();
        assert_eq!((monitor.api_version, monitor.plural), ("monitoring.coreos.com/v1", "servicemonitors"));
        let selector = json!({"matchLabels": children.service.manifest["metadata"]["labels"]});
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
            assert_eq!(with(metrics).children().service_monitor, None);
        }
        assert_eq!(ControlPlane::test().children().service_monitor, None);
    }
}
