//! Reads what a control plane refers to: Secrets and ConfigMaps, by name, one at a time, when they are needed.
//! What it reads is hashed or handed on out of sight; it keeps nothing.

use super::build::{self, ACCESS_URL};
use super::checksum::{NOTER, Running, Sums, noting};
use super::reconciler::Reconciler;
use crate::control_plane_access::in_force::container;
use crate::controller::checksum_key::{ChecksumKey, KeyError};
use crate::controller::runtime::deadline::Deadline;
use crate::controller::workload::consumed::{Consumed, Keys, Source};
use crate::kubernetes::{CallError, Kube, Target};
use crds::CoderControlPlane;
use serde_json::Value;
use std::time::Instant;

/// Secrets and ConfigMaps that are read for one control plane.
const MOST_OBJECTS: usize = 256;

/// The contents of what the pods consume.
#[derive(Debug, Default)]
pub(super) struct Contents {
    /// One hash over all of it, so that a changed value rolls out.
    pub checksum: Option<String>,
    /// One hash over the versions of the objects, so that it is known later whether any of them changed.
    pub versions: Option<String>,
    /// What is not there although it must be.
    pub missing: Vec<String>,
    /// Whether some `envFrom` gives the address that would be our default.
    pub provided: bool,
}

/// Why it is not known what the pods consume.
#[derive(Debug, thiserror::Error)]
pub(super) enum ReadError {
    /// An object could not be read.
    #[error(transparent)]
    Object(#[from] CallError),
    /// The reconcile has had its time.
    #[error("there was no time to read all that the pods consume")]
    OutOfTime,
    /// There are more objects than are read for one control plane.
    #[error(
        "the pods would read more than {MOST_OBJECTS} Secrets and ConfigMaps, and nothing is changed until they read \
         fewer; shorten spec.{0}"
    )]
    TooMany(&'static str),
    /// There is no key for a checksum that is needed.
    #[error("what the pods read has no checksum: {0}")]
    Key(#[from] KeyError),
}

/// Reads everything that the pods of a control plane consume, each object once. `running` is the Deployment that is
/// there: what it has stays in force while something is missing, and while nothing has changed.
pub(super) async fn read(
    kube: &Kube,
    key: &ChecksumKey,
    control_plane: &CoderControlPlane,
    running: Option<&Value>,
    deadline: &Deadline,
) -> Result<Contents, ReadError> {
    let consumed = build::consumed(control_plane);
    if consumed.is_empty() {
        return Ok(Contents::default());
    }
    if let Some(field) = too_many(control_plane, &consumed) {
        return Err(ReadError::TooMany(field));
    }
    let namespace = control_plane.metadata.namespace.as_deref().unwrap_or_default();
    let mut contents = Contents::default();
    let key = key.get(kube).await;
    let mut sums = Sums::new(key.as_ref().ok().copied());
    for group in of_one_object(&consumed) {
        let Some(first) = group.first() else { continue };
        if deadline.is_over(Instant::now()) {
            return Err(ReadError::OutOfTime);
        }
        let object = kube.read(target(namespace, first.kind, &first.name)).await?;
        contents.missing.extend(missing(control_plane, group, object.as_ref()));
        group.iter().for_each(|one| sums.add(kind_name(one.kind), one, object.as_ref()));
        contents.provided |= object.is_some_and(|object| gives_access_url(control_plane, first, &object));
    }
    let (sum, before) = (sums.finish(), Running::of(running));
    if let Some(running) = running.filter(|_| !contents.missing.is_empty()) {
        contents.provided = !sets_access_url(running);
        if let Some(checksum) = before.checksum {
            // What vanished may be back in a moment: pods that run keep what they have until it is whole again.
            contents.checksum = Some(checksum.to_owned());
            contents.versions = before.versions.map(str::to_owned);
            return Ok(contents);
        }
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

/// They come in order, so that what is read of one object stands together.
fn of_one_object(consumed: &[Consumed]) -> impl Iterator<Item = &[Consumed]> {
    consumed.chunk_by(|one, next| (one.kind, &one.name) == (next.kind, &next.name))
}

/// The field that refers to more objects than are read; nothing if none does.
fn too_many(control_plane: &CoderControlPlane, consumed: &[Consumed]) -> Option<&'static str> {
    let beyond = of_one_object(consumed).nth(MOST_OBJECTS)?.first()?;
    Some(referring(control_plane, &beyond.name))
}

impl Reconciler {
    /// Notes the versions of what the pods read beside a Deployment that was applied for them. It is needed only if our key
    /// is ever lost, so that a failure keeps nobody waiting.
    pub(super) async fn remember_versions(
        &self,
        deployment: Option<&Value>,
        target: Target<'_>,
        contents: &Contents,
    ) {
        let (Some(deployment), Some(checksum), Some(versions)) =
            (deployment, &contents.checksum, &contents.versions)
        else {
            return;
        };
        let Some(patch) = noting(deployment, checksum, versions) else { return };
        if let Err(error) = self.kube.patch_as(NOTER, target, patch).await {
            tracing::warn!(%error, "the versions of what pods read could not be noted; it is tried again");
        }
    }
}

/// Whether the pods that run are given the address by a variable of ours.
fn sets_access_url(running: &Value) -> bool {
    let variables = container(running).and_then(|container| container["env"].as_array());
    variables.into_iter().flatten().any(|variable| variable["name"] == ACCESS_URL)
}

/// What of an object is not there although it must be, and what to do.
fn missing(control_plane: &CoderControlPlane, group: &[Consumed], object: Option<&Value>) -> Vec<String> {
    let namespace = control_plane.metadata.namespace.as_deref().unwrap_or_default();
    let told = |one: &Consumed, what: &str| {
        let (kind, name, field) = (kind_name(one.kind), &one.name, referring(control_plane, &one.name));
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
fn referring(control_plane: &CoderControlPlane, name: &str) -> &'static str {
    fn mentions(value: &Value, name: &str) -> bool {
        match value {
            Value::String(text) => text.trim() == name,
            Value::Array(items) => items.iter().any(|item| mentions(item, name)),
            Value::Object(map) => map.values().any(|value| mentions(value, name)),
            _ => false,
        }
    }
    let spec = serde_json::to_value(&control_plane.spec).unwrap_or_default();
    REFERRING.into_iter().find(|field| mentions(&spec[*field], name)).unwrap_or("envFrom")
}

/// Whether some `envFrom` of this source gives the address that would be our default.
fn gives_access_url(control_plane: &CoderControlPlane, one: &Consumed, object: &Value) -> bool {
    let keys: Vec<&str> =
        object["data"].as_object().into_iter().flatten().map(|(key, _)| key.as_str()).collect();
    control_plane.spec.env_from.iter().any(|source| {
        let name = match one.kind {
            Source::Secret => source.secret_ref.as_ref().map(|reference| &reference.name),
            Source::ConfigMap => source.config_map_ref.as_ref().map(|reference| &reference.name),
        };
        name == Some(&one.name) && build::provides_access_url(source.prefix.as_deref(), keys.iter().copied())
    })
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
        let plane: CoderControlPlane = serde_json::from_value(json!({
            "apiVersion": "coder.com/v1alpha1", "kind": "CoderControlPlane",
            "metadata": {"name": "coder", "namespace": "home"},
            "spec": {"tls": {"secretNames": [" t "]}, "extraEnv": [
                {"name": "A", "valueFrom": {"secretKeyRef": {"name": "s", "key": "a"}}}]}}))
        .unwrap();
        let missing = |group: &[Consumed], object: Option<&Value>| missing(&plane, group, object);
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
        assert_eq!(referring(&plane, "t"), "tls");
    }

    #[test]
    fn more_objects_than_are_read_for_one_control_plane_are_told_by_their_field() {
        let plane = |count: usize| -> CoderControlPlane {
            let sources: Vec<Value> = (0..count)
                .flat_map(|number| vec![json!({ "secretRef": { "name": format!("s{number}") } }); 2])
                .collect();
            serde_json::from_value(json!({ "metadata": { "name": "coder" }, "spec": { "envFrom": sources } }))
                .unwrap()
        };
        let told = |plane: CoderControlPlane| too_many(&plane, &build::consumed(&plane));
        assert_eq!(told(plane(MOST_OBJECTS)), None, "each object counts once");
        assert_eq!(told(plane(MOST_OBJECTS + 1)), Some("envFrom"));
        let message = ReadError::TooMany("envFrom").to_string();
        assert!(message.ends_with("shorten spec.envFrom") && message.len() < 300, "{message}");
    }

    #[test]
    fn it_is_seen_who_gives_the_pods_their_address() {
        let running = |env: Value| json!({"spec": {"template": {"spec": {"containers": [{"name": "coder", "env": env}]}}}});
        assert!(!sets_access_url(&running(json!([]))) && !sets_access_url(&json!({})));
        assert!(sets_access_url(&running(json!([{"name": "CODER_ACCESS_URL"}]))));
    }
}
