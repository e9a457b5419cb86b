//! Decides what must hold for any body sent to the webhooks, whoever wrote it.
//! Never says which verdict is right: the suites of admission do. Shared by the fuzz target and the replay.

use k8s_openapi::ByteString;
use serde_json::Value;
use webhooks::admission_review::{self, Request};
use webhooks::admit::{self, Decision};
use webhooks::{AccessReviews, Config, MAX_REVIEWS, required_access};

/// A body is answered, or refused as unreadable; defaults are written once, and both webhooks agree.
pub fn holds(body: &[u8]) {
    let Ok(request) = admission_review::read(body) else { return };
    let config = Config::default();
    let mut defaulted = request.clone();
    let first = admit::mutate(&mut defaulted, &config);
    let patch = answered(&request, &first);
    let judged = admit::validate(&request);
    assert_eq!(answered(&request, &judged), None, "the validating webhook changes nothing");
    if !first.allowed() {
        return;
    }
    let mut stored = request.clone();
    if let Some(patch) = patch {
        let patch: json_patch::Patch = serde_json::from_slice(&patch).expect("the patch is a JSON patch");
        json_patch::patch(&mut stored.object, &patch).expect("the patch applies");
    }
    assert_eq!(stored.object, defaulted.object, "the patch is what was judged");
    let second = admit::mutate(&mut stored, &config);
    assert!(second.allowed() && second.patch.0.is_empty(), "defaults are not stable: {:?}", second.patch);
    let last = admit::validate(&stored);
    assert!(last.allowed(), "what was let in is refused later: {:?}", last.verdict.denial());
    review_access(&stored);
}

/// Writes an answer, reads it back, and returns its patch.
fn answered(request: &Request, decision: &Decision) -> Option<Vec<u8>> {
    let written = admission_review::write(request, decision).expect("the answer can be written");
    let written = String::from_utf8(written).expect("JSON is UTF-8");
    let answer: Value = serde_json::from_str(&written).expect("the answer is JSON");
    let response = &answer["response"];
    assert_eq!(response["uid"], request.uid.as_str());
    assert_eq!(response["allowed"], decision.allowed());
    if !decision.allowed() {
        assert_eq!(response["status"]["code"], 403, "{written}");
        assert!(response.get("patch").is_none() && response.get("patchType").is_none(), "{written}");
        let causes = response["status"]["details"]["causes"].as_array().expect("there are causes");
        assert!(!causes.is_empty() && causes.iter().all(|cause| cause["message"] != ""), "{written}");
        return None;
    }
    assert!(response.get("status").is_none(), "{written}");
    let patch = response.get("patch")?.clone();
    assert_eq!(response["patchType"], "JSONPatch");
    Some(serde_json::from_value::<ByteString>(patch).expect("the patch is base64").0)
}

/// The access reviews come to an end, whether every answer is yes or no.
fn review_access(request: &Request) {
    let old = request.old_object.as_ref();
    let required = required_access(old, &request.object, &request.namespace, request.kind);
    for allowed in [true, false] {
        let mut reviews = AccessReviews::new(required.clone());
        for _ in 0..=MAX_REVIEWS {
            for check in reviews.pending() {
                reviews.record(check, allowed);
            }
        }
        assert!(reviews.pending().is_empty(), "more rounds of reviews than reviews");
        reviews.causes();
    }
}
