//! Calls on objects whose kind is a value: what the reconcilers apply, read back and remove.
//! It never decides whether an object is ours: whoever calls has looked.

use super::Kube;
use super::answers::{Answer, LARGEST};
use super::objects::{CallError, FIELD_MANAGER, READ_LIMIT, WRITE_LIMIT, within};
use super::target::Target;
use json_patch::Patch as JsonPatch;
use kube::Api;
use kube::api::{
    DeleteParams, DynamicObject, GetParams, Patch, PatchParams, PostParams, Preconditions, Request,
};
use kube::core::request::Error as RequestError;
use serde::Deserialize;
use serde_json::Value;

/// A request, as the client builds it.
pub(super) type Built = Result<http::Request<Vec<u8>>, RequestError>;

/// What is looked at of an object that was written.
#[derive(Deserialize)]
struct Written {
    metadata: WrittenMetadata,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct WrittenMetadata {
    resource_version: Option<String>,
}

/// Sends a request and reads its answer, unless it is larger than this.
async fn ask(
    api: Api<DynamicObject>,
    most: u64,
    build: impl FnOnce(&Request) -> Built,
) -> kube::Result<Option<Answer>> {
    let request = build(&Request::new(api.resource_url())).map_err(kube::Error::BuildRequest)?;
    Answer::of(&api.into_client(), request, most).await
}

/// The object that an answer consists of.
fn whole(target: Target<'_>, verb: &str, answer: Option<Answer>) -> Result<Value, CallError> {
    let operation = || target.operation(verb);
    let too_large = || CallError::TooLarge { operation: operation(), limit: kibibytes(LARGEST) };
    let answer = answer.ok_or_else(too_large)?;
    if target.is_of_ours() {
        answer.own_object(operation)
    } else {
        answer.object(target.most_values(), operation)
    }
}

impl Kube {
    /// Reads an object; `None` when it, or its whole kind, does not exist.
    pub async fn read(&self, target: Target<'_>) -> Result<Option<Value>, CallError> {
        if target.name.is_empty() {
            return Ok(None);
        }
        let get = |request: &Request| request.get(target.name, &GetParams::default());
        match self.answer(target, "get", LARGEST, get).await.and_then(|found| whole(target, "get", found)) {
            Ok(found) => Ok(Some(found)),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The answer to a request that reads, unless it is larger than this.
    pub(super) async fn answer(
        &self,
        target: Target<'_>,
        verb: &str,
        most: u64,
        build: impl FnOnce(&Request) -> Built,
    ) -> Result<Option<Answer>, CallError> {
        let call = ask(target.api(self)?, most, build);
        within(READ_LIMIT, || target.operation(verb), call).await
    }

    /// Applies the fields we mean to own; a field of ours that somebody else changed becomes ours again.
    pub async fn apply(&self, target: Target<'_>, manifest: &Value) -> Result<Value, CallError> {
        let params = PatchParams::apply(FIELD_MANAGER).force();
        let apply = |request: &Request| request.patch(target.name, &params, &Patch::Apply(manifest));
        whole(target, "apply", self.change(target, "apply", apply).await?)
    }

    /// Creates an object; it fails if there is one already.
    pub async fn create(&self, target: Target<'_>, manifest: &Value) -> Result<Value, CallError> {
        self.create_unless(false, target, manifest).await
    }

    /// Whether an object could be created now: by all that the API server asks before it does.
    pub async fn rehearse_create(&self, target: Target<'_>, manifest: &Value) -> Result<(), CallError> {
        self.create_unless(true, target, manifest).await.map(drop)
    }

    async fn create_unless(
        &self,
        dry_run: bool,
        target: Target<'_>,
        manifest: &Value,
    ) -> Result<Value, CallError> {
        let params = PostParams { dry_run, field_manager: Some(FIELD_MANAGER.to_owned()) };
        let create = |request: &Request| {
            request.create(&params, serde_json::to_vec(manifest).map_err(RequestError::SerializeBody)?)
        };
        whole(target, "create", self.change(target, "create", create).await?)
    }

    /// Changes an object by a JSON patch, and gives it back as it is then.
    pub async fn patch(&self, target: Target<'_>, patch: JsonPatch) -> Result<Value, CallError> {
        self.patch_as(FIELD_MANAGER, target, patch).await
    }

    /// The same under another name in the object's `managedFields`.
    pub async fn patch_as(
        &self,
        manager: &str,
        target: Target<'_>,
        patch: JsonPatch,
    ) -> Result<Value, CallError> {
        let params = PatchParams { field_manager: Some(manager.to_owned()), ..PatchParams::default() };
        let patch = |request: &Request| request.patch(target.name, &params, &Patch::<()>::Json(patch));
        whole(target, "patch", self.change(target, "patch", patch).await?)
    }

    /// Whether an object could be changed so now: by all that the API server asks before it does.
    pub async fn rehearse_patch(&self, target: Target<'_>, patch: JsonPatch) -> Result<(), CallError> {
        let field_manager = Some(FIELD_MANAGER.to_owned());
        let params = PatchParams { dry_run: true, field_manager, ..PatchParams::default() };
        let patch = |request: &Request| request.patch(target.name, &params, &Patch::<()>::Json(patch));
        self.change(target, "patch", patch).await.map(drop)
    }

    /// Changes the status of an object by a JSON patch; returns the resourceVersion that it has then, if the API server
    /// says so.
    pub async fn write_status(
        &self,
        target: Target<'_>,
        patch: JsonPatch,
    ) -> Result<Option<String>, CallError> {
        let params = PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() };
        let patch = Patch::<()>::Json(patch);
        let write = |request: &Request| request.patch_subresource("status", target.name, &params, &patch);
        let answer = self.change(target, "write the status of", write).await?;
        let written: Option<Written> = answer.and_then(|answer| answer.parsed().ok());
        Ok(written.and_then(|written| written.metadata.resource_version))
    }

    /// The answer to a request that changes an object.
    async fn change(
        &self,
        target: Target<'_>,
        verb: &str,
        build: impl FnOnce(&Request) -> Built,
    ) -> Result<Option<Answer>, CallError> {
        let call = ask(target.writing(self)?, LARGEST, build);
        self.changed(target, verb, call).await
    }

    /// Waits for a change, as long as one may take.
    async fn changed<T>(
        &self,
        target: Target<'_>,
        verb: &str,
        call: impl Future<Output = kube::Result<T>>,
    ) -> Result<T, CallError> {
        let answer = within(WRITE_LIMIT, || target.operation(verb), call).await;
        if target.gives_rights() { answer.map_err(|error| self.as_grants_failed(error)) } else { answer }
    }

    /// Whether the API server knows the kind and says that there is no object of this name: less is no proof.
    pub async fn is_gone(&self, target: Target<'_>) -> Result<bool, CallError> {
        let read = async {
            let api = target.api(self)?;
            within(READ_LIMIT, || target.operation("get"), api.get_metadata(target.name)).await
        };
        match read.await {
            Ok(_) => Ok(false),
            Err(error) if error.names_the_missing() => Ok(true),
            Err(error) => Err(error),
        }
    }

    /// Removes the object of this uid; one that is gone already is as good.
    pub async fn remove(&self, target: Target<'_>, uid: &str) -> Result<(), CallError> {
        self.remove_version(target, uid, None).await.map(drop)
    }

    /// Removes the object of this uid; if a version is given, only while nobody has changed it since. Returns whether it
    /// was there and is removed.
    pub async fn remove_version(
        &self,
        target: Target<'_>,
        uid: &str,
        resource_version: Option<String>,
    ) -> Result<bool, CallError> {
        self.remove_with(target, uid, resource_version, DeleteParams::background()).await
    }

    /// Removes the object of this uid while nobody has changed it since this version, and leaves what belongs to it, without
    /// an owner then. Returns whether it was there and goes.
    pub async fn remove_but_not_dependents(
        &self,
        target: Target<'_>,
        uid: &str,
        resource_version: &str,
    ) -> Result<bool, CallError> {
        self.remove_with(target, uid, Some(resource_version.to_owned()), DeleteParams::orphan()).await
    }

    async fn remove_with(
        &self,
        target: Target<'_>,
        uid: &str,
        resource_version: Option<String>,
        params: DeleteParams,
    ) -> Result<bool, CallError> {
        let preconditions = Preconditions { uid: Some(uid.to_owned()), resource_version };
        let params = DeleteParams { preconditions: Some(preconditions), ..params };
        let removal = async {
            let api = target.writing(self)?;
            self.changed(target, "delete", api.delete(target.name, &params)).await
        };
        match removal.await {
            Ok(_) => Ok(true),
            // A conflict is another uid or version: the object we meant is gone.
            Err(error) if error.is_not_found() || error.is_conflict() => Ok(false),
            Err(error) => Err(error),
        }
    }
}

pub(super) fn kibibytes(bytes: u64) -> String {
    format!("{} KiB", bytes / 1024)
}
