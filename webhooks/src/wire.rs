//! AdmissionReview as it goes over the wire: what we read of a request, and how an answer is written.
//! Objects stay raw JSON: a typed round trip would lose fields that are not ours to lose. Nothing is built of a body
//! before it is known what that costs.

use k8s_openapi::ByteString;
use k8s_openapi::api::authentication::v1::UserInfo;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::decide::Decision;
use crate::kind::Kind;
use crate::warnings::within_limits;
use crate::weight::{self, Excess, Scales};

const VERSION: &str = "admission.k8s.io/v1";
const KIND: &str = "AdmissionReview";

/// What both objects of a review and its user may cost in memory, built. Ours are bounded by their schema: with every
/// list full (about 4,000 items of two kilobytes) an object costs half of it.
pub const MEMORY: usize = 16 * 1024 * 1024;
/// Bytes of the description of a user: thousands of groups.
const USER: usize = 256 * 1024;
/// Each question about the rights of a user holds two copies of the description, and eight are asked at once.
const USER_COPIES: usize = 16;

/// Bytes of the texts around the objects, at least as many as Kubernetes writes: each question about rights has a copy of
/// the namespace. A name longer than one may be comes to us before the API server refuses it, and we say it better.
const UID: usize = 128;
const NAMESPACE: usize = 63;
const NAME: usize = 1024;
const WORD: usize = 64;
/// Bytes of a user name, its uid, a group, or a key of `extra`; and of a value of `extra`.
const USER_NAME: usize = 1024;
const USER_EXTRA: usize = 16 * 1024;

/// A request we can decide.
#[derive(Debug, Clone)]
pub struct Request {
    /// Repeated in the answer.
    pub uid: String,
    /// Which kind.
    pub kind: Kind,
    /// What happens to it.
    pub operation: Operation,
    /// Where.
    pub namespace: String,
    /// Its name; empty while only `generateName` is known.
    pub name: String,
    /// The object.
    pub object: Value,
    /// Who asks.
    pub user: UserInfo,
}

/// What happens to an object.
#[derive(Debug, Clone)]
pub enum Operation {
    /// It is made.
    Create,
    /// It replaces another.
    Update {
        /// The one stored.
        old: Value,
    },
}

/// Why a body is not a request we can decide. The API server never sends one of these.
#[derive(Debug, thiserror::Error)]
pub enum Unreadable {
    /// Not JSON, or not an AdmissionReview.
    #[error("the body is not an AdmissionReview: {0}")]
    Body(serde_json::Error),
    /// Another version.
    #[error("only admission.k8s.io/v1 AdmissionReview is understood")]
    Version,
    /// No request in it.
    #[error("the AdmissionReview has no request")]
    NoRequest,
    /// Not one of our kinds.
    #[error("only the kinds of coder.com/v1alpha1 are decided here")]
    Kind,
    /// Not creation or update.
    #[error("only CREATE and UPDATE are decided here")]
    Operation,
    /// A text around the objects is not one, or longer than Kubernetes writes it.
    #[error("{0} of the AdmissionReview is no text, or a longer one than Kubernetes writes")]
    Text(&'static str),
    /// Nobody asks; there is nobody whose rights could be reviewed.
    #[error("the AdmissionReview has no request.userInfo.username")]
    NoUser,
    /// More than anybody writes, and more than we build.
    #[error(
        "the objects of the AdmissionReview consist of more values than are read; remove what is not needed"
    )]
    TooLarge,
    /// Nested deeper than any field of ours.
    #[error("the objects of the AdmissionReview are nested deeper than any field of coder.com/v1alpha1")]
    TooDeep,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Envelope<'a> {
    #[serde(borrow)]
    api_version: Option<&'a RawValue>,
    #[serde(borrow)]
    kind: Option<&'a RawValue>,
    #[serde(borrow)]
    request: Option<Body<'a>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Body<'a> {
    #[serde(borrow)]
    uid: &'a RawValue,
    #[serde(borrow)]
    resource: Resource<'a>,
    #[serde(borrow)]
    operation: &'a RawValue,
    #[serde(borrow)]
    namespace: Option<&'a RawValue>,
    #[serde(borrow)]
    name: Option<&'a RawValue>,
    #[serde(borrow)]
    object: Option<&'a RawValue>,
    #[serde(borrow)]
    old_object: Option<&'a RawValue>,
    #[serde(borrow)]
    user_info: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Resource<'a> {
    #[serde(borrow)]
    group: Option<&'a RawValue>,
    #[serde(borrow)]
    resource: Option<&'a RawValue>,
}

