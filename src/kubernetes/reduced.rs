//! Objects of which a process keeps no more than their names and one part of their spec.
//! It decides nothing about what that part is, and never fails because of the rest.

use super::partial::part_of_kind;
use super::trimmed::metadata;
use kube::core::ObjectMeta;
use serde::Deserialize as DeriveDeserialize;
use serde::de::{Deserialize, Deserializer};
use std::marker::PhantomData;

/// The names of an object, and what `S` reads of its spec: of a kind that nobody looks at more closely.
#[derive(Debug, Clone)]
pub struct Reduced<K, S> {
    metadata: ObjectMeta,
    spec: Option<S>,
    kind: PhantomData<fn() -> K>,
}

impl<K, S> Reduced<K, S> {
    /// What was read of its spec; nothing if it has none.
    pub fn spec(&self) -> Option<&S> {
        self.spec.as_ref()
    }
}

impl<'de, K, S: Deserialize<'de>> Deserialize<'de> for Reduced<K, S> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(DeriveDeserialize)]
        struct Parts<S> {
            #[serde(default, deserialize_with = "metadata")]
            metadata: ObjectMeta,
            spec: Option<S>,
        }
        let Parts { metadata, spec } = Parts::deserialize(deserializer)?;
        let ObjectMeta { name, namespace, uid, resource_version, .. } = metadata;
        let metadata = ObjectMeta { name, namespace, uid, resource_version, ..ObjectMeta::default() };
        Ok(Self { metadata, spec, kind: PhantomData })
    }
}

part_of_kind!(Reduced<K, S>, metadata_api: false);

#[cfg(test)]
mod tests {
    use super::*;
    use crds::CoderProvisioner;
    use kube::Resource;
    use kube::core::WatchEvent;
    use serde::de::IgnoredAny;
    use serde_json::json;

    #[test]
    fn nothing_is_kept_that_nobody_looks_at() {
        let many: Vec<String> = (0..60).map(|number| format!("coder.com/{number}")).collect();
        let texts: std::collections::BTreeMap<_, _> =
            many.iter().map(|name| (name, "x".repeat(1000))).collect();
        let line = json!({"type": "ADDED", "object": {
            "metadata": {"name": "a", "namespace": "team", "uid": "u", "resourceVersion": "7", "annotations": texts,
                "finalizers": many},
            "spec": {"extraEnv": texts}, "status": {"conditions": many}}});
        let read = serde_json::from_str(&line.to_string()).unwrap();
        let WatchEvent::<Reduced<CoderProvisioner, IgnoredAny>>::Added(read) = read else {
            panic!("an object was added");
        };
        let kept = json!({"name": "a", "namespace": "team", "uid": "u", "resourceVersion": "7"});
        assert_eq!(json!(read.meta()), kept);
        assert!(read.spec().is_some());
    }
}
