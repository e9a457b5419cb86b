//! Decides how users from outside reach a control plane or a proxy: by an Ingress or by a Gateway, never by both.
//! Never names a controller or a class: what runs in the cluster is not known here.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::shared::bounded_string_map;

/// How coderd or a proxy is reached from outside the cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [{
    "rule": "!(has(self.ingress) && has(self.gateway))",
    "message": "only one of ingress or gateway may be set",
}]))]
pub struct ExposeSpec {
    /// Expose through an Ingress named like the Service.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ingress: Option<IngressExposeSpec>,
    /// Expose through an HTTPRoute named like the Service. The cluster needs the Gateway API.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gateway: Option<GatewayExposeSpec>,
}

/// An Ingress.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct IngressExposeSpec {
    /// Name of the IngressClass, for example `nginx`. Default: the class the cluster marks as default.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub class_name: Option<String>,
    /// Host name users open, for example `coder.example.com`.
    #[schemars(length(max = 253))]
    pub host: String,
    /// Wildcard host for workspace applications, for example `*.coder.example.com`. Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub wildcard_host: Option<String>,
    /// Annotations of the Ingress, read by its controller.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(transform = bounded_string_map)]
    pub annotations: BTreeMap<String, String>,
    /// Certificates of the Ingress. Default: none, the Ingress serves plain HTTP.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls: Option<IngressTlsSpec>,
}

/// Certificates of an Ingress.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct IngressTlsSpec {
    /// Secret of type `kubernetes.io/tls` for `host`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub secret_name: Option<String>,
    /// Secret of type `kubernetes.io/tls` for `wildcardHost`; needs `wildcardHost`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub wildcard_secret_name: Option<String>,
}

/// An HTTPRoute of the Gateway API.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GatewayExposeSpec {
    /// Host name users open, for example `coder.example.com`.
    #[schemars(length(max = 253))]
    pub host: String,
    /// Wildcard host for workspace applications, for example `*.coder.example.com`. Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub wildcard_host: Option<String>,
    /// Gateways the route attaches to; at least one.
    #[schemars(length(min = 1, max = 32))]
    pub parent_refs: Vec<GatewayParentRef>,
}

/// A Gateway an HTTPRoute attaches to.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GatewayParentRef {
    /// Name of the Gateway.
    #[schemars(length(max = 253))]
    pub name: String,
    /// Namespace of the Gateway. Default: the namespace of this object.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub namespace: Option<String>,
    /// Name of one listener of the Gateway. Default: every listener that admits the route.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub section_name: Option<String>,
}
