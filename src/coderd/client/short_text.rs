//! Texts and tags of an answer, no longer than coderd's own are: whoever answers chooses them, and everybody keeps them.
//! What is longer makes the answer no answer; what something is found by is never cut, since a name that was cut is another
//! one's. Only what coderd itself has no bounds for is cut, so that it differs from whatever we would have it be.

use super::jobs::Tags;
use crate::foreign::{cleaned, is_unseen};
use serde::Deserialize;
use serde::de::{self, DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use std::collections::BTreeSet;
use std::fmt;

/// Bytes of the name of a key: 64 characters, as coderd's database keeps it.
pub(super) const KEY_NAME: usize = 256;
/// Bytes of the name of an organisation, of which coderd accepts 32.
pub(super) const ORGANIZATION_NAME: usize = 64;
/// Bytes of a text that somebody may have set to anything: more than ours have.
const LONGEST_KEPT: usize = 8 << 10;
/// Characters of what something says of itself.
const LONGEST_SAID: usize = 300;
/// Tags of one key or job.
const MOST_TAGS: usize = 256;
/// Bytes of them.
const LONGEST_TAGS: usize = 8 << 10;

/// Names of one list.
pub(super) const MOST_NAMES: usize = 4096;

/// A text of so many bytes at most.
struct Short(usize);

impl<'de> DeserializeSeed<'de> for Short {
    type Value = String;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<String, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for Short {
    type Value = String;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "a text of {} bytes at most", self.0)
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<String, E> {
        if text.len() > self.0 { Err(E::invalid_length(text.len(), &self)) } else { Ok(text.to_owned()) }
    }
}

/// A name, whoever shows it.
pub(super) fn name<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    Short(KEY_NAME).deserialize(deserializer)
}

/// A name that is shown to people: nothing in it is unseen or commands a terminal.
pub(super) fn seen_name<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    let name = name(deserializer)?;
    if name.chars().any(is_unseen) { Err(de::Error::custom("not printable")) } else { Ok(name) }
}

/// The name of an organisation.
pub(super) fn organization_name<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    let name = Short(ORGANIZATION_NAME).deserialize(deserializer)?;
    let is_plain = name.bytes().all(|byte| byte.is_ascii_graphic());
    if is_plain { Ok(name) } else { Err(de::Error::custom("not printable")) }
}

/// A text that we compare with our own, as it is; of one that is longer than any of ours only the beginning.
pub(super) fn kept<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    let mut text = String::deserialize(deserializer)?;
    if text.len() > LONGEST_KEPT {
        text.truncate(text.floor_char_boundary(LONGEST_KEPT));
        text.push('…');
        text.shrink_to_fit();
    }
    Ok(text)
}

/// What something says of itself, for people alone: cleaned and cut, none if there is nothing.
pub(super) fn said<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    let text = String::deserialize(deserializer)?;
    Ok(Some(cleaned(&text, LONGEST_SAID)).filter(|text| !text.is_empty()))
}

/// Tags; Go writes a map that was never made as null.
pub(super) fn tags<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Tags, D::Error> {
    Option::<Bounded>::deserialize(deserializer).map(|tags| tags.map(|tags| tags.0).unwrap_or_default())
}

struct Bounded(Tags);

impl<'de> Deserialize<'de> for Bounded {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(OfTags).map(Self)
    }
}

struct OfTags;

impl<'de> Visitor<'de> for OfTags {
    type Value = Tags;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{MOST_TAGS} tags of {LONGEST_TAGS} bytes together at most")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Tags, A::Error> {
        let (mut tags, mut left) = (Tags::new(), LONGEST_TAGS);
        while let Some(name) = map.next_key_seed(Short(left))? {
            left -= name.len();
            let value = map.next_value_seed(Short(left))?;
            left -= value.len();
            if tags.len() >= MOST_TAGS {
                return Err(de::Error::invalid_length(tags.len() + 1, &self));
            }
            tags.insert(name, value);
        }
        Ok(tags)
    }
}

/// The names of things in a list, and nothing else of them; Go writes a list that was never made as null.
#[derive(Debug, Default)]
pub(super) struct Names(pub(super) BTreeSet<String>);

impl<'de> Deserialize<'de> for Names {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(OfNames).map(Self)
    }
}

struct OfNames;

impl<'de> Visitor<'de> for OfNames {
    type Value = BTreeSet<String>;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "a list of {MOST_NAMES} named things at most")
    }

    fn visit_unit<E: de::Error>(self) -> Result<Self::Value, E> {
        Ok(BTreeSet::new())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
        #[derive(Deserialize)]
        struct Named {
            #[serde(deserialize_with = "name")]
            name: String,
        }
        let mut names = BTreeSet::new();
        while let Some(Named { name }) = list.next_element()? {
            names.insert(name);
            if names.len() > MOST_NAMES {
                return Err(de::Error::invalid_length(names.len(), &self));
            }
        }
        Ok(names)
    }
}
