//! Decides what a CoderControlPlane may say in `spec`, and what its kind is called.
//! Never decides what becomes of it: see the reconciler.

mod operations;
mod status;

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{
    Affinity, Container, EnvFromSource, EnvVar, HostAlias, Lifecycle, LocalObjectReference,
    PodSecurityContext, ResourceRequirements, SecurityContext, Toleration, TopologySpreadConstraint, Volume,
    VolumeMount,
};
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::exposure::ExposeSpec;
use crate::missing_spec::missing_spec_is_empty;
use crate::shared::{
    ProbeSpec, RbacSpec, SecretKeySelector, ServiceAccountSpec, ServiceSpec, TlsSpec, arguments,
    bounded_string_map, environment, named_secrets,
};

pub use operations::{DisruptionBudgetSpec, MetricsSpec, ServiceMonitorSpec};
pub use status::{CoderControlPlaneStatus, ResolvedControlPlane};

/// What a Coder deployment should look like. Everything is optional: `spec` may be omitted.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "coder.com",
    version = "v1alpha1",
    kind = "CoderControlPlane",
    plural = "codercontrolplanes",
    shortname = "ccp",
    category = "coder",
    namespaced,
    status = "CoderControlPlaneStatus",
    derive = "Default",
    derive = "PartialEq",
    doc = "A Coder deployment: coderd, its Service, its access to Kubernetes and, if wanted, its exposure and license.",
    scale(
        spec_replicas_path = ".spec.replicas",
        status_replicas_path = ".status.replicas",
        label_selector_path = ".status.selector"
    )
)]
#[serde(rename_all = "camelCase", remote = "Self")]
// A rule of the whole spec, so that adding or removing the field is a change of names like any other.
#[schemars(extend("x-kubernetes-validations" = [{
    "rule": "(has(self.aggregation) && has(self.aggregation.names) ? self.aggregation.names : 'Short') == (has(oldSelf.aggregation) && has(oldSelf.aggregation.names) ? oldSelf.aggregation.names : 'Short')",
    "message": "aggregation.names cannot change: workspaces and templates would be renamed under their users",
    "fieldPath": ".aggregation",
}]))]
pub struct CoderControlPlaneSpec {
    /// True to leave everything as it is until it is false again: the operator then changes nothing for this
    /// object. Default false.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub suspend: Option<bool>,
    /// Image of coderd. Default: the release the operator was built for, for example
    /// `ghcr.io/coder/coder:v2.36.1`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024))]
    pub image: Option<String>,
    /// Number of coderd pods. Default 1; 0 stops coderd; more than 1 needs a Premium license.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub replicas: Option<i32>,
    /// The Service in front of coderd. Default: `ClusterIP` on port 80.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service: Option<ServiceSpec>,
    /// Arguments after `coder server`, for example `--prometheus-enable`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(transform = arguments)]
    pub extra_args: Vec<String>,
    /// Environment of coderd, after what the operator sets. `CODER_PG_CONNECTION_URL` belongs here, best from
    /// a Secret.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(transform = environment)]
    pub extra_env: Vec<EnvVar>,
    /// Secrets with credentials for a private registry.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(transform = named_secrets)]
    pub image_pull_secrets: Vec<LocalObjectReference>,
    /// The operator's own access to coderd, needed for licenses, provisioners, workspaces and templates.
    /// Default: the operator makes itself a user and a short-lived token.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub operator_access: Option<OperatorAccessSpec>,
    /// Secret with the license to upload. Default key `license`; default: no license is uploaded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub license_secret_ref: Option<SecretKeySelector>,
    /// The ServiceAccount of coderd. Default: one named like this object, created by the operator.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service_account: Option<ServiceAccountSpec>,
    /// What coderd may do in namespaces that hold workspaces. Default: pods, volume claims and Deployments, in
    /// the namespace of this object.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rbac: Option<RbacSpec>,
    /// CPU and memory of the coderd container. Default: nothing requested, no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resources: Option<ResourceRequirements>,
    /// Security context of the coderd container. Where it is silent: no privilege escalation, all capabilities
    /// dropped.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub security_context: Option<SecurityContext>,
    /// Security context of the pod. Where it is silent: not root, user and group 1000, the seccomp profile of
    /// the container runtime.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod_security_context: Option<PodSecurityContext>,
    /// HTTPS served by coderd itself. Default: plain HTTP, as wanted behind an Ingress or a Gateway.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls: Option<TlsSpec>,
    /// When a pod receives traffic. Default: on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub readiness_probe: Option<ProbeSpec>,
    /// When a pod is restarted. Default: off, because a long database migration looks like a hang.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub liveness_probe: Option<ProbeSpec>,
    /// How long coderd may take to start, migrations of its database included, before its container is
    /// restarted. Default: on where liveness is on, six hours.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub startup_probe: Option<ProbeSpec>,
    /// Set `CODER_ACCESS_URL` to the address of the Service unless `extraEnv` or `envFrom` sets it. Default
    /// true.
    #[serde(rename = "envUseClusterAccessURL", skip_serializing_if = "Option::is_none")]
    pub env_use_cluster_access_url: Option<bool>,
    /// How users outside the cluster reach coderd. Default: coderd is not exposed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expose: Option<ExposeSpec>,
    /// ConfigMaps and Secrets whose keys become environment variables. Each entry names one of the two.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 128))]
    #[schemars(extend("x-kubernetes-validations" = [{
        "rule": "self.all(source, !(has(source.configMapRef) && has(source.secretRef)))",
        "message": "each envFrom entry may specify at most one of configMapRef or secretRef",
    }]))]
    pub env_from: Vec<EnvFromSource>,
    /// Further volumes of the pod.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 256))]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub volumes: Vec<Volume>,
    /// Where the coderd container mounts them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 256))]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["mountPath"]))]
    pub volume_mounts: Vec<VolumeMount>,
    /// CA certificates that coderd trusts, besides those of its image.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub certs: Option<CertsSpec>,
    /// Labels a node must have to run coderd, for example `kubernetes.io/arch: amd64`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(transform = bounded_string_map)]
    pub node_selector: BTreeMap<String, String>,
    /// Taints of nodes that coderd tolerates.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub tolerations: Vec<Toleration>,
    /// Which nodes and neighbours coderd prefers or needs. Default: other nodes than its other pods, if there
    /// are any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub affinity: Option<Affinity>,
    /// How coderd pods spread over zones and nodes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    #[schemars(extend(
        "x-kubernetes-list-type" = "map",
        "x-kubernetes-list-map-keys" = ["topologyKey", "whenUnsatisfiable"]
    ))]
    pub topology_spread_constraints: Vec<TopologySpreadConstraint>,
    /// Labels of the pods, in addition to those the operator sets; those of the operator win.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(transform = bounded_string_map)]
    pub pod_labels: BTreeMap<String, String>,
    /// Annotations of the pods, in addition to those the operator sets; those of the operator win.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(transform = bounded_string_map)]
    pub pod_annotations: BTreeMap<String, String>,
    /// Containers that run before coderd; with `restartPolicy: Always`, beside it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub init_containers: Vec<Container>,
    /// What happens right after the coderd container starts and right before it stops. Default: nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lifecycle: Option<Lifecycle>,
    /// Lines for the `/etc/hosts` of the pods.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["ip"]))]
    pub host_aliases: Vec<HostAlias>,
    /// PriorityClass of the pods. Default: the one the cluster marks as default.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub priority_class_name: Option<String>,
    /// Seconds coderd may take to finish what it is doing when it is stopped. Default 60.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub termination_grace_period_seconds: Option<i64>,
    /// How many pods may be taken away at once, for example to drain nodes. Default: no budget, however many
    /// replicas there are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod_disruption_budget: Option<DisruptionBudgetSpec>,
    /// Metrics for Prometheus. Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metrics: Option<MetricsSpec>,
    /// How workspaces and templates of this control plane appear in `kubectl get`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub aggregation: Option<AggregationSpec>,
}

