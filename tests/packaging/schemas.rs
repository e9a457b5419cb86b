//! `coder-k8s schema` as an editor uses it: every sample fits the schema of its kind, and what a person mistypes does not.

use jsonschema::Validator;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Command, Output};
use support::installation::repository;
use webhooks::Kind;

/// The schema for files with several objects.
const ALL: &str = "coder.com";

fn schema_command(words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_coder-k8s")).arg("schema").args(words).output().unwrap()
}

/// The committed schema of a kind, or of all.
pub fn committed(name: &str) -> Validator {
    let path = repository().join(format!("kustomize/schemas/{}_v1alpha1.json", name.to_lowercase()));
    let schema: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    jsonschema::draft7::new(&schema).unwrap()
}

/// What does not fit, with its place.
pub fn errors(schema: &Validator, object: &Value) -> Vec<String> {
    schema.iter_errors(object).map(|error| format!("{}: {error}", error.instance_path())).collect()
}

/// The documents of a file.
pub fn documents(file: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(file).unwrap();
    serde_saphyr::from_multiple(&text).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
}

#[test]
fn every_sample_fits_its_schema_and_that_of_all_kinds() {
    let mut seen = BTreeSet::new();
    let everything = committed(ALL);
    for entry in std::fs::read_dir(repository().join("kustomize/samples")).unwrap() {
        let file = entry.unwrap().path();
        for object in documents(&file) {
            assert_eq!(errors(&everything, &object), [""; 0], "{}", file.display());
            let kind = object["kind"].as_str().unwrap().to_owned();
            if Kind::from_name(&kind).is_some() {
                assert_eq!(errors(&committed(&kind), &object), [""; 0], "{}", file.display());
                seen.insert(kind);
            }
        }
    }
    assert_eq!(seen, Kind::ALL.map(|kind| kind.name().to_owned()).into());
}

fn good() -> Value {
    json!({ "apiVersion": "coder.com/v1alpha1", "kind": "CoderControlPlane",
        "metadata": { "name": "coder" }, "spec": { "replicas": 1, "service": { "type": "ClusterIP" },
            "nodeSelector": { "any-key": "is a key" } } })
}

#[test]
fn what_a_person_mistypes_is_refused() {
    for schema in ["CoderControlPlane", ALL].map(committed) {
        assert!(schema.is_valid(&good()));
        for (pointer, key, value) in [
            ("", "apiVersion", json!("coder.com/v1")),
            ("", "kind", json!("CoderControlplane")),
            ("", "kind", json!("CoderProvisioner")),
            ("", "specs", json!({})),
            ("/metadata", "labelz", json!({})),
            ("/metadata", "labels", json!({ "a": 1 })),
            ("/spec", "replica", json!(1)),
            ("/spec", "replicas", json!("one")),
            ("/spec/service", "typ", json!("ClusterIP")),
            ("/spec/service", "type", json!("Clusterip")),
            ("/spec", "extraEnv", json!([{ "name": "A", "valuefrom": {} }])),
            ("/spec", "volumes", json!([{ "name": "A", "configMap": { "nam": "b" } }])),
        ] {
            let mut bad = good();
            bad.pointer_mut(pointer).unwrap()[key] = value;
            assert!(!schema.is_valid(&bad), "{pointer}/{key}");
        }
        let mut nameless = good();
        nameless["metadata"] = json!({});
        assert!(!schema.is_valid(&nameless));
        let mut without_kind = good();
        without_kind.as_object_mut().unwrap().remove("kind");
        assert!(!schema.is_valid(&without_kind));
    }
}

/// An editor holds every document of a file against one schema.
#[test]
fn other_objects_may_stand_in_the_same_file() {
    let all = committed(ALL);
    for other in [
        json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "a" }, "stringData": { "b": "c" } }),
        json!({ "apiVersion": "aggregation.coder.com/v1alpha1", "kind": "CoderTemplate", "metadata": { "name": "a" } }),
        json!({ "resources": ["coder.yaml"] }),
    ] {
        assert_eq!(errors(&all, &other), [""; 0]);
        assert!(!committed("CoderControlPlane").is_valid(&other));
    }
}

#[test]
fn the_command_prints_one_or_writes_all() {
    let folder = support::process::scratch_folder("schemas");
    assert!(schema_command(&["--output", folder.to_str().unwrap()]).status.success());
    let kinds = Kind::ALL.map(|kind| (kind.name().to_lowercase(), vec![kind.name().to_lowercase()]));
    for (name, words) in kinds.into_iter().chain([(ALL.to_owned(), vec![])]) {
        let file = format!("{name}_v1alpha1.json");
        let kept = std::fs::read_to_string(repository().join("kustomize/schemas").join(&file)).unwrap();
        assert_eq!(std::fs::read_to_string(folder.join(&file)).unwrap(), kept);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        assert_eq!(String::from_utf8(schema_command(&words).stdout).unwrap(), kept);
    }
    let unknown = schema_command(&["Coder"]);
    assert_eq!(unknown.status.code(), Some(2));
    assert!(String::from_utf8(unknown.stderr).unwrap().contains("CoderControlPlane, CoderProvisioner"));
}
