//! Decides what kustomize is told about our kinds: which fields name other objects, images and replicas, and by which keys lists are
//! merged. Everything but the names of what Kubernetes itself calls a reference is read from the CustomResourceDefinitions.

use super::editor_schemas::shipped;
use super::{File, Generated, ManifestError, yaml};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use webhooks::Kind;

const FOLDER: &str = "kustomize/kustomizeconfig";
const GROUP: &str = "coder.com";

/// The kind that a field names an object of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Target {
    CoderControlPlane,
    ConfigMap,
    Gateway,
    IngressClass,
    PersistentVolumeClaim,
    PriorityClass,
    Secret,
    ServiceAccount,
    StorageClass,
}

impl Target {
    /// How kustomize selects it.
    fn selector(self) -> Value {
        match self {
            Self::CoderControlPlane => json!({ "group": GROUP, "kind": "CoderControlPlane" }),
            Self::ConfigMap => json!({ "version": "v1", "kind": "ConfigMap" }),
            Self::Gateway => json!({ "group": "gateway.networking.k8s.io", "kind": "Gateway" }),
            Self::IngressClass => json!({ "group": "networking.k8s.io", "kind": "IngressClass" }),
            Self::PersistentVolumeClaim => json!({ "version": "v1", "kind": "PersistentVolumeClaim" }),
            Self::PriorityClass => json!({ "group": "scheduling.k8s.io", "kind": "PriorityClass" }),
            Self::Secret => json!({ "version": "v1", "kind": "Secret" }),
            Self::ServiceAccount => json!({ "version": "v1", "kind": "ServiceAccount" }),
            Self::StorageClass => json!({ "group": "storage.k8s.io", "kind": "StorageClass" }),
        }
    }

    /// What the last two parts of a path refer to. A Secret that the operator makes is not referred to: it is in no
    /// kustomization.
    fn of(holder: &str, field: &str) -> Option<Self> {
        Some(match (holder, field) {
            ("controlPlaneRef", "name") => Self::CoderControlPlane,
            ("configMap" | "configMapKeyRef" | "configMapRef", "name") => Self::ConfigMap,
            ("parentRefs", "name") => Self::Gateway,
            ("ingress", "className") => Self::IngressClass,
            ("persistentVolumeClaim", "claimName") => Self::PersistentVolumeClaim,
            (_, "priorityClassName") => Self::PriorityClass,
            ("secret" | "secrets" | "secretKeyRef" | "secretRef" | "imagePullSecrets", "name") => {
                Self::Secret
            }
            ("secret" | "azureFile" | "tls", "secretName") => Self::Secret,
            ("tls", "wildcardSecretName" | "secretNames") => Self::Secret,
            (reference, "name") if reference.ends_with("SecretRef") => Self::Secret,
            ("serviceAccount", "name") => Self::ServiceAccount,
            (_, "storageClassName") => Self::StorageClass,
            _ => return None,
        })
    }
}

/// `kustomize/kustomizeconfig/references.yaml` and `kustomize/kustomizeconfig/merge-keys/openapi.json`.
pub(super) fn files() -> Generated {
    let schemas: Result<Vec<(Kind, Value)>, ManifestError> =
        Kind::ALL.into_iter().map(|kind| Ok((kind, shipped(kind)?))).collect();
    let schemas = schemas?;
    let references = format!("{FOLDER}/references.yaml");
    let content = format!("{}{}", yaml::HEADER, yaml::document(&references, &configuration(&schemas))?);
    let merge_keys = format!("{FOLDER}/merge-keys/openapi.json");
    let openapi = openapi(&schemas, &merge_keys)?;
    Ok(vec![File { path: references, content }, File { path: merge_keys, content: openapi }])
}

/// The configuration of kustomize's transformers.
fn configuration(schemas: &[(Kind, Value)]) -> Value {
    let mut references: BTreeMap<Target, Vec<Value>> = BTreeMap::new();
    let (mut images, mut replicas) = (Vec::new(), Vec::new());
    for (kind, schema) in schemas {
        for path in paths(schema) {
            let field_spec = json!({ "group": GROUP, "kind": kind.name(), "path": path.join("/") });
            let parts: Vec<&str> = path.iter().map(String::as_str).collect();
            match parts[..] {
                ["spec", "replicas"] => {
                    let mut field_spec = field_spec;
                    field_spec["create"] = true.into();
                    replicas.push(field_spec);
                }
                ["spec", "image"] | [.., "initContainers", "image"] | [.., "image", "reference"] => {
                    images.push(field_spec);
                }
                [.., holder, field] => {
                    if let Some(target) = Target::of(holder, field) {
                        references.entry(target).or_default().push(field_spec);
                    }
                }
                _ => {}
            }
        }
    }
    let references: Vec<Value> = references
        .into_iter()
        .map(|(target, field_specs)| {
            let mut reference = target.selector();
            reference["fieldSpecs"] = field_specs.into();
            reference
        })
        .collect();
    json!({ "nameReference": references, "images": images, "replicas": replicas })
}

