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

/// Made by the operator for its certificates, and for its checksums.
const OWN_SECRETS: [&str; 2] = ["coder-k8s-ca", crds::well_known::CHECKSUM_KEY_SECRET];

/// Names of the Secrets that the operator keeps for each object; nothing where no Secret is given to compare with.
#[derive(Default)]
pub(super) struct Kept<'a> {
    by_object: BTreeMap<*const Node, Vec<String>>,
    by_name: BTreeMap<String, Vec<&'a Object<'a>>>,
}

impl<'a> Kept<'a> {
    pub(super) fn of(objects: &'a [Object<'a>]) -> Self {
        if !objects.iter().any(|object| object.role == Role::Secret) {
            return Self::default();
        }
        let mut kept = Self::default();
        for (object, kind) in objects.iter().filter_map(|object| Some((object, object.our_kind()?))) {
            let names = derived(kind, object).unwrap_or_default().into_iter();
            for name in names.filter(|name| name.kind == DerivedKind::Secret).map(|name| name.name) {
                kept.by_name.entry(name.clone()).or_default().push(object);
                kept.by_object.entry(std::ptr::from_ref(object.node)).or_default().push(name);
            }
        }
        kept
    }

    /// The Secrets the operator keeps for an object.
    pub(super) fn of_object(&self, object: &Object<'_>) -> &[String] {
        self.by_object.get(&std::ptr::from_ref(object.node)).map_or(&[], Vec::as_slice)
    }

    /// The objects it keeps a Secret of this name for.
    fn makers(&self, name: &str) -> &[&'a Object<'a>] {
        self.by_name.get(name).map_or(&[], Vec::as_slice)
    }
}

/// Judges every empty Secret against the objects it stands beside.
pub(super) fn judge<'a>(
    objects: &'a [Object<'a>],
    units: &Units<'a>,
    kept: &Kept<'a>,
    collected: &mut Collected<'a>,
) {
    let empty = objects.iter().filter(|object| object.role == Role::Secret && is_empty(object));
    for secret in empty {
        let mut makers = kept.makers(secret.name).iter();
        let maker = makers.find(|object| object.is_near(secret) && units.are_beside(secret, object));
        let maker = maker.map(|object| object.title());
        let maker = maker.or_else(|| OWN_SECRETS.contains(&secret.name).then(|| "the operator".to_owned()));
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