/// A text of at most this many bytes, which is not built where it has more; an absent one is empty.
fn text<'a>(
    raw: impl Into<Option<&'a RawValue>>,
    limit: usize,
    field: &'static str,
) -> Result<String, Unreadable> {
    /// The longest that one byte of a text is written as: `\u0041`.
    const ESCAPED: usize = 6;
    let Some(raw) = raw.into().map(RawValue::get) else { return Ok(String::new()) };
    let text = (raw.len() <= limit * ESCAPED + 2).then(|| serde_json::from_str::<String>(raw).ok()).flatten();
    text.filter(|text| text.len() <= limit).ok_or(Unreadable::Text(field))
}

/// A review whose weight is known; its objects are still text.
pub struct Weighed<'a> {
    body: Body<'a>,
    uid: String,
    namespace: String,
    name: String,
    kind: Kind,
    is_update: bool,
    memory: usize,
}

/// Reads a body.
pub fn read(body: &[u8]) -> Result<Request, Unreadable> {
    weigh(body)?.build()
}

/// Weighs a body and refuses what nobody would send.
pub fn weigh(body: &[u8]) -> Result<Weighed<'_>, Unreadable> {
    let envelope: Envelope<'_> = serde_json::from_slice(body).map_err(Unreadable::Body)?;
    let version = text(envelope.api_version, WORD, "apiVersion")?;
    if version != VERSION || text(envelope.kind, WORD, "kind")? != KIND {
        return Err(Unreadable::Version);
    }
    let body = envelope.request.ok_or(Unreadable::NoRequest)?;
    let ours = text(body.resource.group, WORD, "request.resource.group")? == crds::well_known::GROUP;
    let plural = text(body.resource.resource, WORD, "request.resource.resource")?;
    let kind = Kind::from_plural(&plural).filter(|_| ours).ok_or(Unreadable::Kind)?;
    let is_update = match text(body.operation, WORD, "request.operation")?.as_str() {
        "CREATE" => false,
        "UPDATE" => true,
        _ => return Err(Unreadable::Operation),
    };
    let uid = text(body.uid, UID, "request.uid")?;
    let namespace = text(body.namespace, NAMESPACE, "request.namespace")?;
    let name = text(body.name, NAME, "request.name")?;
    let memory = memory(&body, is_update)?;
    Ok(Weighed { body, uid, namespace, name, kind, is_update, memory })
}

fn memory(body: &Body<'_>, is_update: bool) -> Result<usize, Unreadable> {
    let mut scales = Scales::up_to(MEMORY);
    let objects = body.object.into_iter().chain(body.old_object.filter(|_| is_update));
    let mut weighed = Ok(());
    for object in objects {
        weighed = weighed.and_then(|()| scales.add_object(object));
    }
    if let Some(user) = body.user_info {
        if user.get().len() > USER {
            return Err(Unreadable::TooLarge);
        }
        weighed = weighed
            .and_then(|()| scales.add_value(user))
            .and_then(|()| scales.add(user.get().len() * USER_COPIES));
    }
    match (weighed, scales.excess()) {
        (Ok(()), _) => Ok(scales.memory()),
        (Err(_), Some(Excess::Depth)) => Err(Unreadable::TooDeep),
        (Err(_), Some(Excess::Memory)) => Err(Unreadable::TooLarge),
        (Err(error), None) => Err(Unreadable::Body(error)),
    }
}

impl Weighed<'_> {
    /// Bytes of memory that the request takes once it is built, by the constants of `weight`.
    pub fn memory(&self) -> usize {
        self.memory
    }

    /// Builds the request.
    pub fn build(self) -> Result<Request, Unreadable> {
        let Self { body, uid, namespace, name, kind, is_update, .. } = self;
        let user = user(body.user_info)?;
        let object =
            |raw: Option<&RawValue>| raw.map(weight::build).transpose().map(Option::unwrap_or_default);
        let operation = if is_update {
            Operation::Update { old: object(body.old_object).map_err(Unreadable::Body)? }
        } else {
            Operation::Create
        };
        let object = object(body.object).map_err(Unreadable::Body)?;
        Ok(Request { uid, kind, operation, namespace, name, object, user })
    }
}

/// Who asks. Its weight is known, but each question repeats it: no single text of it is longer than sensible.
fn user(raw: Option<&RawValue>) -> Result<UserInfo, Unreadable> {
    let raw = raw.ok_or(Unreadable::NoUser)?;
    let user: UserInfo = serde_json::from_str(raw.get()).map_err(Unreadable::Body)?;
    if user.username.as_deref().is_none_or(str::is_empty) {
        return Err(Unreadable::NoUser);
    }
    let extra = || user.extra.iter().flatten();
    let mut names = user.username.iter().chain(&user.uid).chain(user.groups.iter().flatten());
    let is_long = names.any(|name| name.len() > USER_NAME)
        || extra().any(|(key, _)| key.len() > USER_NAME)
        || extra().flat_map(|(_, values)| values).any(|value| value.len() > USER_EXTRA);
    if is_long { Err(Unreadable::Text("request.userInfo")) } else { Ok(user) }
}

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