/// The path of every single value and every list of such in the spec, as kustomize writes paths: it enters lists by itself.
fn paths(schema: &Value) -> Vec<Vec<String>> {
    let mut found = Vec::new();
    if let Some(spec) = schema.pointer("/properties/spec") {
        collect_paths(spec, vec!["spec".to_owned()], &mut found);
    }
    found
}

fn collect_paths(schema: &Value, path: Vec<String>, found: &mut Vec<Vec<String>>) {
    if let Some(items) = schema.get("items") {
        return collect_paths(items, path, found);
    }
    match schema.get("properties").and_then(Value::as_object) {
        None => found.push(path),
        Some(properties) => {
            for (name, inner) in properties {
                collect_paths(inner, [path.clone(), vec![name.clone()]].concat(), found);
            }
        }
    }
}

/// Lists of the core API that Kubernetes merges by a key; a CustomResourceDefinition does not say so of them.
const CORE_KEYS: [(&str, &[&str]); 5] = [
    ("env", &["name"]),
    ("extraEnv", &["name"]),
    ("ports", &["containerPort", "protocol"]),
    ("volumeDevices", &["devicePath"]),
    ("volumeMounts", &["mountPath"]),
];

/// Lists of a pod that our kinds have under the same name.
const POD_LISTS: [&str; 4] = ["hostAliases", "imagePullSecrets", "topologySpreadConstraints", "volumes"];

/// Group, version and kind of what has pods, and where they are described.
const WORKLOADS: [(&str, &str, &str, &str); 7] = [
    ("", "v1", "Pod", "spec"),
    ("apps", "v1", "DaemonSet", "spec.template.spec"),
    ("apps", "v1", "Deployment", "spec.template.spec"),
    ("apps", "v1", "ReplicaSet", "spec.template.spec"),
    ("apps", "v1", "StatefulSet", "spec.template.spec"),
    ("batch", "v1", "CronJob", "spec.jobTemplate.spec.template.spec"),
    ("batch", "v1", "Job", "spec.template.spec"),
];

/// Other kinds with lists that Kubernetes merges: where the list is, and its keys.
const OTHERS: [(&str, &str, &str, &str, &[&str]); 4] = [
    ("", "v1", "Service", "spec.ports", &["port", "protocol"]),
    ("", "v1", "ServiceAccount", "secrets", &["name"]),
    ("admissionregistration.k8s.io", "v1", "MutatingWebhookConfiguration", "webhooks", &["name"]),
    ("admissionregistration.k8s.io", "v1", "ValidatingWebhookConfiguration", "webhooks", &["name"]),
];

/// The OpenAPI document with nothing but merge keys. kustomize uses it in place of its own, so it has the kinds that people
/// patch beside ours.
fn openapi(schemas: &[(Kind, Value)], path: &str) -> Result<String, ManifestError> {
    let mut definitions = Map::new();
    let mut define = |group: &str, version: &str, kind: &str, properties: Value| {
        let mut definition = json!({ "type": "object", "properties": properties });
        definition["x-kubernetes-group-version-kind"] =
            json!([{ "group": group, "version": version, "kind": kind }]);
        definitions
            .insert(format!("{group}.{version}.{kind}").trim_start_matches('.').to_owned(), definition);
    };
    let mut pod = Value::Null;
    for (kind, schema) in schemas {
        let spec = schema.pointer("/properties/spec").and_then(|spec| merged("spec", spec));
        let spec = spec.unwrap_or_else(|| json!({}));
        pod = pod_of(&spec);
        define(GROUP, "v1alpha1", kind.name(), json!({ "spec": spec }));
    }
    for (group, version, kind, at) in WORKLOADS {
        define(group, version, kind, nested(at, pod.clone()));
    }
    for (group, version, kind, at, keys) in OTHERS {
        define(group, version, kind, nested(at, list(keys, json!({ "type": "object" }))));
    }
    let document = serde_json::to_string_pretty(&json!({ "definitions": definitions }))
        .map_err(|error| ManifestError::Json(path.to_owned(), error))?;
    let rest = document.strip_prefix("{\n").unwrap_or(&document);
    let title = "Merge keys of lists. Generated by `make generate`; do not edit.";
    Ok(format!("{{ \"info\": {{ \"title\": \"{title}\", \"version\": \"v1alpha1\" }},\n{rest}\n"))
}

