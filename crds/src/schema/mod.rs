//! Decides the CustomResourceDefinitions as they are shipped: derived from the types, then finished.
//! Never writes a file: whoever wants YAML serializes what [`custom_resource_definitions`] returns.

mod columns;
mod finish;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceColumnDefinition, CustomResourceDefinition, JSON, JSONSchemaProps,
};
use kube::CustomResourceExt;
use serde_json::json;

use crate::well_known::annotation;
use crate::{CoderControlPlane, CoderProvisioner, CoderWorkspaceProxy};

/// Properties that hold types of the core API, wherever they appear. Their schema is complete but goes without
/// descriptions: they would be most of the CRD, and Kubernetes documents them already.
pub const EMBEDDED_CORE_PROPERTIES: [&str; 16] = [
    "affinity",
    "conditions",
    "envFrom",
    "extraEnv",
    "extraRules",
    "hostAliases",
    "imagePullSecrets",
    "initContainers",
    "lifecycle",
    "podSecurityContext",
    "resources",
    "securityContext",
    "tolerations",
    "topologySpreadConstraints",
    "volumeMounts",
    "volumes",
];

/// The three CustomResourceDefinitions, the same on every call.
pub fn custom_resource_definitions() -> Vec<CustomResourceDefinition> {
    let kinds = ["CoderControlPlane", "CoderProvisioner", "CoderWorkspaceProxy"];
    kinds.into_iter().filter_map(custom_resource_definition).collect()
}

/// The CustomResourceDefinition of one kind: whoever needs one does not pay for three.
pub fn custom_resource_definition(kind: &str) -> Option<CustomResourceDefinition> {
    match kind {
        "CoderControlPlane" => {
            Some(shipped(CoderControlPlane::crd(), SpecDefault::Empty, columns::control_plane()))
        }
        "CoderProvisioner" => {
            Some(shipped(CoderProvisioner::crd(), SpecDefault::None, columns::provisioner()))
        }
        "CoderWorkspaceProxy" => {
            Some(shipped(CoderWorkspaceProxy::crd(), SpecDefault::Empty, columns::workspace_proxy()))
        }
        _ => None,
    }
}

/// What the API server puts in place of a missing `spec`.
#[derive(Clone, Copy, PartialEq, Eq)]
enum SpecDefault {
    /// `{}`, so that patches and selectors always find a `spec`.
    Empty,
    /// Nothing, because `{}` is not valid for this kind and the API server refuses such a default.
    None,
}

fn shipped(
    mut crd: CustomResourceDefinition,
    spec_default: SpecDefault,
    own_columns: Vec<CustomResourceColumnDefinition>,
) -> CustomResourceDefinition {
    crd.metadata
        .annotations
        .get_or_insert_default()
        .insert(annotation::ARGOCD_SYNC_OPTIONS.into(), "ServerSideApply=true".into());
    let columns = columns::columns(own_columns);
    for version in &mut crd.spec.versions {
        version.additional_printer_columns = Some(columns.clone());
        let root = version.schema.as_mut().and_then(|schema| schema.open_api_v3_schema.as_mut());
        if let Some(root) = root {
            finish::finish(root);
            set_root_defaults(root, spec_default);
        }
    }
    crd
}

/// Makes `spec` optional and lets an object nobody has looked at yet say so.
fn set_root_defaults(root: &mut JSONSchemaProps, spec_default: SpecDefault) {
    root.required = None;
    for (name, schema) in root.properties.iter_mut().flatten() {
        schema.default = match name.as_str() {
            "spec" if spec_default == SpecDefault::Empty => Some(JSON(json!({}))),
            // kstatus reads a missing status as done; a generation that never was reads as in progress.
            "status" => Some(JSON(json!({"observedGeneration": -1}))),
            _ => None,
        };
    }
}
