//! Decides what a CoderWorkspaceProxy may say and what it reports.
//! Never decides whether a proxy is registered or kept: see the reconciler.

use k8s_openapi::api::core::v1::{EnvVar, LocalObjectReference};
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::kind_status::kind_status;
use crate::missing_spec::missing_spec_is_empty;
use crate::shared::{DeletionPolicy, SecretKeySelector, ServiceSpec, arguments, environment, named_secrets};

/// What a workspace proxy should look like. It needs either `bootstrap`, or `primaryAccessURL` and
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
    /// Image of the proxy; keep it at the version of the control plane. Default: the release the operator was
    /// built for, for example `ghcr.io/coder/coder:v2.36.1`.
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
    /// Address of the control plane, for example `https://coder.example.com`. Default: `bootstrap.coderURL`.
    #[serde(rename = "primaryAccessURL", skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 2048))]
    pub primary_access_url: Option<String>,
    /// Secret with the session token of a proxy you registered yourself. Default key `token`; not used with
    /// `bootstrap`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub proxy_session_token_secret_ref: Option<SecretKeySelector>,
    /// Let the operator register the proxy in coderd and keep its token. Default: you register it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bootstrap: Option<ProxyBootstrapSpec>,
    /// True to relay connections only and serve no workspace applications. Default false.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub derp_only: Option<bool>,
    /// Arguments after `coder wsproxy server`, for example `--prometheus-enable`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(transform = arguments)]
    pub extra_args: Vec<String>,
    /// Environment of the proxy, after what the operator sets. `CODER_ACCESS_URL`, the proxy's own address for
    /// users, belongs here.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(transform = environment)]
    pub extra_env: Vec<EnvVar>,
    /// Secrets with credentials for a private registry.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(transform = named_secrets)]
    pub image_pull_secrets: Vec<LocalObjectReference>,
    /// See [`DeletionPolicy`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deletion_policy: Option<DeletionPolicy>,
}

missing_spec_is_empty!(CoderWorkspaceProxySpec);

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
        "rule": "self.lowerAscii() != 'primary'",
        "message": "coderd reserves the proxy name primary",
    }]))]
    pub proxy_name: Option<String>,
    /// Name users see, for example `Frankfurt`. Default: the name of the proxy.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub display_name: Option<String>,
    /// Icon users see, a path or an address, for example `/emojis/1f30d.png`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 2048))]
    pub icon: Option<String>,
    /// Name of the Secret the operator keeps the proxy's token in. Default: the name of this object and
    /// `-proxy-token`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub generated_token_secret_name: Option<String>,
}

kind_status! {
    pub struct CoderWorkspaceProxyStatus {
        /// Address of the proxy inside the cluster.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub url: Option<String>,
        /// Version the proxy reports.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub version: Option<String>,
        /// What the operator uses where the spec is silent.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub resolved: Option<ResolvedWorkspaceProxy>,
        /// Whether the proxy is registered in coderd by the operator.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub registered: Option<bool>,
        /// Secret with the token the proxy uses.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub proxy_token_secret_ref: Option<SecretKeySelector>,
    }
}

/// Computed values of a CoderWorkspaceProxy.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ResolvedWorkspaceProxy {
    /// Image of the proxy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    /// Number of pods asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,
    /// Kind of Service.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service_type: Option<String>,
    /// Port of the Service.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service_port: Option<i32>,
    /// Address of the control plane.
    #[serde(rename = "primaryAccessURL", skip_serializing_if = "Option::is_none")]
    pub primary_access_url: Option<String>,
    /// Name of the proxy in coderd, when the operator registers it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub proxy_name: Option<String>,
    /// Secret the proxy's token is read from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token_secret_name: Option<String>,
}
