//! Lists of objects whose kind is a value, read page by page: of each object as much as anybody looks at.
//! It never keeps a page longer than it is looked at, and never takes a part of a list for the whole.

use super::Kube;
use super::answers::LARGEST_PAGE;
use super::changes::KindName;
use super::dynamic::{Built, kibibytes};
use super::objects::CallError;
use super::pod_status::PodStatus;
use super::target::Target;
use super::trimmed;
use kube::api::{ListParams, Request};
use kube::core::ObjectMeta;
use serde::Deserialize;
use serde_json::{Value, json};

const POD: KindName = ["v1", "Pod", "pods"];
/// Objects of a page where the API server does not send a list as a stream.
pub(super) const PAGE: u32 = 4;
/// Objects of a page that is asked for; of those that are large, fewer.
const FULL_PAGE: u32 = 50;
/// Pages that must not be too large until more objects are asked for again.
const GOOD_PAGES: u32 = 8;
/// Objects that are looked at in one list.
const MOST_LISTED: usize = 100_000;

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
    /// Of anything but a pod nobody looks at it.
    #[serde(default)]
    status: PodStatus,
}

impl Kube {
    /// What `keep` makes of the pods of a namespace with these labels, of so many at the most. It is shown metadata and status;
    /// labels anybody can have, so that what it does not keep does not count.
    pub async fn some_pods<T>(
        &self,
        namespace: &str,
        selector: &str,
        limit: u32,
        mut keep: impl FnMut(&Value) -> Option<T>,
    ) -> Result<Vec<T>, CallError> {
        let (mut kept, mut left) = (Vec::new(), MOST_LISTED);
        let list = |request: &Request, params: &ListParams| request.list(params);
        self.pages(Target::of(POD, namespace, ""), selector, list, |item| {
            kept.extend(keep(&json!({ "metadata": item.metadata, "status": item.status })));
            left -= 1;
            kept.len() < limit as usize && left > 0
        })
        .await?;
        Ok(kept)
    }

    /// Shows the metadata of the objects of a kind with these labels, one after the other, in the namespace of the target, or
    /// in the whole cluster: whoever looks keeps what he needs. Where we look at a few namespaces, each is asked for by itself,
    /// since one that refuses says nothing of the others: see [`super::Scope::places`].
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
        if !whole.await? {
            let limit = format!("{MOST_LISTED} objects");
            return Err(CallError::TooLarge { operation: target.operation("list"), limit });
        }
        Ok(())
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
        let phase = |item: &Item| json!(item.status)["phase"].clone();
        assert_eq!((phase(&items[0]), phase(&items[1])), (json!("Failed"), Value::Null));
        let empty: Page =
            serde_json::from_str(r#"{"metadata": {"resourceVersion": "1"}, "items": null}"#).unwrap();
        assert!(empty.items.is_none() && empty.metadata.r#continue.is_none());
    }
}
