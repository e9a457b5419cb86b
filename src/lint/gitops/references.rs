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
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

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
const REFERENCES: [(&str, Target); 16] = [
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
    ("spec.expose.ingress.tls.wildcardSecretName", Target::Secret),
];

/// The same, for whoever has to agree with them: each field with the kind it names.
#[cfg(test)]
pub(crate) fn referring_fields() -> Vec<(&'static str, &'static str)> {
    REFERENCES.iter().map(|(field, target)| (*field, target.name())).collect()
}

/// Judges every reference of every object of ours.
pub(super) fn judge<'a>(
    objects: &'a [Object<'a>],
    units: &Units<'a>,
    kept: &Kept<'a>,
    collected: &mut Collected<'a>,
) {
    let mut sets = BTreeMap::new();
    for object in objects.iter().filter(|object| object.our_kind().is_some() && !units.is_patch(object)) {
        let set = sets.entry(units.company(object)).or_insert_with(|| Set::around(object, units, kept));
        let Some(set) = set else { continue };
        for (pattern, target) in REFERENCES {
            let mut found = Vec::new();
            descend(object.node, pattern, "", false, &mut found);
            for (field, name) in found {
                if let Some(draft) = set.misses(target, name, object) {
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
#[derive(Default)]
struct Set<'a> {
    secrets: Named<'a>,
    config_maps: Named<'a>,
    control_planes: Named<'a>,
    /// Names of what kustomize generates.
    generated: BTreeSet<&'a str>,
    /// Names of the Secrets that the operator keeps.
    kept: BTreeSet<&'a str>,
}

/// Objects of one sort: the namespaces each name is in, and all of them.
#[derive(Default)]
struct Named<'a> {
    by_name: BTreeMap<&'a str, BTreeSet<&'a str>>,
    namespaces: BTreeSet<&'a str>,
}

impl<'a> Named<'a> {
    fn add(&mut self, object: &Object<'a>) {
        self.by_name.entry(name_of(object)).or_default().insert(object.namespace);
        self.namespaces.insert(object.namespace);
    }

    fn has(&self, name: &str, from: &Object<'_>) -> bool {
        self.by_name.get(name).is_some_and(|namespaces| is_near(namespaces, from))
    }

    /// The name that kustomize made of a name.
    fn hashed(&self, name: &str, from: &Object<'_>) -> Option<&'a str> {
        let start = format!("{name}-");
        let from_there = (Bound::Included(start.as_str()), Bound::Unbounded);
        let mut longer = self
            .by_name
            .range::<str, _>(from_there)
            .map_while(|(there, namespaces)| there.starts_with(&start).then_some((*there, namespaces)));
        let found = longer.find(|(there, namespaces)| is_hashed(there, name) && is_near(namespaces, from));
        found.map(|(there, _)| there)
    }
}

/// [`Object::is_near`] for any of some namespaces.
fn is_near(namespaces: &BTreeSet<&str>, from: &Object<'_>) -> bool {
    let own = from.namespace;
    (own.is_empty() && !namespaces.is_empty()) || namespaces.contains(own) || namespaces.contains("")
}

impl<'a> Set<'a> {
    /// Everything in the units and the folder of an object; none where a part of it was not given.
    fn around<'r: 'a>(object: &Object<'_>, units: &'r Units<'a>, kept: &'r Kept<'a>) -> Option<Self> {
        let mut set = Self::default();
        let mut members: Vec<&Object<'a>> = units.neighbours(object).to_vec();
        for unit in units.with(object) {
            if !unit.complete {
                return None;
            }
            members.extend(unit.members.iter().copied());
            set.generated.extend(unit.generated.iter().map(String::as_str));
        }
        for member in members {
            set.kept.extend(kept.of_object(member).iter().map(String::as_str));
            let targets = [Target::Secret, Target::ConfigMap, Target::ControlPlane].into_iter();
            targets.filter(|target| target.is(member)).for_each(|target| set.of_mut(target).add(member));
        }
        Some(set)
    }

    fn of_mut(&mut self, target: Target) -> &mut Named<'a> {
        match target {
            Target::Secret => &mut self.secrets,
            Target::ConfigMap => &mut self.config_maps,
            Target::ControlPlane => &mut self.control_planes,
        }
    }

    fn of(&self, target: Target) -> &Named<'a> {
        match target {
            Target::Secret => &self.secrets,
            Target::ConfigMap => &self.config_maps,
            Target::ControlPlane => &self.control_planes,
        }
    }

    /// A finding where a reference leads nowhere.
    fn misses(&self, target: Target, name: &str, from: &Object<'_>) -> Option<Draft> {
        let candidates = self.of(target);
        let there = || {
            candidates.has(name, from)
                || (target != Target::ControlPlane && self.generated.contains(name))
                || (target == Target::Secret && self.kept.contains(name))
        };
        if !is_near(&candidates.namespaces, from) || there() {
            return None;
        }
        let message = format!("no {} {} comes with this object", target.name(), shown(name));
        let draft = Draft::new(&codes::MISSING_REFERENCE, message);
        Some(match candidates.hashed(name, from) {
            Some(hashed) => draft.with_help(format!(
                "kustomize made it {hashed}: let it rewrite the reference by a nameReference, or set disableNameSuffixHash"
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
