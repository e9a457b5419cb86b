//! Decides what a kind may say about its pods, in the same words for every kind that runs some.
//! Never decides what else a kind may say, nor what becomes of it: see the reconcilers. It is no struct to flatten: serde
//! reads those through a copy of the whole.

mod certificates;
mod operations;

pub use certificates::{CertSecretSelector, CertsSpec};
pub use operations::{DisruptionBudgetSpec, MetricsSpec, MonitorSpec, PodMetricsSpec};

/// Defines the spec of a kind that runs pods, by what it says besides. What it says about them is read through
/// [`PodFields`], whichever kind it is.
macro_rules! workload_spec {
    ($(#[$($of_spec:tt)*])* pub struct $spec:ident { $($besides:tt)* }) => {
        $crate::workload::with_pod_fields! { spec $(#[$($of_spec)*])* pub struct $spec { $($besides)* } }
    };
}

/// The fields themselves. `spec` defines the spec of a kind with them, `view` the one view of all of them.
macro_rules! with_pod_fields {
    ($what:ident $($given:tt)*) => {
        $crate::workload::define_pod_fields! { $what { $($given)* }
            /// Secrets with credentials for a private registry.
            #[serde(default, skip_serializing_if = "Vec::is_empty")]
            #[schemars(transform = $crate::shared::named_secrets)]
            image_pull_secrets: Vec<k8s_openapi::api::core::v1::LocalObjectReference>,
            /// The ServiceAccount of the pods. Default: one named after this object, created by the operator.
            #[serde(skip_serializing_if = "Option::is_none")]
            service_account: Option<$crate::shared::ServiceAccountSpec>,
            /// CPU and memory of the main container. Default: nothing requested, no limit.
            #[serde(skip_serializing_if = "Option::is_none")]
            resources: Option<k8s_openapi::api::core::v1::ResourceRequirements>,
            /// Security context of the main container. Where it is silent: no privilege escalation, all capabilities
            /// dropped.
            #[serde(skip_serializing_if = "Option::is_none")]
            security_context: Option<k8s_openapi::api::core::v1::SecurityContext>,
            /// Security context of the pod. Where it is silent: not root, user and group 1000, the seccomp profile of
            /// the container runtime.
            #[serde(skip_serializing_if = "Option::is_none")]
            pod_security_context: Option<k8s_openapi::api::core::v1::PodSecurityContext>,
            /// ConfigMaps and Secrets whose keys become environment variables. Each entry names one of the two.
            #[serde(default, skip_serializing_if = "Vec::is_empty")]
            #[schemars(length(max = 128))]
            #[schemars(extend("x-kubernetes-validations" = [{
                "rule": "self.all(source, !(has(source.configMapRef) && has(source.secretRef)))",
                "message": "each envFrom entry may specify at most one of configMapRef or secretRef",
            }]))]
            env_from: Vec<k8s_openapi::api::core::v1::EnvFromSource>,
            /// Further volumes of the pod.
            #[serde(default, skip_serializing_if = "Vec::is_empty")]
            #[schemars(length(max = 256))]
            #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
            volumes: Vec<k8s_openapi::api::core::v1::Volume>,
            /// Where the main container mounts them.
            #[serde(default, skip_serializing_if = "Vec::is_empty")]
            #[schemars(length(max = 256))]
            #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["mountPath"]))]
            volume_mounts: Vec<k8s_openapi::api::core::v1::VolumeMount>,
            /// CA certificates that the main container trusts, besides those of its image.
            #[serde(skip_serializing_if = "Option::is_none")]
            certs: Option<$crate::workload::CertsSpec>,
            /// Labels a node must have to run the pods, for example `kubernetes.io/arch: amd64`.
            #[serde(default, skip_serializing_if = "std::collections::BTreeMap::is_empty")]
            #[schemars(transform = $crate::shared::bounded_string_map)]
            node_selector: std::collections::BTreeMap<String, String>,
            /// Taints of nodes that the pods tolerate.
            #[serde(default, skip_serializing_if = "Vec::is_empty")]
            #[schemars(length(max = 64))]
            tolerations: Vec<k8s_openapi::api::core::v1::Toleration>,
            /// Which nodes and neighbours the pods prefer or need. Default: other nodes than the other pods of this
            /// object, if there are any.
            #[serde(skip_serializing_if = "Option::is_none")]
            affinity: Option<k8s_openapi::api::core::v1::Affinity>,
            /// How the pods spread over zones and nodes.
            #[serde(default, skip_serializing_if = "Vec::is_empty")]
            #[schemars(length(max = 64))]
            #[schemars(extend(
                "x-kubernetes-list-type" = "map",
                "x-kubernetes-list-map-keys" = ["topologyKey", "whenUnsatisfiable"]
            ))]
            topology_spread_constraints: Vec<k8s_openapi::api::core::v1::TopologySpreadConstraint>,
            /// Labels of the pods, in addition to those the operator sets; those of the operator win.
            #[serde(default, skip_serializing_if = "std::collections::BTreeMap::is_empty")]
            #[schemars(transform = $crate::shared::bounded_string_map)]
            pod_labels: std::collections::BTreeMap<String, String>,
            /// Annotations of the pods, in addition to those the operator sets; those of the operator win.
            #[serde(default, skip_serializing_if = "std::collections::BTreeMap::is_empty")]
            #[schemars(transform = $crate::shared::bounded_string_map)]
            pod_annotations: std::collections::BTreeMap<String, String>,
            /// Containers that run before the main one; with `restartPolicy: Always`, beside it.
            #[serde(default, skip_serializing_if = "Vec::is_empty")]
            #[schemars(length(max = 32))]
            #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
            init_containers: Vec<k8s_openapi::api::core::v1::Container>,
            /// What happens right after the main container starts and right before it stops. Default: nothing.
            #[serde(skip_serializing_if = "Option::is_none")]
            lifecycle: Option<k8s_openapi::api::core::v1::Lifecycle>,
            /// Lines for the `/etc/hosts` of the pods.
            #[serde(default, skip_serializing_if = "Vec::is_empty")]
            #[schemars(length(max = 64))]
            #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["ip"]))]
            host_aliases: Vec<k8s_openapi::api::core::v1::HostAlias>,
            /// PriorityClass of the pods. Default: the one the cluster marks as default.
            #[serde(skip_serializing_if = "Option::is_none")]
            #[schemars(length(max = 253))]
            priority_class_name: Option<String>,
            /// How many pods may be taken away at once, for example to drain nodes. Default: no budget, however many
            /// replicas there are.
            #[serde(skip_serializing_if = "Option::is_none")]
            pod_disruption_budget: Option<$crate::workload::DisruptionBudgetSpec>,
        }
    };
}

