//! Decides which variables `${X}` of an object Flux will replace, as far as the given Kustomizations show.
//! Never replaces one, and never guesses what is in a ConfigMap or Secret that values come from.

use super::super::node::Node;
use super::super::objects::{Object, Role};
use super::delivery;
use super::units::Units;
use std::collections::BTreeMap;

/// Turns replacement off, as a label or an annotation of the object.
const SWITCH: &str = "kustomize.toolkit.fluxcd.io/substitute";

/// Kustomizations of one place that are heard; nobody applies a place more often, and a list of thousands could only
/// make us work.
const APPLIERS: usize = 8;

/// Kustomizations that replace variables, by the object they replace them in.
#[derive(Default)]
pub(in crate::lint) struct Substitutions<'a> {
    /// By where the object is in memory.
    by_object: BTreeMap<usize, Vec<&'a Object<'a>>>,
}

impl<'a> Substitutions<'a> {
    /// Finds them.
    pub(in crate::lint) fn of(objects: &'a [Object<'a>], units: &Units<'a>) -> Self {
        let mut by_object: BTreeMap<_, Vec<_>> = BTreeMap::new();
        let replaces = |object: &&Object<'_>| {
            object.role == Role::Flux
                && object.node.at(&["spec", "postBuild"]).is_some_and(Node::is_collection)
        };
        let mut by_place: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for flux in objects.iter().filter(replaces) {
            for (_, path) in delivery::places(flux) {
                by_place.entry(units.place(flux, path)).or_default().push(flux);
            }
        }
        // Each place is looked at once, however many point to it.
        for (place, mut appliers) in by_place {
            appliers.truncate(APPLIERS);
            let members = place.map(|place| units.at(&place).members).unwrap_or_default();
            for member in members.into_iter().filter(|member| !is_switched_off(member)) {
                by_object.entry(std::ptr::from_ref(member.node).addr()).or_default().extend(&appliers);
            }
        }
        Self { by_object }
    }

    /// What is left of a text's variables: nothing is said where nobody replaces any in this object, else each one
    /// that a Kustomization does not know, with the name of that Kustomization.
    pub(in crate::lint) fn unknown<'t>(
        &self,
        object: &Object<'_>,
        text: &'t str,
    ) -> Option<Vec<(&'t str, &'a str)>> {
        let all = self.by_object.get(&std::ptr::from_ref(object.node).addr())?;
        let unknown = |flux: &&'a Object<'a>| {
            let flux = *flux;
            let left = variables(text).filter(|name| !sets(flux, name));
            left.map(|name| (name, flux.name)).collect::<Vec<_>>()
        };
        Some(all.iter().flat_map(unknown).collect())
    }
}

fn is_switched_off(object: &Object<'_>) -> bool {
    ["labels", "annotations"]
        .iter()
        .any(|key| object.node.text_at(&["metadata", key, SWITCH]) == Some("disabled"))
}

/// Whether a Kustomization gives a variable a value, or may: what `substituteFrom` names is in the cluster.
fn sets(flux: &Object<'_>, name: &str) -> bool {
    let from = flux.node.at(&["spec", "postBuild", "substituteFrom"]).map_or(&[][..], Node::items);
    !from.is_empty() || flux.node.at(&["spec", "postBuild", "substitute", name]).is_some()
}

/// Variables of a text that come without a value of their own: of `${A} ${B:=x} $${C}` only A.
fn variables(text: &str) -> impl Iterator<Item = &str> {
    // Looked for once: a text of many openings and no end must not be read again for each of them.
    let last = text.rfind('}').unwrap_or_default();
    let starts = text.match_indices("${").map(|(at, _)| at);
    starts.filter(move |at| *at < last && !text[..*at].ends_with('$')).filter_map(|at| {
        let inner = &text[at + 2..];
        let end = inner.find(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
        let (name, rest) = inner.split_at(end.unwrap_or(inner.len()));
        let own = [":=", ":-", "=", "-"].iter().any(|mark| rest.starts_with(mark));
        (!own).then_some(name)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_without_a_value_of_their_own() {
        let found: Vec<_> = variables("${A} x ${B:=y} $${C} ${D/x/y} ${E:-} ${F").collect();
        assert_eq!(found, ["A", "D"]);
    }
}
