//! Decides what runs where every role of the operator has an identity of its own: an account, a Deployment and a budget each, made
//! of those of the base. It never decides what they may do.
//!
//! A Deployment of a role is what kustomize copies of the one Deployment when it builds, with what is the role's own patched into it:
//! whatever an overlay or another component has changed there, the image and the certificate for example, is changed here too.

use super::rbac::{PLACEHOLDER_NAMESPACE, Part, SPLIT_ROLES, SplitRole};
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

/// `kustomize/components/split-roles`: what is added, and what makes the copies the role's own.
pub(super) fn files() -> Generated {
    let mut added = Vec::new();
    let mut patches = Vec::new();
    for role in SPLIT_ROLES {
        for object in [account(role), deployment(role), budget(role)?] {
            added.push(yaml::document(role.name, &object)?);
        }
        patches.push(yaml::document(role.name, &transformer(role)?)?);
    }
    let file = |name: &str, documents: &[String]| File {
        path: format!("kustomize/components/split-roles/{name}"),
        content: format!("{}{}", yaml::HEADER, documents.join("---\n")),
    };
    Ok(vec![file("workloads.yaml", &added), file("deployments/roles.yaml", &patches)])
}

fn account(role: &SplitRole) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ServiceAccount", "automountServiceAccountToken": false,
        "metadata": { "name": role.name, "namespace": PLACEHOLDER_NAMESPACE },
    })
}

/// Empty: the copy goes here.
fn deployment(role: &SplitRole) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "spec": {},
        "metadata": { "name": role.name, "namespace": PLACEHOLDER_NAMESPACE },
    })
}

/// Patches a copy of the one Deployment.
fn transformer(role: &SplitRole) -> Result<Value, ManifestError> {
    let base = read("deployment.yaml", DEPLOYMENT)?;
    let pod = &base["spec"]["template"]["spec"];
    let mut affinity = pod["affinity"].clone();
    if let Some(labels) = affinity.pointer_mut(
        "/podAntiAffinity/preferredDuringSchedulingIgnoredDuringExecution/0/podAffinityTerm/labelSelector/matchLabels",
    ) {
        mark(labels, role);
    }
    let mut spread = pod["topologySpreadConstraints"].clone();
    if let Some(labels) = spread.pointer_mut("/0/labelSelector/matchLabels") {
        mark(labels, role);
    }
    let ports = pod["containers"][0]["ports"].as_array().into_iter().flatten();
    let of_others = ports
        .filter(|port| OWN_PORTS.iter().any(|(name, app)| port["name"] == *name && *app != role.app))
        .map(|port| json!({ "containerPort": port["containerPort"], "$patch": "delete" }));
    let mut args = vec![format!("--app={}", role.app)];
    if !role.parts.contains(&Part::Authority) {
        args.push("--keep-ca=false".to_owned());
    }
    let own = json!({ (ROLE_LABEL): role.app });
    let container = json!({ "name": "operator", "args": args, "ports": of_others.collect::<Vec<Value>>() });
    let patch = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "name": role.name },
        "spec": {
            "selector": { "matchLabels": own },
            "template": {
                "metadata": { "labels": own },
                "spec": {
                    "serviceAccountName": role.name, "affinity": affinity, "topologySpreadConstraints": spread,
                    "containers": [container],
                },
            },
        },
    });
    Ok(json!({
        "apiVersion": "builtin", "kind": "PatchTransformer", "metadata": { "name": role.name },
        "target": { "group": "apps", "kind": "Deployment", "name": role.name },
        "patch": yaml::document(role.name, &patch)?,
    }))
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
