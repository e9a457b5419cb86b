//! What the pods of a control plane read.

use super::super::consumed;
use super::super::fixtures::ControlPlane;
use crate::controller::workload::consumed::{Consumed, Keys};
use serde_json::{Value, json};

/// In words: `Secret a/key`, with `?` where it is optional.
fn read(given: ControlPlane) -> Vec<String> {
    let word = |consumed: Consumed| {
        let keys = match &consumed.keys {
            Keys::All => "*",
            Keys::One(key) => key,
        };
        let optional = if consumed.optional { "?" } else { "" };
        format!("{:?} {}/{keys}{optional}", consumed.kind, consumed.name)
    };
    consumed(&given.complete()).into_iter().map(word).collect()
}

fn with(field: &str, value: Value) -> Vec<String> {
    read(ControlPlane::test().with(field, value))
}

#[test]
fn a_silent_spec_reads_nothing() {
    assert_eq!(read(ControlPlane::test()), [""; 0]);
    assert_eq!(with("imagePullSecrets", json!([{"name": "registry"}])), [""; 0]);
    assert_eq!(with("licenseSecretRef", json!({"name": "license"})), [""; 0]);
}

#[test]
fn variables_read_one_key_and_sources_all() {
    let env = json!([
        {"name": "A", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}},
        {"name": "B", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}},
        {"name": "C", "valueFrom": {"configMapKeyRef": {"name": "m", "key": "k", "optional": true}}},
        {"name": "D", "value": "x"},
        {"name": "E", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
    ]);
    assert_eq!(with("extraEnv", env.clone()), ["Secret s/k", "ConfigMap m/k?"]);
    let sources = json!([{"secretRef": {"name": "s", "optional": true}}, {"configMapRef": {"name": "m"}}]);
    assert_eq!(with("envFrom", sources.clone()), ["Secret s/*?", "ConfigMap m/*"]);
    let before = json!([{"name": "i", "image": "x", "env": env, "envFrom": sources}]);
    assert_eq!(
        with("initContainers", before),
        ["Secret s/*?", "Secret s/k", "ConfigMap m/*", "ConfigMap m/k?"]
    );
}

#[test]
fn certificates_are_read_whole_and_authorities_by_their_key() {
    assert_eq!(read(ControlPlane::test().with_tls(&["a", " a "])), ["Secret a/*"]);
    let certs = json!({"secrets": [{"name": "ca", "key": "x"}, {"name": "ca", "key": "y"}]});
    assert_eq!(with("certs", certs), ["Secret ca/x", "Secret ca/y"]);
}

#[test]
fn volumes_are_read_whole_unless_they_choose_keys() {
    let items = json!([{"key": "a", "path": "b"}]);
    let volumes = json!([
        {"name": "1", "secret": {"secretName": "whole"}},
        {"name": "2", "secret": {"secretName": "part", "items": items, "optional": true}},
        {"name": "3", "configMap": {"name": "map", "items": items}},
        {"name": "4", "projected": {"sources": [
            {"secret": {"name": "ps"}}, {"configMap": {"name": "pm", "items": items}},
            {"serviceAccountToken": {"path": "t"}},
        ]}},
        {"name": "5", "emptyDir": {}},
        {"name": "6", "csi": {"driver": "d", "nodePublishSecretRef": {"name": "for-the-node"}}},
    ]);
    assert_eq!(
        with("volumes", volumes),
        ["Secret part/a?", "Secret ps/*", "Secret whole/*", "ConfigMap map/a", "ConfigMap pm/a"]
    );
}

#[test]
fn a_volume_that_is_mounted_file_by_file_is_read_file_by_file() {
    let given = |mounts: Value| {
        let volumes = json!([{"name": "v", "configMap": {"name": "m"}}]);
        read(ControlPlane::test().with("volumes", volumes).with("volumeMounts", mounts))
    };
    let file = json!({"name": "v", "mountPath": "/a", "subPath": "a"});
    assert_eq!(given(json!([file])), ["ConfigMap m/a"]);
    assert_eq!(given(json!([file, {"name": "v", "mountPath": "/all"}])), ["ConfigMap m/*"]);
    assert_eq!(given(json!([{"name": "v", "mountPath": "/a", "subPath": "a/b"}])), ["ConfigMap m/*"]);
}
