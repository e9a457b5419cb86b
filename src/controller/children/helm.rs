//! Decides what of a namespace belongs to a release of Helm, and the patch by which such an object becomes a child of ours.
//! Pure: it never says that something is to be taken over, and whatever another controller has is nobody's to take.

use super::drift::{is_child_of, managed_by, merge};
use super::{Child, drift};
use crate::foreign::Foreign;
use crds::well_known::{MANAGER, annotation, label};
use json_patch::Patch;
use serde_json::{Map, Value, from_value, json};

/// Written by Helm on everything that it installs: the release, and where its record is.
const RELEASE_NAME: &str = "meta.helm.sh/release-name";
const RELEASE_NAMESPACE: &str = "meta.helm.sh/release-namespace";
/// What [`label::MANAGED_BY`] says of it.
const HELM: &str = "Helm";
/// Who writes it, in `managedFields`; tools that have Helm in them go by other names.
const HELM_MANAGER: &str = "helm";
/// On a ReplicaSet: the last part of its name.
const HASH: &str = "pod-template-hash";
/// The longest name that Helm gives a release.
const LONGEST_NAME: usize = 53;
/// Labels that only say which chart, and which version of it, an object was made from.
const CHART_LABELS: [&str; 3] = ["helm.sh/chart", "app.kubernetes.io/part-of", "app.kubernetes.io/version"];

/// A release of Helm in a namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Release<'a> {
    /// Its name.
    pub(crate) name: &'a str,
    /// Where its objects and its record are.
    pub(crate) namespace: &'a str,
}

/// Whom the object belongs to that has the name of a child.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Whose {
    /// There is none.
    Nobodys,
    /// It is our child.
    Ours,
    /// The release that was asked about.
    OfRelease,
    /// Somebody else; who, for a person.
    Others(String),
}

impl<'a> Release<'a> {
    /// None if no release of Helm can have that name: it becomes part of a selector.
    pub(crate) fn named(name: &'a str, namespace: &'a str) -> Option<Self> {
        let is_part =
            |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit() || "-.".contains(letter);
        let is_name = !name.is_empty() && name.len() <= LONGEST_NAME && name.chars().all(is_part);
        let is_edge = |letter: char| letter.is_ascii_alphanumeric();
        (is_name && name.starts_with(is_edge) && name.ends_with(is_edge)).then_some(Self { name, namespace })
    }

    /// Whom a live object of the name of this child belongs to; `uid` is that of our object.
    pub(crate) fn whose(self, live: Option<&Value>, child: &Child, uid: &str) -> Whose {
        let Some(live) = live else { return Whose::Nobodys };
        if is_child_of(live, uid, &child.manifest["metadata"]["labels"]) {
            return Whose::Ours;
        }
        let what = format!("{} {}", child.kind.as_str(), child.name);
        if let Some(owner) = controller(live) {
            let [kind, name] = ["kind", "name"].map(|field| shown(&owner[field]));
            return Whose::Others(format!("{what} is controlled by {kind} {name}"));
        }
        match release_of(live) {
            Some([name, namespace]) if name == self.name && namespace == self.namespace => Whose::OfRelease,
            Some([name, namespace]) => {
                let [name, namespace] = [name, namespace].map(Foreign::new);
                let (name, namespace) = (name.as_str(), namespace.as_str());
                Whose::Others(format!("{what} belongs to release {name} of namespace {namespace}"))
            }
            None => Whose::Others(format!("{what} belongs to no Helm release")),
        }
    }

    /// The labels that Coder's chart gives its pods, and a Deployment its ReplicaSets.
    pub(crate) fn pods_selector(self) -> String {
        format!("{}={HELM},{}={}", label::MANAGED_BY, label::INSTANCE, self.name)
    }

    /// Whether this ReplicaSet was left behind by the Deployment of the release with this name: a Deployment copies its
    /// annotations to them.
    pub(crate) fn left(self, replica_set: &Value, deployment: &str) -> bool {
        let metadata = &replica_set["metadata"];
        let is_owned = metadata["ownerReferences"].as_array().is_some_and(|owners| !owners.is_empty());
        let name = |hash: &str| format!("{deployment}-{hash}");
        !is_owned
            && metadata["labels"][HASH].as_str().is_some_and(|hash| metadata["name"] == name(hash))
            && metadata["labels"][label::INSTANCE] == self.name
            && release_of(replica_set) == Some([self.name, self.namespace])
    }
}

