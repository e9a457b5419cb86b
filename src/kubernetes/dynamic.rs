//! Calls on objects whose kind is a value: what the reconcilers apply, read back and remove.
//! It never decides whether an object is ours: whoever calls has looked.

use super::Kube;
use super::objects::{CallError, FIELD_MANAGER, READ_LIMIT, WRITE_LIMIT, within};
use json_patch::Patch as JsonPatch;
use kube::Api;
use kube::api::{
    ApiResource, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams, Preconditions,
};
use kube::core::{GroupVersionKind, ObjectMeta, Status};
use serde_json::Value;

/// Objects that come at once: annotations of each may take 256 KiB.
const PAGE: u32 = 50;
/// Pages that are read of one list.
const PAGES: usize = 2000;

/// One object of any kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Target<'a> {
    /// As in `apiVersion:` of a manifest.
    pub api_version: &'a str,
    /// As in `kind:` of a manifest.
    pub kind: &'a str,
    /// As in the path of a request.
    pub plural: &'a str,
    /// Where.
    pub namespace: &'a str,
    /// Which; empty for a list of all.
    pub name: &'a str,
}

impl Target<'_> {
    /// The calls about it. Names come from objects that may have been stored before there were rules: one that is no
    /// name of anything would lead to another path, and does not exist by its looks.
    fn api(&self, kube: &Kube) -> Result<Api<DynamicObject>, CallError> {
        if ![self.namespace, self.name].into_iter().all(is_segment) {
            let missing = Status::failure("there can be no object of this name", "NotFound").with_code(404);
            let (operation, source) = (self.operation("use"), Box::new(kube::Error::Api(Box::new(missing))));
            return Err(CallError::Failed { operation, source });
        }
        let (group, version) = self.api_version.split_once('/').unwrap_or(("", self.api_version));
        let kind = GroupVersionKind::gvk(group, version, self.kind);
        let resource = ApiResource::from_gvk_with_plural(&kind, self.plural);
        Ok(match self.namespace {
            "" => Api::all_with(kube.calls.clone(), &resource),
            namespace => Api::namespaced_with(kube.calls.clone(), namespace, &resource),
        })
    }

    fn operation(&self, verb: &str) -> String {
        format!("{verb} {} {}/{}", self.kind, self.namespace, self.name)
    }
}

/// Whether a text can be a part of a path as it is: what RBAC allows as a name, and that is most.
fn is_segment(text: &str) -> bool {
    let splits = |letter: char| !letter.is_ascii_graphic() || "/?#%\\".contains(letter);
    !matches!(text, "." | "..") && !text.contains(splits)
}

