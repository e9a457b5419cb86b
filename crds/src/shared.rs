//! Decides the shape of what several kinds have in common: Services, accounts, Secret references, probes.
//! Never holds a default in the schema: an absent field stays absent, and its description says what that means.

use std::collections::BTreeMap;

use k8s_openapi::api::rbac::v1::PolicyRule;
use schemars::{JsonSchema, Schema};
use serde::{Deserialize, Serialize};
use serde_json::json;

/// Bounds a map of strings, which no attribute of schemars reaches.
/// The value bound is the size Kubernetes allows for all annotations of an object together.
pub(crate) fn bounded_string_map(schema: &mut Schema) {
    schema.insert("maxProperties".into(), json!(256));
    schema.insert("additionalProperties".into(), json!({"type": "string", "maxLength": 262_144}));
}

/// Bounds the arguments of a program.
pub(crate) fn arguments(schema: &mut Schema) {
    schema.insert("maxItems".into(), json!(256));
    schema.insert("items".into(), json!({"type": "string", "maxLength": 32_768}));
}

/// Bounds the environment of a program. A list and not one by name: server-side apply fails on a name given twice in a
/// list by name, before admission can explain it.
pub(crate) fn environment(schema: &mut Schema) {
    schema.insert("maxItems".into(), json!(512));
    schema.insert("x-kubernetes-list-type".into(), json!("atomic"));
}

/// Bounds a list of Secrets, of which each is named once.
pub(crate) fn named_secrets(schema: &mut Schema) {
    schema.insert("maxItems".into(), json!(64));
    schema.insert("x-kubernetes-list-type".into(), json!("map"));
    schema.insert("x-kubernetes-list-map-keys".into(), json!(["name"]));
}

/// The Service in front of the pods.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ServiceSpec {
    /// Kind of Service: `ClusterIP` (the default), `NodePort` or `LoadBalancer`.
    // A string and not an enum: an object stored before this list existed must still be readable.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["ClusterIP", "NodePort", "LoadBalancer"]))]
    pub type_: Option<String>,
    /// Port the Service listens on. Default 80.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 65535))]
    pub port: Option<i32>,
    /// Annotations of the Service, for example those a cloud load balancer reads.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(transform = bounded_string_map)]
    pub annotations: BTreeMap<String, String>,
}

/// One key of a Secret in the same namespace.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SecretKeySelector {
    /// Name of the Secret, in the namespace of this object.
    #[schemars(length(max = 253))]
    pub name: String,
    /// Key inside the Secret. The default depends on what is read and is given where the reference is used.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub key: Option<String>,
}

/// One key of a Secret that may live in another namespace; written by the operator only.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NamespacedSecretKeySelector {
    /// Name of the Secret.
    pub name: String,
    /// Namespace of the Secret. Absent means the namespace of this object.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Key inside the Secret.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
}

/// The ServiceAccount the pods run as.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ServiceAccountSpec {
    /// True to use an account that somebody else creates; the operator then never writes it. Default false.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disable_create: Option<bool>,
    /// Name of the account. Default: derived from the name of this object.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub name: Option<String>,
    /// Annotations of the account, for example `eks.amazonaws.com/role-arn`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(transform = bounded_string_map)]
    pub annotations: BTreeMap<String, String>,
    /// Labels of the account, in addition to those the operator sets.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(transform = bounded_string_map)]
    pub labels: BTreeMap<String, String>,
}

/// What coderd may do in namespaces that hold workspaces.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RbacSpec {
    /// Allow coderd to manage pods and volume claims, which templates need. Default true.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workspace_perms: Option<bool>,
    /// Also allow Deployments, for templates that run workspaces as Deployments. Default true.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enable_deployments: Option<bool>,
    /// Further rules for the Role in every workspace namespace. Whoever writes them must hold these rights.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub extra_rules: Vec<PolicyRule>,
    /// Namespaces that hold workspaces, besides that of this object. Each of them consents with the label
    /// `coder.com/workspaces-from: <namespace of this object>`.
    // Atomic and not a set: repeated entries have always been accepted and are read once.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 256), inner(length(max = 253)))]
    pub workspace_namespaces: Vec<String>,
}

/// Certificates coderd serves HTTPS with.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TlsSpec {
    /// Secrets of type `kubernetes.io/tls`, in this namespace. One or more turn HTTPS on, on port 443 of the
    /// Service; none (the default) means plain HTTP.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), inner(length(max = 253)))]
    pub secret_names: Vec<String>,
}

/// A probe of `GET /healthz`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProbeSpec {
    /// Whether the kubelet probes at all. Default: true for readiness, false for liveness; for startup true where
    /// the probe is given or liveness is on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
    /// Seconds between the start of the container and the first probe. Default 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub initial_delay_seconds: Option<i32>,
    /// Seconds between two probes. Default 10.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub period_seconds: Option<i32>,
    /// Seconds one probe may take. Default 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub timeout_seconds: Option<i32>,
    /// Successes in a row that make a failed container good again. Default 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub success_threshold: Option<i32>,
    /// Failures in a row that count as failed. Default 3, for startup 2160: with a period of ten seconds that is
    /// six hours, because coderd answers only after it has migrated its database.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub failure_threshold: Option<i32>,
}

/// A CoderControlPlane in the same namespace.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ControlPlaneRef {
    /// Name of the CoderControlPlane.
    // Not required by the schema: an empty reference has always been storable, and admission explains it better.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 253))]
    pub name: String,
}

/// What happens in coderd when the object is deleted. `Delete` (the default) removes what this object made there, and
/// the object stays until that succeeded; `Orphan` leaves it there.
// A field of an enum type shows the description of the type: it is written here for both.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum DeletionPolicy {
    /// Remove from coderd what this object made there.
    #[default]
    Delete,
    /// Leave it there.
    Orphan,
}
