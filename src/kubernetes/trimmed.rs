//! Objects of which only what somebody here looks at is read, while they are read: the rest is never in memory but as the
//! text of one object. It decides what that is by name and size, and never by who wrote it.

use super::own;
use super::partial::part_of_kind;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{OwnerReference, Time};
use kube::Resource;
use kube::core::ObjectMeta;
use serde::de::{Deserialize, DeserializeOwned, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize as DeriveDeserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;

/// Whose labels and annotations are looked at. `kubectl`'s copy of the whole object is none of them.
const OURS: [&str; 2] = ["coder.com/", "app.kubernetes.io/"];
/// Bytes of a label or annotation; no longer one means anything to us.
const LONGEST: usize = 1024;
/// Labels, annotations, finalizers that are kept of an object.
const MOST: usize = 64;
/// Bytes of a status that is kept; one of ours has 4 to 8 KiB.
const LONGEST_STATUS: usize = 64 * 1024;

/// Metadata of an object of a kind.
#[derive(Debug, Clone, DeriveDeserialize)]
pub(super) struct Trimmed<K> {
    #[serde(default, deserialize_with = "metadata")]
    pub(super) metadata: ObjectMeta,
    #[serde(skip)]
    kind: PhantomData<K>,
}

part_of_kind!(Trimmed<K>, metadata_api: true);

/// An object with its spec and status, as text: values of our types take up to a hundred times the room of what was
/// written, and a spec may be anybody's.
#[derive(Debug, Clone)]
pub struct Kept<K> {
    metadata: ObjectMeta,
    spec: Option<Box<RawValue>>,
    status: Status,
    kind: PhantomData<fn() -> K>,
}

/// The status of an object that is kept.
#[derive(Debug, Clone)]
enum Status {
    /// It has none.
    Absent,
    Text(Box<RawValue>),
    /// Longer than any that we write, and not kept.
    TooLong,
}

impl Status {
    fn of(text: Option<Box<RawValue>>) -> Self {
        match text {
            None => Self::Absent,
            Some(text) if text.get().len() > LONGEST_STATUS => Self::TooLong,
            Some(text) => Self::Text(text),
        }
    }
}

impl<K> Kept<K> {
    /// Whether a name stands in its spec: one that does not is not referred to, and nobody has to read the whole. The API
    /// server writes the letters of names as they are.
    pub fn mentions(&self, name: &str) -> bool {
        self.spec.as_ref().is_some_and(|spec| spec.get().contains(name))
    }

    /// What `S` reads of its spec; nothing if it has none.
    pub(crate) fn spec<S: DeserializeOwned>(&self) -> Option<Result<S, serde_json::Error>> {
        self.spec.as_ref().map(|spec| serde_json::from_str(spec.get()))
    }
}

impl<K: DeserializeOwned> Kept<K> {
    /// The object as our types have it; one that they cannot read is one bad object, not the end of its kind for everybody.
    pub fn read(&self) -> Result<K, serde_json::Error> {
        #[derive(Serialize)]
        struct Whole<'a> {
            metadata: &'a ObjectMeta,
            #[serde(skip_serializing_if = "Option::is_none")]
            spec: Option<&'a RawValue>,
        }
        let whole = Whole { metadata: &self.metadata, spec: self.spec.as_deref() };
        serde_json::from_str(&serde_json::to_string(&whole)?)
    }
}

impl<K: Resource<DynamicType = ()>> Kept<K> {
    /// The object as a read of it would show it; none if something is not kept that a read would show.
    pub fn object(&self) -> Option<Value> {
        #[derive(Serialize)]
        #[serde(rename_all = "camelCase")]
        struct Whole<'a> {
            api_version: &'a str,
            kind: &'a str,
            metadata: &'a ObjectMeta,
            #[serde(skip_serializing_if = "Option::is_none")]
            spec: Option<&'a RawValue>,
            #[serde(skip_serializing_if = "Option::is_none")]
            status: Option<&'a RawValue>,
        }
        let status = match &self.status {
            Status::Absent => None,
            Status::Text(text) => Some(&**text),
            Status::TooLong => return None,
        };
        if self.metadata.finalizers.as_ref().is_some_and(|all| all.len() >= MOST) {
            return None;
        }
        let (api_version, kind) = (K::api_version(&()), K::kind(&()));
        let (metadata, spec) = (&self.metadata, self.spec.as_deref());
        let whole = Whole { api_version: &api_version, kind: &kind, metadata, spec, status };
        own::object(&serde_json::to_vec(&whole).ok()?).ok()
    }
}

