//! Reads objects by the word that kubectl takes for their kind, without kubectl: a wait asks many times a second, and on a
//! small machine a program for each question would hold up what it waits for. It never changes anything.

use kube::core::DynamicObject;
use kube::core::discovery::{ApiResource, Scope};
use kube::discovery::Discovery;
use kube::{Client, Resource};
use serde_json::Value;
use std::collections::BTreeMap;
use tokio::sync::Mutex;

/// The kinds that were asked for so far, by that word.
#[derive(Default)]
pub(super) struct Reader {
    kinds: Mutex<BTreeMap<String, (ApiResource, Scope)>>,
}

impl Reader {
    /// An object as it is now, if it is there.
    ///
    /// # Panics
    /// If the cluster does not know the kind, or does not answer.
    pub(super) async fn get(
        &self,
        client: &Client,
        kind: &str,
        namespace: &str,
        name: &str,
    ) -> Option<Value> {
        let (resource, scope) = self.kind(client, kind).await;
        let namespace = (scope == Scope::Namespaced).then_some(namespace);
        let url = DynamicObject::url_path(&resource, namespace);
        ask(client, &format!("{url}/{name}")).await
    }

    async fn kind(&self, client: &Client, word: &str) -> (ApiResource, Scope) {
        let mut kinds = self.kinds.lock().await;
        if !kinds.contains_key(word) {
            let found = discovered(client, word).await;
            kinds.insert(word.to_owned(), found);
        }
        kinds[word].clone()
    }
}

/// The answer to a GET; none if there is nothing.
///
/// # Panics
/// If the API server does not answer, or refuses.
pub(super) async fn ask(client: &Client, path: &str) -> Option<Value> {
    let request = http::Request::get(path).body(Vec::new()).expect("a request");
    match client.request(request).await {
        Ok(object) => Some(object),
        Err(kube::Error::Api(status)) if status.code == 404 => None,
        Err(error) => panic!("GET {path}: {error}"),
    }
}

async fn discovered(client: &Client, word: &str) -> (ApiResource, Scope) {
    let discovery =
        Discovery::new(client.clone()).run_aggregated().await.expect("the API server tells its kinds");
    let groups = discovery.groups_alphabetical().into_iter();
    let mut kinds = groups.flat_map(|group| group.recommended_resources());
    let found = kinds.find(|(kind, _)| kind.plural == word || kind.kind.to_lowercase() == word);
    let (resource, capabilities) = found.unwrap_or_else(|| panic!("the API server knows no kind {word}"));
    (resource, capabilities.scope)
}
