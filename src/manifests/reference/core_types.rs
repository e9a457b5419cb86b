//! Decides which core type stands behind a field that the schema carries without prose, and where it is documented.
//! It never describes such a type: Kubernetes does.

use crds::schema::EMBEDDED_CORE_PROPERTIES;

/// The release whose types the schemas embed: the oldest supported API server decides it.
const REFERENCE: &str = "https://kubernetes.io/docs/reference/generated/kubernetes-api/v1.33/";

/// Field, type and group version as the anchors of the reference spell it.
const CORE_TYPES: [(&str, &str, &str); EMBEDDED_CORE_PROPERTIES.len()] = [
    ("affinity", "Affinity", "v1-core"),
    ("conditions", "Condition", "v1-meta"),
    ("envFrom", "EnvFromSource", "v1-core"),
    ("extraEnv", "EnvVar", "v1-core"),
    ("extraRules", "PolicyRule", "v1-rbac-authorization-k8s-io"),
    ("hostAliases", "HostAlias", "v1-core"),
    ("imagePullSecrets", "LocalObjectReference", "v1-core"),
    ("initContainers", "Container", "v1-core"),
    ("lifecycle", "Lifecycle", "v1-core"),
    ("podSecurityContext", "PodSecurityContext", "v1-core"),
    ("resources", "ResourceRequirements", "v1-core"),
    ("securityContext", "SecurityContext", "v1-core"),
    ("tolerations", "Toleration", "v1-core"),
    ("topologySpreadConstraints", "TopologySpreadConstraint", "v1-core"),
    ("volumeMounts", "VolumeMount", "v1-core"),
    ("volumes", "Volume", "v1-core"),
];

/// Whether a field of this name holds a type of the core API.
pub(super) fn is_core(field: &str) -> bool {
    EMBEDDED_CORE_PROPERTIES.contains(&field)
}

/// The type of the field with a link to its documentation.
pub(super) fn link(field: &str) -> Option<String> {
    let (_, type_, version) = CORE_TYPES.iter().find(|(name, ..)| *name == field)?;
    Some(format!("[{type_}]({REFERENCE}#{}-{version})", type_.to_lowercase()))
}