/// Turns the list of fields into a spec with its view, or into the type of the view.
macro_rules! define_pod_fields {
    (
        spec { $(#[$($of_spec:tt)*])* pub struct $spec:ident { $($besides:tt)* } }
        $($(#[$($of_field:tt)*])* $field:ident: $type:ty,)*
    ) => {
        $(#[$($of_spec)*])*
        pub struct $spec {
            $($besides)*
            $($(#[$($of_field)*])* pub $field: $type,)*
        }

        impl $spec {
            /// What it says about its pods.
            pub fn pod_fields(&self) -> $crate::workload::PodFields<'_> {
                $crate::workload::PodFields { $($field: &self.$field,)* }
            }
        }
    };
    (
        view { $(#[$($of_view:tt)*])* pub struct $view:ident }
        $($(#[$($of_field:tt)*])* $field:ident: $type:ty,)*
    ) => {
        $(#[$($of_view)*])*
        pub struct $view<'a> {
            $(#[doc = concat!("`", stringify!($field), "` of the spec.")] pub $field: &'a $type,)*
        }
    };
}

with_pod_fields! { view
    /// What the spec of any kind says about its pods, so that one builder serves them all.
    #[derive(Clone, Copy, Debug, PartialEq)]
    pub struct PodFields
}

pub(crate) use {define_pod_fields, with_pod_fields, workload_spec};
