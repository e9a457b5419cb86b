//! What holds for every child, whichever kind it belongs to: tests of each kind ask it of theirs.

use super::{Child, ChildKind};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Service, ServiceAccount};
use k8s_openapi::api::networking::v1::Ingress;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::collections::BTreeSet;
use webhooks::text::{LABEL_VALUE, QUALIFIED_NAME, SUBDOMAIN};

fn holds_null(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.iter().any(holds_null),
        Value::Object(map) => map.values().any(holds_null),
        _ => false,
    }
}

fn again<K: Serialize + DeserializeOwned>(manifest: &Value) -> Value {
    serde_json::to_value(serde_json::from_value::<K>(manifest.clone()).unwrap()).unwrap()
}

/// The manifest after it was read as the type it claims to be; what no type exists for stays as it is.
fn read_back(child: &Child) -> Value {
    let manifest = &child.manifest;
    match child.kind {
        ChildKind::ServiceAccount => again::<ServiceAccount>(manifest),
        ChildKind::Role => again::<Role>(manifest),
        ChildKind::RoleBinding => again::<RoleBinding>(manifest),
        ChildKind::Deployment => again::<Deployment>(manifest),
        ChildKind::Service => again::<Service>(manifest),
        ChildKind::Ingress => again::<Ingress>(manifest),
        ChildKind::PodDisruptionBudget => again::<PodDisruptionBudget>(manifest),
        ChildKind::HttpRoute | ChildKind::ServiceMonitor | ChildKind::PodMonitor => manifest.clone(),
    }
}

fn labels_are_valid(labels: &Value) -> bool {
    labels
        .as_object()
        .unwrap()
        .iter()
        .all(|(key, value)| QUALIFIED_NAME.matches(key) && LABEL_VALUE.matches(value.as_str().unwrap()))
}

/// Lists that are merged by a key, and that key.
fn keys_are_unique(pod: &Value) -> bool {
    let unique = |list: &Value, key: &str| {
        let keys: Vec<&Value> = list.as_array().into_iter().flatten().map(|item| &item[key]).collect();
        keys.iter().map(|key| key.to_string()).collect::<BTreeSet<_>>().len() == keys.len()
    };
    let container = &pod["containers"][0];
    unique(&pod["volumes"], "name")
        && unique(&pod["initContainers"], "name")
        && unique(&container["env"], "name")
        && unique(&container["volumeMounts"], "mountPath")
        && unique(&container["ports"], "containerPort")
}

/// Fails where a child of this object is none that the API server takes as it is meant.
#[track_caller]
fn assert_sound(child: &Child, object: &Value) {
    let manifest = &child.manifest;
    assert!(!holds_null(manifest), "{manifest}\n{object}");
    assert_eq!(&read_back(child), manifest, "{object}");
    assert!(SUBDOMAIN.matches(&child.name) && child.name.len() <= 253, "{}", child.name);
    assert_eq!(manifest["metadata"]["name"], child.name);
    assert_eq!(manifest["metadata"]["namespace"], child.namespace);
    let [api_version, ..] = child.kind.names();
    assert_eq!(manifest["apiVersion"], api_version);
    assert_eq!(manifest["kind"], child.kind.as_str());
    assert!(manifest.get("status").is_none());
    assert!(manifest["metadata"].get("creationTimestamp").is_none());
    assert!(labels_are_valid(&manifest["metadata"]["labels"]), "{manifest}");
    if child.kind == ChildKind::Deployment {
        let template = &manifest["spec"]["template"];
        assert!(labels_are_valid(&template["metadata"]["labels"]), "{manifest}");
        assert!(keys_are_unique(&template["spec"]), "{manifest}");
        for (key, value) in manifest["spec"]["selector"]["matchLabels"].as_object().unwrap() {
            assert_eq!(&template["metadata"]["labels"][key], value);
        }
    }
}

/// The same for all children of an object, which have names of their own.
#[track_caller]
pub(crate) fn assert_all_sound<'a>(children: impl Iterator<Item = &'a Child>, object: &Value) {
    let mut identities = BTreeSet::new();
    for child in children {
        assert_sound(child, object);
        assert!(identities.insert((child.kind, &child.namespace, &child.name)), "twice: {}", child.name);
    }
}
