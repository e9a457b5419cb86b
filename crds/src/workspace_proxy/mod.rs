//! Decides what a CoderWorkspaceProxy may say in `spec`, and what its kind is called.
//! Never decides whether a proxy is registered or kept: see the reconciler.

mod status;

use k8s_openapi::api::core::v1::EnvVar;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::exposure::ExposeSpec;
use crate::missing_spec::missing_spec_is_empty;
use crate::shared::{
    ControlPlaneRef, DeletionPolicy, ProbeSpec, SecretKeySelector, ServiceSpec, TlsSpec, arguments,
    environment,
};
use crate::workload::{MetricsSpec, workload_spec};

pub use status::{
    CoderWorkspaceProxyStatus, ProxyRegistrationStatus, RecordedProxy, ReplacedToken, ResolvedWorkspaceProxy,
};

workload_spec! {
    /// What a workspace proxy should look like. It needs one of `controlPlaneRef`, `bootstrap`, or `primaryAccessURL` with
    /// `proxySessionTokenSecretRef`.
    #[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
    #[kube(
        group = "coder.com",
        version = "v1alpha1",
        kind = "CoderWorkspaceProxy",
        plural = "coderworkspaceproxies",
        shortname = "cwsp",
        category = "coder",
        namespaced,
        status = "CoderWorkspaceProxyStatus",
        derive = "Default",
        derive = "PartialEq",
        doc = "A workspace proxy: it brings users closer to their workspaces than the control plane is. Needs a Premium license.",
        scale(
            spec_replicas_path = ".spec.replicas",
            status_replicas_path = ".status.replicas",
            label_selector_path = ".status.selector"
        )
    )]
    #[serde(rename_all = "camelCase", remote = "Self")]
    pub struct CoderWorkspaceProxySpec {
        /// True to leave everything as it is until it is false again: the operator then changes nothing for this
        /// object. Default false.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub suspend: Option<bool>,
        /// The CoderControlPlane, in this namespace, that the operator registers the proxy with. Preferred: the image
        /// follows that of the control plane, and no credentials are needed here.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub control_plane_ref: Option<ControlPlaneRef>,
        /// How the proxy appears in coderd, and where its token is kept. Only with `controlPlaneRef`; default: named after
        /// this object.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub registration: Option<ProxyRegistrationSpec>,
        /// Image of the proxy; keep it at the version of the control plane. Default: the image of the control plane with
        /// `controlPlaneRef`, otherwise the release the operator was built for, for example
        /// `ghcr.io/coder/coder:v2.36.1`.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schemars(length(max = 1024))]
        pub image: Option<String>,
        /// Number of proxy pods. Default 1; 0 stops the proxy.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schemars(range(min = 0))]
        pub replicas: Option<i32>,
        /// The Service in front of the proxy. Default: `ClusterIP` on port 80.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub service: Option<ServiceSpec>,
        /// Address by which users and coderd reach the proxy, for example `https://frankfurt.example.com`. Default: the
        /// host of `expose`, with https unless it is an Ingress without a certificate; otherwise the address of the
        /// Service inside the cluster.
        #[serde(rename = "accessURL", skip_serializing_if = "Option::is_none")]
        #[schemars(length(max = 2048))]
        pub access_url: Option<String>,
        /// Wildcard for workspace applications on subdomains, for example `*.frankfurt.example.com`. Default: the wildcard
        /// host of `expose`, otherwise none.
        #[serde(rename = "wildcardAccessURL", skip_serializing_if = "Option::is_none")]
        #[schemars(length(max = 2048))]
        pub wildcard_access_url: Option<String>,
        /// Address of the control plane as the proxy dials it, for example `https://coder.example.com`. Default: the
        /// Service of the control plane with `controlPlaneRef`, otherwise `bootstrap.coderURL`.
        #[serde(rename = "primaryAccessURL", skip_serializing_if = "Option::is_none")]
        #[schemars(length(max = 2048))]
        pub primary_access_url: Option<String>,
        /// Secret with the session token of a proxy you registered yourself. Default key `token`; not used with
        /// `controlPlaneRef` or `bootstrap`.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub proxy_session_token_secret_ref: Option<SecretKeySelector>,
        /// Let the operator register the proxy at an address and with credentials that you give. Prefer
        /// `controlPlaneRef` for a control plane in this namespace.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub bootstrap: Option<ProxyBootstrapSpec>,
        /// True to relay connections only and serve no workspace applications. Default false.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub derp_only: Option<bool>,
        /// Arguments after `coder wsproxy server`, for example `--prometheus-enable`.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        #[schemars(transform = arguments)]
        pub extra_args: Vec<String>,
        /// Environment of the proxy, after what the operator sets.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        #[schemars(transform = environment)]
        pub extra_env: Vec<EnvVar>,
        /// HTTPS served by the proxy itself. Default: plain HTTP, as wanted behind an Ingress or a Gateway.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub tls: Option<TlsSpec>,
        /// When a pod receives traffic. Default: on.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub readiness_probe: Option<ProbeSpec>,
        /// When a pod is restarted. Default: off; a proxy that lost its control plane ends by itself.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub liveness_probe: Option<ProbeSpec>,
        /// How long the proxy may take to start before its container is restarted. Default: on where liveness is on.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub startup_probe: Option<ProbeSpec>,
        /// How users outside the cluster reach the proxy. Default: the proxy is not exposed.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub expose: Option<ExposeSpec>,
        /// Seconds the proxy may take to finish what it is doing when it is stopped. Default 60.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schemars(range(min = 0))]
        pub termination_grace_period_seconds: Option<i64>,
        /// Metrics for Prometheus. Default: none.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub metrics: Option<MetricsSpec>,
        /// See [`DeletionPolicy`].
        #[serde(skip_serializing_if = "Option::is_none")]
        pub deletion_policy: Option<DeletionPolicy>,
    }
}

