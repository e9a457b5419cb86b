//! Decides how the answer to an AdmissionReview is written: status, causes, warnings and patch.
//! Never answers 409 or 422, and never adds to what was decided.

use k8s_openapi::ByteString;
use serde::Serialize;
use serde_json::{Value, json};

use super::{KIND, Request, VERSION};
use crate::admit::Decision;
use crate::cause::Cause;
use crate::validate::Verdict;
use crate::warnings::within_limits;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Answer<'a> {
    api_version: &'static str,
    kind: &'static str,
    response: Response<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Response<'a> {
    uid: &'a str,
    allowed: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<Value>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    warnings: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    patch_type: Option<&'static str>,
    /// Bytes of the Kubernetes API serialise as base64.
    #[serde(skip_serializing_if = "Option::is_none")]
    patch: Option<ByteString>,
}

/// Writes the answer. Here a verdict becomes text.
pub fn write(request: &Request, decision: &Decision) -> serde_json::Result<Vec<u8>> {
    let allowed = decision.allowed();
    let patch = if allowed && !decision.patch.0.is_empty() {
        Some(ByteString(serde_json::to_vec(&decision.patch)?))
    } else {
        None
    };
    let response = Response {
        uid: &request.uid,
        allowed,
        status: (!allowed).then(|| denial(request, decision)),
        // The one place that cuts: whoever reads the verdict itself has room for all of it.
        warnings: within_limits(decision.verdict.warnings.iter().map(Cause::to_string)),
        patch_type: patch.as_ref().map(|_| "JSONPatch"),
        patch,
    };
    serde_json::to_vec(&Answer { api_version: VERSION, kind: KIND, response })
}

/// 403: some tools answer 409 and 422 by deleting and recreating the object.
fn denial(request: &Request, decision: &Decision) -> Value {
    let detail = |cause: &Cause| json!({ "reason": cause.reason.as_str(), "field": cause.field, "message": cause.message() });
    let causes: Vec<Value> = decision.verdict.causes.iter().map(detail).collect();
    json!({
        "status": "Failure", "code": 403, "reason": "Forbidden", "message": message(&decision.verdict),
        "details": {
            "group": crds::well_known::GROUP, "kind": request.kind.name(), "name": request.name, "causes": causes,
        },
    })
}

/// The text of the denial; of several problems it says first how many there are.
fn message(verdict: &Verdict) -> String {
    let lines = verdict.denial().unwrap_or_default();
    match verdict.problems() {
        1 => lines,
        count => format!("{count} problems:\n{lines}"),
    }
}
