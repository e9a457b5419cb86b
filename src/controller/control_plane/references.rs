//! Reads what a control plane refers to: Secrets and ConfigMaps, by name, one at a time, when they are needed.
//! What it reads is hashed or handed on out of sight; it keeps nothing.

use super::desired::{Consumed, Keys, Source};
use crate::confidential::Confidential;
use crate::kubernetes::{CallError, Kube, Target};
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
    /// Whether some `envFrom` gives a variable of this name; see [`read`].
    pub provided: bool,
}

/// Reads everything that is consumed. `provides` is asked for each source of variables whether its keys give the
/// variable that would replace a default.
pub async fn read(
    kube: &Kube,
    namespace: &str,
    deployment: &str,
    consumed: &[Consumed],
    provides: impl Fn(&Consumed, &[&str]) -> bool,
) -> Result<Contents, CallError> {
    let mut contents = Contents::default();
    let mut hash = Context::new(&SHA256);
    for one in consumed {
        let object = kube.read(target(namespace, one.kind, &one.name)).await?;
        let Some(object) = object else {
            if !one.optional {
                contents.missing.push(format!("{} {} does not exist", kind_name(one.kind), one.name));
            }
            continue;
        };
        let keys: Vec<&str> =
            object["data"].as_object().into_iter().flatten().map(|(key, _)| key.as_str()).collect();
        contents.provided |= provides(one, &keys);
        if let Some(key) = lacking(one, &object) {
            contents.missing.push(format!("{} {} has no key {key}", kind_name(one.kind), one.name));
        }
        hash.update(kind_name(one.kind).as_bytes());
        hash.update(one.name.as_bytes());
        // Whoever reads the Deployment sees the hash. Without the uid, which only readers of the object know, a short
        // value could be guessed from it.
        hash.update(object["metadata"]["uid"].as_str().unwrap_or_default().as_bytes());
        for section in ["data", "binaryData"] {
            add(&mut hash, one, &object[section]);
        }
    }
    if !consumed.is_empty() {
        let digest = hash.finish();
        contents.checksum = Some(digest.as_ref().iter().take(16).map(|byte| format!("{byte:02x}")).collect());
    }
    if !contents.missing.is_empty()
        && let Some(checksum) = in_force(kube, namespace, deployment).await?
    {
        // What vanished may be back in a moment: pods that run keep what they have until it is whole again.
        contents.checksum = Some(checksum);
    }
    Ok(contents)
}

/// The checksum that the pods of a Deployment were made with.
async fn in_force(kube: &Kube, namespace: &str, name: &str) -> Result<Option<String>, CallError> {
    let target =
        Target { api_version: "apps/v1", kind: "Deployment", plural: "deployments", namespace, name };
    let live = kube.read(target).await?;
    let annotations = live.as_ref().and_then(|live| live.pointer("/spec/template/metadata/annotations"));
    Ok(annotations.and_then(|all| all.get(annotation::CHECKSUM)?.as_str()).map(str::to_owned))
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
    (!there && !one.optional).then_some(key)
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

/// One value of a Secret; `None` when the Secret or the key is not there, or the value is not text.
pub async fn secret_value(
    kube: &Kube,
    namespace: &str,
    name: &str,
    key: &str,
) -> Result<Option<Confidential<String>>, CallError> {
    let object =
        kube.read(Target { api_version: "v1", kind: "Secret", plural: "secrets", namespace, name }).await?;
    let value = object.and_then(|object| decoded(&object["data"][key]));
    Ok(value.map(|text| text.trim().to_owned()).filter(|text| !text.is_empty()).map(Confidential::new))
}

/// Text of a value as Secrets carry it.
pub fn decoded(value: &Value) -> Option<String> {
    let bytes: ByteString = serde_json::from_value(value.clone()).ok()?;
    String::from_utf8(bytes.0).ok()
}
