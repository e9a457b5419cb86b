//! Reads an object of one of our kinds: its spec whole, and of what others may put around it only what somebody here looks
//! at. It never shortens a list that is written back: an object with one that is too long is not read.

use super::trimmed;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::core::ObjectMeta;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value, from_slice, from_str, json};
use std::collections::BTreeMap;

/// Finalizers, or owners, of an object.
const MOST_LISTED: usize = 500;
/// Bytes of one field of the status. Nothing that we write is longer.
const LARGEST_FIELD: usize = 8 * 1024;
/// Fields of the status that other objects are held against. Each is read as long as the schema lets it be, whoever wrote it:
/// nobody waits for an object of which it is not known what it has.
const RECORDS: [&str; 2] = ["key", "registration"];
/// Bytes of one of these.
const LARGEST_RECORD: usize = 64 * 1024;
/// Conditions that are read, and bytes of one: those of ours are fewer and shorter.
const MOST_CONDITIONS: usize = 64;
const LARGEST_CONDITION: usize = 4 * 1024;

/// Why an object is not read.
#[derive(Debug)]
pub(super) enum Unread {
    /// It is not what the API server stores.
    Parse(serde_json::Error),
    /// There are more of these than anybody needs.
    TooMany(String),
}

impl From<serde_json::Error> for Unread {
    fn from(error: serde_json::Error) -> Self {
        Self::Parse(error)
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Parts<'a> {
    api_version: Option<String>,
    kind: Option<String>,
    #[serde(borrow)]
    metadata: Option<&'a RawValue>,
    spec: Option<Value>,
    #[serde(borrow)]
    status: Option<&'a RawValue>,
}

/// Lists of the metadata that are kept whole.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Lists<'a> {
    #[serde(borrow)]
    finalizers: Option<Vec<&'a RawValue>>,
    #[serde(borrow)]
    owner_references: Option<Vec<&'a RawValue>>,
}

/// The object that a text consists of.
pub(super) fn object(text: &[u8]) -> Result<Value, Unread> {
    let parts: Parts<'_> = from_slice(text)?;
    let members = [
        ("apiVersion", parts.api_version.map(Value::String)),
        ("kind", parts.kind.map(Value::String)),
        ("metadata", parts.metadata.map(|raw| metadata(raw.get())).transpose()?),
        ("spec", parts.spec),
        ("status", parts.status.map(|raw| status(raw.get())).transpose()?),
    ];
    let there = members.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
    Ok(Value::Object(there.collect()))
}

fn metadata(text: &str) -> Result<Value, Unread> {
    let read: ObjectMeta = trimmed::metadata(&mut serde_json::Deserializer::from_str(text))?;
    let lists: Lists<'_> = from_str(text)?;
    let mut metadata = json!(read);
    for (name, list) in [("finalizers", lists.finalizers), ("ownerReferences", lists.owner_references)] {
        let Some(list) = list else { continue };
        if list.len() > MOST_LISTED {
            return Err(Unread::TooMany(format!("{MOST_LISTED} {name}")));
        }
        let whole: Result<Vec<Value>, _> = list.into_iter().map(|one| from_str(one.get())).collect();
        metadata[name] = Value::Array(whole?);
    }
    Ok(metadata)
}

/// The status without what is too large for us to have recorded it; every other field is read as it is.
fn status(text: &str) -> Result<Value, Unread> {
    let fields: BTreeMap<String, &RawValue> = from_str(text)?;
    let mut status = Map::new();
    for (name, raw) in fields {
        if name == "conditions" {
            status.insert(name, Value::Array(conditions(raw)?));
        } else if raw.get().len() <= largest(&name) {
            status.insert(name, from_str(raw.get())?);
        }
    }
    Ok(Value::Object(status))
}

/// Bytes of a field of this name.
fn largest(name: &str) -> usize {
    if RECORDS.contains(&name) { LARGEST_RECORD } else { LARGEST_FIELD }
}

