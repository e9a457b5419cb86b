//! Decides what a kind may say about the operation of its pods: disruptions and metrics.
//! Never turns something on that is not mentioned: what is given is on, unless it says `enabled: false`.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::shared::bounded_string_map;

/// How many pods may be taken away at once. At most one of the two numbers is given.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DisruptionBudgetSpec {
    /// Whether there is a budget. Default true.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
    /// Pods that must stay, as a number or a percentage such as `50%`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_available: Option<IntOrString>,
    /// Pods that may be missing, as a number or a percentage such as `50%`. Default 1, unless `minAvailable`
    /// is given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_unavailable: Option<IntOrString>,
}

/// Metrics of the pods, on their port 2112, named `prometheus`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MetricsSpec {
    /// Whether the pods serve metrics. Default true.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
    /// A ServiceMonitor for the Prometheus operator, made where the cluster knows that kind. Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service_monitor: Option<MonitorSpec>,
}

/// Metrics of pods that have no Service in front of them, on their port 2112, named `prometheus`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PodMetricsSpec {
    /// Whether the pods serve metrics. Default true.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
    /// A PodMonitor for the Prometheus operator, made where the cluster knows that kind. Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod_monitor: Option<MonitorSpec>,
}

/// A ServiceMonitor or PodMonitor of the name of the Deployment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MonitorSpec {
    /// Whether there is one. Default true.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
    /// Time between two scrapes, for example `30s`. Default: what Prometheus is set to.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub interval: Option<String>,
    /// Labels by which Prometheus finds it, in addition to those the operator sets; those of the operator win.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(transform = bounded_string_map)]
    pub labels: BTreeMap<String, String>,
}
