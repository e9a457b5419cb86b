//! Enqueues the objects of a kind when what is asked of them changed: not for their status, which is ours.
//! It never looks into a spec, and never takes the objects of a namespace that has not been listed for gone.

use super::queue::Queue;
use super::replaced::{Difference, Replaced};
use super::schedule::Namespaced;
use crate::controller::children::Fingerprint;
use crate::controller::identity::ObjectKey;
use crate::kubernetes::Reflected;
use crds::well_known::annotation;
use kube::Resource;
use kube::core::ObjectMeta;
use serde::de::DeserializeOwned;
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::sync::Arc;

/// Follows until it is dropped; `forget` is told what is gone.
pub(crate) async fn follow<K>(mut objects: Reflected<K>, queue: Queue<ObjectKey>, forget: impl Fn(&ObjectKey))
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + Sync + 'static,
{
    let mut seen = LastSeen::default();
    if !objects.settled().await {
        return;
    }
    loop {
        let (changed, gone) = seen.update(objects.all());
        changed.into_iter().for_each(|key| queue.enqueue(key));
        for key in &gone {
            queue.forget(key);
            forget(key);
        }
        objects.changed().await;
    }
}

/// What makes a reconcile of an object necessary.
#[derive(Debug)]
pub(super) struct Wanted {
    uid: Option<String>,
    generation: Option<i64>,
    deleting: bool,
    finalizers: Vec<String>,
    /// Annotations that are read.
    annotations: Vec<Option<String>>,
}

impl Wanted {
    pub(super) fn of(metadata: &ObjectMeta) -> Self {
        let annotation = |name: &str| metadata.annotations.as_ref()?.get(name).cloned();
        Self {
            uid: metadata.uid.clone(),
            generation: metadata.generation,
            deleting: metadata.deletion_timestamp.is_some(),
            finalizers: metadata.finalizers.clone().unwrap_or_default(),
            annotations: annotation::READ.iter().map(|read| annotation(read.key)).collect(),
        }
    }

    /// Whether the object is to go.
    pub(super) fn is_deletion(&self) -> bool {
        self.deleting
    }

    /// What is remembered of it: its texts are others', and may be many.
    pub(super) fn fingerprint(&self) -> Fingerprint {
        let Self { uid, generation, deleting, finalizers, annotations } = self;
        Fingerprint::of(&json!([uid, generation, deleting, finalizers, annotations]))
    }
}

/// The objects as they were seen last.
struct LastSeen<K> {
    objects: Replaced<K>,
    wanted: BTreeMap<ObjectKey, Fingerprint>,
}

impl<K> Default for LastSeen<K> {
    fn default() -> Self {
        Self { objects: Replaced::default(), wanted: BTreeMap::new() }
    }
}

impl<K: Resource> LastSeen<K> {
    /// Takes over what there is now; returns what is wanted differently and what is gone.
    fn update(&mut self, now: Vec<Arc<K>>) -> (Vec<ObjectKey>, Vec<ObjectKey>) {
        let Difference { now, before } = self.objects.update(now);
        let mut gone: BTreeSet<ObjectKey> =
            before.iter().map(|object| ObjectKey::of(object.meta())).collect();
        let mut changed = Vec::new();
        for object in now {
            let (key, wanted) = entry(&*object);
            gone.remove(&key);
            if self.wanted.get(&key) != Some(&wanted) {
                self.wanted.insert(key.clone(), wanted);
                changed.push(key);
            }
        }
        for key in &gone {
            self.wanted.remove(key);
        }
        (changed, gone.into_iter().collect())
    }
}

fn entry(object: &impl Resource) -> (ObjectKey, Fingerprint) {
    // One that our types cannot read still has a name; its reconcile says what is wrong with it.
    let metadata = object.meta();
    (ObjectKey::of(metadata), Wanted::of(metadata).fingerprint())
}

impl Namespaced for ObjectKey {
    fn namespace(&self) -> &str {
        &self.namespace
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kubernetes::Kept;
    use crds::CoderControlPlane;
    use serde_json::from_str;

    fn object(name: &str, generation: i64) -> Arc<Kept<CoderControlPlane>> {
        let object = json!({"metadata": {"name": name, "namespace": "team", "uid": name, "generation": generation}, "spec": {}});
        Arc::new(from_str(&object.to_string()).unwrap())
    }

    fn names(keys: Vec<ObjectKey>) -> Vec<String> {
        keys.into_iter().map(|key| key.name).collect()
    }

    #[test]
    fn only_what_is_wanted_differently_is_news_and_what_is_gone_is_told() {
        let mut seen = LastSeen::default();
        let (a, b) = (object("a", 1), object("b", 1));
        assert_eq!(names(seen.update(vec![a.clone(), b.clone()]).0), ["a", "b"]);
        assert_eq!(names(seen.update(vec![b.clone(), a.clone()]).0), Vec::<String>::new());
        let same = object("a", 1);
        assert_eq!(names(seen.update(vec![same.clone(), b]).0), Vec::<String>::new(), "its status only");
        let (changed, gone) = seen.update(vec![same.clone(), object("c", 1)]);
        assert_eq!((names(changed), names(gone)), (vec!["c".to_owned()], vec!["b".to_owned()]));
        assert_eq!(names(seen.update(vec![object("a", 2)]).0), ["a"]);
        let (changed, gone) = seen.update(vec![object("a", 2), object("b", 1)]);
        assert_eq!((names(changed), names(gone)), (vec!["b".to_owned()], Vec::new()), "it came back");
    }
}
