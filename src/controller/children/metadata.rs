//! Decides how children are recognised: their labels, the reference to their owner, the selector of the pods.
//! Never copies a label or an annotation from the owner, because tools would take the children for theirs.

use std::collections::BTreeMap;

use crds::names;
use crds::well_known::{GROUP, VERSION};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta, OwnerReference};

/// Labels or annotations.
pub(crate) type StringMap = BTreeMap<String, String>;

/// The object that children are made for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChildOwner {
    /// Its kind.
    pub kind: &'static str,
    /// What `app.kubernetes.io/name` says of its children.
    pub app_name: &'static str,
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Absent for an object that is in no cluster yet: its children then name no owner.
    pub uid: Option<String>,
    /// The name of its Deployment, and of whatever else there is one of.
    pub workload: String,
}

impl ChildOwner {
    /// The object of this metadata and kind; `workload` names its Deployment.
    pub fn of(
        metadata: &ObjectMeta,
        kind: &'static str,
        app_name: &'static str,
        workload: fn(&str) -> String,
    ) -> Self {
        let name = metadata.name.clone().unwrap_or_default();
        Self {
            kind,
            app_name,
            namespace: metadata.namespace.clone().unwrap_or_default(),
            uid: metadata.uid.clone(),
            workload: workload(&name),
            name,
        }
    }

    /// The three labels of every child in the owner's namespace, which are also the selector of the pods.
    pub fn labels(&self) -> StringMap {
        names::child_labels(self.app_name, &self.name)
    }

    /// Labels of the spec, with ours: ours win, because we find objects and pods by them.
    pub fn labels_over(&self, given: &StringMap) -> StringMap {
        let mut labels = given.clone();
        labels.extend(self.labels());
        labels
    }

    /// The selector of the pods.
    pub fn selector(&self) -> LabelSelector {
        LabelSelector { match_labels: Some(self.labels()), ..Default::default() }
    }

    /// The same as text, for `status.selector`.
    pub fn selector_text(&self) -> String {
        self.labels().iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(",")
    }

    /// Metadata of a child in the owner's namespace: it goes when the owner goes.
    pub fn metadata(&self, name: &str) -> ObjectMeta {
        ObjectMeta {
            name: Some(name.to_owned()),
            namespace: Some(self.namespace.clone()),
            labels: Some(self.labels()),
            owner_references: self.reference().map(|owner| vec![owner]),
            ..Default::default()
        }
    }

    /// Metadata of a child of which there is one.
    pub fn workload_metadata(&self) -> ObjectMeta {
        self.metadata(&self.workload)
    }

    fn reference(&self) -> Option<OwnerReference> {
        Some(OwnerReference {
            api_version: format!("{GROUP}/{VERSION}"),
            kind: self.kind.to_owned(),
            name: self.name.clone(),
            uid: self.uid.clone()?,
            controller: Some(true),
            block_owner_deletion: Some(true),
        })
    }
}

/// Labels or annotations of these keys and values.
pub(crate) fn string_map<const N: usize>(pairs: [(&str, &str); N]) -> StringMap {
    pairs.into_iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect()
}

/// An empty collection is not a field we mean to own.
pub(crate) fn non_empty<C: IntoIterator + Clone>(collection: &C) -> Option<C>
where
    for<'a> &'a C: IntoIterator,
{
    collection.into_iter().next().is_some().then(|| collection.clone())
}

/// One entry a key, the last of them: lists that are merged by key cannot hold two, and what the spec gives comes after
/// what we give.
pub(crate) fn last_by_key<T>(entries: Vec<T>, key: impl Fn(&T) -> &str) -> Vec<T> {
    let last: Vec<bool> = entries
        .iter()
        .enumerate()
        .map(|(index, entry)| !entries.iter().skip(index + 1).any(|later| key(later) == key(entry)))
        .collect();
    entries.into_iter().zip(last).filter_map(|(entry, last)| last.then_some(entry)).collect()
}
