//! The object of a reconcile, as it was read, and what has to be known of its kind. Nothing here changes while the reconcile
//! goes on, and nothing is decided.

use super::children::Fingerprint;
use super::children::pruned::AskedFor;
use super::finalizer::Finalizer;
use super::identity::{ObjectKey, Owner};
use super::status::reasons::KindReason;
use crate::kubernetes::{KindName, Target};
use crds::KindStatus;
use crds::well_known::annotation;
use kube::Resource;
use kube::core::object::HasStatus;
use serde::de::DeserializeOwned;
use serde_json::{Value, from_value};
use std::fmt::Debug;
use webhooks::{Config, Kind, Operation, Verdict};

/// A kind of ours that is reconciled.
pub(crate) trait ReconciledKind:
    Resource<DynamicType = ()>
    + HasStatus<Status: KindStatus + Send + Sync>
    + Clone
    + Debug
    + DeserializeOwned
    + Send
    + Sync
    + 'static
{
    /// Why its conditions are what they are.
    type Reason: KindReason + Send;

    /// Its apiVersion, kind and the plural of its path.
    const NAME: KindName;

    /// The kind by which rules and defaults are chosen.
    const RULES: Kind;

    /// Our finalizer on it: there is something to clean up that does not go with the object.
    const FINALIZER: Finalizer;
}

/// Where an object comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Origin {
    /// It was read in this reconcile.
    Read,
    /// The shared watch had it: on the strength of it nothing is applied, granted or sent.
    Watch,
}

/// An object as the API server has it.
pub(crate) struct Object<K: ReconciledKind> {
    pub(crate) key: ObjectKey,
    pub(crate) origin: Origin,
    pub(crate) value: Value,
    pub(crate) uid: String,
    pub(crate) generation: i64,
    /// Its status, as it was written before.
    pub(crate) status: K::Status,
}

impl<K: ReconciledKind> Object<K> {
    /// An object that was read or shown.
    pub(crate) fn new(key: ObjectKey, origin: Origin, value: Value) -> Self {
        Self {
            key,
            origin,
            uid: value["metadata"]["uid"].as_str().unwrap_or_default().to_owned(),
            generation: value["metadata"]["generation"].as_i64().unwrap_or_default(),
            status: from_value(value["status"].clone()).unwrap_or_default(),
            value,
        }
    }

    /// Where calls about it go.
    pub(crate) fn target(&self) -> Target<'_> {
        self.key.target(K::NAME)
    }

    /// The object as the owner of others.
    pub(crate) fn owner(&self) -> Owner<'_> {
        Owner::new(&self.key, &self.uid)
    }

    /// Whether it is to go.
    pub(crate) fn is_deleting(&self) -> bool {
        !self.value["metadata"]["deletionTimestamp"].is_null()
    }

    /// Whether our finalizer is on it.
    pub(crate) fn has_finalizer(&self) -> bool {
        K::FINALIZER.is_on(&self.value)
    }

    /// An annotation of it.
    pub(crate) fn annotation(&self, name: &str) -> Option<&str> {
        self.value["metadata"]["annotations"][name].as_str()
    }

    /// What is asked of this object.
    pub(crate) fn asked_for(&self) -> AskedFor {
        AskedFor { uid: self.uid.clone(), generation: self.generation, request: self.request() }
    }

    /// The last request to have it reconciled; its text may be of any length.
    pub(crate) fn request(&self) -> Option<Fingerprint> {
        self.reconcile_at().map(|text| Fingerprint::of(&Value::String(text)))
    }

    /// What it was last asked to be reconciled for.
    pub(crate) fn reconcile_at(&self) -> Option<String> {
        self.annotation(annotation::RECONCILE_AT).map(str::to_owned)
    }
}

/// One that our types can read.
pub(crate) struct Subject<K: ReconciledKind> {
    pub(crate) object: Object<K>,
    /// With every default in it, but without what runs.
    pub(crate) complete: K,
    /// What the rules say against it.
    pub(crate) broken: Verdict,
}

/// An object with every default in it.
pub(crate) fn complete<K: ReconciledKind>(object: &Value, config: &Config) -> Result<K, serde_json::Error> {
    from_value(webhooks::resolved(K::RULES, object, config))
}

/// The rules that an object breaks as it is stored. It was let through, perhaps before there were rules, and is worked on all
/// the same.
pub(crate) fn broken_rules<K: ReconciledKind>(object: &Value) -> Verdict {
    webhooks::validate(K::RULES, object, Operation::Reconcile)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crds::CoderControlPlane;
    use serde_json::json;

    fn object(metadata: Value, status: Value) -> Object<CoderControlPlane> {
        let key = ObjectKey { namespace: "team".to_owned(), name: "coder".to_owned() };
        Object::new(key, Origin::Read, json!({ "metadata": metadata, "status": status }))
    }

    #[test]
    fn an_object_is_read_whatever_is_in_its_status() {
        let metadata = || json!({ "uid": "u", "generation": 3 });
        let read = object(metadata(), json!({ "observedGeneration": 2 }));
        assert_eq!((&*read.uid, read.generation, read.status.observed_generation), ("u", 3, Some(2)));
        assert_eq!(object(metadata(), json!({ "observedGeneration": "x" })).status, Default::default());
        assert!(!read.is_deleting() && !read.has_finalizer());
        let going = object(
            json!({ "deletionTimestamp": "2026-01-01T00:00:00Z",
                "finalizers": [CoderControlPlane::FINALIZER.0] }),
            Value::Null,
        );
        assert!(going.is_deleting() && going.has_finalizer());
    }

    #[test]
    fn another_uid_generation_or_request_asks_for_something_else() {
        let asked = |uid: &str, generation: i64, request: Value| {
            let annotations = json!({ "coder.com/reconcile-at": request });
            let metadata = json!({ "uid": uid, "generation": generation, "annotations": annotations });
            object(metadata, Value::Null).asked_for()
        };
        let one = asked("u", 1, Value::Null);
        assert_eq!(one, asked("u", 1, json!(7)), "an annotation is a text");
        assert_eq!(asked("u", 1, json!("now")), asked("u", 1, json!("now")));
        for other in [asked("v", 1, Value::Null), asked("u", 2, Value::Null), asked("u", 1, json!("now"))] {
            assert_ne!(one, other);
        }
    }
}
