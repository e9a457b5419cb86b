//! The ports that coderd and its proxies listen on, in the pods.
//! Which of them a Service leads to is decided there.

use k8s_openapi::api::core::v1::ContainerPort;

/// Plain HTTP.
pub(crate) const HTTP: i32 = 8080;
/// Plain HTTP of a workspace proxy.
pub(crate) const PROXY: i32 = 3001;
/// HTTPS.
pub(crate) const HTTPS: i32 = 8443;

/// A port of a container.
pub(crate) fn port(name: &str, number: i32) -> ContainerPort {
    ContainerPort {
        name: Some(name.to_owned()),
        container_port: number,
        protocol: Some("TCP".to_owned()),
        ..Default::default()
    }
}
