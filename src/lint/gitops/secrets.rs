//! Decides which Secrets the operator keeps, and whether Git holds an empty one in their place.
//! Never shows what is in a Secret.

use super::super::codes;
use super::super::findings::{Collected, Draft, Spot};
use super::super::node::{Content, Node};
use super::super::objects::{Object, Role};
use super::collisions::derived;
use super::units::Units;
use crds::names::DerivedKind;
use std::collections::BTreeMap;

/// Made by the operator for its certificates.
const CA_SECRET: &str = "coder-k8s-ca";

/// Names of the Secrets that the operator keeps for each object; nothing where no Secret is given to compare with.
#[derive(Default)]
pub(super) struct Kept(BTreeMap<*const Node, Vec<String>>);

impl Kept {
    pub(super) fn of(objects: &[Object<'_>]) -> Self {
        if !objects.iter().any(|object| object.role == Role::Secret) {
            return Self::default();
        }
        let ours = objects.iter().filter_map(|object| Some((object, object.our_kind()?)));
        let kept = ours.map(|(object, kind)| {
            let names = derived(kind, object).unwrap_or_default().into_iter();
            let secrets = names.filter(|name| name.kind == DerivedKind::Secret).map(|name| name.name);
            (std::ptr::from_ref(object.node), secrets.collect())
        });
        Self(kept.collect())
    }

    /// Whether the operator keeps a Secret of this name for an object.
    pub(super) fn has(&self, object: &Object<'_>, name: &str) -> bool {
        let names = self.0.get(&std::ptr::from_ref(object.node)).into_iter().flatten();
        names.into_iter().any(|kept| kept == name)
    }
}

/// Judges every empty Secret against the objects it stands beside.
pub(super) fn judge<'a>(
    objects: &'a [Object<'a>],
    units: &Units<'a>,
    kept: &Kept,
    collected: &mut Collected<'a>,
) {
    let empty = objects.iter().filter(|object| object.role == Role::Secret && is_empty(object));
    for secret in empty {
        let neighbours = units.neighbours(secret).iter();
        let mut beside = units.with(secret).flat_map(|unit| unit.members.iter()).chain(neighbours);
        let maker = beside
            .find(|object| object.is_near(secret) && kept.has(object, secret.name))
            .map(|object| object.title());
        let maker = maker.or_else(|| (secret.name == CA_SECRET).then(|| "the operator".to_owned()));
        if let Some(maker) = maker {
            let message = format!("this empty Secret would erase what {maker} keeps in it");
            collected.field(secret, "metadata.name", Spot::Value, Draft::new(&codes::EMPTY_SECRET, message));
        }
    }
}

fn is_empty(secret: &Object<'_>) -> bool {
    let blank = |node: &Node| match &node.content {
        Content::Null => true,
        Content::Text(text) => text.trim().is_empty(),
        _ => false,
    };
    secret.kind == "Secret"
        && ["data", "stringData"].iter().all(|key| {
            secret.node.get(key).is_none_or(|data| data.entries().iter().all(|entry| blank(&entry.value)))
        })
}
