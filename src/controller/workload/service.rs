//! Decides the Service in front of the pods: its type, its ports, the annotations of the spec.
//! Never exposes metrics: a Service may be open to the world.

use super::ports;
use crate::controller::children::{Child, ChildOwner, StringMap, non_empty};
use crds::shared::ServiceSpec as Given;
use k8s_openapi::api::core::v1::{Service, ServicePort, ServiceSpec};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use webhooks::defaults::HTTPS;

/// Port of the Service for plain HTTP where the one of the spec is taken by HTTPS.
const PLAIN: i32 = 80;

/// The Service that a spec asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Front {
    type_: String,
    port: i32,
    annotations: StringMap,
    /// Where the pods serve plain HTTP.
    target: i32,
    /// Whether the pods serve HTTPS themselves.
    tls: bool,
}

/// The Service that a spec asks for, to pods that serve plain HTTP on this port, whether or not they serve HTTPS.
pub(crate) fn resolve(spec: Option<&Given>, target: i32, tls: bool) -> Front {
    let spec = spec.cloned().unwrap_or_default();
    Front {
        type_: spec.type_or_default().to_owned(),
        port: spec.port_or_default(),
        annotations: spec.annotations,
        target,
        tls,
    }
}

impl Front {
    /// The port that speaks plain HTTP, which is what an Ingress or a Gateway talks to.
    pub fn plain_port(&self) -> i32 {
        if self.tls && self.port == HTTPS { PLAIN } else { self.port }
    }

    /// The port of the spec comes first. With HTTPS there are always both: 443, and one that speaks plain HTTP.
    fn ports(&self) -> Vec<ServicePort> {
        let plain = port("http", self.plain_port(), self.target);
        if !self.tls {
            return vec![plain];
        }
        let secure = port("https", HTTPS, ports::HTTPS);
        if self.port == HTTPS { vec![secure, plain] } else { vec![plain, secure] }
    }
}

/// The Service.
pub(crate) fn child(owner: &ChildOwner, front: &Front) -> Child {
    let mut metadata = owner.workload_metadata();
    metadata.annotations = non_empty(&front.annotations);
    Child::of(&Service {
        metadata,
        spec: Some(ServiceSpec {
            type_: Some(front.type_.clone()),
            selector: Some(owner.labels()),
            ports: Some(front.ports()),
            ..Default::default()
        }),
        status: None,
    })
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
