//! Decides what runs where every role of the operator has an identity of its own: an account, a Deployment and a budget each, made
//! of those of the base. It never decides what they may do.

use super::rbac::{PLACEHOLDER_NAMESPACE, SPLIT_ROLES, SplitRole};
use super::{File, Generated, ManifestError, yaml};
use serde_json::{Value, json};

/// Tells the pods of one role from those of another; what the pods of all have in common stays as it is, so that Services and
/// network policies for all of them go on.
pub const ROLE_LABEL: &str = "coder.com/operator-role";

/// What one Deployment for everything looks like. A copy of it would be another list of the same settings.
const DEPLOYMENT: &str = include_str!("../../kustomize/base/deployment.yaml");
const BUDGET: &str = include_str!("../../kustomize/base/pdb.yaml");

/// Ports of the container by the role that opens them; every role has the others.
const OWN_PORTS: &[(&str, &str)] = &[("webhooks", "webhooks")];

/// `kustomize/components/split-roles/workloads.yaml`.
pub(super) fn files() -> Generated {
    let path = "kustomize/components/split-roles/workloads.yaml";
    let mut documents = Vec::new();
    for role in SPLIT_ROLES {
        for object in [account(role), deployment(role)?, budget(role)?] {
            documents.push(yaml::document(role.name, &object)?);
        }
    }
    let content = format!("{}{}", yaml::HEADER, documents.join("---\n"));
    Ok(vec![File { path: path.to_owned(), content }])
}

fn account(role: &SplitRole) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ServiceAccount", "automountServiceAccountToken": false,
        "metadata": { "name": role.name, "namespace": PLACEHOLDER_NAMESPACE },
    })
}

fn deployment(role: &SplitRole) -> Result<Value, ManifestError> {
    let mut deployment = read("deployment.yaml", DEPLOYMENT)?;
    deployment["metadata"]["name"] = role.name.into();
    let spec = &mut deployment["spec"];
    mark(&mut spec["selector"]["matchLabels"], role);
    mark(&mut spec["template"]["metadata"]["labels"], role);
    let pod = &mut spec["template"]["spec"];
    pod["serviceAccountName"] = role.name.into();
    for selector in [
        "/affinity/podAntiAffinity/preferredDuringSchedulingIgnoredDuringExecution/0/podAffinityTerm/labelSelector/matchLabels",
        "/topologySpreadConstraints/0/labelSelector/matchLabels",
    ] {
        if let Some(labels) = pod.pointer_mut(selector) {
            mark(labels, role);
        }
    }
    let container = &mut pod["containers"][0];
    container["args"] = json!([format!("--app={}", role.app)]);
    if let Some(ports) = container["ports"].as_array_mut() {
        let is_of_another =
            |port: &Value| OWN_PORTS.iter().any(|(name, app)| port["name"] == *name && *app != role.app);
        ports.retain(|port| !is_of_another(port));
    }
    Ok(deployment)
}

fn budget(role: &SplitRole) -> Result<Value, ManifestError> {
    let mut budget = read("pdb.yaml", BUDGET)?;
    budget["metadata"]["name"] = role.name.into();
    mark(&mut budget["spec"]["selector"]["matchLabels"], role);
    Ok(budget)
}

fn mark(labels: &mut Value, role: &SplitRole) {
    labels[ROLE_LABEL] = role.app.into();
}

fn read(what: &str, text: &str) -> Result<Value, ManifestError> {
    serde_saphyr::from_str(text).map_err(|error| ManifestError::Base(what.to_owned(), error.to_string()))
}
