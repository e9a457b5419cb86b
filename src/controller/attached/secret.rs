//! The Secrets that hold what coderd shows once, the plaintext of a key or a token: reads a place, puts a plaintext into it,
//! empties it. Every write fails if somebody else was faster, and a Secret that is not the object's own is never touched.

use crate::confidential::{Confidential, decoded};
use crate::controller::children::ChildOwner;
use crate::kubernetes::{CallError, KindName, Kube, Target, is_controlled_by};
use crds::names::hash::hex32;
use json_patch::jsonptr::PointerBuf;
use json_patch::{AddOperation, Patch, PatchOperation, RemoveOperation, TestOperation};
use k8s_openapi::ByteString;
use serde_json::{Value, json};
use std::collections::BTreeMap;

const SECRET: KindName = ["v1", "Secret", "secrets"];

/// A data key of a Secret in the namespace of an object.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct SecretPlace {
    /// Name of the Secret.
    pub secret: String,
    /// Key inside it.
    pub data_key: String,
}

/// What is known of the plaintext that pods are started with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Proven {
    /// What the annotation of the pod template is to be.
    pub checksum: String,
    /// The place it is in.
    pub place: SecretPlace,
}

/// What is in a place.
#[derive(Debug)]
pub(crate) enum Content {
    /// Nothing.
    Nothing,
    /// The Secret is not this object's.
    Foreign,
    /// A plaintext, and what it is marked to be of.
    Plaintext(Confidential<String>, Option<String>),
}

/// A Secret as it was read: writes are for this version of it only.
#[derive(Debug)]
pub(crate) struct Found {
    /// What is in the place.
    pub content: Content,
    /// The Secret, if there is one.
    secret: Option<Value>,
}

impl Found {
    /// Whether the API server lets nobody change it any more, us included.
    pub(crate) fn is_immutable(&self) -> bool {
        self.secret.as_ref().is_some_and(|secret| secret["immutable"] == true)
    }

    /// What an annotation of it says. It is no proof: whoever may write the Secret may write it.
    pub(crate) fn annotation(&self, key: &str) -> Option<&str> {
        self.secret.as_ref()?["metadata"]["annotations"][key].as_str()
    }
}

/// What became of a place that was to be emptied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Emptied {
    /// Nothing of ours is left there.
    Done,
    /// Somebody changed the Secret in between: it is to be looked at again.
    Changed,
    /// It is left as it is: nobody can change the Secret, and others have data in it.
    Left,
}

/// How a place is emptied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Removal {
    /// With its Secret.
    Whole,
    /// By itself.
    Entry,
    /// Not at all.
    Impossible,
}

/// How a plaintext is written.
enum Write {
    /// There is no Secret yet.
    New(Value),
    /// There is one.
    Change(Patch),
}

/// The Secrets of one object.
#[derive(Clone, Copy)]
pub(crate) struct Secrets<'a> {
    /// The API server.
    pub kube: &'a Kube,
    /// Whose they are.
    pub owner: &'a ChildOwner,
    /// The annotation that says what a plaintext is of. It is no secret, and no proof: coderd is asked.
    pub mark: &'static str,
}