/// What to write on the object that wants this name, if the live one is a release's and can be taken over.
pub(super) fn way_out(live: &Value) -> Option<String> {
    let [name, namespace] = release_of(live)?;
    let here = live["metadata"]["namespace"] == namespace && controller(live).is_none();
    let release = Release::named(name, namespace).filter(|_| here)?;
    Some(format!("{}: {}", annotation::ADOPT_HELM_RELEASE, release.name))
}

/// Name and namespace of the release that an object says it belongs to.
fn release_of(live: &Value) -> Option<[&str; 2]> {
    let metadata = &live["metadata"];
    if metadata["labels"][label::MANAGED_BY] != HELM {
        return None;
    }
    let text = |key: &str| metadata["annotations"][key].as_str();
    Some([text(RELEASE_NAME)?, text(RELEASE_NAMESPACE)?])
}

fn controller(live: &Value) -> Option<&Value> {
    let owners = live["metadata"]["ownerReferences"].as_array();
    owners.into_iter().flatten().find(|owner| owner["controller"] == true)
}

fn shown(text: &Value) -> String {
    Foreign::new(text.as_str().unwrap_or_default()).as_str().to_owned()
}

/// The patch by which an object of a release becomes our child: our reference, and whatever Helm wrote as if we had applied
/// it, so that what we do not want goes with the next apply. One write: after it the object is known as ours by the
/// reference. It fails if the object changed since it was read.
pub(crate) fn taking_over(live: &Value, child: &Child) -> Option<Patch> {
    let metadata = &live["metadata"];
    let ours = child.manifest.pointer("/metadata/ownerReferences/0")?;
    let owners: Vec<&Value> =
        metadata["ownerReferences"].as_array().into_iter().flatten().chain([ours]).collect();
    let Patch(mut operations) = managed_by(live, managers(live))?;
    let path = "/metadata/ownerReferences";
    let Patch(refer) = from_value(json!([{ "op": "add", "path": path, "value": owners }])).ok()?;
    operations.extend(refer);
    Some(Patch(operations))
}

/// `managedFields` as they are if we had applied all that Helm wrote.
fn managers(live: &Value) -> Vec<Value> {
    let entries = live.pointer("/metadata/managedFields").and_then(Value::as_array);
    let entries: Vec<&Value> = entries.into_iter().flatten().collect();
    let is_plain = |entry: &Value| entry.get("subresource").is_none_or(Value::is_null);
    let mark = format!("f:{RELEASE_NAME}");
    let marked = |entry: &&&Value| entry["fieldsV1"]["f:metadata"]["f:annotations"].get(&mark).is_some();
    let helms: Vec<&Value> = entries.iter().filter(marked).map(|entry| &entry["manager"]).collect();
    let is_helms = |entry: &Value| {
        let manager = &entry["manager"];
        let applied_by_us = *manager == MANAGER && entry["operation"] == "Apply";
        is_plain(entry) && (*manager == HELM_MANAGER || helms.contains(&manager) || applied_by_us)
    };
    let mut fields = claimed(live);
    entries.iter().filter(|entry| is_helms(entry)).for_each(|entry| merge(&mut fields, &entry["fieldsV1"]));
    let ours = json!({ "manager": MANAGER, "operation": "Apply", "apiVersion": live["apiVersion"],
        "fieldsType": "FieldsV1", "fieldsV1": fields });
    let others = entries.into_iter().filter(|entry| !is_helms(entry)).cloned();
    std::iter::once(ours).chain(others).collect()
}

/// What Helm and its charts write on everything, whoever is known to have written it.
fn claimed(live: &Value) -> Value {
    let there = |field: &str, keys: &[&str]| -> Value {
        let held = keys.iter().filter(|key| live["metadata"][field].get(**key).is_some());
        Value::Object(held.map(|key| (format!("f:{key}"), json!({}))).collect::<Map<_, _>>())
    };
    json!({ "f:metadata": {
        "f:annotations": there("annotations", &[RELEASE_NAME, RELEASE_NAMESPACE]),
        "f:labels": there("labels", &CHART_LABELS),
    } })
}

/// Whether a Service leads to the pods with exactly these labels.
pub(crate) fn leads_to(service: &Value, child: &Child) -> bool {
    drift::holds(
        &json!({ "selector": service["spec"]["selector"] }),
        &json!({ "selector": child.manifest["spec"]["selector"] }),
    )
}

#[cfg(test)]
mod tests;
