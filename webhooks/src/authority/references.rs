//! Decides which Secrets and ConfigMaps an object shows to its pods or sends away, and which of them are new.
//! Never asks whether they exist.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use serde_json::Value;

use super::{Access, AccessCheck};
use crate::field;
use crate::kind::Kind;
use crate::tree::Tree;

/// What a reference is to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Target {
    Secret,
    ConfigMap,
}

/// Who reads it: what only the node, an Ingress or the operator reads is not shown to pods by that.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Use {
    Pods,
    /// The node, to pull images.
    Pull,
    /// The node, to mount a volume.
    Mount,
    Ingress,
    Operator,
}

/// What is read of it.
#[derive(Clone, Copy)]
enum Keys {
    All,
    /// One key: the field beside the name that gives it, and the one that goes without saying; empty where there is
    /// no such field or no such key.
    One(&'static str, &'static str),
}

/// A reference from an object.
#[derive(Clone, Debug)]
struct Reference<'a> {
    field: String,
    target: Target,
    name: &'a str,
    /// The only key that is read; none where all are.
    key: Option<&'a str>,
    by: Use,
    /// The address it is sent to, where its author chooses that.
    sent_to: Option<&'a str>,
}

/// What makes two references the same: target, name, key, use, address.
type Identity<'a> = (Target, &'a str, Option<&'a str>, Use, Option<&'a str>);

impl<'a> Reference<'a> {
    /// What it gives: itself, and its use without an address.
    fn gives(&self) -> [Identity<'a>; 2] {
        [self.sent_to, None].map(|sent_to| (self.target, self.name, self.key, self.by, sent_to))
    }

    /// What would have given it: the whole object or the one key, read by the same or shown to pods, sent to the same
    /// address.
    fn needs(&self) -> [Identity<'a>; 4] {
        [(None, self.by), (self.key, self.by), (None, Use::Pods), (self.key, Use::Pods)]
            .map(|(key, by)| (self.target, self.name, key, by, self.sent_to))
    }

    fn access(&self, namespace: &str) -> Access {
        let resource = match self.target {
            Target::Secret => "secrets",
            Target::ConfigMap => "configmaps",
        };
        let read = AccessCheck::new("get", "", resource, namespace).named(self.name);
        match self.sent_to {
            Some(_) => Access::any(self.field.clone(), "CODER0506", vec![read]),
            None => {
                let alternatives = vec![AccessCheck::create_pods(namespace), read];
                Access::any(self.field.clone(), "CODER0505", alternatives)
            }
        }
    }
}

/// Fields with the name of a Secret or ConfigMap, what is read of it, and by whom.
const FIELDS: &[(&str, Keys, Target, Use)] = &[
    ("spec.licenseSecretRef.name", Keys::One("key", "license"), Target::Secret, Use::Operator),
    ("spec.operatorAccess.tokenSecretRef.name", TOKEN, Target::Secret, Use::Operator),
    ("spec.imagePullSecrets[].name", Keys::All, Target::Secret, Use::Pull),
    ("spec.tls.secretNames[]", Keys::All, Target::Secret, Use::Pods),
    ("spec.certs.secrets[].name", KEY, Target::Secret, Use::Pods),
    ("spec.expose.ingress.tls.secretName", Keys::All, Target::Secret, Use::Ingress),
    ("spec.expose.ingress.tls.wildcardSecretName", Keys::All, Target::Secret, Use::Ingress),
    ("spec.envFrom[].secretRef.name", Keys::All, Target::Secret, Use::Pods),
    ("spec.envFrom[].configMapRef.name", Keys::All, Target::ConfigMap, Use::Pods),
    ("spec.extraEnv[].valueFrom.secretKeyRef.name", KEY, Target::Secret, Use::Pods),
    ("spec.extraEnv[].valueFrom.configMapKeyRef.name", KEY, Target::ConfigMap, Use::Pods),
    ("spec.initContainers[].envFrom[].secretRef.name", Keys::All, Target::Secret, Use::Pods),
    ("spec.initContainers[].envFrom[].configMapRef.name", Keys::All, Target::ConfigMap, Use::Pods),
    ("spec.initContainers[].env[].valueFrom.secretKeyRef.name", KEY, Target::Secret, Use::Pods),
    ("spec.initContainers[].env[].valueFrom.configMapKeyRef.name", KEY, Target::ConfigMap, Use::Pods),
    ("spec.volumes[].secret.secretName", Keys::All, Target::Secret, Use::Pods),
    ("spec.volumes[].configMap.name", Keys::All, Target::ConfigMap, Use::Pods),
    ("spec.volumes[].projected.sources[].secret.name", Keys::All, Target::Secret, Use::Pods),
    ("spec.volumes[].projected.sources[].configMap.name", Keys::All, Target::ConfigMap, Use::Pods),
    ("spec.volumes[].csi.nodePublishSecretRef.name", Keys::All, Target::Secret, Use::Mount),
    ("spec.volumes[].azureFile.secretName", Keys::All, Target::Secret, Use::Mount),
    ("spec.volumes[].cephfs.secretRef.name", Keys::All, Target::Secret, Use::Mount),
    ("spec.volumes[].cinder.secretRef.name", Keys::All, Target::Secret, Use::Mount),
    ("spec.volumes[].flexVolume.secretRef.name", Keys::All, Target::Secret, Use::Mount),
    ("spec.volumes[].iscsi.secretRef.name", Keys::All, Target::Secret, Use::Mount),
    ("spec.volumes[].rbd.secretRef.name", Keys::All, Target::Secret, Use::Mount),
    ("spec.volumes[].scaleIO.secretRef.name", Keys::All, Target::Secret, Use::Mount),
    ("spec.volumes[].storageos.secretRef.name", Keys::All, Target::Secret, Use::Mount),
    ("spec.key.secretName", Keys::One("secretKey", "key"), Target::Secret, Use::Pods),
    ("spec.bootstrap.generatedTokenSecretName", Keys::One("", "token"), Target::Secret, Use::Pods),
    (CREDENTIALS, TOKEN, Target::Secret, Use::Operator),
    (SESSION_TOKEN, TOKEN, Target::Secret, Use::Pods),
];
/// A key that must be given.
const KEY: Keys = Keys::One("key", "");
const TOKEN: Keys = Keys::One("key", "token");
const CREDENTIALS: &str = "spec.bootstrap.credentialsSecretRef.name";
const SESSION_TOKEN: &str = "spec.proxySessionTokenSecretRef.name";

