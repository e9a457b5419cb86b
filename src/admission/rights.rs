//! Asks the API server whether the person behind a request holds the rights that the request adds.
//! Which questions, and what the answers mean, is decided in the `webhooks` crate.

use crate::serving::callers::{Callers, Denied};
use crate::serving::peer::Peer;
use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::authentication::v1::UserInfo;
use k8s_openapi::api::authorization::v1::ResourceAttributes;
use webhooks::wire::{Operation, Request};
use webhooks::{AccessCheck, Cause, Inquiry, required_access};

/// Questions asked at the same time.
const AT_ONCE: usize = 8;

/// What is to be asked about the request; nothing of its objects is needed for the answer.
pub fn inquiry(request: &Request) -> Inquiry {
    let old = match &request.operation {
        Operation::Create => None,
        Operation::Update { old } => Some(old),
    };
    Inquiry::new(required_access(old, &request.object, &request.namespace, request.kind))
}

/// Why the request is refused for want of rights of this user; empty when it is not.
pub async fn missing(
    callers: &Callers,
    peer: Peer,
    user: &UserInfo,
    mut inquiry: Inquiry,
) -> Result<Vec<Cause>, Denied> {
    loop {
        let questions = inquiry.questions();
        if questions.is_empty() {
            return Ok(inquiry.causes());
        }
        let answers = stream::iter(questions)
            .map(|question| ask(callers, peer, user, question))
            .buffer_unordered(AT_ONCE);
        for (question, allowed) in answers.try_collect::<Vec<_>>().await? {
            inquiry.record(question, allowed);
        }
    }
}

async fn ask(
    callers: &Callers,
    peer: Peer,
    user: &UserInfo,
    question: AccessCheck,
) -> Result<(AccessCheck, bool), Denied> {
    let attributes = ResourceAttributes {
        verb: Some(question.verb.clone()),
        group: Some(question.group.clone()),
        resource: Some(question.resource.clone()),
        subresource: Some(question.subresource.clone()).filter(|text| !text.is_empty()),
        namespace: Some(question.namespace.clone()),
        name: Some(question.name.clone()).filter(|text| !text.is_empty()),
        ..ResourceAttributes::default()
    };
    let allowed = callers.may(peer, user, attributes).await?;
    Ok((question, allowed))
}
