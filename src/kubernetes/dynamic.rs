//! Calls on objects whose kind is a value: what the reconcilers apply, read back and remove.
//! It never decides whether an object is ours: whoever calls has looked.

use super::Kube;
use super::answers::{Answer, LARGEST, LARGEST_PAGE};
use super::changes::KindName;
use super::objects::{CallError, FIELD_MANAGER, READ_LIMIT, WRITE_LIMIT, within};
use super::trimmed;
use json_patch::Patch as JsonPatch;
use kube::api::{
    ApiResource, DeleteParams, DynamicObject, GetParams, ListParams, Patch, PatchParams, PostParams,
    Preconditions, Request,
};
use kube::core::request::Error as RequestError;
use kube::core::{GroupVersionKind, ObjectMeta, Status};
use kube::{Api, Client};
use serde::Deserialize;
use serde_json::{Value, json};

/// Objects of a page where the API server does not send a list as a stream.
pub(super) const PAGE: u32 = 4;
/// Objects of a page that is asked for; of those that are large, fewer.
const FULL_PAGE: u32 = 50;
/// Pages that must not be too large until more objects are asked for again.
const GOOD_PAGES: u32 = 8;
/// Objects that are looked at in one list.
const MOST_LISTED: usize = 100_000;

/// Values of a Secret or ConfigMap, each key being one.
const VALUES_OF_DATA: usize = 5_000;
/// Values of any other object: a Deployment of the largest spec that is admitted, and who owns which field of it.
const VALUES: usize = 40_000;

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

impl<'a> Target<'a> {
    /// An object of this kind.
    pub fn of([api_version, kind, plural]: KindName, namespace: &'a str, name: &'a str) -> Self {
        Self { api_version, kind, plural, namespace, name }
    }

    /// The calls about it. Names come from objects that may have been stored before there were rules: one that is no
    /// name of anything would lead to another path, and does not exist by its looks.
    fn api(&self, kube: &Kube) -> Result<Api<DynamicObject>, CallError> {
        self.api_of(&kube.calls)
    }

    /// The same for a change. What gives rights is written as the account that holds what may be handed on: Kubernetes
    /// lets nobody grant more than he holds, and we hold more than anybody is to be given.
    fn writing(&self, kube: &Kube) -> Result<Api<DynamicObject>, CallError> {
        self.api_of(if self.gives_rights() { &kube.as_grants } else { &kube.calls })
    }

    fn gives_rights(&self) -> bool {
        self.api_version.split('/').next() == Some("rbac.authorization.k8s.io")
    }

    fn api_of(&self, client: &Client) -> Result<Api<DynamicObject>, CallError> {
        if ![self.namespace, self.name].into_iter().all(is_segment) {
            let missing = Status::failure("there can be no object of this name", "NotFound").with_code(404);
            let (operation, source) = (self.operation("use"), Box::new(kube::Error::Api(Box::new(missing))));
            return Err(CallError::Failed { operation, source });
        }
        let (group, version) = self.api_version.split_once('/').unwrap_or(("", self.api_version));
        let kind = GroupVersionKind::gvk(group, version, self.kind);
        let resource = ApiResource::from_gvk_with_plural(&kind, self.plural);
        Ok(match self.namespace {
            "" => Api::all_with(client.clone(), &resource),
            namespace => Api::namespaced_with(client.clone(), namespace, &resource),
        })
    }

    fn operation(&self, verb: &str) -> String {
        format!("{verb} {} {}/{}", self.kind, self.namespace, self.name)
    }

    /// Whether it is of one of our kinds. Its spec is read whatever it is: it may have been stored before there was a
    /// limit, and goes on working.
    fn is_of_ours(&self) -> bool {
        self.api_version.starts_with("coder.com/")
    }

    /// Values that are read of it, if it is of another kind.
    fn most_values(&self) -> usize {
        match self.kind {
            "Secret" | "ConfigMap" => VALUES_OF_DATA,
            _ => VALUES,
        }
    }
}

