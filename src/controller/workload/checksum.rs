//! Decides by which checksum of what they read the pods of an object roll: one under a key that only the operator
//! has, so that nobody guesses a value from it. Pods that run keep the one they have as long as what they read is known to
//! be the same, whatever became of the key. Pure: it is given contents and never reads any.

use super::consumed::{Consumed, Keys};
use crds::well_known::{annotation, label};
use json_patch::{AddOperation, Patch, PatchOperation, TestOperation, jsonptr::PointerBuf};
use ring::{digest, hmac};
use serde_json::Value;

/// Bytes of a checksum that are shown.
const SHOWN: usize = 16;

/// What is known of the contents while they are read, one object after the other.
pub(crate) struct Sums {
    keyed: Option<hmac::Context>,
    salted: digest::Context,
    versions: digest::Context,
}

/// What is known of all of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Sum {
    /// Of the contents, under our key; none where the key cannot be had.
    pub keyed: Option<String>,
    /// Of the contents as releases before there was a key made it, salted with the uids of the objects.
    pub salted: String,
    /// Of the versions of the objects, and of nothing that is in them.
    pub versions: String,
}

/// What the Deployment that runs says about itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Running<'a> {
    /// The checksum its pods were made with.
    pub checksum: Option<&'a str>,
    /// The versions of what that checksum is of, if they were noted.
    pub versions: Option<&'a str>,
}

impl<'a> Running<'a> {
    /// Reads it from a Deployment.
    pub(crate) fn of(deployment: Option<&'a Value>) -> Self {
        let text = |place: &str, name: &str| deployment?.pointer(place)?.get(name)?.as_str();
        Self {
            checksum: text("/spec/template/metadata/annotations", annotation::CHECKSUM),
            versions: text("/metadata/labels", label::CONSUMED_VERSIONS),
        }
    }

    /// The checksum that pods have and keep, because what they read is the same by one of three proofs: our key, the salt
    /// of an earlier release, or that no object has changed. The last one counts where a key was lost and made anew.
    pub(crate) fn kept(self, now: &Sum) -> Option<&'a str> {
        let checksum = self.checksum?;
        let same = now.keyed.as_deref() == Some(checksum)
            || now.salted == checksum
            || self.versions == Some(now.versions.as_str());
        same.then_some(checksum)
    }
}

impl Sums {
    /// Nothing was read yet.
    pub(crate) fn new(key: Option<&hmac::Key>) -> Self {
        let plain = || digest::Context::new(&digest::SHA256);
        Self { keyed: key.map(hmac::Context::with_key), salted: plain(), versions: plain() }
    }

    /// Adds what is read of an object, or that it is not there.
    pub(crate) fn add(&mut self, kind: &str, one: &Consumed, object: Option<&Value>) {
        let metadata = |name: &str| object.and_then(|object| object["metadata"][name].as_str());
        let (uid, version) = (metadata("uid").unwrap_or_default(), metadata("resourceVersion"));
        let key = match &one.keys {
            Keys::All => "",
            Keys::One(key) => key,
        };
        for part in [kind, &one.name, key, uid, version.unwrap_or_default()] {
            framed(part, |bytes| self.versions.update(bytes));
        }
        let Some(object) = object else { return };
        if let Some(keyed) = &mut self.keyed {
            for part in [kind, &one.name, key] {
                framed(part, |bytes| keyed.update(bytes));
            }
        }
        // As it always was: Deployments that run have the result on them.
        for part in [kind, &one.name, uid] {
            self.salted.update(part.as_bytes());
        }
        for (key, value) in read(one, object) {
            for part in [key, value] {
                framed(part, |bytes| self.salted.update(bytes));
                if let Some(keyed) = &mut self.keyed {
                    framed(part, |bytes| keyed.update(bytes));
                }
            }
        }
    }

