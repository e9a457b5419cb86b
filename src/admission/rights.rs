//! Asks the API server whether the person behind a request holds the rights that the request adds.
//! Which checks, and what the answers mean, is decided in the `webhooks` crate.

use crate::serving::callers::{Callers, Denied};
use crate::serving::peer::Peer;
use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::authentication::v1::UserInfo;
use k8s_openapi::api::authorization::v1::ResourceAttributes;
use webhooks::admission_review::Request;
use webhooks::{AccessCheck, AccessReviews, Cause, required_access};

/// Access reviews asked for at the same time.
const AT_ONCE: usize = 8;

/// What is to be asked about the request; nothing of its objects is needed for the answer.
pub(super) fn reviews(request: &Request) -> AccessReviews {
    let Request { object, old_object, namespace, kind, .. } = request;
    AccessReviews::new(required_access(old_object.as_ref(), object, namespace, *kind))
}

/// Why the request is refused for want of rights of this user; empty when it is not.
pub(super) async fn missing(
    callers: &Callers,
    peer: Peer,
    user: &UserInfo,
    mut reviews: AccessReviews,
) -> Result<Vec<Cause>, Denied> {
    loop {
        let pending = reviews.pending();
        if pending.is_empty() {
            return Ok(reviews.causes());
        }
        let answers =
            stream::iter(pending).map(|check| ask(callers, peer, user, check)).buffer_unordered(AT_ONCE);
        for (check, allowed) in answers.try_collect::<Vec<_>>().await? {
            reviews.record(check, allowed);
        }
    }
}

async fn ask(
    callers: &Callers,
    peer: Peer,
    user: &UserInfo,
    check: AccessCheck,
) -> Result<(AccessCheck, bool), Denied> {
    let attributes = ResourceAttributes {
        verb: Some(check.verb.clone()),
        group: Some(check.group.clone()),
        resource: Some(check.resource.clone()),
        subresource: Some(check.subresource.clone()).filter(|text| !text.is_empty()),
        namespace: Some(check.namespace.clone()),
        name: Some(check.name.clone()).filter(|text| !text.is_empty()),
        ..ResourceAttributes::default()
    };
    let allowed = callers.may(peer, user, attributes).await?;
    Ok((check, allowed))
}