missing_spec_is_empty!(CoderControlPlaneSpec);

/// The operator's access to coderd.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OperatorAccessSpec {
    /// True to give the operator no access. Licenses, provisioners, workspaces and templates then need another
    /// way in. Default false.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disabled: Option<bool>,
    /// Accepted and ignored: the generated token lives in the operator's namespace, under a name of its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub generated_token_secret_name: Option<String>,
    /// Secret with a token you made yourself, which the operator then uses as it is. Default key `token`;
    /// default: the operator makes its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token_secret_ref: Option<SecretKeySelector>,
}

/// Authorities coderd trusts.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CertsSpec {
    /// Keys of Secrets, each with certificates in PEM. They appear under `/etc/ssl/certs`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 256))]
    pub secrets: Vec<CertSecretSelector>,
}

/// One key of a Secret, both given.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CertSecretSelector {
    /// Name of the Secret, in the namespace of this object.
    #[schemars(length(max = 253))]
    pub name: String,
    /// Key inside the Secret, for example `ca.crt`.
    #[schemars(length(max = 253))]
    pub key: String,
}

/// How a control plane appears in the aggregated API.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AggregationSpec {
    /// See [`AggregationNames`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub names: Option<AggregationNames>,
}

/// How workspaces and templates are named. `Short` (the default): `<org>.<user>.<workspace>` and `<org>.<template>`.
/// `Prefixed`: the name of this control plane comes first, so that several can share a namespace. Cannot change.
// A field of an enum type shows the description of the type: it is written here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum AggregationNames {
    /// Organization first.
    #[default]
    Short,
    /// Control plane first.
    Prefixed,
}