    /// All of them together.
    pub(crate) fn finish(self) -> Sum {
        Sum {
            keyed: self.keyed.map(|keyed| shown(keyed.sign().as_ref())),
            salted: shown(self.salted.finish().as_ref()),
            versions: shown(self.versions.finish().as_ref()),
        }
    }
}

/// Who notes versions, in `managedFields`: never the one who applies, whose fields go when they are not applied again.
pub(crate) const NOTER: &str = "coder-k8s-versions";

/// The patch that notes the versions beside a Deployment whose pods have the checksum of them; nothing if they are noted,
/// or if its pods have another checksum because it could not be changed.
pub(crate) fn noting(deployment: &Value, checksum: &str, versions: &str) -> Option<Patch> {
    let running = Running::of(Some(deployment));
    if running.checksum != Some(checksum) || running.versions == Some(versions) {
        return None;
    }
    let uid = TestOperation {
        path: PointerBuf::from_tokens(["metadata", "uid"]),
        value: deployment["metadata"]["uid"].clone(),
    };
    let path = PointerBuf::from_tokens(["metadata", "labels", label::CONSUMED_VERSIONS]);
    let note = AddOperation { path, value: Value::String(versions.to_owned()) };
    Some(Patch(vec![PatchOperation::Test(uid), PatchOperation::Add(note)]))
}

/// The keys and values of an object that the pods read.
fn read<'a>(one: &'a Consumed, object: &'a Value) -> impl Iterator<Item = (&'a str, &'a str)> {
    let sections = ["data", "binaryData"].into_iter().filter_map(|section| object[section].as_object());
    let wanted = |key: &str| !matches!(&one.keys, Keys::One(only) if only != key);
    sections
        .flatten()
        .filter(move |(key, _)| wanted(key))
        .map(|(key, value)| (key.as_str(), value.as_str().unwrap_or_default()))
}

/// The length in front keeps two neighbours from being read as one.
fn framed(part: &str, mut update: impl FnMut(&[u8])) {
    update(&part.len().to_le_bytes());
    update(part.as_bytes());
}