missing_spec_is_empty!(CoderWorkspaceProxySpec);

/// How a proxy appears in coderd, and where its token is kept.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProxyRegistrationSpec {
    /// Name of the proxy in coderd. Default: the name of this object. A new name renames the proxy there.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    #[schemars(extend("x-kubernetes-validations" = [{
        "rule": "!(self.lowerAscii() in ['primary', 'me'])",
        "message": "coderd reserves the proxy names primary and me",
    }]))]
    pub proxy_name: Option<String>,
    /// Name users see, for example `Frankfurt`. Default: the name of the proxy.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub display_name: Option<String>,
    /// Icon users see, a path or an address. Default `/emojis/1f310.png`, a globe.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 2048))]
    pub icon: Option<String>,
    /// Name of the Secret the operator keeps the proxy's token in. Default: the name of this object and
    /// `-proxy-token`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub token_secret_name: Option<String>,
}

/// How the operator registers a proxy.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProxyBootstrapSpec {
    /// Address of the control plane the operator registers the proxy with, for example
    /// `https://coder.example.com`.
    #[serde(rename = "coderURL")]
    #[schemars(length(max = 2048))]
    pub coder_url: String,
    /// Secret with a coderd token that may manage workspace proxies. Default key `token`.
    pub credentials_secret_ref: SecretKeySelector,
    /// Name of the proxy in coderd. Default: the name of this object.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    #[schemars(extend("x-kubernetes-validations" = [{
        "rule": "!(self.lowerAscii() in ['primary', 'me'])",
        "message": "coderd reserves the proxy names primary and me",
    }]))]
    pub proxy_name: Option<String>,
    /// Name users see, for example `Frankfurt`. Default: the name of the proxy.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub display_name: Option<String>,
    /// Icon users see, a path or an address. Default `/emojis/1f310.png`, a globe.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 2048))]
    pub icon: Option<String>,
    /// Name of the Secret the operator keeps the proxy's token in. Default: the name of this object and
    /// `-proxy-token`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub generated_token_secret_name: Option<String>,
}