/// What a schema says about merging lists; none where it says nothing.
fn merged(name: &str, schema: &Value) -> Option<Value> {
    if let Some(items) = schema.get("items") {
        let keys = keys_of(name, schema);
        let inner = || merged("", items).unwrap_or_else(|| json!({ "type": "object" }));
        return (!keys.is_empty()).then(|| list(&keys, inner()));
    }
    let properties = schema.get("properties")?.as_object()?;
    let properties: Map<String, Value> =
        properties.iter().filter_map(|(name, inner)| Some((name.clone(), merged(name, inner)?))).collect();
    (!properties.is_empty()).then(|| json!({ "type": "object", "properties": properties }))
}

/// The keys of a list.
fn keys_of<'a>(name: &str, schema: &'a Value) -> Vec<&'a str> {
    let declared = schema.get("x-kubernetes-list-map-keys").and_then(Value::as_array);
    let core = || CORE_KEYS.iter().find(|(known, _)| *known == name).map(|(_, keys)| keys.to_vec());
    match declared {
        Some(keys) => keys.iter().filter_map(Value::as_str).collect(),
        None => core().unwrap_or_default(),
    }
}

fn list(keys: &[&str], items: Value) -> Value {
    let mut list = json!({ "type": "array", "items": items, "x-kubernetes-patch-strategy": "merge" });
    list["x-kubernetes-patch-merge-key"] = keys.first().copied().unwrap_or_default().into();
    if keys.len() > 1 {
        list["x-kubernetes-list-map-keys"] = keys.into();
    }
    list
}

/// The same for a pod: its containers are merged like our init containers.
fn pod_of(spec: &Value) -> Value {
    let own = |name: &str| spec.pointer(&format!("/properties/{name}")).cloned().unwrap_or_default();
    let lists = POD_LISTS.map(|name| (name, own(name)));
    let containers =
        ["containers", "ephemeralContainers", "initContainers"].map(|name| (name, own("initContainers")));
    let properties: Map<String, Value> =
        lists.into_iter().chain(containers).map(|(name, list)| (name.to_owned(), list)).collect();
    json!({ "type": "object", "properties": properties })
}

/// Properties with something at the end of a path.
fn nested(path: &str, inner: Value) -> Value {
    match path.split_once('.') {
        None => json!({ path: inner }),
        Some((first, rest)) => json!({ first: { "type": "object", "properties": nested(rest, inner) } }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Fields that look like references and are none: what the operator makes, what names a part of something, and what names
    /// a kind beside the object.
    const NO_REFERENCES: [&str; 10] = [
        "azureFile/shareName",
        "bootstrap/generatedTokenSecretName",
        "claims/name",
        "dataSourceRef/name",
        "key/secretName",
        "operatorAccess/generatedTokenSecretName",
        "parentRefs/sectionName",
        "registration/tokenSecretName",
        "resourceFieldRef/containerName",
        "spec/volumeAttributesClassName",
    ];

    #[test]
    fn whatever_looks_like_a_reference_is_one_or_is_listed() {
        for kind in Kind::ALL {
            for path in paths(&shipped(kind).unwrap()) {
                let [.., holder, field] = &path[..] else { continue };
                let text = format!("{holder}/{field}").to_lowercase();
                let named = text.ends_with("name") || text.ends_with("names");
                let marked = ["secret", "configmap", "account", "claim", "class", "ref"];
                if named && marked.iter().any(|mark| text.contains(mark)) {
                    let known = Target::of(holder, field).is_some();
                    let listed = NO_REFERENCES.contains(&format!("{holder}/{field}").as_str());
                    assert!(known != listed, "{}: {}", kind.name(), path.join("/"));
                }
            }
        }
    }

    #[test]
    fn every_reference_that_lint_looks_for_is_known_to_kustomize() {
        for (pattern, target) in crate::lint::referring_fields() {
            let path = pattern.replace("[]", "").replace('.', "/");
            let mut parts = path.rsplit('/');
            let (field, holder) = (parts.next().unwrap(), parts.next().unwrap());
            let known = Target::of(holder, field).map(|known| format!("{known:?}"));
            assert_eq!(known.as_deref(), Some(target), "{path}");
        }
    }
}
