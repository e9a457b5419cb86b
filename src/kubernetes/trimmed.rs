//! Metadata of which only what somebody here looks at is read, while it is read: the rest is never in memory but as the text of
//! one object. It decides what that is by name and size, and never by who wrote it.

use super::partial::part_of_kind;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{OwnerReference, Time};
use kube::core::ObjectMeta;
use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize as DeriveDeserialize, Serialize};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;

/// Whose labels and annotations are looked at. `kubectl`'s copy of the whole object is none of them.
const OURS: [&str; 2] = ["coder.com/", "app.kubernetes.io/"];
/// Bytes of a label or annotation; no longer one means anything to us.
pub(super) const LONGEST: usize = 1024;
/// Labels, annotations, finalizers that are kept of an object.
pub(super) const MOST: usize = 64;
/// Metadata of an object of a kind.
#[derive(Debug, Clone, DeriveDeserialize)]
pub(super) struct Trimmed<K> {
    #[serde(default, deserialize_with = "metadata")]
    pub(super) metadata: ObjectMeta,
    #[serde(skip)]
    kind: PhantomData<K>,
}

part_of_kind!(Trimmed<K>, metadata_api: true);

/// Reads metadata without `managedFields`, without labels and annotations of others, and with the one owner that counts.
pub(super) fn metadata<'de, D: Deserializer<'de>>(deserializer: D) -> Result<ObjectMeta, D::Error> {
    #[derive(DeriveDeserialize)]
    #[serde(rename_all = "camelCase")]
    struct Read {
        name: Option<String>,
        namespace: Option<String>,
        uid: Option<String>,
        resource_version: Option<String>,
        generation: Option<i64>,
        creation_timestamp: Option<Time>,
        deletion_timestamp: Option<Time>,
        #[serde(default)]
        labels: Ours,
        #[serde(default)]
        annotations: Ours,
        #[serde(default)]
        finalizers: Few<String>,
        #[serde(default)]
        owner_references: Few<OwnerReference>,
    }
    let read = Read::deserialize(deserializer)?;
    let some = |ours: Ours| Some(ours.0).filter(|all| !all.is_empty());
    Ok(ObjectMeta {
        name: read.name,
        namespace: read.namespace,
        uid: read.uid,
        resource_version: read.resource_version,
        generation: read.generation,
        creation_timestamp: read.creation_timestamp,
        deletion_timestamp: read.deletion_timestamp,
        labels: some(read.labels),
        annotations: some(read.annotations),
        finalizers: Some(read.finalizers.0).filter(|all| !all.is_empty()),
        owner_references: Some(read.owner_references.0).filter(|all| !all.is_empty()),
        ..ObjectMeta::default()
    })
}

/// Labels or annotations that mean something to us.
#[derive(Default)]
struct Ours(BTreeMap<String, String>);

impl<'de> Deserialize<'de> for Ours {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Choosing;
        impl<'de> Visitor<'de> for Choosing {
            type Value = Ours;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("a map of texts")
            }

            fn visit_unit<E>(self) -> Result<Ours, E> {
                Ok(Ours::default())
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Ours, A::Error> {
                let mut ours = Ours::default();
                while let Some(key) = map.next_key::<Cow<'de, str>>()? {
                    if ours.0.len() >= MOST || !OURS.iter().any(|prefix| key.starts_with(prefix)) {
                        map.next_value::<IgnoredAny>()?;
                        continue;
                    }
                    let value = map.next_value::<String>()?;
                    if value.len() <= LONGEST {
                        ours.0.insert(key.into_owned(), value);
                    }
                }
                Ok(ours)
            }
        }
        deserializer.deserialize_any(Choosing)
    }
}

/// What counts of a list of any length.
pub(super) trait Counts: Sized {
    fn counted(self) -> Option<Self>;
}

impl Counts for String {
    fn counted(self) -> Option<Self> {
        (self.len() <= LONGEST).then_some(self)
    }
}

impl Counts for OwnerReference {
    /// There is one controller at most, and no other owner is asked for. One whose texts are too long is still somebody.
    fn counted(self) -> Option<Self> {
        let short = |text: String| text.counted().unwrap_or_default();
        (self.controller == Some(true)).then(|| Self {
            api_version: short(self.api_version),
            kind: short(self.kind),
            name: short(self.name),
            uid: short(self.uid),
            ..self
        })
    }
}

/// The first of a list that count.
#[derive(Debug, Serialize)]
pub(super) struct Few<T>(Vec<T>);

