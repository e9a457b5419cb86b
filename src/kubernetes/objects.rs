//! Calls on objects of one kind, each with a deadline and an error that names the operation.
//! It never retries: whoever calls knows whether a second try is safe.

use super::wording;
use json_patch::Patch as JsonPatch;
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Resource};
use serde::{Serialize, de::DeserializeOwned};
use std::fmt::Debug;
use std::time::Duration;

/// How long a read may take.
pub(super) const READ_LIMIT: Duration = Duration::from_secs(10);
/// How long a write may take.
pub(super) const WRITE_LIMIT: Duration = Duration::from_secs(15);

/// The name under which our writes appear in `managedFields`.
pub(super) const FIELD_MANAGER: &str = "coder-k8s";

/// A call that did not succeed.
#[derive(Debug, thiserror::Error)]
pub enum CallError {
    /// No answer in time.
    #[error("cannot {operation}: no answer within {} seconds", limit.as_secs())]
    TimedOut {
        /// What was tried.
        operation: String,
        /// The deadline.
        limit: Duration,
    },
    /// The API server said no, or could not be reached.
    #[error("cannot {operation}: {}", wording::reason(source))]
    Failed {
        /// What was tried.
        operation: String,
        /// What came back.
        source: Box<kube::Error>,
    },
    /// What came back is more than anybody needs, and was not read.
    #[error("cannot {operation}: it has more than {limit}; remove what is not needed")]
    TooLarge {
        /// What was tried.
        operation: String,
        /// Where reading ends.
        limit: String,
    },
}

impl CallError {
    /// The object exists already.
    pub fn is_already_exists(&self) -> bool {
        self.status(|status| status.is_already_exists())
    }

    /// The object changed meanwhile.
    pub fn is_conflict(&self) -> bool {
        self.status(|status| status.is_conflict())
    }

    /// The object is no longer the one that was read: a conflict, or a failed `test` of a JSON patch.
    pub fn is_outdated(&self) -> bool {
        self.is_conflict() || self.status(|status| status.code == 422 && !is_explained(status))
    }

    /// The object would not be one the API server takes, and it says which fields are wrong.
    pub fn is_invalid(&self) -> bool {
        self.status(|status| status.code == 422 && is_explained(status))
    }

    /// The API server refuses what was asked, and will again: not a matter of time.
    pub fn is_refused(&self) -> bool {
        self.status(|status| matches!(status.code, 400 | 403 | 405 | 422))
    }

    /// Whoever asked may not.
    pub fn is_forbidden(&self) -> bool {
        self.status(|status| status.code == 403)
    }

    /// The object does not exist, or its whole kind does not: that is said in plain text, with the code alone.
    pub fn is_not_found(&self) -> bool {
        self.status(|status| status.code == 404)
    }

    /// There is no object of this name, by the word of whoever serves its kind.
    pub(super) fn names_the_missing(&self) -> bool {
        self.status(|status| status.code == 404 && status.reason == "NotFound")
    }

    fn status(&self, holds: impl Fn(&kube::core::Status) -> bool) -> bool {
        matches!(self, Self::Failed { source, .. } if matches!(&**source, kube::Error::Api(status) if holds(status)))
    }
}

fn is_explained(status: &kube::core::Status) -> bool {
    status.details.as_ref().is_some_and(|details| !details.causes.is_empty())
}

/// Runs a call under a deadline.
pub(super) async fn within<T>(
    limit: Duration,
    operation: impl FnOnce() -> String,
    call: impl Future<Output = kube::Result<T>>,
) -> Result<T, CallError> {
    match tokio::time::timeout(limit, call).await {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(source)) => Err(CallError::Failed { operation: operation(), source: Box::new(source) }),
        Err(_) => Err(CallError::TimedOut { operation: operation(), limit }),
    }
}

/// Objects of one kind in one scope.
#[derive(Clone)]
pub struct Objects<K> {
    calls: Api<K>,
    pub(super) watches: Api<K>,
    /// The namespace they are in; empty for the whole cluster.
    pub(super) place: String,
}

impl<K> Objects<K> {
    pub(super) fn new(place: &str, calls: Api<K>, watches: Api<K>) -> Self {
        Self { calls, watches, place: place.to_owned() }
    }
}

impl<K> Objects<K>
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Serialize,
{
    /// Reads an object; `None` when it does not exist.
    pub async fn get(&self, name: &str) -> Result<Option<K>, CallError> {
        within(READ_LIMIT, || operation::<K>("get", name), self.calls.get_opt(name)).await
    }

    /// Creates an object.
    pub async fn create(&self, object: &K) -> Result<K, CallError> {
        let name = object.meta().name.as_deref().unwrap_or_default();
        within(WRITE_LIMIT, || operation::<K>("create", name), self.calls.create(&as_us(), object)).await
    }

    /// Replaces an object; it must still have the resourceVersion it carries.
    pub async fn replace(&self, object: &K) -> Result<K, CallError> {
        let name = object.meta().name.clone().unwrap_or_default();
        let params = as_us();
        let call = self.calls.replace(&name, &params, object);
        within(WRITE_LIMIT, || operation::<K>("replace", &name), call).await
    }

    /// Applies a JSON patch.
    pub async fn patch(&self, name: &str, patch: JsonPatch) -> Result<K, CallError> {
        let params = PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() };
        let patch = Patch::<()>::Json(patch);
        within(WRITE_LIMIT, || operation::<K>("patch", name), self.calls.patch(name, &params, &patch)).await
    }
}

fn operation<K: Resource<DynamicType = ()>>(verb: &str, name: &str) -> String {
    format!("{verb} {} {name}", K::kind(&()))
}

pub(super) fn as_us() -> PostParams {
    PostParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PostParams::default() }
}
