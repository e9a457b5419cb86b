//! Decides what a CoderProvisioner may say in `spec`, and what its kind is called.
//! Never decides whether a key is made, kept or rotated: see the reconciler.

mod status;

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::EnvVar;
use k8s_openapi::api::rbac::v1::PolicyRule;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::missing_spec::missing_spec_is_empty;
use crate::shared::{
    ControlPlaneRef, DeletionPolicy, SecretKeySelector, arguments, bounded_string_map, environment,
};
use crate::workload::{PodMetricsSpec, workload_spec};

pub use status::{CoderProvisionerStatus, ProvisionerKeyStatus, RecordedKey, ResolvedProvisioner};

workload_spec! {
    /// What a group of provisioner daemons should look like.
    #[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
    #[kube(
        group = "coder.com",
        version = "v1alpha1",
        kind = "CoderProvisioner",
        plural = "coderprovisioners",
        shortname = "cprov",
        category = "coder",
        namespaced,
        status = "CoderProvisionerStatus",
        derive = "Default",
        derive = "PartialEq",
        doc = "External provisioner daemons of a CoderControlPlane, with a key of their own. Needs a license that covers them.",
        scale(
            spec_replicas_path = ".spec.replicas",
            status_replicas_path = ".status.replicas",
            label_selector_path = ".status.selector"
        )
    )]
    #[serde(rename_all = "camelCase", remote = "Self")]
    pub struct CoderProvisionerSpec {
        /// True to leave everything as it is until it is false again: the operator then changes nothing for this
        /// object. Default false.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub suspend: Option<bool>,
        /// The CoderControlPlane, in this namespace, whose builds the daemons run.
        // Required inside `spec`, and `spec` itself is not: exactly what the API has always accepted. It is also why
        // this kind, alone of the three, has no default for `spec`: `{}` would not satisfy the rule it stands under.
        pub control_plane_ref: ControlPlaneRef,
        /// Organization of the key, by name. Default `default`.
        // Empty has always meant the default, so the pattern lets it pass.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schemars(length(max = 32), regex(pattern = r"^([a-zA-Z0-9]+(-[a-zA-Z0-9]+)*)?$"))]
        #[schemars(extend("x-kubernetes-validations" = [{
            "rule": "!(self in ['new', 'create'])",
            "message": "coderd reserves the organization names new and create",
        }]))]
        pub organization_name: Option<String>,
        /// The provisioner key in coderd and the Secret it is kept in. Default: both named after this object.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub key: Option<ProvisionerKeySpec>,
        /// Number of daemons; each runs one build at a time. Default 1.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schemars(range(min = 0))]
        pub replicas: Option<i32>,
        /// Tags that decide which builds the daemons take, for example `environment: on-prem`. They are part of the
        /// key: changing them makes a new one.
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        #[schemars(transform = bounded_string_map)]
        pub tags: BTreeMap<String, String>,
        /// Image of the daemons. Default: the image of the control plane, which keeps versions together.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schemars(length(max = 1024))]
        pub image: Option<String>,
        /// Arguments after `coder provisioner start`, for example `--verbose`.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        #[schemars(transform = arguments)]
        pub extra_args: Vec<String>,
        /// Environment of the daemons, after what the operator sets.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        #[schemars(transform = environment)]
        pub extra_env: Vec<EnvVar>,
        /// Seconds a daemon may take to finish its build when it is stopped. Default 600.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schemars(range(min = 0))]
        pub termination_grace_period_seconds: Option<i64>,
        /// What the daemons may do in this namespace. Default: manage pods and volume claims.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub rbac: Option<ProvisionerRbacSpec>,
        /// Metrics for Prometheus. Default: none.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub metrics: Option<PodMetricsSpec>,
        /// How the key is made. Default: with the operator's own access to the control plane.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub bootstrap: Option<ProvisionerBootstrapSpec>,
        /// See [`DeletionPolicy`].
        #[serde(skip_serializing_if = "Option::is_none")]
        pub deletion_policy: Option<DeletionPolicy>,
    }
}

missing_spec_is_empty!(CoderProvisionerSpec);

/// A provisioner key and its Secret.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProvisionerKeySpec {
    /// Name of the key in coderd, at most 64 characters. Default: the name of this object. A rotation adds a
    /// number to it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    #[schemars(extend("x-kubernetes-validations" = [{
        "rule": "!(self.lowerAscii() in ['built-in', 'user-auth', 'psk'])",
        "message": "coderd reserves the key names built-in, user-auth and psk",
    }]))]
    pub name: Option<String>,
    /// Name of the Secret the operator keeps the key in. Default: the name of this object and
    /// `-provisioner-key`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub secret_name: Option<String>,
    /// Key inside that Secret. Default `key`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub secret_key: Option<String>,
}

/// Rights of the daemons in their namespace.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProvisionerRbacSpec {
    /// Allow the daemons to manage pods and volume claims, which templates need. Default true.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workspace_perms: Option<bool>,
    /// Also allow Deployments, for templates that run workspaces as Deployments. Default false.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enable_deployments: Option<bool>,
    /// Further rules for the Role in this namespace. Whoever writes them must hold these rights.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub extra_rules: Vec<PolicyRule>,
}

/// How a provisioner key is made.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProvisionerBootstrapSpec {
    /// Secret with a coderd token to use instead of the operator's. Its author must be allowed to read it.
    /// Default key `token`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub credentials_secret_ref: Option<SecretKeySelector>,
}
