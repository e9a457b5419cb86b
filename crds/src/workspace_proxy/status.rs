//! Decides what a CoderWorkspaceProxy reports, and how its registrations in coderd are recorded.
//! Never holds a token, nor what a token could be guessed from.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::kind_status::kind_status;
use crate::shared::SecretKeySelector;

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
        /// Registrations in coderd that this object made or took over, and what becomes of each.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub registration: Option<ProxyRegistrationStatus>,
        /// Whether the proxy is registered in coderd by the operator.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub registered: Option<bool>,
        /// Secret with the token the proxy uses.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub proxy_token_secret_ref: Option<SecretKeySelector>,
    }
}

/// The registrations of an object. Each is written here before coderd is asked for it, and stays until coderd has it no
/// more, so that none is ever lost.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProxyRegistrationStatus {
    /// The registration whose token the pods use, or are being rolled over to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub current: Option<RecordedProxy>,
    /// The registration that is being made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pending: Option<RecordedProxy>,
    /// Registrations in earlier control planes, removed as soon as no pod uses them any more.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 6))]
    pub retiring: Vec<RecordedProxy>,
    /// Value of the annotation `coder.com/rotate-token` for which the token was last replaced.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 256))]
    pub rotated_for: Option<String>,
    /// Registration that was taken over because of the annotation `coder.com/adopt-proxy`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 256))]
    pub adopted: Option<String>,
    /// How often somebody else replaced the token in use.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replaced_by_others: Option<ReplacedToken>,
    /// Id of the proxy of others that is being taken over.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub adopting: Option<String>,
    /// Proof that the operator wrote everything here that is no registration.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 128))]
    pub seal: Option<String>,
}

/// How often somebody else replaced the token of a registration, one after another.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReplacedToken {
    /// How often.
    pub times: i32,
    /// When that was noticed last.
    #[schemars(length(max = 64))]
    pub last: Time,
}

/// One workspace proxy in coderd: which it is and where.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RecordedProxy {
    /// Name of the proxy in coderd.
    #[schemars(length(max = 256))]
    pub name: String,
    /// Id of the proxy in coderd; absent until coderd has told it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub id: Option<String>,
    /// Uid of the CoderControlPlane it is registered with; absent where `bootstrap` gives an address.
    #[serde(rename = "controlPlaneUID", skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub control_plane_uid: Option<String>,
    /// Address that `bootstrap` gives; absent with a control plane.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 300))]
    pub address: Option<String>,
    /// Id of the deployment of coderd it is in; another one means another database.
    #[serde(rename = "deploymentID")]
    #[schemars(length(max = 64))]
    pub deployment_id: String,
    /// Since when it is what it is: being made, in use or retiring.
    #[schemars(length(max = 64))]
    pub since: Time,
    /// Whether coderd was asked to make it, or to replace its token.
    pub attempted: bool,
    /// Whether credentials of `bootstrap` made it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub brought: bool,
    /// Proof that the operator wrote this entry. Without it the entry counts for nothing: no proxy is removed because
    /// somebody wrote its name here.
    #[schemars(length(max = 128))]
    pub seal: String,
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
    /// ServiceAccount of the pods.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service_account_name: Option<String>,
    /// Address by which users and coderd reach the proxy.
    #[serde(rename = "accessURL", skip_serializing_if = "Option::is_none")]
    pub access_url: Option<String>,
    /// Wildcard for workspace applications on subdomains.
    #[serde(rename = "wildcardAccessURL", skip_serializing_if = "Option::is_none")]
    pub wildcard_access_url: Option<String>,
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
