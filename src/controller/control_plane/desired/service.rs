//! Decides the Service in front of coderd: its kind, its ports, the annotations of the spec.
//! Never exposes metrics: a Service may be open to the world.

use crds::well_known::default;
use k8s_openapi::api::core::v1::{Service, ServicePort, ServiceSpec};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::origin::Origin;
use super::pod;
use super::{Child, filled};
use webhooks::defaults::HTTPS;

/// The Service.
pub(super) fn child(origin: &Origin<'_>) -> Child {
    let spec = origin.spec.service.clone().unwrap_or_default();
    let mut metadata = origin.namesake();
    metadata.annotations = filled(&spec.annotations);
    Child::of(&Service {
        metadata,
        spec: Some(ServiceSpec {
            type_: Some(spec.type_.unwrap_or_else(|| default::SERVICE_TYPE.to_owned())),
            selector: Some(origin.labels()),
            ports: Some(ports(origin)),
            ..Default::default()
        }),
        status: None,
    })
}

/// The port of the spec comes first. With HTTPS there are always both: 443, and one that speaks plain HTTP.
fn ports(origin: &Origin<'_>) -> Vec<ServicePort> {
    let plain = port("http", origin.plain_port(), pod::HTTP_PORT);
    if !origin.serves_tls() {
        return vec![plain];
    }
    let secure = port("https", HTTPS, pod::HTTPS_PORT);
    if origin.service_port() == HTTPS { vec![secure, plain] } else { vec![plain, secure] }
}

fn port(name: &str, port: i32, target: i32) -> ServicePort {
    ServicePort {
        name: Some(name.to_owned()),
        port,
        protocol: Some("TCP".to_owned()),
        target_port: Some(IntOrString::Int(target)),
        ..Default::default()
    }
}

#[cfg(test)]
mod tests {
    use super::super::given::ControlPlane;
    use serde_json::{Value, json};

    fn port(name: &str, port: i32, target: i32) -> Value {
        json!({"name": name, "port": port, "protocol": "TCP", "targetPort": target})
    }

    #[test]
    fn the_ports_follow_from_the_spec_and_tls() {
        let test = ControlPlane::test;
        let tls = || ControlPlane::test().with_tls(&["a"]);
        for (given, expected) in [
            (test(), json!([port("http", 80, 8080)])),
            (test().on_port(443), json!([port("http", 443, 8080)])),
            (test().on_port(9000), json!([port("http", 9000, 8080)])),
            (tls(), json!([port("http", 80, 8080), port("https", 443, 8443)])),
            (tls().on_port(9000), json!([port("http", 9000, 8080), port("https", 443, 8443)])),
            (tls().on_port(443), json!([port("https", 443, 8443), port("http", 80, 8080)])),
            (test().with("metrics", json!({})), json!([port("http", 80, 8080)])),
        ] {
            assert_eq!(given.children().service.manifest["spec"]["ports"], expected);
        }
    }

    #[test]
    fn it_finds_the_pods_and_carries_the_annotations_of_the_spec() {
        let annotations = json!({"example.com/a": "b"});
        let given =
            ControlPlane::test().with("service", json!({"type": "LoadBalancer", "annotations": annotations}));
        let children = given.children();
        let service = &children.service.manifest;
        assert_eq!(children.service.name, "coder");
        assert_eq!(service["spec"]["type"], "LoadBalancer");
        assert_eq!(service["metadata"]["annotations"], annotations);
        let selector = &children.deployment.manifest["spec"]["selector"]["matchLabels"];
        assert_eq!(&service["spec"]["selector"], selector);
        assert_eq!(service["metadata"]["labels"], *selector);
        assert_eq!(ControlPlane::test().children().service.manifest["spec"]["type"], "ClusterIP");
    }
}
