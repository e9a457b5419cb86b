//! Remembers which request to be reconciled each object was last handled for, so that each makes its children be read once.
//! The status is not asked whether that was done: others may write it. A restart forgets it.

use super::{ChildCache, Fingerprint};
use crate::controller::identity::ObjectKey;
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The last request of each object of a kind.
#[derive(Debug, Default)]
pub(crate) struct Requests(Mutex<BTreeMap<ObjectKey, Fingerprint>>);

impl Requests {
    fn all(&self) -> MutexGuard<'_, BTreeMap<ObjectKey, Fingerprint>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes nothing for known of the children of an object that somebody asks to have reconciled, once for each request.
    pub(crate) fn begin(&self, key: &ObjectKey, request: Option<Fingerprint>, cache: &ChildCache) {
        let Some(request) = request else { return };
        if self.all().insert(key.clone(), request) != Some(request) {
            cache.forget_owner(key);
        }
    }

    /// Forgets an object that is gone.
    pub(crate) fn forget(&self, key: &ObjectKey) {
        self.all().remove(key);
    }

    /// Forgets everything: a term begins.
    pub(crate) fn clear(&self) {
        self.all().clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::controller::children::{Child, ChildKind, SharedChildCache};
    use crate::kubernetes::Change;
    use serde_json::{from_value, json};
    use std::sync::Arc;

    const KIND: ChildKind = ChildKind::ServiceAccount;

    fn key() -> ObjectKey {
        ObjectKey { namespace: "team".to_owned(), name: "coder".to_owned() }
    }

    /// Whether the children are still known after a request.
    fn stays_known(requests: &Requests, request: Option<&str>) -> bool {
        let (shared, child) =
            (Arc::new(SharedChildCache::default()), Child::new(KIND, "team", "coder", json!({})));
        let cache = ChildCache::of("CoderControlPlane", shared.clone());
        let metadata = json!({ "name": "coder", "namespace": "team", "resourceVersion": "7" });
        shared.end_list("", KIND);
        shared.seen(KIND, &Change { metadata: from_value(metadata.clone()).unwrap(), gone: false });
        cache.note(&key(), &child, &json!({ "metadata": metadata }));
        assert!(cache.up_to_date(&child).is_some());
        requests.begin(&key(), request.map(|text| Fingerprint::of(&json!(text))), &cache);
        cache.up_to_date(&child).is_some()
    }

    #[test]
    fn each_request_makes_the_children_be_read_once() {
        let requests = Requests::default();
        assert!(stays_known(&requests, None), "nobody asks for it");
        assert!(!stays_known(&requests, Some("monday")));
        assert!(stays_known(&requests, Some("monday")), "it was handled");
        assert!(!stays_known(&requests, Some("tuesday")));
        requests.forget(&key());
        assert!(!stays_known(&requests, Some("tuesday")), "it may be another object of this name");
        requests.clear();
        assert!(!stays_known(&requests, Some("tuesday")));
    }
}