/// A request, as the client builds it.
type Built = Result<http::Request<Vec<u8>>, RequestError>;

/// A page of a list, as far as anybody looks at it.
#[derive(Deserialize)]
struct Page {
    #[serde(default)]
    metadata: PageMetadata,
    /// None at all where the list is empty.
    items: Option<Vec<Item>>,
}

#[derive(Deserialize, Default)]
struct PageMetadata {
    r#continue: Option<String>,
}

#[derive(Deserialize)]
struct Item {
    #[serde(default, deserialize_with = "trimmed::metadata")]
    metadata: ObjectMeta,
    #[serde(default)]
    status: Value,
}

/// Whether a text can be a part of a path as it is: what RBAC allows as a name, and that is most.
fn is_segment(text: &str) -> bool {
    let splits = |letter: char| !letter.is_ascii_graphic() || "/?#%\\".contains(letter);
    !matches!(text, "." | "..") && !text.contains(splits)
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
    async fn answer(
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
        let params = PostParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PostParams::default() };
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

    /// Writes the status of an object as far as it is given; the object must still be at this resourceVersion.
    pub async fn write_status(&self, target: Target<'_>, patch: JsonPatch) -> Result<(), CallError> {
        let params = PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() };
        let patch = Patch::<()>::Json(patch);
        let write = |request: &Request| request.patch_subresource("status", target.name, &params, &patch);
        self.change(target, "write the status of", write).await.map(drop)
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
        let preconditions = Preconditions { uid: Some(uid.to_owned()), resource_version };
        let params = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::background() };
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

    /// Metadata and status of at most so many of the objects of a kind with these labels.
    pub async fn some_labelled(
        &self,
        target: Target<'_>,
        selector: &str,
        limit: u32,
    ) -> Result<Vec<Value>, CallError> {
        let mut listed = Vec::new();
        let list = |request: &Request, params: &ListParams| request.list(params);
        self.pages(target, selector, list, |item| {
            listed.push(json!({ "metadata": item.metadata, "status": item.status }));
            listed.len() < limit as usize
        })
        .await?;
        Ok(listed)
    }

    /// Shows the metadata of the objects of a kind with these labels, one after the other, in all namespaces unless the
    /// target names one: whoever looks keeps what he needs.
    pub async fn labelled_metadata(
        &self,
        target: Target<'_>,
        selector: &str,
        mut look: impl FnMut(ObjectMeta),
    ) -> Result<(), CallError> {
        let (list, mut left) =
            (|request: &Request, params: &ListParams| request.list_metadata(params), MOST_LISTED);
        let whole = self.pages(target, selector, list, |item| {
            look(item.metadata);
            left -= 1;
            left > 0
        });
        // A list that has no end is no list: what is not seen must not be taken for something that is not there.
        let limit = || format!("{MOST_LISTED} objects");
        if whole.await? {
            Ok(())
        } else {
            Err(CallError::TooLarge { operation: target.operation("list"), limit: limit() })
        }
    }

    /// Shows a list page by page while `look` wants more; returns whether it saw all of it. A page that is too large is
    /// asked for again with fewer objects.
    async fn pages(
        &self,
        target: Target<'_>,
        selector: &str,
        list: impl Fn(&Request, &ListParams) -> Built,
        mut look: impl FnMut(Item) -> bool,
    ) -> Result<bool, CallError> {
        let operation = || target.operation("list");
        let mut params = ListParams::default().labels(selector).limit(FULL_PAGE);
        let mut good = 0;
        loop {
            let build = |request: &Request| list(request, &params);
            let Some(answer) = self.answer(target, "list", LARGEST_PAGE, build).await? else {
                let limit = || kibibytes(LARGEST_PAGE);
                let fewer = fewer(params.limit)
                    .ok_or_else(|| CallError::TooLarge { operation: operation(), limit: limit() })?;
                (params, good) = (params.limit(fewer), 0);
                continue;
            };
            let page: kube::Result<Page> = answer.parsed();
            drop(answer);
            let page = page
                .map_err(|source| CallError::Failed { operation: operation(), source: Box::new(source) })?;
            for item in page.items.into_iter().flatten() {
                if !look(item) {
                    return Ok(false);
                }
            }
            match page.metadata.r#continue.filter(|token| !token.is_empty()) {
                Some(token) => {
                    good += 1;
                    let limit = more(params.limit, good);
                    params = params.limit(limit).continue_token(&token);
                }
                None => return Ok(true),
            }
        }
    }
}

