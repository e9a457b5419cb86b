//! Reads what pods refer to: Secrets and ConfigMaps, by name, one at a time, when they are needed. What it reads is hashed or
//! handed on out of sight; it keeps nothing.

use super::checksum_key::{ChecksumKey, KeyError};
use super::runtime::deadline::Deadline;
use super::workload::checksum::{NOTER, Running, Sums, noting};
use super::workload::consumed::{Consumed, Keys, Source};
use crate::kubernetes::{CallError, Kept, Kube, Target};
use json_patch::Patch;
use kube::Resource;
use kube::core::ObjectMeta;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::time::Instant;

/// Secrets and ConfigMaps that are read for one object.
const MOST_OBJECTS: usize = 256;

/// The contents of what the pods consume.
#[derive(Debug, Clone, Default)]
pub(crate) struct Contents {
    /// One hash over all of it, so that a changed value rolls out.
    pub(crate) checksum: Option<String>,
    /// One hash over the versions of the objects, so that it is known later whether any of them changed.
    pub(crate) versions: Option<String>,
    /// What is not there although it must be.
    pub(crate) missing: Vec<String>,
}

/// Why it is not known what the pods consume.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReadError {
    /// An object could not be read.
    #[error(transparent)]
    Object(#[from] CallError),
    /// The reconcile has had its time.
    #[error("there was no time to read all that the pods consume")]
    OutOfTime,
    /// The same, with what took so long.
    #[error("{0}")]
    Late(String),
    /// There are more objects than are read for one object of ours.
    #[error(
        "the pods would read more than {MOST_OBJECTS} Secrets and ConfigMaps, and nothing is changed until they read \
         fewer; shorten spec.{0}"
    )]
    TooMany(&'static str),
    /// There is no key for a checksum that is needed.
    #[error("what the pods read has no checksum: {0}")]
    Key(#[from] KeyError),
}

/// Whose pods it is read for, and with what.
pub(crate) struct Reader<'a, S> {
    pub(crate) kube: &'a Kube,
    pub(crate) key: &'a ChecksumKey,
    pub(crate) namespace: &'a str,
    /// The spec that refers to it.
    pub(crate) spec: &'a S,
}

impl<S: Serialize + Sync> Reader<'_, S> {
    /// Reads everything that pods consume, each object once and shown to `see`. `running` is the Deployment that is there: what
    /// it has stays in force while something is missing, and while nothing has changed.
    pub(crate) async fn read(
        &self,
        consumed: &[Consumed],
        running: Option<&Value>,
        deadline: &mut Deadline,
        see: impl FnMut(&Consumed, &Value) + Send,
    ) -> Result<Contents, ReadError> {
        match self.try_read(consumed, running, deadline, see).await {
            Err(error @ ReadError::OutOfTime) => {
                deadline.ended("reading what it refers to", Instant::now());
                Err(deadline.told(Instant::now()).map_or(error, ReadError::Late))
            }
            read => read,
        }
    }

    async fn try_read(
        &self,
        consumed: &[Consumed],
        running: Option<&Value>,
        deadline: &Deadline,
        mut see: impl FnMut(&Consumed, &Value) + Send,
    ) -> Result<Contents, ReadError> {
        if consumed.is_empty() {
            return Ok(Contents::default());
        }
        if let Some(field) = too_many(self.spec, consumed) {
            return Err(ReadError::TooMany(field));
        }
        let mut contents = Contents::default();
        let key = self.key.get(self.kube).await;
        let mut sums = Sums::new(key.as_ref().ok().copied());
        for group in of_one_object(consumed) {
            let Some(first) = group.first() else { continue };
            if deadline.is_over(Instant::now()) {
                return Err(ReadError::OutOfTime);
            }
            let object = self.kube.read(target(self.namespace, first.kind, &first.name)).await?;
            contents.missing.extend(missing(self.namespace, self.spec, group, object.as_ref()));
            group.iter().for_each(|one| sums.add(kind_name(one.kind), one, object.as_ref()));
            object.iter().for_each(|object| see(first, object));
        }
        let (sum, before) = (sums.finish(), Running::of(running));
        if let Some(checksum) = before.checksum.filter(|_| !contents.missing.is_empty()) {
            // What vanished may be back in a moment: pods that run keep what they have until it is whole again.
            contents.checksum = Some(checksum.to_owned());
            contents.versions = before.versions.map(str::to_owned);
            return Ok(contents);
        }
        contents.checksum = match (before.kept(&sum), sum.keyed, key) {
            (Some(kept), ..) => Some(kept.to_owned()),
            (None, Some(keyed), _) => Some(keyed),
            (None, None, Err(error)) => return Err(error.into()),
            (None, None, Ok(_)) => None,
        };
        contents.versions = Some(sum.versions);
        Ok(contents)
    }
}

impl Contents {
    /// Notes the versions of what the pods read beside a Deployment that was applied for them. It is needed only if our key
    /// is ever lost, so that a failure keeps nobody waiting.
    pub(crate) async fn remember_versions(
        &self,
        kube: &Kube,
        deployment: Option<&Value>,
        target: Target<'_>,
    ) {
        let Some(patch) = deployment.and_then(|deployment| self.unnoted(deployment)) else { return };
        if let Err(error) = kube.patch_as(NOTER, target, patch).await {
            tracing::warn!(%error, "the versions of what pods read could not be noted; it is tried again");
        }
    }

    /// The patch that notes them; none if they are noted, or if there are none.
    pub(crate) fn unnoted(&self, deployment: &Value) -> Option<Patch> {
        noting(deployment, self.checksum.as_ref()?, self.versions.as_ref()?)
    }
}

