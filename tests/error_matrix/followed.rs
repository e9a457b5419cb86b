//! One object of a kind in each namespace, as a user sees it: applied, asked to be looked at, deleted; and everything that its
//! status said so far.

use futures::StreamExt;
use kube::api::{Api, DeleteParams, DynamicObject, Patch, PatchParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::runtime::{WatchStreamExt, watcher};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use support::test_env::LIMIT;
use support::until;
use support::wait::holds;
use tokio_util::task::AbortOnDropHandle;

/// Everything the statuses of a kind said so far, by namespace.
pub type History = Arc<Mutex<BTreeMap<String, Vec<Value>>>>;

/// The objects of one kind and one name.
pub struct Followed {
    client: kube::Client,
    kind: ApiResource,
    name: &'static str,
    history: History,
    _watch: AbortOnDropHandle<()>,
}

impl Followed {
    /// Follows the objects of this kind from now on.
    pub fn begin(client: &kube::Client, kind: &str, name: &'static str, history: History) -> Self {
        let kind = ApiResource::from_gvk(&GroupVersionKind::gvk("coder.com", "v1alpha1", kind));
        let all = Api::all_with(client.clone(), &kind);
        let watch = AbortOnDropHandle::new(tokio::spawn(follow(all, history.clone())));
        Self { client: client.clone(), kind, name, history, _watch: watch }
    }

    fn api(&self, namespace: &str) -> Api<DynamicObject> {
        Api::namespaced_with(self.client.clone(), namespace, &self.kind)
    }

    /// Applies the one of a namespace.
    pub async fn apply(&self, namespace: &str, spec: &Value) {
        let (version, kind) = (&self.kind.api_version, &self.kind.kind);
        let manifest = json!({ "apiVersion": version, "kind": kind,
            "metadata": { "name": self.name, "namespace": namespace }, "spec": spec });
        let params = PatchParams::apply("git").force();
        self.api(namespace).patch(self.name, &params, &Patch::Apply(manifest)).await.unwrap();
    }

    /// Requests a reconcile.
    pub async fn request_reconcile(&self, namespace: &str, word: &str) {
        self.annotate(namespace, "coder.com/reconcile-at", word).await;
    }

    /// Gives the one of a namespace an annotation.
    pub async fn annotate(&self, namespace: &str, name: &str, value: &str) {
        let patch = json!({ "metadata": { "annotations": { name: value } } });
        let patched =
            self.api(namespace).patch(self.name, &PatchParams::default(), &Patch::Merge(patch)).await;
        match patched {
            Ok(_) => {}
            // One that was going is gone meanwhile.
            Err(kube::Error::Api(status)) if status.is_not_found() => {}
            Err(error) => panic!("{namespace}: {error}"),
        }
    }

    /// Deletes the one of a namespace, without waiting for it.
    pub async fn delete(&self, namespace: &str) {
        self.api(namespace).delete(self.name, &DeleteParams::default()).await.unwrap();
    }

    /// Waits until it is gone.
    pub async fn until_gone(&self, namespace: &str) {
        until(&format!("{namespace}: {} to be gone", self.name), LIMIT, async || {
            let found = self.api(namespace).get_opt(self.name).await.unwrap();
            let status = found.as_ref().map(|found| found.data["status"].to_string());
            holds(found.is_none(), status.unwrap_or_default())
        })
        .await;
    }

    /// How many states of it were seen so far.
    pub fn seen(&self, namespace: &str) -> usize {
        self.history.lock().unwrap().get(namespace).map_or(0, Vec::len)
    }

    /// All states of it that were seen so far.
    pub fn states(&self, namespace: &str) -> Vec<Value> {
        self.history.lock().unwrap().get(namespace).cloned().unwrap_or_default()
    }

    /// Waits until it was, at or after a point in its history, as asked.
    pub async fn until(
        &self,
        namespace: &str,
        what: &str,
        since: usize,
        asked: impl Fn(&Value) -> bool,
    ) -> Value {
        until(&format!("{namespace}: {what}"), LIMIT, async || {
            let history = self.history.lock().unwrap();
            let states = history.get(namespace).map(Vec::as_slice).unwrap_or_default();
            let found = states.get(since..).unwrap_or_default().iter().find(|state| asked(state)).cloned();
            found.ok_or_else(|| states.last().map(|state| state["status"].to_string()).unwrap_or_default())
        })
        .await
    }
}

async fn follow(objects: Api<DynamicObject>, history: History) {
    let watch = watcher(objects, watcher::Config::default());
    // A pause after each failure: without one, this would never yield when the client is gone, and the runtime never end.
    let mut states = watch.default_backoff().applied_objects().boxed();
    while let Some(state) = states.next().await {
        // A watch that fails is begun again by itself.
        let Ok(state) = state.map(|state| serde_json::to_value(state).unwrap()) else { continue };
        let namespace = state["metadata"]["namespace"].as_str().unwrap_or_default().to_owned();
        history.lock().unwrap().entry(namespace).or_default().push(state);
    }
}
