//! What holds for the children of every control plane that admission accepts, tried on generated ones and the samples.

use std::collections::BTreeSet;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Service, ServiceAccount};
use k8s_openapi::api::networking::v1::Ingress;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use webhooks::generate::Generator;
use webhooks::text::{LABEL_VALUE, QUALIFIED_NAME, SUBDOMAIN};
use webhooks::{Config, Kind, Operation, defaulted, validate};

use super::fixtures::ControlPlane;
use super::{Child, consumed};
use crate::controller::children::ChildKind;

const TRIED: u64 = 20_000;
const ENOUGH: usize = 500;

/// Objects as they are stored: admitted, and readable as what they are.
fn admitted() -> impl Iterator<Item = ControlPlane> {
    (0..TRIED).filter_map(|seed| {
        let object = Generator::new(seed).object(Kind::ControlPlane);
        let mut stored = defaulted(Kind::ControlPlane, &object, None, &Config::default()).into_owned();
        let verdict = validate(Kind::ControlPlane, &stored, Operation::Create);
        // The API server gives or demands a name after admission.
        let named = stored["metadata"]["name"].as_str().is_some_and(|name| !name.is_empty());
        if !named || !verdict.allowed() {
            return None;
        }
        stored["metadata"]["uid"] = "u-1".into();
        Some(ControlPlane::from(stored))
    })
}

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
        ChildKind::HttpRoute | ChildKind::ServiceMonitor => manifest.clone(),
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

fn check(child: &Child, given: &ControlPlane) {
    let (manifest, object) = (&child.manifest, &given.object);
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

#[test]
fn children_of_whatever_is_admitted_are_sound_and_the_same_each_time() {
    let mut kinds = BTreeSet::new();
    let mut count = 0;
    for given in admitted().take(ENOUGH * 2) {
        let children = given.children();
        assert_eq!(children, given.children());
        for child in children.all() {
            check(child, &given);
            kinds.insert(child.kind);
        }
        let identities: Vec<_> =
            children.all().map(|child| (child.kind, &child.namespace, &child.name)).collect();
        assert_eq!(identities.iter().collect::<BTreeSet<_>>().len(), identities.len());
        let read = consumed(&given.complete());
        assert!(read.is_sorted() && read.iter().all(|consumed| !consumed.name.is_empty()));
        count += 1;
    }
    assert!(count >= ENOUGH, "{count} were admitted");
    assert_eq!(kinds.len(), ChildKind::ALL.len(), "every kind was met: {kinds:?}");
}

#[test]
fn the_samples_have_sound_children() {
    let given = ControlPlane::test().with_everything().with_checksum("abc");
    let children = given.children();
    children.all().for_each(|child| check(child, &given));
    let kinds: Vec<&str> = children.all().map(|child| child.kind.as_str()).collect();
    assert_eq!(
        kinds,
        [
            "ServiceAccount",
            "Role",
            "RoleBinding",
            "Role",
            "RoleBinding",
            "Deployment",
            "Service",
            "Ingress",
            "PodDisruptionBudget",
            "ServiceMonitor",
        ]
    );
}