impl Secrets<'_> {
    fn target<'a>(&'a self, place: &'a SecretPlace) -> Target<'a> {
        Target::of(SECRET, &self.owner.namespace, &place.secret)
    }

    /// What is in a place now.
    pub(crate) async fn read(&self, place: &SecretPlace) -> Result<Found, CallError> {
        let secret = self.kube.read(self.target(place)).await?;
        let uid = self.owner.uid.as_deref().unwrap_or_default();
        let content = secret
            .as_ref()
            .map_or(Content::Nothing, |secret| content(secret, &place.data_key, uid, self.mark));
        Ok(Found { content, secret })
    }

    /// Puts a plaintext into a place, if it is still as it was found.
    pub(crate) async fn put(
        &self,
        place: &SecretPlace,
        found: &Found,
        plaintext: &Confidential<String>,
        mark: &str,
    ) -> Result<(), CallError> {
        self.put_marked(place, found, plaintext, &[(self.mark, mark.to_owned())]).await
    }

    /// The same with these annotations.
    pub(crate) async fn put_marked(
        &self,
        place: &SecretPlace,
        found: &Found,
        plaintext: &Confidential<String>,
        marks: &[(&str, String)],
    ) -> Result<(), CallError> {
        match self.written(place, found, plaintext, marks) {
            Write::New(manifest) => self.kube.create(self.target(place), &manifest).await.map(drop),
            Write::Change(patch) => self.kube.patch(self.target(place), patch).await.map(drop),
        }
    }

    /// Whether a plaintext could be put into a place now with these annotations: what is shown once is asked for only if it can be
    /// kept. Nothing is written.
    pub(crate) async fn rehearse(
        &self,
        place: &SecretPlace,
        found: &Found,
        plaintext: &Confidential<String>,
        marks: &[(&str, String)],
    ) -> Result<(), CallError> {
        match self.written(place, found, plaintext, marks) {
            Write::New(manifest) => self.kube.rehearse_create(self.target(place), &manifest).await,
            Write::Change(patch) => self.kube.rehearse_patch(self.target(place), patch).await,
        }
    }

    /// How a plaintext is written into a place that is as it was found.
    fn written(
        &self,
        place: &SecretPlace,
        found: &Found,
        plaintext: &Confidential<String>,
        marks: &[(&str, String)],
    ) -> Write {
        let value = json!(ByteString(plaintext.expose().clone().into_bytes()));
        let Some(secret) = &found.secret else {
            let mut manifest = json!({ "apiVersion": "v1", "kind": "Secret", "type": "Opaque",
                "metadata": self.owner.metadata(&place.secret), "data": { &place.data_key: value } });
            let annotations: BTreeMap<_, _> = marks.iter().map(|(key, value)| (*key, value)).collect();
            manifest["metadata"]["annotations"] = json!(annotations);
            return Write::New(manifest);
        };
        let marks = marks.iter().map(|(key, value)| (*key, json!(value)));
        let data = members(secret, &["data"], [(place.data_key.as_str(), value)]);
        let annotations = members(secret, &["metadata", "annotations"], marks);
        Write::Change(Patch([unchanged(secret)].into_iter().chain(data).chain(annotations).collect()))
    }

    /// Empties a place that is no longer asked for: the whole Secret if that may go and nothing else is in it.
    pub(crate) async fn empty(
        &self,
        place: &SecretPlace,
        found: &Found,
        whole: bool,
    ) -> Result<Emptied, CallError> {
        let (Some(secret), Content::Plaintext(..)) = (&found.secret, &found.content) else {
            return Ok(Emptied::Done);
        };
        let text = |pointer: &str| secret.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        match removal(secret, whole) {
            Removal::Whole => {
                let version = Some(text("/metadata/resourceVersion").to_owned());
                let target = self.target(place);
                let is_gone = self.kube.remove_version(target, text("/metadata/uid"), version).await?;
                Ok(if is_gone { Emptied::Done } else { Emptied::Changed })
            }
            Removal::Entry => {
                let path = PointerBuf::from_tokens(["data", &place.data_key]);
                let removal = PatchOperation::Remove(RemoveOperation { path });
                self.kube.patch(self.target(place), Patch(vec![unchanged(secret), removal])).await?;
                Ok(Emptied::Done)
            }
            Removal::Impossible => Ok(Emptied::Left),
        }
    }
}

/// How a Secret of ours is emptied of which nothing is read any more; `whole` is whether it may go with everything of ours. The
/// older operator took over Secrets with whatever else was in them, which stays.
fn removal(secret: &Value, whole: bool) -> Removal {
    let is_all = secret["data"].as_object().is_some_and(|data| data.len() == 1);
    match secret["immutable"] == true {
        _ if whole && is_all => Removal::Whole,
        true => Removal::Impossible,
        false => Removal::Entry,
    }
}

/// What is said of a Secret that was left with a plaintext which nothing reads any more.
pub(crate) fn left(place: &SecretPlace) -> String {
    let SecretPlace { secret, data_key } = place;
    format!(
        "Secret {secret} is no longer used and was left as it is: it is immutable and holds more than {data_key}; move the rest \
         elsewhere, then delete it"
    )
}

