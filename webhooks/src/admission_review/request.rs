//! Decides what is read of an AdmissionReview, and refuses a body that nobody would send.
//! Never builds anything of a body before it is known what that costs, and never turns objects into types: a typed round
//! trip would lose fields that are not ours to lose.

use k8s_openapi::api::authentication::v1::UserInfo;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::{KIND, VERSION};
use crate::kind::Kind;
use crate::memory::{self, Excess, Meter};

/// What both objects of a review and its user may cost in memory, built. Ours are bounded by their schema: with every
/// list full (about 4,000 items of two kilobytes) an object costs half of it.
pub const MEMORY: usize = 16 * 1024 * 1024;
/// Bytes of the description of a user: thousands of groups.
const USER: usize = 256 * 1024;
/// Each question about the rights of a user holds two copies of the description, and eight are asked at once.
const USER_COPIES: usize = 16;

/// Bytes of the texts around the objects, at least as many as Kubernetes writes: each question about rights has a copy of
/// the namespace. A name longer than one may be comes to us before the API server refuses it, and we say it better.
pub(super) const UID: usize = 128;
pub(super) const NAMESPACE: usize = 63;
pub(super) const NAME: usize = 1024;
const WORD: usize = 64;
/// Bytes of a user name, its uid, a group, or a key of `extra`; and of a value of `extra`.
pub(super) const USER_NAME: usize = 1024;
pub(super) const USER_EXTRA: usize = 16 * 1024;

/// A request we can decide.
#[derive(Debug, Clone)]
pub struct Request {
    /// Repeated in the answer.
    pub uid: String,
    /// Which kind.
    pub kind: Kind,
    /// Where.
    pub namespace: String,
    /// Its name; empty while only `generateName` is known.
    pub name: String,
    /// The object.
    pub object: Value,
    /// The object it replaces; none where it is created.
    pub old_object: Option<Value>,
    /// Who asks.
    pub user: UserInfo,
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

/// A review of which it is known what memory it takes; its objects are still text.
pub struct Measured<'a> {
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
    measure(body)?.build()
}

/// Measures a body and refuses what nobody would send.
pub fn measure(body: &[u8]) -> Result<Measured<'_>, Unreadable> {
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
    Ok(Measured { body, uid, namespace, name, kind, is_update, memory })
}

fn memory(body: &Body<'_>, is_update: bool) -> Result<usize, Unreadable> {
    let mut meter = Meter::up_to(MEMORY);
    let objects = body.object.into_iter().chain(body.old_object.filter(|_| is_update));
    let mut measured = Ok(());
    for object in objects {
        measured = measured.and_then(|()| meter.add_object(object));
    }
    if let Some(user) = body.user_info {
        if user.get().len() > USER {
            return Err(Unreadable::TooLarge);
        }
        measured = measured
            .and_then(|()| meter.add_value(user))
            .and_then(|()| meter.add(user.get().len() * USER_COPIES));
    }
    match (measured, meter.excess()) {
        (Ok(()), _) => Ok(meter.memory()),
        (Err(_), Some(Excess::Depth)) => Err(Unreadable::TooDeep),
        (Err(_), Some(Excess::Memory)) => Err(Unreadable::TooLarge),
        (Err(error), None) => Err(Unreadable::Body(error)),
    }
}

impl Measured<'_> {
    /// Bytes of memory that the request takes once it is built, by the constants of `memory`.
    pub fn memory(&self) -> usize {
        self.memory
    }

    /// Builds the request.
    pub fn build(self) -> Result<Request, Unreadable> {
        let Self { body, uid, namespace, name, kind, is_update, .. } = self;
        let user = user(body.user_info)?;
        let object =
            |raw: Option<&RawValue>| raw.map(memory::build).transpose().map(Option::unwrap_or_default);
        let old_object = is_update.then(|| object(body.old_object)).transpose();
        let old_object = old_object.map_err(Unreadable::Body)?;
        let object = object(body.object).map_err(Unreadable::Body)?;
        Ok(Request { uid, kind, namespace, name, object, old_object, user })
    }
}

/// Who asks. Its size is known, but each access review repeats it: no single text of it is longer than sensible.
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
