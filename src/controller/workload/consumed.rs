//! Decides which Secrets and ConfigMaps the pods read, down to the key, so that a new value there rolls them.
//! Never counts what only the node reads: credentials for a registry or a storage driver change nothing in a pod.

use super::pods::Pods;
use crate::controller::children::last_by_key;
use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{
    Container, EnvFromSource, EnvVar, KeyToPath, PodSpec, Volume, VolumeProjection,
};

/// What kind of object is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Source {
    /// A Secret.
    Secret,
    /// A ConfigMap.
    ConfigMap,
}

/// How much of it is read.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Keys {
    /// Every key.
    All,
    /// This key.
    One(String),
}

/// A Secret or ConfigMap the pods read, in their namespace.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Consumed {
    /// What it is.
    pub kind: Source,
    /// What it is called.
    pub name: String,
    /// What is read of it.
    pub keys: Keys,
    /// Whether the pods also start without it.
    pub optional: bool,
}

/// Everything a pod reads, each once and always in the same order.
pub(crate) fn consumed(pod: &PodSpec) -> Vec<Consumed> {
    let mut found = Found::default();
    found.pod(pod);
    found.0.into_iter().filter(|consumed| !consumed.name.is_empty()).collect()
}

/// Everything that pods read because their spec says so, with these variables for their main container. What their kind gives
/// them has a checksum of its own, and so has `own`: the Secret with their key or token, and the key inside it.
pub(crate) fn of_spec(pods: &Pods<'_>, variables: &[EnvVar], own: (&str, &str)) -> Vec<Consumed> {
    let variables = last_by_key(variables.to_vec(), |variable| &variable.name);
    let plain = Pods { volumes: Vec::new(), mounts: Vec::new(), aliases: Vec::new(), ..pods.clone() };
    let mut all = consumed(&plain.spec(Container { env: Some(variables), ..Default::default() }));
    let (secret, key) = own;
    let is_own = |one: &Consumed| {
        one.kind == Source::Secret && one.name == secret && one.keys == Keys::One(key.to_owned())
    };
    all.retain(|one| !is_own(one));
    all
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
