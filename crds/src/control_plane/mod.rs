//! Decides what a CoderControlPlane may say in `spec`, and what its kind is called.
//! Never decides what becomes of it: see the reconciler.

mod status;

use k8s_openapi::api::core::v1::EnvVar;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::exposure::ExposeSpec;
use crate::missing_spec::missing_spec_is_empty;
use crate::shared::{ProbeSpec, RbacSpec, SecretKeySelector, ServiceSpec, TlsSpec, arguments, environment};
use crate::workload::{MetricsSpec, workload_spec};

pub use status::{CoderControlPlaneStatus, ResolvedControlPlane};

workload_spec! {
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
        /// The operator's own access to coderd, needed for licenses, provisioners, workspaces and templates.
        /// Default: the operator makes itself a user and a short-lived token.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub operator_access: Option<OperatorAccessSpec>,
        /// Secret with the license to upload. Default key `license`; default: no license is uploaded.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub license_secret_ref: Option<SecretKeySelector>,
        /// What coderd may do in namespaces that hold workspaces. Default: pods, volume claims and Deployments, in
        /// the namespace of this object.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub rbac: Option<RbacSpec>,
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
        /// Seconds coderd may take to finish what it is doing when it is stopped. Default 60.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schemars(range(min = 0))]
        pub termination_grace_period_seconds: Option<i64>,
        /// Metrics for Prometheus. Default: none.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub metrics: Option<MetricsSpec>,
        /// How workspaces and templates of this control plane appear in `kubectl get`.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub aggregation: Option<AggregationSpec>,
    }
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