/// The fields as a tree, each by its place in the list.
static TREE: LazyLock<Tree<usize>> = LazyLock::new(|| {
    let mut tree = Tree::new();
    for (place, (pattern, ..)) in FIELDS.iter().enumerate() {
        tree.keep(pattern, place);
    }
    tree
});

fn references(kind: Kind, object: &Value) -> Vec<Reference<'_>> {
    let mut found = Vec::new();
    TREE.walk(object, &mut |place, value, indices| {
        let Some(name) = value.as_str().filter(|name| !name.is_empty()) else { return };
        let (pattern, keys, target, by) = FIELDS[*place];
        let reference = Reference {
            field: field::path(pattern, indices),
            target,
            name,
            key: key(object, pattern, indices, keys),
            by,
            sent_to: sent_to(kind, object, pattern),
        };
        found.push((*place, reference));
    });
    found.sort_by_key(|(place, _)| *place);
    found.into_iter().map(|(_, reference)| reference).collect()
}

/// The key that is read of what a pattern reached; none where all are.
fn key<'a>(object: &'a Value, pattern: &str, indices: &[usize], keys: Keys) -> Option<&'a str> {
    let Keys::One(beside, default) = keys else { return None };
    let parent = pattern.rsplit_once('.').and_then(|(parent, _)| field::place(object, parent, indices));
    let given = parent.and_then(|parent| parent.get(beside)).and_then(Value::as_str);
    Some(given.filter(|key| !key.is_empty()).unwrap_or(default))
}

/// A token of a proxy travels to an address in the same manifest; an absent one counts as an address of its own.
fn sent_to<'a>(kind: Kind, object: &'a Value, pattern: &str) -> Option<&'a str> {
    let address = match (kind, pattern) {
        (Kind::WorkspaceProxy, CREDENTIALS) => field::text_at(object, "spec.bootstrap.coderURL"),
        (Kind::WorkspaceProxy, SESSION_TOKEN) => field::text_at(object, "spec.primaryAccessURL"),
        _ => return None,
    };
    Some(address.unwrap_or_default())
}

/// The references the change adds.
pub(super) fn added(kind: Kind, old: Option<&Value>, new: &Value, namespace: &str) -> Vec<Access> {
    let before: BTreeSet<Identity<'_>> =
        old.map(|old| references(kind, old)).unwrap_or_default().iter().flat_map(Reference::gives).collect();
    let known = |reference: &Reference<'_>| reference.needs().iter().any(|need| before.contains(need));
    let fresh = references(kind, new).into_iter().filter(|reference| !known(reference));
    fresh.map(|reference| reference.access(namespace)).collect()
}
