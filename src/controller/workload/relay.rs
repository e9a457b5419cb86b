//! Decides how the replicas of coderd, or of a proxy, reach each other to relay DERP traffic: by the address of their pods.
//! Never by the Service, which leads to any of them. Without it two who meet at different replicas cannot talk.

use super::environment::{of_pod, variable};
use k8s_openapi::api::core::v1::EnvVar;

const POD_IP: &str = "KUBE_POD_IP";
const RELAY: &str = "CODER_DERP_SERVER_RELAY_URL";

/// The variables that say so, for a container that serves plain HTTP on this port. The address of the pod comes before what
/// refers to it, whoever gives it.
pub(crate) fn environment(given: &[EnvVar], port: i32) -> [EnvVar; 2] {
    let own_pod_ip = given.iter().rev().find(|variable| variable.name == POD_IP).cloned();
    let relay = format!("http://$({POD_IP}):{port}");
    [own_pod_ip.unwrap_or_else(|| of_pod(POD_IP, "status.podIP")), variable(RELAY, &relay)]
}

/// What is given and not there already.
pub(crate) fn others(given: &[EnvVar]) -> impl Iterator<Item = EnvVar> {
    given.iter().filter(|variable| variable.name != POD_IP).cloned()
}
