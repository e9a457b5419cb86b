//! Decides every value that children are built from: a control plane without an `Option` where there is a default.
//! It is the only input of `build`. Pure: what the cluster holds comes in as a value.

use crate::controller::children::ChildOwner;
use crate::controller::workload::exposure::{self, Expose};
use crate::controller::workload::pods::{self, PodSettings};
use crate::controller::workload::probes::{self, Probes};
use crate::controller::workload::service::{self, Front};
use crate::controller::workload::{monitoring, ports};
use crds::names::control_plane::{service_account, workload};
use crds::well_known::{app_name, default};
use crds::{CoderControlPlane, CoderControlPlaneSpec};
use k8s_openapi::api::rbac::v1::PolicyRule;
use std::collections::BTreeSet;

/// What the cluster says about an object before its children are built.
#[derive(Clone, Copy, Debug)]
pub struct Facts<'a> {
    /// Hash over every Secret and ConfigMap the pods read; another one rolls the Deployment.
    pub consumed_checksum: Option<&'a str>,
    /// Whether a source of `envFrom` gives the access URL.
    pub access_url_from_env_from: bool,
    /// The DNS domain of the cluster.
    pub cluster_domain: &'a str,
}

impl Facts<'_> {
    /// Nothing is known: enough to see which objects are referred to.
    pub const NONE: Facts<'static> =
        Facts { consumed_checksum: None, access_url_from_env_from: false, cluster_domain: "" };
}

/// A control plane with every value that its children are built from.
#[derive(Clone, Debug, PartialEq)]
pub struct ResolvedControlPlane {
    /// Whom the children belong to.
    pub owner: ChildOwner,
    /// The image of coderd.
    pub image: String,
    /// How many pods.
    pub replicas: i32,
    /// The Service.
    pub service: Front,
    /// Its pods.
    pub pods: PodSettings,
    /// What coderd may do where it runs workspaces; nothing if the spec says so.
    pub permissions: Option<WorkspacePermissions>,
    /// The address that coderd is told it has, where we give it.
    pub access_url: Option<String>,
    /// How users outside the cluster reach it.
    pub expose: Option<Expose>,
    /// The probes of its container.
    pub probes: Probes,
    /// Hash over everything that the pods read.
    pub consumed_checksum: Option<String>,
    /// The spec, for the fields that have no default.
    pub spec: CoderControlPlaneSpec,
}

/// What coderd may do where it runs workspaces.
#[derive(Clone, Debug, PartialEq)]
pub struct WorkspacePermissions {
    /// Where: its own namespace first, each once.
    pub namespaces: Vec<String>,
    /// Whether workspaces may be Deployments.
    pub deployments: bool,
    /// What the spec adds.
    pub extra_rules: Vec<PolicyRule>,
}

/// The control plane with every value that its children are built from. `complete` has every default of admission in it.
pub fn resolve(complete: &CoderControlPlane, facts: Facts<'_>) -> ResolvedControlPlane {
    let (owner, spec) = (owner(complete), &complete.spec);
    let tls = spec.tls.as_ref().map_or(&[][..], |tls| &tls.secret_names);
    let (account, metrics) = (service_account(&owner.name, spec), monitoring::resolve(spec.metrics.as_ref()));
    let pods = pods::resolve(spec.pod_fields(), account, tls, metrics, spec.grace_period_or_default());
    let access_url = webhooks::access_url(complete, facts.cluster_domain);
    let (readiness, liveness, startup) = (&spec.readiness_probe, &spec.liveness_probe, &spec.startup_probe);
    ResolvedControlPlane {
        image: spec.image.clone().unwrap_or_else(|| default::IMAGE.to_owned()),
        replicas: spec.replicas_or_default(),
        service: service::resolve(spec.service.as_ref(), ports::HTTP, pods.certificates.serve_tls()),
        pods,
        permissions: permissions(&owner.namespace, spec),
        access_url: access_url.filter(|_| !facts.access_url_from_env_from),
        expose: exposure::resolve(spec.expose.as_ref()),
        probes: probes::resolve(readiness.as_ref(), liveness.as_ref(), startup.as_ref()),
        consumed_checksum: facts.consumed_checksum.map(str::to_owned),
        spec: spec.clone(),
        owner,
    }
}

/// Whom the children of a control plane belong to.
pub(crate) fn owner(control_plane: &CoderControlPlane) -> ChildOwner {
    ChildOwner::of(&control_plane.metadata, "CoderControlPlane", app_name::CONTROL_PLANE, |name| {
        workload(name).to_owned()
    })
}

fn permissions(own_namespace: &str, spec: &CoderControlPlaneSpec) -> Option<WorkspacePermissions> {
    let given = spec.rbac.clone().unwrap_or_default();
    if !given.grants_workspaces() {
        return None;
    }
    let mut seen = BTreeSet::new();
    let others = given.workspace_namespaces.iter().map(|namespace| namespace.trim());
    let namespaces = std::iter::once(own_namespace)
        .chain(others.filter(|namespace| !namespace.is_empty()))
        .filter(|namespace| seen.insert(*namespace))
        .map(str::to_owned)
        .collect();
    let deployments = given.grants_deployments();
    Some(WorkspacePermissions { namespaces, deployments, extra_rules: given.extra_rules })
}

#[cfg(test)]
mod tests {
    use super::super::build::build;
    use super::super::build::fixtures::ControlPlane;
    use super::*;
    use serde_json::{Value, from_value};
    use webhooks::{Config, Kind};

    /// `crds::defaults` is where a default is applied, for `webhooks::resolved` as well. The image alone is filled in there and
    /// has a stand-in here; a field that is forgotten in one of the two would give an object that admission never saw other
    /// children.
    #[test]
    fn what_stands_for_an_absent_field_is_what_admission_fills_in() {
        for fixture in [ControlPlane::test(), ControlPlane::test().with_everything()] {
            let children = |object: &Value| {
                let object: CoderControlPlane = from_value(object.clone()).unwrap();
                build(&resolve(&object, Facts::NONE))
            };
            let complete = webhooks::resolved(Kind::ControlPlane, &fixture.object, &Config::default());
            assert_eq!(children(&complete), children(&fixture.object));
        }
    }
}