/// How many objects to ask for when so many were too large; none if it was one.
fn fewer(limit: Option<u32>) -> Option<u32> {
    match limit {
        Some(1) => None,
        limit => Some((limit.unwrap_or_default() / 4).max(1)),
    }
}

/// How many to ask for after so many pages that were not too large: what follows a few large objects need not be large.
fn more(limit: Option<u32>, good: u32) -> u32 {
    let factor = if good.is_multiple_of(GOOD_PAGES) { 4 } else { 1 };
    limit.unwrap_or_default().saturating_mul(factor).min(FULL_PAGE)
}

fn kibibytes(bytes: u64) -> String {
    format!("{} KiB", bytes / 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_that_is_too_large_is_asked_for_again_down_to_one_object() {
        let mut limits = vec![FULL_PAGE];
        while let Some(limit) = fewer(limits.last().copied()) {
            limits.push(limit);
        }
        assert_eq!(limits, [50, 12, 3, 1]);
        let grown = [1, 4, 16, 50].map(|limit| more(Some(limit), GOOD_PAGES));
        assert_eq!(grown, [4, 16, 50, 50], "and grows again");
        assert_eq!(more(Some(4), GOOD_PAGES + 1), 4, "after a while");
    }

    #[test]
    fn of_a_page_only_what_is_looked_at_is_read() {
        let annotation = "x".repeat(250_000);
        let page = json!({"kind": "PartialObjectMetadataList", "metadata": {"continue": "more"}, "items": [
            {"metadata": {"name": "a", "annotations": {"theirs": annotation}, "managedFields": [{}]}, "spec": {"a": 1},
             "status": {"phase": "Failed"}}, {}]});
        let page: Page = serde_json::from_str(&page.to_string()).unwrap();
        assert_eq!(page.metadata.r#continue.as_deref(), Some("more"));
        let items = page.items.unwrap();
        assert_eq!(json!(items[0].metadata), json!({"name": "a"}));
        assert_eq!((&items[0].status["phase"], &items[1].status), (&json!("Failed"), &Value::Null));
        let empty: Page =
            serde_json::from_str(r#"{"metadata": {"resourceVersion": "1"}, "items": null}"#).unwrap();
        assert!(empty.items.is_none() && empty.metadata.r#continue.is_none());
    }

    #[test]
    fn fewer_values_are_read_of_data_than_of_other_objects() {
        let of = |api_version, kind| Target { api_version, kind, plural: "", namespace: "", name: "" };
        assert!(of("coder.com/v1alpha1", "CoderControlPlane").is_of_ours());
        assert!(!of("v1", "Secret").is_of_ours());
        assert!(of("v1", "Secret").most_values() < of("apps/v1", "Deployment").most_values());
    }

    #[test]
    fn only_what_gives_rights_is_written_as_the_account_for_grants() {
        let gives_rights = |api_version| {
            let (kind, plural) = ("Kind", "kinds");
            Target { api_version, kind, plural, namespace: "a", name: "b" }.gives_rights()
        };
        assert!(gives_rights("rbac.authorization.k8s.io/v1"));
        for other in
            ["v1", "apps/v1", "networking.k8s.io/v1", "authorization.k8s.io/v1", "coder.com/v1alpha1"]
        {
            assert!(!gives_rights(other), "{other}");
        }
    }

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
