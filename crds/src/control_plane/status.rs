//! Decides what a CoderControlPlane reports.
//! Never bounds it: a status that is refused for its length would hide what it says.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::kind_status::kind_status;
use crate::shared::NamespacedSecretKeySelector;

kind_status! {
    pub struct CoderControlPlaneStatus {
        /// Address of coderd inside the cluster.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub url: Option<String>,
        /// Version coderd reports.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub version: Option<String>,
        /// Id coderd gives its deployment. Another one means another database.
        #[serde(rename = "deploymentID", skip_serializing_if = "Option::is_none")]
        pub deployment_id: Option<String>,
        /// What the operator uses where the spec is silent.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub resolved: Option<ResolvedControlPlane>,
        /// Secret with the token the operator uses.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub operator_token_secret_ref: Option<NamespacedSecretKeySelector>,
        /// Whether the operator can act in coderd.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub operator_access_ready: Option<bool>,
        /// When the license was uploaded.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub license_last_applied: Option<Time>,
        /// SHA-256 of the uploaded license, in hex.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub license_last_applied_hash: Option<String>,
        /// When the license of `licenseSecretRef` expires; a grace period may follow.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub license_expires_at: Option<Time>,
        /// `none`, `trial`, `enterprise`, `premium` or `unknown`.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub license_tier: Option<String>,
        /// When the entitlements below were seen to change.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub entitlements_last_checked: Option<Time>,
        /// Whether the license covers external provisioners: `entitled`, `grace_period`, `not_entitled` or
        /// `unknown`.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub external_provisioner_daemons_entitlement: Option<String>,
        /// Helm release that was taken over; the annotation that names it does nothing more.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub adopted_helm_release: Option<String>,
    }
}

/// Computed values of a CoderControlPlane.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ResolvedControlPlane {
    /// Image of coderd.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    /// True where the spec names no image. The one that runs then stays until it does: an upgrade of the operator is
    /// no upgrade of coderd.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image_defaulted: Option<bool>,
    /// Number of pods asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,
    /// Kind of Service.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service_type: Option<String>,
    /// Port of the Service.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service_port: Option<i32>,
    /// ServiceAccount of coderd.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service_account_name: Option<String>,
    /// Seconds coderd may take to stop.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub termination_grace_period_seconds: Option<i64>,
    /// `CODER_ACCESS_URL` as the operator sets it; absent when the environment you give decides.
    #[serde(rename = "accessURL", skip_serializing_if = "Option::is_none")]
    pub access_url: Option<String>,
}