impl<'de, K> Deserialize<'de> for Kept<K> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(DeriveDeserialize)]
        struct Parts {
            #[serde(default, deserialize_with = "metadata")]
            metadata: ObjectMeta,
            #[serde(default)]
            spec: Option<Box<RawValue>>,
            #[serde(default)]
            status: Option<Box<RawValue>>,
        }
        let Parts { metadata, spec, status } = Parts::deserialize(deserializer)?;
        Ok(Self { metadata, spec, status: Status::of(status), kind: PhantomData })
    }
}

part_of_kind!(Kept<K>, metadata_api: false);

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
trait Counts: Sized {
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
struct Few<T>(Vec<T>);

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
mod tests {
    use super::*;
    use crds::CoderControlPlane;
    use k8s_openapi::api::core::v1::Secret;
    use kube::core::WatchEvent;
    use serde_json::{from_str, json};

    fn bloated() -> Value {
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

    #[test]
    fn an_object_of_ours_keeps_its_spec_and_one_bad_object_is_one_bad_object() {
        let object = json!({"apiVersion": "coder.com/v1alpha1", "kind": "CoderControlPlane", "metadata": bloated(),
            "spec": {"replicas": 2, "extraArgs": ["a"]}, "status": {"conditions": "x".repeat(1000)}});
        // The API server says first what happened, and then to what.
        let line = format!(r#"{{"type": "MODIFIED", "object": {object}}}"#);
        let WatchEvent::Modified(kept) = from_str::<WatchEvent<Kept<CoderControlPlane>>>(&line).unwrap()
        else {
            panic!("an object was modified");
        };
        assert_eq!(kept.meta().name.as_deref(), Some("a"));
        assert!(kept.mentions("extraArgs") && !kept.mentions("conditions"));
        let read = kept.read().unwrap();
        assert_eq!((read.spec.replicas, read.metadata.uid.as_deref()), (Some(2), Some("u")));
        assert!(format!("{kept:?}").len() < 2000, "{kept:?}");
        let bad = json!({"metadata": {"name": "b"}, "spec": {"replicas": "two"}}).to_string();
        let kept: Kept<CoderControlPlane> = from_str(&bad).unwrap();
        assert!(kept.read().unwrap_err().to_string().contains("two"));
        assert_eq!(kept.meta().name.as_deref(), Some("b"));
        let bare: Kept<CoderControlPlane> =
            from_str(&json!({"metadata": {"name": "c"}}).to_string()).unwrap();
        assert!(bare.read().is_ok(), "the API server gives every object a spec; none is none");
    }

    #[test]
    fn an_object_of_ours_is_what_a_read_would_show_or_nothing() {
        let text = |metadata: Value, status: Value| {
            json!({"apiVersion": "coder.com/v1alpha1", "kind": "CoderControlPlane", "metadata": metadata,
                "spec": {"replicas": 2}, "status": status})
            .to_string()
        };
        let kept = |text: &str| from_str::<Kept<CoderControlPlane>>(text).unwrap().object();
        let metadata =
            json!({"name": "a", "namespace": "team", "resourceVersion": "7", "finalizers": ["a/b"]});
        let condition = json!({"type": "Ready", "status": "True", "reason": "R", "message": "m",
            "lastTransitionTime": "2026-01-01T00:00:00Z"});
        for status in [json!({"conditions": [condition, {"type": "Odd"}], "version": "v2"}), json!({})] {
            let read = text(metadata.clone(), status);
            assert_eq!(kept(&read), Some(own::object(read.as_bytes()).unwrap()));
        }
        let bare = json!({"metadata": {"name": "a"}}).to_string();
        assert_eq!(kept(&bare).unwrap()["status"], Value::Null);
        let long = text(metadata, json!({"url": "x".repeat(LONGEST_STATUS)}));
        assert_eq!(kept(&long), None, "its status is not kept");
        assert!(format!("{:?}", from_str::<Kept<CoderControlPlane>>(&long).unwrap()).len() < 2000);
        let many: Vec<String> = (0..MOST + 1).map(|number| format!("a/{number}")).collect();
        assert_eq!(
            kept(&text(json!({"name": "a", "finalizers": many}), json!({}))),
            None,
            "not all are kept"
        );
    }
}
