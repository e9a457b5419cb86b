//! Decides whether what our objects refer to is among the objects that come with them.
//! Never asks for a kind of which the set holds none: such things come from elsewhere.

use super::super::codes;
use super::super::engine::Kind;
use super::super::findings::{Collected, Draft, Spot};
use super::super::judging::shown;
use super::super::node::{Content, Node};
use super::super::objects::{Object, Role};
use super::secrets::Kept;
use super::units::Units;

/// What a field refers to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Target {
    Secret,
    ConfigMap,
    ControlPlane,
}

impl Target {
    const fn name(self) -> &'static str {
        match self {
            Self::Secret => "Secret",
            Self::ConfigMap => "ConfigMap",
            Self::ControlPlane => "CoderControlPlane",
        }
    }

    fn is(self, object: &Object<'_>) -> bool {
        match self {
            Self::Secret => object.role == Role::Secret,
            Self::ConfigMap => object.role == Role::ConfigMap,
            Self::ControlPlane => object.role == Role::Ours(Kind::ControlPlane),
        }
    }
}

/// Fields that name an object in the same namespace; `[]` stands for each item of a list.
const REFERENCES: [(&str, Target); 15] = [
    ("spec.controlPlaneRef.name", Target::ControlPlane),
    ("spec.extraEnv[].valueFrom.secretKeyRef.name", Target::Secret),
    ("spec.extraEnv[].valueFrom.configMapKeyRef.name", Target::ConfigMap),
    ("spec.envFrom[].secretRef.name", Target::Secret),
    ("spec.envFrom[].configMapRef.name", Target::ConfigMap),
    ("spec.imagePullSecrets[].name", Target::Secret),
    ("spec.operatorAccess.tokenSecretRef.name", Target::Secret),
    ("spec.licenseSecretRef.name", Target::Secret),
    ("spec.tls.secretNames[]", Target::Secret),
    ("spec.certs.secrets[].name", Target::Secret),
    ("spec.volumes[].secret.secretName", Target::Secret),
    ("spec.volumes[].configMap.name", Target::ConfigMap),
    ("spec.bootstrap.credentialsSecretRef.name", Target::Secret),
    ("spec.proxySessionTokenSecretRef.name", Target::Secret),
    ("spec.expose.ingress.tls.secretName", Target::Secret),
];

/// Judges every reference of every object of ours.
pub(super) fn judge<'a>(
    objects: &'a [Object<'a>],
    units: &Units<'a>,
    kept: &Kept,
    collected: &mut Collected<'a>,
) {
    for object in objects.iter().filter(|object| object.our_kind().is_some() && !units.is_patch(object)) {
        let Some(set) = Set::around(object, units) else { continue };
        for (pattern, target) in REFERENCES {
            let mut found = Vec::new();
            descend(object.node, pattern, "", false, &mut found);
            for (field, name) in found {
                if let Some(draft) = set.misses(target, name, object, kept) {
                    collected.field(object, field, Spot::Value, draft);
                }
            }
        }
    }
}

/// Every text a pattern reaches, with its path, unless it is marked optional or made by cert-manager.
fn descend<'n>(
    node: &'n Node,
    pattern: &str,
    path: &str,
    optional: bool,
    found: &mut Vec<(String, &'n str)>,
) {
    let flagged = node.get("optional").is_some_and(|flag| flag.content == Content::Bool(true));
    let annotations = node.get("annotations").map_or(&[][..], Node::entries);
    let issued = annotations.iter().any(|entry| entry.key.starts_with("cert-manager.io/"));
    let optional = optional || flagged || issued;
    let (step, rest) = pattern.split_once('.').unwrap_or((pattern, ""));
    let key = step.trim_end_matches("[]");
    let Some(inner) = node.get(key) else { return };
    let path = if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") };
    let here: Vec<(String, &Node)> = if key.len() < step.len() {
        inner.items().iter().enumerate().map(|(index, item)| (format!("{path}[{index}]"), item)).collect()
    } else {
        vec![(path, inner)]
    };
    for (path, inner) in here {
        match (rest, inner.text()) {
            ("", Some(name)) if !optional && !name.is_empty() => found.push((path, name)),
            ("", _) => {}
            (rest, _) => descend(inner, rest, &path, optional, found),
        }
    }
}

/// The objects that come with one object.
struct Set<'a> {
    members: Vec<&'a Object<'a>>,
    generated: Vec<String>,
}

impl<'a> Set<'a> {
    /// Everything in the units and the folder of an object; none where a part of it was not given.
    fn around(object: &Object<'_>, units: &Units<'a>) -> Option<Self> {
        let mut set = Self { members: units.neighbours(object).to_vec(), generated: Vec::new() };
        for unit in units.with(object) {
            if !unit.complete {
                return None;
            }
            set.members.extend(unit.members.iter().copied());
            set.generated.extend(unit.generated.iter().cloned());
        }
        Some(set)
    }

    /// A finding where a reference leads nowhere.
    fn misses(&self, target: Target, name: &str, from: &Object<'_>, kept: &Kept) -> Option<Draft> {
        let candidates: Vec<_> =
            self.members.iter().filter(|object| target.is(object) && object.is_near(from)).collect();
        let there = || {
            candidates.iter().any(|object| name_of(object) == name)
                || (target != Target::ControlPlane && self.generated.iter().any(|known| known == name))
                || (target == Target::Secret && self.members.iter().any(|object| kept.has(object, name)))
        };
        if candidates.is_empty() || there() {
            return None;
        }
        let message = format!("no {} {} comes with this object", target.name(), shown(name));
        let draft = Draft::new(&codes::MISSING_REFERENCE, message);
        let hashed = candidates.iter().find(|object| is_hashed(name_of(object), name));
        Some(match hashed {
            Some(object) => draft.with_help(format!(
                "kustomize made it {}: let it rewrite the reference by a nameReference, or set disableNameSuffixHash",
                name_of(object)
            )),
            None => draft,
        })
    }
}

/// The name of the Secret an object is or becomes.
fn name_of<'a>(object: &Object<'a>) -> &'a str {
    let elsewhere = match object.kind {
        "ExternalSecret" => object.node.text_at(&["spec", "target", "name"]),
        "Certificate" => object.node.text_at(&["spec", "secretName"]),
        _ => None,
    };
    elsewhere.unwrap_or(object.name)
}

/// Whether kustomize added its hash to a name.
fn is_hashed(there: &str, name: &str) -> bool {
    let hash = there.strip_prefix(name).and_then(|rest| rest.strip_prefix('-'));
    hash.is_some_and(|hash| hash.len() == 10 && hash.bytes().all(|byte| byte.is_ascii_alphanumeric()))
}
