//! Asks the API server whether the person behind a request holds the rights that the request adds.
//! Which questions, and what the answers mean, is decided in the `webhooks` crate.

use crate::kubernetes::CallError;
use crate::serving::callers::Callers;
use crate::serving::peer::Peer;
use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::authorization::v1::ResourceAttributes;
use webhooks::wire::{Operation, Request};
use webhooks::{AccessCheck, Cause, Inquiry, required_access};

/// Questions asked at the same time.
const AT_ONCE: usize = 8;

/// Why the request is refused for want of rights; empty when it is not.
pub async fn missing(callers: &Callers, peer: Peer, request: &Request) -> Result<Vec<Cause>, CallError> {
    let old = match &request.operation {
        Operation::Create => None,
        Operation::Update { old } => Some(old),
    };
    let mut inquiry = Inquiry::new(required_access(old, &request.object, &request.namespace, request.kind));
    loop {
        let questions = inquiry.questions();
        if questions.is_empty() {
            return Ok(inquiry.causes());
        }
        let answers = stream::iter(questions)
            .map(|question| ask(callers, peer, request, question))
            .buffer_unordered(AT_ONCE);
        for (question, allowed) in answers.try_collect::<Vec<_>>().await? {
            inquiry.record(question, allowed);
        }
    }
}

async fn ask(
    callers: &Callers,
    peer: Peer,
    request: &Request,
    question: AccessCheck,
) -> Result<(AccessCheck, bool), CallError> {
    let attributes = ResourceAttributes {
        verb: Some(question.verb.clone()),
        group: Some(question.group.clone()),
        resource: Some(question.resource.clone()),
        subresource: Some(question.subresource.clone()).filter(|text| !text.is_empty()),
        namespace: Some(question.namespace.clone()),
        name: Some(question.name.clone()).filter(|text| !text.is_empty()),
        ..ResourceAttributes::default()
    };
    let allowed = callers.may(peer, &request.user, attributes).await?;
    Ok((question, allowed))
}