impl<T> Default for Few<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<'de, T: Deserialize<'de> + Counts> Deserialize<'de> for Few<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Choosing<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de> + Counts> Visitor<'de> for Choosing<T> {
            type Value = Few<T>;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("a list")
            }

            fn visit_unit<E>(self) -> Result<Few<T>, E> {
                Ok(Few::default())
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Few<T>, A::Error> {
                let mut few = Few::default();
                while let Some(item) = items.next_element::<T>()? {
                    if few.0.len() < MOST {
                        few.0.extend(item.counted());
                    }
                }
                Ok(few)
            }
        }
        deserializer.deserialize_any(Choosing(PhantomData))
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use k8s_openapi::api::core::v1::Secret;
    use kube::core::WatchEvent;
    use serde_json::{Value, from_str, json};

    /// Metadata with more of everything than anybody looks at.
    pub(in crate::kubernetes) fn bloated() -> Value {
        let many: Vec<Value> = (0..200)
            .map(|uid| json!({"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": format!("{uid}"), "controller": uid == 150}))
            .collect();
        json!({
            "name": "a", "namespace": "team", "uid": "u", "resourceVersion": "7", "generation": 3,
            "creationTimestamp": "2026-01-01T00:00:00Z", "deletionTimestamp": null, "selfLink": "x",
            "labels": {"app.kubernetes.io/managed-by": "coder-k8s", "coder.com/control-plane": "c", "theirs": "x"},
            "annotations": {"kubectl.kubernetes.io/last-applied-configuration": "x".repeat(250_000),
                "coder.com/reconcile-at": "now", "coder.com/long": "x".repeat(LONGEST + 1)},
            "finalizers": ["coder.com/cleanup"],
            "ownerReferences": many,
            "managedFields": [{"manager": "m", "fieldsV1": {"f:data": {"f:a": {}}}}],
        })
    }

    #[test]
    fn a_controller_with_texts_of_any_length_is_somebody_and_takes_no_room() {
        let long = "u".repeat(700_000);
        let object = json!({ "metadata": { "name": "a", "ownerReferences": [
            { "apiVersion": "v1", "kind": "X", "name": "theirs", "uid": "1" },
            { "apiVersion": long, "kind": long, "name": long, "uid": long, "controller": true }] } });
        let trimmed: Trimmed<Secret> = from_str(&object.to_string()).unwrap();
        let owners = trimmed.metadata.owner_references.unwrap();
        assert_eq!((owners.len(), owners[0].controller), (1, Some(true)));
        assert_eq!([&owners[0].api_version, &owners[0].kind, &owners[0].name, &owners[0].uid], [""; 4]);
    }

    #[test]
    fn what_nobody_looks_at_is_not_kept() {
        let line =
            json!({"type": "ADDED", "object": {"kind": "PartialObjectMetadata", "metadata": bloated()}});
        let WatchEvent::Added(read) = from_str::<WatchEvent<Trimmed<Secret>>>(&line.to_string()).unwrap()
        else {
            panic!("an object was added");
        };
        assert_eq!(
            json!(read.metadata),
            json!({"name": "a", "namespace": "team", "uid": "u", "resourceVersion": "7", "generation": 3,
                "creationTimestamp": "2026-01-01T00:00:00Z",
                "labels": {"app.kubernetes.io/managed-by": "coder-k8s", "coder.com/control-plane": "c"},
                "annotations": {"coder.com/reconcile-at": "now"}, "finalizers": ["coder.com/cleanup"],
                "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "150", "controller": true}]})
        );
        for empty in [json!({"labels": null, "ownerReferences": null, "finalizers": []}), json!({})] {
            let read: Trimmed<Secret> = from_str(&json!({ "metadata": empty }).to_string()).unwrap();
            assert_eq!(json!(read.metadata), json!({}));
        }
    }

    #[test]
    fn a_list_of_any_length_keeps_a_few() {
        let many: BTreeMap<String, String> =
            (0..1000).map(|number| (format!("coder.com/{number:04}"), "x".to_owned())).collect();
        let names: Vec<String> = many.keys().cloned().collect();
        let object = json!({"metadata": {"labels": many, "finalizers": names}});
        let read: Trimmed<Secret> = from_str(&object.to_string()).unwrap();
        assert_eq!(read.metadata.labels.unwrap().len(), MOST);
        assert_eq!(read.metadata.finalizers.unwrap().len(), MOST);
    }
}