fn shown(digest: &[u8]) -> String {
    digest.iter().take(SHOWN).map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::controller::workload::consumed::Source;
    use serde_json::json;

    fn key(byte: u8) -> hmac::Key {
        hmac::Key::new(hmac::HMAC_SHA256, &[byte; 32])
    }

    fn secret(uid: &str, version: &str, value: &str) -> Value {
        json!({ "metadata": { "uid": uid, "resourceVersion": version }, "data": { "a": value, "b": "eA==" } })
    }

    fn sum(key: Option<&hmac::Key>, object: Option<&Value>) -> Sum {
        let keys = Keys::One("a".to_owned());
        let one = Consumed { kind: Source::Secret, name: "s".to_owned(), keys, optional: false };
        let mut sums = Sums::new(key);
        sums.add("Secret", &one, object);
        sums.finish()
    }

    /// What a Deployment says that was applied with these.
    fn running<'a>(checksum: &'a str, versions: Option<&'a str>) -> Running<'a> {
        Running { checksum: Some(checksum), versions }
    }

    #[test]
    fn nobody_without_the_key_can_check_a_guess() {
        let (object, other) = (secret("u", "1", "cHc="), secret("u", "1", "cHg="));
        let one = sum(Some(&key(1)), Some(&object));
        assert_ne!(one.keyed, sum(Some(&key(2)), Some(&object)).keyed, "another key, another checksum");
        assert_ne!(one.keyed, sum(Some(&key(1)), Some(&other)).keyed);
        assert_eq!(
            one.versions,
            sum(None, Some(&other)).versions,
            "the versions tell nothing of the contents"
        );
        assert_eq!(one.keyed.unwrap().len(), 32);
    }

    #[test]
    fn the_same_contents_have_the_same_checksum_in_whatever_object() {
        let before = sum(Some(&key(1)), Some(&secret("u", "1", "cHc=")));
        let again = sum(Some(&key(1)), Some(&secret("v", "2", "cHc=")));
        assert_eq!(before.keyed, again.keyed);
        assert_ne!(before.versions, again.versions);
        let mut more = secret("v", "3", "cHc=");
        more["data"]["b"] = json!("eQ==");
        assert_eq!(sum(Some(&key(1)), Some(&more)).keyed, before.keyed, "nobody reads the other key");
    }

    #[test]
    fn pods_roll_when_what_they_read_changes_and_only_then() {
        let (old, new) = (secret("u", "1", "cHc="), secret("u", "2", "bmV3"));
        let (touched, key) = (secret("u", "2", "cHc="), key(1));
        let before = sum(Some(&key), Some(&old));
        let checksum = before.keyed.clone().unwrap();
        let live = running(&checksum, Some(&before.versions));
        assert_eq!(live.kept(&before), Some(&*checksum));
        assert_eq!(
            live.kept(&sum(Some(&key), Some(&touched))),
            Some(&*checksum),
            "another version, nothing new"
        );
        assert_eq!(live.kept(&sum(Some(&key), Some(&new))), None, "a new value");
        assert_eq!(live.kept(&sum(Some(&key), None)), None, "an optional object that is gone");
        let none = Running { checksum: None, versions: None };
        assert_eq!(none.kept(&before), None, "the first one");
    }

    #[test]
    fn an_upgrade_rolls_nothing_until_the_contents_change() {
        let (old, new, touched) =
            (secret("u", "1", "cHc="), secret("u", "2", "bmV3"), secret("u", "2", "cHc="));
        let key = key(1);
        let salted = sum(None, Some(&old)).salted;
        // Releases before had no versions on the Deployment.
        let live = running(&salted, None);
        assert_eq!(live.kept(&sum(Some(&key), Some(&old))), Some(&*salted));
        assert_eq!(live.kept(&sum(Some(&key), Some(&touched))), Some(&*salted));
        assert_eq!(live.kept(&sum(Some(&key), Some(&new))), None);
        // printf 'Secretsu\1\0\0\0\0\0\0\0a\4\0\0\0\0\0\0\0cHc=' | sha256sum
        assert_eq!(salted, "8c4202894746a3937546dd7e014e2b8d");
    }

    #[test]
    fn a_lost_key_rolls_nothing_until_an_object_changes() {
        let (old, touched) = (secret("u", "1", "cHc="), secret("u", "2", "cHc="));
        let before = sum(Some(&key(1)), Some(&old));
        let checksum = before.keyed.clone().unwrap();
        let live = running(&checksum, Some(&before.versions));
        for now in [Some(key(2)), None] {
            assert_eq!(live.kept(&sum(now.as_ref(), Some(&old))), Some(&*checksum));
            assert_eq!(live.kept(&sum(now.as_ref(), Some(&touched))), None, "nobody can tell any more");
        }
    }

    #[test]
    fn what_a_deployment_says_is_read_from_its_two_places() {
        let deployment = json!({ "metadata": { "uid": "u", "labels": { "coder.com/consumed-versions": "v" } },
            "spec": { "template": { "metadata": { "annotations": { "coder.com/checksum": "c" } } } } });
        assert_eq!(Running::of(Some(&deployment)), running("c", Some("v")));
        assert_eq!(Running::of(None), Running { checksum: None, versions: None });
        assert_eq!(Running::of(Some(&json!({}))), Running { checksum: None, versions: None });
        assert!(noting(&deployment, "c", "v").is_none(), "noted");
        assert!(noting(&deployment, "d", "w").is_none(), "its pods have another checksum");
        let patch = json!([{ "op": "test", "path": "/metadata/uid", "value": "u" },
            { "op": "add", "path": "/metadata/labels/coder.com~1consumed-versions", "value": "w" }]);
        assert_eq!(json!(noting(&deployment, "c", "w")), patch);
    }
}
