//! Decides what a CoderProvisioner reports, and how its keys in coderd are recorded.
//! Never holds a plaintext, nor what a plaintext could be guessed from.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::kind_status::kind_status;
use crate::shared::SecretKeySelector;

kind_status! {
    pub struct CoderProvisionerStatus {
        /// Version of the control plane, as coderd reports it.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub version: Option<String>,
        /// What the operator uses where the spec is silent.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub resolved: Option<ResolvedProvisioner>,
        /// Keys in coderd that this object made or took over, and what becomes of each.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub key: Option<ProvisionerKeyStatus>,
        /// Daemons that coderd sees connected with a key of this object.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub daemons: Option<i32>,
        /// Builds that wait for a daemon with these tags, as far as coderd tells; autoscalers read it.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub pending_jobs: Option<i32>,
        /// Organization the key is in, by id.
        #[serde(rename = "organizationID", skip_serializing_if = "Option::is_none")]
        pub organization_id: Option<String>,
        /// Organization the key is in, by name.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub organization_name: Option<String>,
        /// Key the daemons use, by id.
        #[serde(rename = "provisionerKeyID", skip_serializing_if = "Option::is_none")]
        pub provisioner_key_id: Option<String>,
        /// Key the daemons use, by name.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub provisioner_key_name: Option<String>,
        /// Hash of the tags the key was made with.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub tags_hash: Option<String>,
        /// Control plane the key was made for.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub control_plane_ref_name: Option<String>,
        /// Address of that control plane.
        #[serde(rename = "controlPlaneURL", skip_serializing_if = "Option::is_none")]
        pub control_plane_url: Option<String>,
        /// Secret the key is kept in.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub secret_ref: Option<SecretKeySelector>,
    }
}

/// The provisioner keys of an object. Each is written here before coderd is asked for it, and stays until coderd has it no
/// more, so that none is ever lost.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProvisionerKeyStatus {
    /// The key the daemons use, or are being rolled over to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub current: Option<RecordedKey>,
    /// The key that is being made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pending: Option<RecordedKey>,
    /// Keys that are deleted as soon as no daemon uses them any more.
    // Not keyed by name: two control planes may each have a key of one name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 6))]
    pub retiring: Vec<RecordedKey>,
    /// Highest number that a key of this object ever had.
    pub generation: i64,
    /// Every place that holds the plaintext of a key of this object.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 4))]
    pub secrets: Vec<SecretKeySelector>,
    /// Key that was taken over because of the annotation `coder.com/adopt-key`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 256))]
    pub adopted: Option<String>,
    /// Proof that the operator wrote `generation`, `secrets` and `adopted`. Without it no Secret is read or emptied because somebody
    /// wrote its name here, and no key is taken over a second time.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 128))]
    pub seal: Option<String>,
}

/// One provisioner key in coderd: which it is and what it was made for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RecordedKey {
    /// Name of the key in coderd.
    #[schemars(length(max = 256))]
    pub name: String,
    /// Id of the key in coderd; absent until coderd has told it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub id: Option<String>,
    /// Number of the key: 1 for the first, one more with each rotation.
    pub generation: i64,
    /// Organization the key is in, by id.
    #[serde(rename = "organizationID")]
    #[schemars(length(max = 64))]
    pub organization_id: String,
    /// Uid of the CoderControlPlane the key is for.
    #[serde(rename = "controlPlaneUID")]
    #[schemars(length(max = 64))]
    pub control_plane_uid: String,
    /// Id of the deployment of coderd the key is in; another one means another database.
    #[serde(rename = "deploymentID")]
    #[schemars(length(max = 64))]
    pub deployment_id: String,
    /// Hash of the tags the key has.
    #[schemars(length(max = 64))]
    pub tags_hash: String,
    /// Since when the key is what it is: being made, in use or retiring.
    pub since: Time,
    /// Whether coderd was asked to make it.
    pub attempted: bool,
    /// Whether daemons may have been started with it.
    pub used: bool,
    /// Proof that the operator wrote this entry. Without it the entry counts for nothing: no key is deleted because
    /// somebody wrote its name here.
    #[schemars(length(max = 128))]
    pub seal: String,
}

/// Computed values of a CoderProvisioner.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ResolvedProvisioner {
    /// Image of the daemons.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    /// Number of daemons asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,
    /// ServiceAccount of the daemons.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service_account_name: Option<String>,
    /// Organization of the key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub organization_name: Option<String>,
    /// Name the first key has in coderd.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key_name: Option<String>,
    /// Secret the key is kept in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key_secret_name: Option<String>,
    /// Key inside that Secret.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key_secret_key: Option<String>,
    /// Seconds a daemon may take to finish its build.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub termination_grace_period_seconds: Option<i64>,
}