/// Whether the pods of an object read a Secret or ConfigMap that changed. Its spec is read only where the name stands in it: every
/// object of the cluster passes by here.
pub(crate) fn reads<K: Resource<DynamicType = ()> + DeserializeOwned>(
    object: &Kept<K>,
    kind: Source,
    changed: &ObjectMeta,
    consumed: impl FnOnce(&K) -> Vec<Consumed>,
) -> bool {
    let is_here = object.meta().namespace == changed.namespace;
    let name = changed.name.as_deref().unwrap_or_default();
    let is_it = |one: &Consumed| one.kind == kind && one.name == name;
    is_here && object.mentions(name) && object.read().is_ok_and(|one| consumed(&one).iter().any(is_it))
}

/// They come in order, so that what is read of one object stands together.
fn of_one_object(consumed: &[Consumed]) -> impl Iterator<Item = &[Consumed]> {
    consumed.chunk_by(|one, next| (one.kind, &one.name) == (next.kind, &next.name))
}

/// The field that refers to more objects than are read; nothing if none does.
fn too_many(spec: &impl Serialize, consumed: &[Consumed]) -> Option<&'static str> {
    let beyond = of_one_object(consumed).nth(MOST_OBJECTS)?.first()?;
    Some(referring(spec, &beyond.name))
}

/// What of an object is not there although it must be, and what to do.
fn missing(
    namespace: &str,
    spec: &impl Serialize,
    group: &[Consumed],
    object: Option<&Value>,
) -> Vec<String> {
    let told = |one: &Consumed, what: &str| {
        let (kind, name, field) = (kind_name(one.kind), &one.name, referring(spec, &one.name));
        format!("{kind} {namespace}/{name} {what} it or correct spec.{field}")
    };
    let required = group.iter().filter(|one| !one.optional);
    let Some(object) = object else {
        return required.take(1).map(|one| told(one, "does not exist; create")).collect();
    };
    required
        .filter_map(|one| Some(told(one, &format!("has no key {}; add", lacking(one, object)?))))
        .collect()
}

/// Fields of the spec by which pods read Secrets and ConfigMaps.
const REFERRING: [&str; 6] = ["envFrom", "extraEnv", "tls", "certs", "volumes", "initContainers"];

/// The field that refers to an object of this name.
fn referring(spec: &impl Serialize, name: &str) -> &'static str {
    fn mentions(value: &Value, name: &str) -> bool {
        match value {
            Value::String(text) => text.trim() == name,
            Value::Array(items) => items.iter().any(|item| mentions(item, name)),
            Value::Object(map) => map.values().any(|value| mentions(value, name)),
            _ => false,
        }
    }
    let spec = serde_json::to_value(spec).unwrap_or_default();
    REFERRING.into_iter().find(|field| mentions(&spec[*field], name)).unwrap_or("envFrom")
}

fn lacking<'a>(one: &'a Consumed, object: &Value) -> Option<&'a str> {
    let Keys::One(key) = &one.keys else { return None };
    let there = ["data", "binaryData"].iter().any(|section| object[section].get(key).is_some());
    (!there).then_some(key)
}

fn kind_name(kind: Source) -> &'static str {
    match kind {
        Source::Secret => "Secret",
        Source::ConfigMap => "ConfigMap",
    }
}

fn target<'a>(namespace: &'a str, kind: Source, name: &'a str) -> Target<'a> {
    let (kind, plural) = match kind {
        Source::Secret => ("Secret", "secrets"),
        Source::ConfigMap => ("ConfigMap", "configmaps"),
    };
    Target { api_version: "v1", kind, plural, namespace, name }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn one(key: &str, optional: bool) -> Consumed {
        Consumed { kind: Source::Secret, name: "s".to_owned(), keys: Keys::One(key.to_owned()), optional }
    }

    #[test]
    fn a_lost_object_is_named_once_and_a_lost_key_by_its_name() {
        let spec = json!({"tls": {"secretNames": [" t "]}, "extraEnv": [
            {"name": "A", "valueFrom": {"secretKeyRef": {"name": "s", "key": "a"}}}]});
        let missing = |group: &[Consumed], object: Option<&Value>| missing("home", &spec, group, object);
        let group = [one("a", false), one("b", false), one("c", true)];
        assert_eq!(
            missing(&group, None),
            ["Secret home/s does not exist; create it or correct spec.extraEnv"]
        );
        assert_eq!(
            missing(&group, Some(&json!({"data": {"a": ""}}))),
            ["Secret home/s has no key b; add it or correct spec.extraEnv"]
        );
        assert_eq!(missing(&group[2..], None), [""; 0]);
        assert_eq!(referring(&spec, "t"), "tls");
    }

    #[test]
    fn more_objects_than_are_read_for_one_object_are_told_by_their_field() {
        let told = |count: usize| {
            let names = (0..count).map(|number| format!("s{number:03}"));
            let consumed: Vec<Consumed> = names
                .flat_map(|name| ["a", "b"].map(|key| Consumed { name: name.clone(), ..one(key, false) }))
                .collect();
            let named = |one: &Consumed| json!({ "secretRef": { "name": one.name } });
            let sources: Vec<Value> = consumed.iter().map(named).collect();
            too_many(&json!({ "envFrom": sources }), &consumed)
        };
        assert_eq!(told(MOST_OBJECTS), None, "each object counts once");
        assert_eq!(told(MOST_OBJECTS + 1), Some("envFrom"));
        let message = ReadError::TooMany("envFrom").to_string();
        assert!(message.ends_with("shorten spec.envFrom") && message.len() < 300, "{message}");
    }
}
