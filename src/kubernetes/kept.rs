//! Objects of our kinds as a watch keeps them: trimmed metadata, and the texts of spec and status. Nothing of them is decided
//! here, and one that our types cannot read is one bad object.

use super::own::{self, Records};
use super::partial::part_of_kind;
use super::trimmed::{MOST, metadata};
use kube::Resource;
use kube::core::ObjectMeta;
use serde::de::{Deserialize, DeserializeOwned, Deserializer};
use serde::{Deserialize as DeriveDeserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;
use std::marker::PhantomData;

/// Bytes of a status that is kept; one of ours has 4 to 8 KiB.
const LONGEST_STATUS: usize = 64 * 1024;

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
    /// Longer than any that we write: of the rest nothing is kept.
    TooLong(Records),
}

impl Status {
    fn of(text: Option<Box<RawValue>>) -> Self {
        match text {
            None => Self::Absent,
            Some(text) if text.get().len() > LONGEST_STATUS => Self::TooLong(Records::of(text.get())),
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

    /// A field of its status as a read would show it, null if there is none; nothing if that is not kept, or too large for us to
    /// have written it.
    pub(crate) fn status_field(&self, field: &str) -> Option<Value> {
        match &self.status {
            Status::Absent => Some(Value::Null),
            Status::Text(text) => own::status_field(text.get(), field),
            Status::TooLong(records) => records.field(field),
        }
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
            Status::TooLong(_) => return None,
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

#[cfg(test)]
mod tests {
    use super::super::trimmed::tests::bloated;
    use super::*;
    use crds::CoderControlPlane;
    use kube::core::WatchEvent;
    use serde_json::{from_str, json};

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
        let field = |text: &str| from_str::<Kept<CoderControlPlane>>(text).unwrap().status_field("url");
        assert_eq!(field(&bare), Some(Value::Null));
        assert_eq!(
            field(&text(json!({"name": "a"}), json!({"url": {"a": 1}, "b": 2}))),
            Some(json!({"a": 1}))
        );
        assert_eq!(
            (field(&text(json!({"name": "a"}), json!({"url": "x".repeat(9000)}))), field(&long)),
            (None, None)
        );
        let recorded =
            text(json!({"name": "a"}), json!({"url": "x".repeat(LONGEST_STATUS), "key": {"a": 1}}));
        let recorded = from_str::<Kept<CoderControlPlane>>(&recorded).unwrap();
        assert_eq!((recorded.status_field("key"), recorded.object()), (Some(json!({"a": 1})), None));
        let many: Vec<String> = (0..MOST + 1).map(|number| format!("a/{number}")).collect();
        assert_eq!(
            kept(&text(json!({"name": "a", "finalizers": many}), json!({}))),
            None,
            "not all are kept"
        );
    }
}