/// What is kept of a status that is too long: the fields that other objects are held against.
#[derive(Debug, Clone)]
pub(super) struct Records(BTreeMap<&'static str, Option<Box<RawValue>>>);

impl Records {
    /// Those of a status.
    pub(super) fn of(text: &str) -> Self {
        let Ok(fields) = from_str::<BTreeMap<String, &RawValue>>(text) else {
            return Self(RECORDS.map(|name| (name, None)).into());
        };
        let is_kept = |raw: &&RawValue| raw.get().len() <= LARGEST_RECORD;
        let there = RECORDS.into_iter().filter_map(|name| Some((name, fields.get(name)?)));
        Self(there.map(|(name, raw)| (name, Some(*raw).filter(is_kept).map(ToOwned::to_owned))).collect())
    }

    /// One of them, null if there is none; nothing if it is not kept.
    pub(super) fn field(&self, name: &str) -> Option<Value> {
        if !RECORDS.contains(&name) {
            return None;
        }
        match self.0.get(name) {
            Some(raw) => from_str(raw.as_ref()?.get()).ok(),
            None => Some(Value::Null),
        }
    }
}

/// One field of a status, null if there is none; nothing if it is too large for us to have recorded it.
pub(super) fn status_field(text: &str, field: &str) -> Option<Value> {
    let fields: BTreeMap<String, &RawValue> = from_str(text).ok()?;
    match fields.get(field) {
        Some(raw) if raw.get().len() > largest(field) => None,
        Some(raw) => from_str(raw.get()).ok(),
        None => Some(Value::Null),
    }
}

/// One that our types cannot read would cost the whole status.
fn conditions(raw: &RawValue) -> Result<Vec<Value>, Unread> {
    let all: Option<Vec<&RawValue>> = from_str(raw.get())?;
    let short = all.into_iter().flatten().filter(|one| one.get().len() <= LARGEST_CONDITION);
    let readable = short.filter(|one| from_str::<Condition>(one.get()).is_ok());
    Ok(readable.take(MOST_CONDITIONS).map(|one| from_str(one.get())).collect::<Result<_, _>>()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(object: &Value) -> Result<Value, Unread> {
        super::object(object.to_string().as_bytes())
    }

    /// The values that a value consists of.
    fn values(value: &Value) -> usize {
        1 + match value {
            Value::Array(items) => items.iter().map(values).sum::<usize>(),
            Value::Object(members) => members.values().map(values).sum(),
            _ => 0,
        }
    }

    fn condition(name: &str, message: &str) -> Value {
        json!({ "type": name, "status": "True", "reason": "R", "message": message,
            "lastTransitionTime": "2026-01-01T00:00:00Z" })
    }

    #[test]
    fn fifty_thousand_annotations_are_not_read() {
        let many = |prefix: &str, count: usize| -> Map<String, Value> {
            (0..count).map(|number| (format!("{prefix}{number}"), json!(""))).collect()
        };
        let conditions: Vec<Value> = (0..10_000).map(|number| condition(&format!("C{number}"), "")).collect();
        let object = json!({ "apiVersion": "coder.com/v1alpha1", "kind": "CoderControlPlane",
            "metadata": { "name": "coder", "resourceVersion": "7", "annotations": many("", 50_000),
                "labels": many("coder.com/", 5_000),
                "managedFields": [{ "fieldsV1": { "f:metadata": many("f:", 50_000) } }] },
            "spec": { "replicas": 1 },
            "status": { "conditions": conditions, "url": "x".repeat(1_000_000), "licenseTier": "premium" } });
        assert!(values(&object) > 160_000);
        let read = read(&object).unwrap();
        assert!(values(&read) < 600, "{}", values(&read));
        assert!(read.to_string().len() < 16_000);
        assert_eq!(read["status"]["licenseTier"], "premium", "what is recorded stays");
        assert_eq!(read["metadata"]["resourceVersion"], "7");
    }

    #[test]
    fn what_is_recorded_is_read_as_long_as_the_schema_lets_it_be() {
        let status = |length: usize, url: usize| {
            let record = json!({ "current": { "name": "x".repeat(length) } });
            (json!({ "registration": record, "url": "x".repeat(url) }).to_string(), record)
        };
        let (text, record) = status(60_000, 9_000);
        assert_eq!(status_field(&text, "registration"), Some(record.clone()));
        assert_eq!(super::status(&text).unwrap(), json!({ "registration": record }));
        let (text, record) = status(60_000, 1_000_000);
        let records = Records::of(&text);
        assert_eq!((records.field("registration"), records.field("key")), (Some(record), Some(Value::Null)));
        assert_eq!(records.field("url"), None);
        for text in [status(70_000, 0).0, "[]".to_owned()] {
            assert_eq!(Records::of(&text).field("registration"), None);
        }
    }

    #[test]
    fn what_is_looked_at_or_written_back_is_read_whole() {
        let owner = json!({ "apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u2" });
        let object = json!({ "apiVersion": "coder.com/v1alpha1", "kind": "CoderControlPlane",
            "metadata": { "name": "coder", "namespace": "team", "uid": "u", "resourceVersion": "7", "generation": 3,
                "creationTimestamp": "2026-01-01T00:00:00Z", "deletionTimestamp": "2026-01-02T00:00:00Z",
                "annotations": { "coder.com/reconcile-at": "now" },
                "finalizers": (0..MOST_LISTED).map(|number| format!("a/{number}")).collect::<Vec<_>>(),
                "ownerReferences": [owner, owner] },
            "spec": { "extraArgs": vec!["a"; 5000], "image": null },
            "status": { "conditions": [condition("Ready", "m")], "replicas": 2,
                "operatorTokenSecretRef": { "name": "n", "key": "k", "namespace": "team" } } });
        assert_eq!(read(&object).unwrap(), object);
        for bare in [json!({}), json!({ "metadata": { "name": "a" }, "spec": {} })] {
            assert_eq!(read(&bare).unwrap(), bare);
        }
    }

    #[test]
    fn an_object_whose_lists_cannot_be_kept_whole_is_not_read() {
        for (name, item) in [
            ("finalizers", json!("a/b")),
            (
                "ownerReferences",
                json!({ "uid": "u",
            "apiVersion": "v1", "kind": "Pod", "name": "p" }),
            ),
        ] {
            let object = json!({ "metadata": { name: vec![item; MOST_LISTED + 1] } });
            let Err(Unread::TooMany(what)) = read(&object) else { panic!("{name} must be too many") };
            assert_eq!(what, format!("{MOST_LISTED} {name}"));
        }
    }

    #[test]
    fn a_condition_that_cannot_be_read_costs_nothing_else() {
        let object = json!({ "status": { "conditions": [{ "type": "Odd" }, condition("Long", &"x".repeat(5000)),
            condition("Ready", "m")], "version": "v2" } });
        let status = read(&object).unwrap()["status"].take();
        assert_eq!(status, json!({ "conditions": [condition("Ready", "m")], "version": "v2" }));
    }
}