fn content(secret: &Value, data_key: &str, uid: &str, mark: &str) -> Content {
    if !is_controlled_by(secret, uid) {
        return Content::Foreign;
    }
    let mark = secret["metadata"]["annotations"][mark].as_str();
    match decoded(&secret["data"][data_key]).filter(|plaintext| !plaintext.is_blank()) {
        Some(plaintext) => Content::Plaintext(plaintext, mark.map(str::to_owned)),
        None => Content::Nothing,
    }
}

impl Content {
    /// What the annotation of pods is that are started with it.
    pub(crate) fn checksum(&self) -> Option<String> {
        match self {
            Self::Plaintext(plaintext, _) => Some(hex32(plaintext.expose().as_bytes())),
            Self::Nothing | Self::Foreign => None,
        }
    }
}

/// That the Secret is as it was read.
fn unchanged(secret: &Value) -> PatchOperation {
    let path = PointerBuf::from_tokens(["metadata", "resourceVersion"]);
    PatchOperation::Test(TestOperation { path, value: secret["metadata"]["resourceVersion"].clone() })
}

/// Sets members of a map that may not be there yet.
fn members<'k>(
    secret: &Value,
    map: &[&str],
    all: impl IntoIterator<Item = (&'k str, Value)>,
) -> Vec<PatchOperation> {
    let map = PointerBuf::from_tokens(map.iter().copied());
    let add = |path: PointerBuf, value: Value| PatchOperation::Add(AddOperation { path, value });
    if secret.pointer(map.as_str()).is_some_and(Value::is_object) {
        return all.into_iter().map(|(key, value)| add(map.with_trailing_token(key), value)).collect();
    }
    vec![add(map, json!(all.into_iter().collect::<BTreeMap<_, _>>()))]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secret(owner: &str, data: Value) -> Value {
        let owners = json!([{ "apiVersion": "coder.com/v1alpha1", "kind": "CoderProvisioner", "name": "b", "uid": owner,
            "controller": true }]);
        json!({ "metadata": { "resourceVersion": "7", "ownerReferences": owners }, "data": data })
    }

    #[test]
    fn only_a_secret_of_this_very_object_holds_its_plaintext() {
        let data = json!({ "key": "cGxhaW4=", "blank": "IA==" });
        let holds = |owner: &str, key: &str| match content(&secret(owner, data.clone()), key, "u1", "mark") {
            Content::Nothing => "nothing",
            Content::Foreign => "foreign",
            Content::Plaintext(text, None) if text.expose() == "plain" => "plain",
            Content::Plaintext(..) => "else",
        };
        assert_eq!(holds("u1", "key"), "plain");
        assert_eq!((holds("u1", "other"), holds("u1", "blank")), ("nothing", "nothing"));
        assert_eq!(holds("u2", "key"), "foreign");
    }

    #[test]
    fn what_else_is_in_a_secret_stays() {
        let (alone, more) = (json!({ "key": "cGxhaW4=" }), json!({ "key": "cGxhaW4=", "other": "eA==" }));
        let how = |data: &Value, immutable: bool, whole: bool| {
            let mut secret = secret("u1", data.clone());
            secret["immutable"] = json!(immutable);
            removal(&secret, whole)
        };
        for immutable in [false, true] {
            assert_eq!(how(&alone, immutable, true), Removal::Whole);
        }
        assert_eq!((how(&more, false, true), how(&alone, false, false)), (Removal::Entry, Removal::Entry));
        assert_eq!(how(&more, true, true), Removal::Impossible, "others need what is in it");
        assert_eq!(how(&alone, true, false), Removal::Impossible);
    }

    #[test]
    fn a_value_is_set_whether_its_map_is_there_or_not() {
        let empty = json!({ "metadata": {} });
        let with = json!({ "data": { "a/b": "x" } });
        let both = || [("a/b", json!("y")), ("c", json!("z"))];
        assert_eq!(
            json!(members(&empty, &["data"], both())),
            json!([{ "op": "add", "path": "/data", "value": { "a/b": "y", "c": "z" } }])
        );
        assert_eq!(
            json!(members(&with, &["data"], both())),
            json!([{ "op": "add", "path": "/data/a~1b", "value": "y" },
                { "op": "add", "path": "/data/c", "value": "z" }])
        );
    }
}
