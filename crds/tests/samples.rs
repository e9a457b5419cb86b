//! Decides that the samples mean what they say: no key is unknown, and together they use every field of ours.
//! Never applies them; the suites on a real API server do.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test stops where something is missing")]

use std::collections::BTreeSet;
use std::path::PathBuf;

use crds::schema::EMBEDDED_CORE_PROPERTIES;
use crds::{CoderControlPlane, CoderProvisioner, CoderWorkspaceProxy, custom_resource_definitions};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

const SAMPLES: [&str; 11] = [
    "codercontrolplane-minimal.yaml",
    "codercontrolplane-no-spec.yaml",
    "codercontrolplane-everything.yaml",
    "codercontrolplane-everything-gateway.yaml",
    "coderprovisioner-minimal.yaml",
    "coderprovisioner-everything.yaml",
    "coderprovisioner-given-credentials.yaml",
    "coderworkspaceproxy-minimal.yaml",
    "coderworkspaceproxy-everything.yaml",
    "coderworkspaceproxy-bootstrap.yaml",
    "coderworkspaceproxy-given-token.yaml",
];

fn read(file: &str) -> Value {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../kustomize/samples");
    let text = std::fs::read_to_string(folder.join(file)).unwrap_or_else(|error| panic!("{file}: {error}"));
    serde_saphyr::from_str(&text).unwrap_or_else(|error| panic!("{file}: {error}"))
}

fn again<K: Serialize + DeserializeOwned>(file: &str, sample: &Value) -> Value {
    let typed: K = serde_json::from_value(sample.clone()).unwrap_or_else(|error| panic!("{file}: {error}"));
    serde_json::to_value(typed).unwrap_or_else(|error| panic!("{file}: {error}"))
}

fn read_as_its_kind(file: &str, sample: &Value) -> Value {
    match sample["kind"].as_str() {
        Some("CoderControlPlane") => again::<CoderControlPlane>(file, sample),
        Some("CoderProvisioner") => again::<CoderProvisioner>(file, sample),
        Some("CoderWorkspaceProxy") => again::<CoderWorkspaceProxy>(file, sample),
        other => panic!("{file}: unknown kind {other:?}"),
    }
}

/// Every path of `given` whose value `kept` does not hold.
fn lost(path: &str, given: &Value, kept: &Value, found: &mut Vec<String>) {
    match (given, kept) {
        (Value::Object(given), Value::Object(kept)) => {
            for (key, value) in given {
                lost(&format!("{path}.{key}"), value, kept.get(key).unwrap_or(&Value::Null), found);
            }
        }
        (Value::Array(given), Value::Array(kept)) if given.len() == kept.len() => {
            for (index, (value, kept)) in given.iter().zip(kept).enumerate() {
                lost(&format!("{path}[{index}]"), value, kept, found);
            }
        }
        _ if given != kept => found.push(path.to_owned()),
        _ => {}
    }
}

#[test]
fn no_sample_holds_a_key_the_types_do_not_know() {
    for file in SAMPLES {
        let sample = read(file);
        let mut found = Vec::new();
        lost("", &sample, &read_as_its_kind(file, &sample), &mut found);
        assert_eq!(found, Vec::<String>::new(), "{file}");
    }
}

#[test]
fn an_unknown_key_is_found_wherever_it_is() {
    for pointer in ["", "/spec", "/spec/expose/ingress", "/spec/affinity", "/spec/volumes/0"] {
        let mut sample = read("codercontrolplane-everything.yaml");
        let place = sample.pointer_mut(pointer).and_then(Value::as_object_mut).unwrap();
        place.insert("unheardOf".into(), true.into());
        let mut found = Vec::new();
        lost("", &sample, &read_as_its_kind("planted", &sample), &mut found);
        assert_eq!(found.len(), 1, "{pointer}: {found:?}");
    }
}

#[test]
fn the_samples_can_be_applied_together() {
    let names: BTreeSet<String> =
        SAMPLES.iter().filter_map(|file| Some(read(file)["metadata"]["name"].as_str()?.to_owned())).collect();
    assert_eq!(names.len(), SAMPLES.len(), "every sample has a name of its own");
    for file in SAMPLES {
        assert_eq!(
            read(file)["metadata"]["namespace"],
            Value::Null,
            "{file}: the namespace is yours to choose"
        );
    }
}

#[test]
fn the_kustomization_lists_every_sample() {
    let listed = read("kustomization.yaml")["resources"].clone();
    assert_eq!(listed, serde_json::json!(SAMPLES));
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../kustomize/samples");
    assert_eq!(std::fs::read_dir(folder).unwrap().count(), SAMPLES.len() + 1);
}

/// Paths of our own properties; a type of the core API counts as one property.
fn own_paths(path: &str, schema: &Value, found: &mut BTreeSet<String>) {
    if let Some(items) = schema.get("items") {
        return own_paths(path, items, found);
    }
    for (name, property) in schema.get("properties").and_then(Value::as_object).into_iter().flatten() {
        let path = format!("{path}.{name}");
        if !EMBEDDED_CORE_PROPERTIES.contains(&name.as_str()) {
            own_paths(&path, property, found);
        }
        found.insert(path);
    }
}

fn used_paths(path: &str, value: &Value, found: &mut BTreeSet<String>) {
    match value {
        Value::Object(members) => {
            for (key, member) in members {
                let path = format!("{path}.{key}");
                used_paths(&path, member, found);
                found.insert(path);
            }
        }
        Value::Array(items) => items.iter().for_each(|item| used_paths(path, item, found)),
        _ => {}
    }
}

fn unused(kind: &str, samples: &[&str]) -> Vec<String> {
    let crd = custom_resource_definitions().into_iter().find(|crd| crd.spec.names.kind == kind).unwrap();
    let crd = serde_json::to_value(crd).unwrap();
    let spec = crd.pointer("/spec/versions/0/schema/openAPIV3Schema/properties/spec").unwrap();
    let (mut own, mut used) = (BTreeSet::new(), BTreeSet::new());
    own_paths("", spec, &mut own);
    assert!(own.len() > 10, "{kind}: {own:?}");
    samples.iter().for_each(|file| used_paths("", &read(file)["spec"], &mut used));
    own.difference(&used).cloned().collect()
}

#[test]
fn the_samples_with_everything_use_every_field_of_ours() {
    let control_plane = ["codercontrolplane-everything.yaml", "codercontrolplane-everything-gateway.yaml"];
    assert_eq!(unused("CoderControlPlane", &control_plane), Vec::<String>::new());
    let provisioner = ["coderprovisioner-everything.yaml", "coderprovisioner-given-credentials.yaml"];
    assert_eq!(unused("CoderProvisioner", &provisioner), Vec::<String>::new());
    // A proxy gets its token in one of three ways, and is exposed in one of two.
    let proxy = [
        "coderworkspaceproxy-everything.yaml",
        "coderworkspaceproxy-bootstrap.yaml",
        "coderworkspaceproxy-given-token.yaml",
    ];
    assert_eq!(unused("CoderWorkspaceProxy", &proxy), Vec::<String>::new());
}
