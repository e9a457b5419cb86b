//! Decides which Secrets and ConfigMaps the pods read, down to the key, so that a new value there rolls them.
//! Never counts what only the node reads: credentials for a registry or a storage driver change nothing in a pod.

use std::collections::BTreeSet;

use crds::CoderControlPlane;
use k8s_openapi::api::core::v1::{
    Container, EnvFromSource, EnvVar, KeyToPath, PodSpec, Volume, VolumeProjection,
};

use super::origin::Origin;
use super::{Inputs, pod};

/// What kind of object is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Source {
    /// A Secret.
    Secret,
    /// A ConfigMap.
    ConfigMap,
}

/// How much of it is read.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Keys {
    /// Every key.
    All,
    /// This key.
    One(String),
}

/// A Secret or ConfigMap the pods read, in the namespace of the control plane.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Consumed {
    /// What it is.
    pub kind: Source,
    /// What it is called.
    pub name: String,
    /// What is read of it.
    pub keys: Keys,
    /// Whether the pods also start without it.
    pub optional: bool,
}

/// Everything the pods of a control plane read, each once and always in the same order.
pub fn consumed(control_plane: &CoderControlPlane) -> Vec<Consumed> {
    // What is referred to does not depend on any value.
    let inputs = Inputs {
        control_plane,
        consumed_checksum: None,
        access_url_from_env_from: false,
        cluster_domain: "",
    };
    let template = pod::template(&Origin::of(control_plane), &inputs);
    let mut found = Found::default();
    if let Some(pod) = &template.spec {
        found.pod(pod);
    }
    found.0.into_iter().filter(|consumed| !consumed.name.is_empty()).collect()
}

#[derive(Default)]
struct Found(BTreeSet<Consumed>);

impl Found {
    fn add(&mut self, kind: Source, name: &str, keys: Keys, optional: Option<bool>) {
        let optional = optional.unwrap_or(false);
        self.0.insert(Consumed { kind, name: name.to_owned(), keys, optional });
    }

    fn pod(&mut self, pod: &PodSpec) {
        let containers: Vec<&Container> =
            pod.init_containers.iter().flatten().chain(&pod.containers).collect();
        for container in &containers {
            container.env.iter().flatten().for_each(|variable| self.variable(variable));
            container.env_from.iter().flatten().for_each(|source| self.source(source));
        }
        pod.volumes.iter().flatten().for_each(|volume| self.volume(volume, &containers));
    }

    fn variable(&mut self, variable: &EnvVar) {
        let Some(from) = &variable.value_from else { return };
        if let Some(secret) = &from.secret_key_ref {
            self.add(Source::Secret, &secret.name, Keys::One(secret.key.clone()), secret.optional);
        }
        if let Some(map) = &from.config_map_key_ref {
            self.add(Source::ConfigMap, &map.name, Keys::One(map.key.clone()), map.optional);
        }
    }

    fn source(&mut self, source: &EnvFromSource) {
        if let Some(secret) = &source.secret_ref {
            self.add(Source::Secret, &secret.name, Keys::All, secret.optional);
        }
        if let Some(map) = &source.config_map_ref {
            self.add(Source::ConfigMap, &map.name, Keys::All, map.optional);
        }
    }

    fn volume(&mut self, volume: &Volume, containers: &[&Container]) {
        if let Some(secret) = &volume.secret {
            for keys in keys(&secret.items, &volume.name, containers) {
                self.add(
                    Source::Secret,
                    secret.secret_name.as_deref().unwrap_or_default(),
                    keys,
                    secret.optional,
                );
            }
        }
        if let Some(map) = &volume.config_map {
            for keys in keys(&map.items, &volume.name, containers) {
                self.add(Source::ConfigMap, &map.name, keys, map.optional);
            }
        }
        let projected = volume.projected.as_ref().and_then(|projected| projected.sources.as_ref());
        projected.into_iter().flatten().for_each(|source| self.projection(source));
    }

    fn projection(&mut self, source: &VolumeProjection) {
        if let Some(secret) = &source.secret {
            for keys in chosen(&secret.items) {
                self.add(Source::Secret, &secret.name, keys, secret.optional);
            }
        }
        if let Some(map) = &source.config_map {
            for keys in chosen(&map.items) {
                self.add(Source::ConfigMap, &map.name, keys, map.optional);
            }
        }
    }
}

/// The keys a volume chooses; every key where it chooses none.
fn chosen(items: &Option<Vec<KeyToPath>>) -> Vec<Keys> {
    match items.as_deref() {
        None | Some([]) => vec![Keys::All],
        Some(items) => items.iter().map(|item| Keys::One(item.key.clone())).collect(),
    }
}

/// The keys of a volume that are seen. A volume that is only ever mounted file by file shows those files.
fn keys(items: &Option<Vec<KeyToPath>>, volume: &str, containers: &[&Container]) -> Vec<Keys> {
    let chosen = chosen(items);
    if chosen != [Keys::All] {
        return chosen;
    }
    let mounts = containers.iter().flat_map(|container| container.volume_mounts.iter().flatten());
    let files: Option<Vec<Keys>> = mounts
        .filter(|mount| mount.name == volume)
        .map(|mount| {
            let file = mount.sub_path.as_deref().filter(|path| !path.is_empty() && !path.contains('/'))?;
            Some(Keys::One(file.to_owned()))
        })
        .collect();
    files.filter(|files| !files.is_empty()).unwrap_or(chosen)
}

#[cfg(test)]
mod tests {
    use super::super::given::ControlPlane;
    use super::*;
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
        consumed(&given.resolved()).into_iter().map(word).collect()
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
        let sources =
            json!([{"secretRef": {"name": "s", "optional": true}}, {"configMapRef": {"name": "m"}}]);
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
}