impl Kube {
    /// Reads an object; `None` when it, or its whole kind, does not exist.
    pub async fn read(&self, target: Target<'_>) -> Result<Option<Value>, CallError> {
        if target.name.is_empty() {
            return Ok(None);
        }
        let read = async {
            let api = target.api(self)?;
            within(READ_LIMIT, || target.operation("get"), api.get_opt(target.name)).await
        };
        match read.await {
            Ok(found) => Ok(found.and_then(|object| serde_json::to_value(object).ok())),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Applies the fields we mean to own; a field of ours that somebody else changed becomes ours again.
    pub async fn apply(&self, target: Target<'_>, manifest: &Value) -> Result<Value, CallError> {
        let params = PatchParams::apply(FIELD_MANAGER).force();
        let (api, patch) = (target.api(self)?, Patch::Apply(manifest));
        let call = api.patch(target.name, &params, &patch);
        let applied = within(WRITE_LIMIT, || target.operation("apply"), call).await?;
        Ok(serde_json::to_value(applied).unwrap_or_default())
    }

    /// Creates an object under a name in its `managedFields`; it fails if there is one already.
    pub async fn create_as(
        &self,
        manager: &str,
        target: Target<'_>,
        manifest: Value,
    ) -> Result<Value, CallError> {
        let params = PostParams { field_manager: Some(manager.to_owned()), ..PostParams::default() };
        let object = serde_json::from_value(manifest).map_err(|source| CallError::Failed {
            operation: target.operation("create"),
            source: Box::new(kube::Error::SerdeError(source)),
        })?;
        let api = target.api(self)?;
        let created =
            within(WRITE_LIMIT, || target.operation("create"), api.create(&params, &object)).await?;
        Ok(serde_json::to_value(created).unwrap_or_default())
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
        let (api, patch) = (target.api(self)?, Patch::<()>::Json(patch));
        let call = api.patch(target.name, &params, &patch);
        let patched = within(WRITE_LIMIT, || target.operation("patch"), call).await?;
        Ok(serde_json::to_value(patched).unwrap_or_default())
    }

    /// Writes the status of an object as far as it is given; the object must still be at this resourceVersion.
    pub async fn write_status(&self, target: Target<'_>, patch: JsonPatch) -> Result<(), CallError> {
        let params = PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() };
        let (api, patch) = (target.api(self)?, Patch::<()>::Json(patch));
        let call = api.patch_status(target.name, &params, &patch);
        within(WRITE_LIMIT, || target.operation("write the status of"), call).await.map(drop)
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
        let preconditions = Preconditions { uid: Some(uid.to_owned()), resource_version };
        let params = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::background() };
        let removal = async {
            let api = target.api(self)?;
            within(WRITE_LIMIT, || target.operation("delete"), api.delete(target.name, &params)).await
        };
        match removal.await {
            Ok(_) => Ok(true),
            // A conflict is another uid or version: the object we meant is gone.
            Err(error) if error.is_not_found() || error.is_conflict() => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// The objects of a kind with these labels, in all namespaces unless the target names one.
    pub async fn labelled(&self, target: Target<'_>, selector: &str) -> Result<Vec<Value>, CallError> {
        self.list(target, ListParams::default().labels(selector)).await
    }

    /// At most so many of the objects of a kind with these labels.
    pub async fn some_labelled(
        &self,
        target: Target<'_>,
        selector: &str,
        limit: u32,
    ) -> Result<Vec<Value>, CallError> {
        self.list(target, ListParams::default().labels(selector).limit(limit)).await
    }

    async fn list(&self, target: Target<'_>, params: ListParams) -> Result<Vec<Value>, CallError> {
        let api = target.api(self)?;
        let listed = within(READ_LIMIT, || target.operation("list"), api.list(&params)).await?;
        Ok(listed.items.into_iter().filter_map(|object| serde_json::to_value(object).ok()).collect())
    }

    /// Shows the metadata of the objects of a kind with these labels, one after the other: whoever looks keeps what he
    /// needs. It comes in pages, and ends after so many that something must be wrong.
    pub async fn labelled_metadata(
        &self,
        target: Target<'_>,
        selector: &str,
        look: impl FnMut(ObjectMeta),
    ) -> Result<(), CallError> {
        let (api, mut look) = (target.api(self)?, look);
        let mut params = ListParams::default().labels(selector).limit(PAGE);
        for _ in 0..PAGES {
            let page = within(READ_LIMIT, || target.operation("list"), api.list_metadata(&params)).await?;
            page.items.into_iter().for_each(|object| look(object.metadata));
            match page.metadata.continue_.filter(|token| !token.is_empty()) {
                Some(token) => params = params.continue_token(&token),
                None => break,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_would_lead_to_another_path_is_no_name() {
        for name in ["coder", "", "coder.example-1", "system:node:a", "x".repeat(253).as_str()] {
            assert!(is_segment(name), "{name}");
        }
        for name in ["a/b", "../secrets/x", ".", "..", "a?limit=1", "a#b", "a%2fb", "a b", "a\n", "ä", "a\\b"]
        {
            assert!(!is_segment(name), "{name}");
        }
    }
}
