//! Reads what a control plane refers to: Secrets and ConfigMaps, by name, one at a time, when they are needed.
//! What it reads is hashed or handed on out of sight; it keeps nothing.

use super::desired::{self, ACCESS_URL, Consumed, Keys, Source};
use super::kept;
use crate::confidential::Confidential;
use crate::kubernetes::{CallError, Kube, Target};
use crds::CoderControlPlane;
use crds::well_known::annotation;
use k8s_openapi::ByteString;
use ring::digest::{Context, SHA256};
use serde_json::Value;

/// The contents of what the pods consume.
#[derive(Debug, Default)]
pub struct Contents {
    /// One hash over all of it, so that a changed value rolls out.
    pub checksum: Option<String>,
    /// What is not there although it must be.
    pub missing: Vec<String>,
    /// Whether some `envFrom` gives the address that would be our default.
    pub provided: bool,
}

/// Reads everything that the pods of a control plane consume, each object once. `running` is the Deployment that is
/// there: what it has stays in force while something is missing.
pub async fn read(
    kube: &Kube,
    control_plane: &CoderControlPlane,
    running: Option<&Value>,
) -> Result<Contents, CallError> {
    let consumed = desired::consumed(control_plane);
    let namespace = control_plane.metadata.namespace.as_deref().unwrap_or_default();
    let mut contents = Contents::default();
    let mut hash = Context::new(&SHA256);
    // They come in order, so that what is read of one object stands together.
    for group in consumed.chunk_by(|one, next| (one.kind, &one.name) == (next.kind, &next.name)) {
        let Some(first) = group.first() else { continue };
        let object = kube.read(target(namespace, first.kind, &first.name)).await?;
        contents.missing.extend(missing(control_plane, group, object.as_ref()));
        let Some(object) = object else { continue };
        contents.provided |= gives_access_url(control_plane, first, &object);
        group.iter().for_each(|one| add_object(&mut hash, one, &object));
    }
    if !consumed.is_empty() {
        let digest = hash.finish();
        contents.checksum = Some(digest.as_ref().iter().take(16).map(|byte| format!("{byte:02x}")).collect());
    }
    if let Some(running) = running.filter(|_| !contents.missing.is_empty()) {
        keep(&mut contents, running);
    }
    Ok(contents)
}

/// What vanished may be back in a moment: pods that run keep what they have until it is whole again.
fn keep(contents: &mut Contents, running: &Value) {
    let annotations = running.pointer("/spec/template/metadata/annotations");
    let checksum = annotations.and_then(|all| all.get(annotation::CHECKSUM)?.as_str());
    if let Some(checksum) = checksum {
        contents.checksum = Some(checksum.to_owned());
    }
    let variables = kept::container(running).and_then(|container| container["env"].as_array());
    let set = variables.into_iter().flatten().any(|variable| variable["name"] == ACCESS_URL);
    contents.provided = !set;
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
        name == Some(&one.name)
            && desired::provides_access_url(source.prefix.as_deref(), keys.iter().copied())
    })
}

fn add_object(hash: &mut Context, one: &Consumed, object: &Value) {
    hash.update(kind_name(one.kind).as_bytes());
    hash.update(one.name.as_bytes());
    // Whoever reads the Deployment sees the hash. Without the uid, which only readers of the object know, a short
    // value could be guessed from it.
    hash.update(object["metadata"]["uid"].as_str().unwrap_or_default().as_bytes());
    for section in ["data", "binaryData"] {
        add(hash, one, &object[section]);
    }
}

fn add(hash: &mut Context, one: &Consumed, section: &Value) {
    for (key, value) in section.as_object().into_iter().flatten() {
        if matches!(&one.keys, Keys::One(only) if only != key) {
            continue;
        }
        for part in [key.as_str(), value.as_str().unwrap_or_default()] {
            // The length in front keeps two neighbours from being read as one.
            hash.update(&part.len().to_le_bytes());
            hash.update(part.as_bytes());
        }
    }
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

/// What a key of a Secret has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Found {
    /// Text, without the spaces around it.
    Text(Confidential<String>),
    /// There is none; what is lacking, and what to do.
    Lacking(String),
}

impl Found {
    /// The text, if there is some.
    pub fn text(self) -> Option<Confidential<String>> {
        match self {
            Self::Text(text) => Some(text),
            Self::Lacking(_) => None,
        }
    }
}

/// One value of a Secret.
pub async fn secret_value(kube: &Kube, namespace: &str, name: &str, key: &str) -> Result<Found, CallError> {
    let object = kube.read(target(namespace, Source::Secret, name)).await?;
    Ok(found(object.as_ref(), name, key))
}

/// What the key of a Secret that was read has. Other keys are not told: they are nobody's business here.
fn found(object: Option<&Value>, name: &str, key: &str) -> Found {
    let lacking = |what: String| Found::Lacking(what);
    let Some(object) = object else {
        return lacking(format!("Secret {name} does not exist; create it with the key {key}"));
    };
    let value = &object["data"][key];
    if value.is_null() {
        return lacking(format!("Secret {name} has no key {key}; add it, or name the key that it has"));
    }
    match decoded(value).as_deref().map(str::trim) {
        None => lacking(format!("the key {key} of Secret {name} is not text; correct it")),
        Some("") => lacking(format!("the key {key} of Secret {name} is empty; fill it")),
        Some(text) => Found::Text(Confidential::new(text.to_owned())),
    }
}

/// Text of a value as Secrets carry it.
pub fn decoded(value: &Value) -> Option<String> {
    let bytes: ByteString = serde_json::from_value(value.clone()).ok()?;
    String::from_utf8(bytes.0).ok()
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
    fn it_is_told_what_is_lacking_of_a_value() {
        let lacking = |object: Option<Value>| match found(object.as_ref(), "s", "k") {
            Found::Lacking(what) => what,
            Found::Text(text) => format!("text: {}", text.expose()),
        };
        let secret = |value: &str| Some(json!({"data": {"other": "eA==", "k": value}}));
        assert_eq!(lacking(None), "Secret s does not exist; create it with the key k");
        let no_key = lacking(Some(json!({"data": {"other": "eA=="}})));
        assert_eq!(no_key, "Secret s has no key k; add it, or name the key that it has");
        assert_eq!(lacking(Some(json!({}))), no_key);
        assert_eq!(lacking(secret("")), "the key k of Secret s is empty; fill it");
        assert_eq!(lacking(secret("IAo=")), "the key k of Secret s is empty; fill it");
        assert_eq!(lacking(secret("/w==")), "the key k of Secret s is not text; correct it");
        assert_eq!(lacking(secret("IGEK")), "text: a");
    }

    #[test]
    fn while_something_is_missing_the_pods_keep_what_they_have() {
        let running = |env: Value| {
            json!({"spec": {"template": {"metadata": {"annotations": {"coder.com/checksum": "before"}},
                "spec": {"containers": [{"name": "coder", "env": env}]}}}})
        };
        for (env, provided) in [(json!([]), true), (json!([{"name": "CODER_ACCESS_URL"}]), false)] {
            let mut contents = Contents { checksum: Some("now".to_owned()), ..Contents::default() };
            keep(&mut contents, &running(env));
            assert_eq!((contents.checksum.as_deref(), contents.provided), (Some("before"), provided));
        }
    }
}
