//! What the steps ask of what was seen: which key a plaintext proves, what a place holds, how a key would be recorded. Nothing is
//! decided here.

use super::super::record::{Key, Record, SecretPlace};
use super::super::seen::{KeyFacts, Material, Seen, is_same};
use super::Left;

impl Seen<'_> {
    /// A key that coderd knows, as it is recorded.
    pub(super) fn found(&self, facts: &KeyFacts) -> Key {
        let number = self.desired.number_of(&facts.name).unwrap_or(self.record.number.max(1));
        Key { id: Some(facts.id), ..self.key(&facts.name, number) }
    }

    /// What is recorded, with every place of ours that was found without a record, and without those that hold nothing.
    pub(super) fn known(&self) -> Record {
        let holds = |material: &Material| !matches!(material, Material::Absent | Material::Foreign);
        let found = self.materials.iter().filter(|(_, material)| holds(material)).map(|(place, _)| place);
        let record = Record { places: Vec::new(), ..self.record.clone() };
        found.fold(record, |record, place| record.holding(place))
    }

    /// A key as it would be made now.
    pub(super) fn key(&self, name: &str, number: u64) -> Key {
        Key {
            home: self.desired.home.clone(),
            name: name.to_owned(),
            id: None,
            number,
            tags_hash: self.desired.tags_hash.clone(),
            since: self.now,
            attempted: false,
            used: false,
        }
    }

    /// Whether a key that nobody recorded is ours because its plaintext is in our Secret: one of our names only.
    pub(super) fn is_ours(&self, facts: &KeyFacts) -> bool {
        let named = self.desired.number_of(&facts.name).is_some();
        let former = self.desired.former_name.as_ref().is_some_and(|name| is_same(name, &facts.name));
        let is_free = !self.claimed && !self.of_others.contains(&facts.id);
        facts.organization == self.desired.home.organization && (named || former) && is_free
    }

    /// A place with the plaintext of such a key: the one that is asked for, if it has it.
    pub(super) fn proven(&self, is_it: impl Fn(&KeyFacts) -> bool) -> Option<(&SecretPlace, &KeyFacts)> {
        let mut proven = self.materials.iter().filter_map(|(place, material)| match material {
            Material::Is(facts) if is_it(facts) => Some((place, facts)),
            _ => None,
        });
        let first = proven.next()?;
        let asked_for = proven.find(|(place, _)| **place == self.desired.place);
        Some(if *first.0 == self.desired.place { first } else { asked_for.unwrap_or(first) })
    }

    /// Whether a place is marked to hold the plaintext of a key in another coderd.
    pub(super) fn keeps_elsewhere(&self, key: &Key) -> bool {
        self.materials.iter().any(|(_, material)| {
            matches!(material, Material::Elsewhere(home, name) if *home == key.home && is_same(name, &key.name))
        })
    }

    /// The key that the older operator left in the coderd of another control plane, of which nothing but its name is known.
    pub(super) fn left_by_former_operator(&self) -> Option<Left> {
        self.materials.iter().find_map(|(_, material)| match material {
            Material::Elsewhere(home, name) if home.control_plane.is_empty() => {
                Some(Left::Unproven(name.clone()))
            }
            _ => None,
        })
    }

    /// Whether something is kept of which it is not known whose plaintext it is.
    pub(super) fn is_unproven(&self) -> bool {
        self.materials.iter().any(|(_, material)| *material == Material::Unproven)
    }

    pub(crate) fn at(&self, place: &SecretPlace) -> &Material {
        let found = self.materials.iter().find(|(one, _)| one == place);
        found.map_or(&Material::Absent, |(_, material)| material)
    }
}