/// Writes the answer.
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
        warnings: within_limits(decision.warnings.clone()),
        patch_type: patch.as_ref().map(|_| "JSONPatch"),
        patch,
    };
    serde_json::to_vec(&Answer { api_version: VERSION, kind: KIND, response })
}

/// 403: some tools answer 409 and 422 by deleting and recreating the object.
fn denial(request: &Request, decision: &Decision) -> Value {
    let causes: Vec<Value> = decision
        .causes
        .iter()
        .map(|cause| json!({ "reason": cause.reason.as_str(), "field": cause.field, "message": cause.message }))
        .collect();
    json!({
        "status": "Failure", "code": 403, "reason": "Forbidden", "message": decision.message(),
        "details": {
            "group": crds::well_known::GROUP, "kind": request.kind.name(), "name": request.name, "causes": causes,
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decide;
    use crate::defaults::Config;

    fn body(object: &Value, operation: &str) -> Vec<u8> {
        let review = json!({
            "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
            "request": {
                "uid": "u1", "operation": operation, "namespace": "coder", "name": "coder", "object": object,
                "oldObject": null, "userInfo": { "username": "jane", "groups": ["devs"] },
                "resource": { "group": "coder.com", "version": "v1alpha1", "resource": "codercontrolplanes" },
            },
        });
        serde_json::to_vec(&review).unwrap()
    }

    fn answer(object: &Value) -> Value {
        let mut request = read(&body(object, "CREATE")).unwrap();
        let decision = decide::mutate(&mut request, &Config::default());
        serde_json::from_slice(&write(&request, &decision).unwrap()).unwrap()
    }

    fn control_plane(spec: Value) -> Value {
        json!({ "apiVersion": "coder.com/v1alpha1", "kind": "CoderControlPlane",
            "metadata": { "name": "coder", "namespace": "coder" }, "spec": spec })
    }

    #[test]
    fn a_good_object_is_allowed_with_a_base64_patch() {
        let answer = answer(&control_plane(json!({})));
        assert_eq!(
            (&answer["response"]["uid"], &answer["response"]["allowed"]),
            (&json!("u1"), &json!(true))
        );
        assert_eq!(answer["response"]["patchType"], "JSONPatch");
        let patch: ByteString = serde_json::from_value(answer["response"]["patch"].clone()).unwrap();
        let patch: Value = serde_json::from_slice(&patch.0).unwrap();
        assert!(patch.as_array().unwrap().iter().all(|operation| operation["op"] == "add"), "{patch}");
    }

    #[test]
    fn a_bad_object_is_refused_with_403_and_every_cause_and_no_patch() {
        let answer = answer(&control_plane(json!({ "replicas": -1, "service": { "port": 70000 } })));
        let status = &answer["response"]["status"];
        assert_eq!((&status["code"], &status["reason"]), (&json!(403), &json!("Forbidden")));
        let fields: Vec<&str> = status["details"]["causes"]
            .as_array()
            .unwrap()
            .iter()
            .map(|cause| cause["field"].as_str().unwrap())
            .collect();
        assert!(fields.contains(&"spec.replicas") && fields.contains(&"spec.service.port"), "{answer}");
        assert!(answer["response"]["patch"].is_null());
    }

    /// One warning longer than Kubernetes keeps: the answer cuts it, the verdict does not.
    #[test]
    fn warnings_of_an_answer_are_within_the_limits_of_kubernetes() {
        let annotations = json!({ "a".repeat(400): "${LEFT}" });
        let object = control_plane(
            json!({ "image": "coder:v1", "serviceAccount": { "annotations": annotations }, "replicas": -1 }),
        );
        let mut request = read(&body(&object, "CREATE")).unwrap();
        let decision = decide::mutate(&mut request, &Config::default());
        assert!(decision.warnings.iter().any(|warning| warning.chars().count() > 400), "{decision:?}");
        let answer = answer(&object);
        let sent = answer["response"]["warnings"].as_array().unwrap();
        assert_eq!(sent.len(), decision.warnings.len());
        assert!(sent.iter().all(|warning| warning.as_str().unwrap().chars().count() <= 256), "{answer}");
    }

    #[test]
    fn what_is_not_a_request_of_ours_is_unreadable_and_nothing_panics() {
        let good = body(&control_plane(json!({})), "CREATE");
        for length in 0..good.len() {
            assert!(read(&good[..length]).is_err());
        }
        assert!(matches!(read(&body(&json!({}), "DELETE")), Err(Unreadable::Operation)));
        assert!(matches!(
            read(br#"{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview"}"#),
            Err(Unreadable::NoRequest)
        ));
        let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
        assert!(matches!(read(deep.as_bytes()), Err(Unreadable::Body(_))));
    }

    fn wrapped(object: &str, operation: &str) -> String {
        format!(
            r#"{{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{{"uid":"u","operation":"{operation}",
            "userInfo":{{"username":"jane"}},"resource":{{"group":"coder.com","resource":"codercontrolplanes"}},"object":{object},"oldObject":{object}}}}}"#
        )
    }

    /// Each is 3 MiB of text and was hundreds of megabytes built.
    #[test]
    fn what_would_fill_memory_is_refused_before_it_is_built() {
        let many = |what: &str| format!(r#"{{"spec":[{}0]}}"#, what.repeat(3 * 1024 * 1024 / what.len()));
        let deep = format!("{}1{}", r#"{"a":"#.repeat(500_000), "}".repeat(500_000));
        assert!(matches!(read(wrapped(&deep, "CREATE").as_bytes()), Err(Unreadable::TooDeep)));
        for what in [r#"{"a":0},"#, "[0],", "0,", r#""","#] {
            let refused = read(wrapped(&many(what), "CREATE").as_bytes());
            assert!(matches!(refused, Err(Unreadable::TooLarge)), "{what}");
        }
        let groups = format!(r#"{{"groups":[{}"a"]}}"#, r#""a","#.repeat(100_000));
        let text = wrapped("{}", "CREATE").replacen(r#"{"username":"jane"}"#, &groups, 1);
        assert!(matches!(read(text.as_bytes()), Err(Unreadable::TooLarge)));
    }

    /// Each question about rights had a copy of such a namespace, and of such a user.
    #[test]
    fn texts_around_the_objects_are_bounded_and_somebody_asks() {
        let good: Value = serde_json::from_str(&wrapped("{}", "CREATE")).unwrap();
        let with = |path: &str, value: Value| {
            let (parent, key) = path.rsplit_once('/').unwrap();
            let mut review = good.clone();
            review.pointer_mut(parent).unwrap()[key] = value;
            read(&serde_json::to_vec(&review).unwrap())
        };
        for (path, limit) in [
            ("/request/uid", UID),
            ("/request/namespace", NAMESPACE),
            ("/request/name", NAME),
            ("/request/userInfo/username", USER_NAME),
            ("/request/userInfo/uid", USER_NAME),
        ] {
            for letter in ["a", "\u{1}"] {
                assert!(with(path, json!(letter.repeat(limit))).is_ok(), "{path}");
                let refused = with(path, json!(letter.repeat(limit + 1)));
                assert!(matches!(refused, Err(Unreadable::Text(_))), "{path}: {refused:?}");
            }
        }
        for path in [
            "/request/uid",
            "/request/namespace",
            "/request/name",
            "/request/operation",
            "/apiVersion",
            "/kind",
            "/request/resource/group",
            "/request/resource/resource",
        ] {
            let refused = with(path, json!("a".repeat(3_200_000)));
            assert!(matches!(refused, Err(Unreadable::Text(_))), "{path}: {refused:?}");
            assert!(matches!(with(path, json!(1)), Err(Unreadable::Text(_))), "{path}");
        }
        let long = "a".repeat(USER_EXTRA + 1);
        for (path, value) in [
            ("/request/userInfo/groups", json!(["a", long])),
            ("/request/userInfo/extra", json!({ "a": ["b", long] })),
            ("/request/userInfo/extra", json!({ long.as_str(): [] })),
        ] {
            assert!(matches!(with(path, value), Err(Unreadable::Text(_))), "{path}");
        }
        for nobody in [json!(null), json!({}), json!({ "username": "" }), json!({ "groups": ["a"] })] {
            assert!(matches!(with("/request/userInfo", nobody), Err(Unreadable::NoUser)));
        }
    }

    /// As large as etcd keeps an object: what we do not look at does not count, and what we do is far from the limit.
    #[test]
    fn the_largest_object_that_etcd_keeps_is_read() {
        let variables: Vec<Value> = (0..512)
            .map(|number| json!({ "name": format!("V{number}"), "valueFrom": { "secretKeyRef": { "name": "a", "key": "b" } } }))
            .collect();
        let fields = "f:a".repeat(400_000);
        let object = json!({ "metadata": { "managedFields": [{ "fieldsV1": { fields: {} } }] },
            "spec": { "extraEnv": variables } });
        let text = wrapped(&object.to_string(), "UPDATE");
        let weighed = weigh(text.as_bytes()).unwrap();
        assert!(weighed.memory() < MEMORY / 2, "{}", weighed.memory());
        let request = weighed.build().unwrap();
        assert_eq!(request.object["spec"]["extraEnv"].as_array().unwrap().len(), 512);
        assert!(request.object["metadata"].get("managedFields").is_none());
    }
}
