//! Many control planes of the least spec at once, spread over a few namespaces, and the wait until all are ready.
//! It creates what a user would and watches as one; it never looks at the operator.

use crate::cluster::Cluster;
use futures::{StreamExt, stream};
use kube::api::{Api, ApiResource, DynamicObject, PostParams};
use kube::core::GroupVersionKind;
use kube::runtime::watcher::{self, Event};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::time::Duration;

const NAMESPACES: usize = 5;
/// Creations under way at the same time, as several GitOps controllers would.
const AT_ONCE: usize = 8;

/// Which control plane: namespace and name.
pub type Key = (String, String);

/// The control planes of a measurement.
pub struct Fleet {
    /// Every one of them.
    pub members: BTreeSet<Key>,
}

impl Fleet {
    /// Creates `count` control planes with names that begin with `prefix`, and returns when all are stored.
    pub async fn create(cluster: &Cluster, prefix: &str, count: usize) -> Self {
        let mut namespaces = Vec::new();
        for _ in 0..NAMESPACES.min(count) {
            namespaces.push(cluster.namespace("fleet").await);
        }
        let members: BTreeSet<Key> = (0..count)
            .map(|number| (namespaces[number % NAMESPACES].clone(), format!("{prefix}-{number:04}")))
            .collect();
        let client = cluster.client().await;
        let creations = members.iter().map(|(namespace, name)| {
            let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, &control_planes());
            async move { api.create(&PostParams::default(), &minimal(name)).await.map(drop) }
        });
        let created: Vec<_> = stream::iter(creations).buffer_unordered(AT_ONCE).collect().await;
        created
            .into_iter()
            .collect::<Result<Vec<()>, _>>()
            .expect("a control plane of the least spec is taken");
        Self { members }
    }

    /// The status of one of its members.
    pub async fn some_status(&self, cluster: &Cluster) -> Value {
        let (namespace, name) = self.members.first().expect("a fleet has members");
        let api: Api<DynamicObject> =
            Api::namespaced_with(cluster.client().await, namespace, &control_planes());
        api.get(name).await.expect("it exists").data["status"].take()
    }

    /// Waits by a watch until every member is ready for its generation; `progress` hears how many are.
    pub async fn ready(&self, cluster: &Cluster, limit: Duration, mut progress: impl FnMut(usize)) {
        let api: Api<DynamicObject> = Api::all_with(cluster.client().await, &control_planes());
        let mut ready: BTreeSet<Key> = BTreeSet::new();
        let all = async {
            let mut events = watcher::watcher(api, watcher::Config::default()).boxed();
            while ready.len() < self.members.len() {
                let event = events.next().await.expect("a watch goes on").expect("a watch that works");
                let (Event::Apply(object) | Event::InitApply(object)) = event else { continue };
                let key = key_of(&object);
                let is_new = self.members.contains(&key) && is_ready(&object) && ready.insert(key);
                if is_new {
                    progress(ready.len());
                }
            }
        };
        if tokio::time::timeout(limit, all).await.is_err() {
            let late: Vec<&Key> = self.members.difference(&ready).take(3).collect();
            panic!("{} of {} are ready after {limit:?}; not {late:?}", ready.len(), self.members.len());
        }
    }
}

pub(crate) fn key_of(object: &DynamicObject) -> Key {
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    (text(&object.metadata.namespace), text(&object.metadata.name))
}

pub(crate) fn control_planes() -> ApiResource {
    let kind = GroupVersionKind::gvk("coder.com", "v1alpha1", "CoderControlPlane");
    ApiResource::from_gvk_with_plural(&kind, "codercontrolplanes")
}

/// Nothing but what makes it a control plane, and no access for the operator: that would need a database each.
fn minimal(name: &str) -> DynamicObject {
    let object = json!({ "apiVersion": "coder.com/v1alpha1", "kind": "CoderControlPlane",
        "metadata": { "name": name }, "spec": { "operatorAccess": { "disabled": true } } });
    serde_json::from_value(object).expect("an object")
}

fn is_ready(object: &DynamicObject) -> bool {
    let status = &object.data["status"];
    let conditions = status["conditions"].as_array();
    let ready = conditions.into_iter().flatten().any(|one| one["type"] == "Ready" && one["status"] == "True");
    ready
        && status["observedGeneration"].as_i64() == object.metadata.generation
        && status["phase"] != Value::Null
}
