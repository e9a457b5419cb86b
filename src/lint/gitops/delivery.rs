//! Decides what is wrong with the Flux Kustomizations and Argo CD Applications that bring our objects to the cluster.
//! Never judges one that brings nothing of ours, as far as the given files show.

use super::super::codes;
use super::super::findings::{Collected, Draft, Spot};
use super::super::node::{Content, Node};
use super::super::objects::{Object, Role};
use super::is_operator;
use super::units::{Unit, Units};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::rc::Rc;

/// What one tool object applies.
pub(super) struct Delivery<'a> {
    object: &'a Object<'a>,
    /// Path of the field that says where.
    field: String,
    /// What is there; shared by all that point there.
    there: Rc<There<'a>>,
}

/// What is applied from one place.
pub(super) struct There<'a> {
    pub(super) unit: Unit<'a>,
    objects: bool,
    operator: bool,
}

impl<'a> Delivery<'a> {
    /// Every delivery whose place was given.
    pub(super) fn all(objects: &'a [Object<'a>], units: &Units<'a>) -> Vec<Self> {
        let mut deliveries = Vec::new();
        let mut known: BTreeMap<PathBuf, Rc<There<'a>>> = BTreeMap::new();
        for object in objects.iter().filter(|object| matches!(object.role, Role::Flux | Role::Argo)) {
            for (field, path) in places(object) {
                let Some(place) = units.place(object, path) else { continue };
                let there = known.entry(place).or_insert_with_key(|place| {
                    let unit = units.at(place);
                    let (objects, operator) = (brings_objects(&unit), brings_operator(&unit));
                    Rc::new(There { unit, objects, operator })
                });
                deliveries.push(Self { object, field, there: there.clone() });
            }
        }
        deliveries
    }

    /// What is applied, each place once.
    pub(super) fn places<'r>(deliveries: &'r [Self]) -> impl Iterator<Item = &'r There<'a>> {
        let mut seen = BTreeSet::new();
        let all = deliveries.iter().map(|delivery| &delivery.there);
        all.filter(move |there| seen.insert(Rc::as_ptr(there))).map(|there| &**there)
    }
}

/// Fields that say where the manifests are, and what they say.
pub(super) fn places<'a>(object: &Object<'a>) -> Vec<(String, &'a str)> {
    let text = |path: &str| {
        let found = object.node.follow(path);
        found.node.text().filter(|_| found.whole).map(|text| (path.to_owned(), text))
    };
    match object.role {
        Role::Flux => vec![text("spec.path").unwrap_or(("spec".to_owned(), "./"))],
        _ => {
            let several = object.node.at(&["spec", "sources"]).map_or(0, |sources| sources.items().len());
            let several = (0..several).filter_map(|index| text(&format!("spec.sources[{index}].path")));
            text("spec.source.path").into_iter().chain(several).collect()
        }
    }
}

fn brings_objects(unit: &Unit<'_>) -> bool {
    unit.members.iter().any(|member| member.our_kind().is_some())
}

fn brings_operator(unit: &Unit<'_>) -> bool {
    unit.remote_operator || unit.members.iter().any(|member| is_operator(member))
}

/// Judges deliveries and units.
pub(super) fn judge<'a>(
    objects: &'a [Object<'a>],
    units: &Units<'a>,
    deliveries: &[Delivery<'a>],
    collected: &mut Collected<'a>,
) {
    for unit in &units.all {
        together(unit, objects, collected);
    }
    let flux = deliveries.iter().filter(|other| other.object.role == Role::Flux && other.there.operator);
    let operators: Vec<&str> = flux.map(|other| other.object.name).collect();
    let operators = Operators { first: operators.first().copied(), all: operators.into_iter().collect() };
    for delivery in deliveries {
        let (ours, operator) = (delivery.there.objects, delivery.there.operator);
        if ours && operator && delivery.there.unit.gathered_by.is_none() {
            let message = "this path holds the operator and objects of it";
            let draft = Draft::new(&codes::ONE_UNIT, message);
            collected.field(delivery.object, delivery.field.clone(), Spot::Value, draft);
        }
        if ours || operator {
            replaced(delivery.object, collected);
        }
        if ours {
            forced(delivery.object, collected);
        }
        if ours && !operator && delivery.object.role == Role::Flux {
            ordered(delivery.object, &operators, collected);
        }
    }
}

/// A unit that holds the operator and objects of it.
fn together<'a>(unit: &Unit<'a>, objects: &'a [Object<'a>], collected: &mut Collected<'a>) {
    if !brings_objects(unit) || !brings_operator(unit) {
        return;
    }
    let (object, field, message) = match unit.gathered_by {
        Some(kustomization) => {
            (Some(kustomization), "resources", "this kustomization gathers the operator and objects of it")
        }
        None => {
            let first = unit.members.iter().find(|member| member.our_kind().is_some());
            let first =
                first.and_then(|first| objects.iter().find(|object| std::ptr::eq(object.node, first.node)));
            (first, "kind", "this was rendered together with the operator")
        }
    };
    if let Some(object) = object {
        collected.field(object, field, Spot::Value, Draft::new(&codes::ONE_UNIT, message));
    }
}

fn forced<'a>(object: &'a Object<'a>, collected: &mut Collected<'a>) {
    let force = object.node.at(&["spec", "force"]).map(|node| &node.content);
    if object.role == Role::Flux && force == Some(&Content::Bool(true)) {
        let draft = Draft::new(&codes::FORCE, "a refused change would delete the object");
        collected.field(object, "spec.force", Spot::Value, draft);
    }
}

/// Whether an option of Argo CD replaces objects.
pub(super) fn replaces(option: &str) -> bool {
    matches!(option, "Replace=true" | "Force=true")
}

fn replaced<'a>(object: &'a Object<'a>, collected: &mut Collected<'a>) {
    let options = object.node.at(&["spec", "syncPolicy", "syncOptions"]).map_or(&[][..], Node::items);
    for (index, option) in options.iter().enumerate() {
        if let Some(option) = option.text().filter(|option| replaces(option)) {
            let draft = Draft::new(&codes::REPLACE, format!("{option} applies to our objects too"));
            collected.field(object, format!("spec.syncPolicy.syncOptions[{index}]"), Spot::Value, draft);
        }
    }
}

/// The names of what brings the operator.
struct Operators<'a> {
    first: Option<&'a str>,
    all: BTreeSet<&'a str>,
}

/// Flux applies objects after the operator, wherever that is known to come from.
fn ordered<'a>(object: &'a Object<'a>, operators: &Operators<'_>, collected: &mut Collected<'a>) {
    let entries = object.node.at(&["spec", "dependsOn"]).map_or(&[][..], Node::items);
    let mut named = entries.iter().filter_map(|entry| entry.text_at(&["name"]));
    let satisfied = named.any(|name| operators.first.is_none() || operators.all.contains(name));
    if !satisfied {
        let draft = Draft::new(&codes::DEPENDS_ON, "it does not wait for the operator");
        let draft = match operators.first {
            Some(operator) => draft.with_help(format!("add dependsOn with the name {operator}")),
            None => draft,
        };
        collected.field(object, "spec.dependsOn", Spot::Key, draft);
    }
}
