//! Decides the Deployment of pods: how many there are, and how it finds them.
//! Never sets the strategy or a limit of history: those who run the cluster may.

use crate::controller::children::{Child, ChildOwner};
use k8s_openapi::api::apps::v1::{Deployment, DeploymentSpec};
use k8s_openapi::api::core::v1::PodTemplateSpec;

/// The Deployment. Pods count as available when they have been ready for `min_ready_seconds`.
pub(crate) fn child(
    owner: &ChildOwner,
    replicas: i32,
    min_ready_seconds: Option<i32>,
    template: PodTemplateSpec,
) -> Child {
    Child::of(&Deployment {
        metadata: owner.workload_metadata(),
        spec: Some(DeploymentSpec {
            replicas: Some(replicas),
            selector: owner.selector(),
            min_ready_seconds,
            template,
            ..Default::default()
        }),
        status: None,
    })
}
