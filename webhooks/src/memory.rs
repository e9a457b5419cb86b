//! Decides what the objects of a review would cost in memory, in one pass over their text that builds nothing.
//! Never reads what admission does not need: the status and the managed fields are passed over, here and in [`build`].

use serde::de::{self, DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use std::fmt;

/// Levels of maps and lists. The deepest field of our kinds is about 15 levels down, and the API server has pruned what
/// the schema does not know; recursion is bounded with it.
const DEPTH: usize = 64;
/// What a map costs: one node of a B-tree has room for eleven keys of 24 and eleven values of 32 bytes, and is allocated
/// whole for one of them.
const MAP: usize = 640;
/// What any value costs beside it: its place in a list that doubles or in a node that is half empty, the allocation of
/// its key, and that of its text or first items.
const VALUE: usize = 150;

/// What part of an object a value is.
#[derive(Clone, Copy)]
enum Place {
    /// The object.
    Object,
    /// Its metadata.
    Metadata,
    /// Anything below.
    Inside,
}

impl Place {
    /// The place of what a key of this one holds; none where nobody looks.
    fn below(self, key: &str) -> Option<Self> {
        match (self, key) {
            (Self::Object, "status") | (Self::Metadata, "managedFields") => None,
            (Self::Object, "metadata") => Some(Self::Metadata),
            _ => Some(Self::Inside),
        }
    }
}

/// Why something is not measured to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Excess {
    /// It is nested too deeply.
    Depth,
    /// It costs more than it may.
    Memory,
}

/// Counts memory up to a limit.
pub(crate) struct Meter {
    limit: usize,
    memory: usize,
    has_null: bool,
    excess: Option<Excess>,
}

impl Meter {
    /// A meter that refuses what costs more bytes than this.
    pub(crate) fn up_to(limit: usize) -> Self {
        Self { limit, memory: 0, has_null: false, excess: None }
    }

    /// What was measured so far would take this many bytes.
    pub(crate) fn memory(&self) -> usize {
        self.memory
    }

    /// Why measuring ended early, if it did.
    pub(crate) fn excess(&self) -> Option<Excess> {
        self.excess
    }

    /// Adds a number of bytes.
    pub(crate) fn add<E: de::Error>(&mut self, bytes: usize) -> Result<(), E> {
        self.memory = self.memory.saturating_add(bytes);
        if self.memory <= self.limit { Ok(()) } else { Err(self.exceeded(Excess::Memory)) }
    }

    /// Adds an object.
    pub(crate) fn add_object(&mut self, object: &RawValue) -> serde_json::Result<()> {
        self.add_values(object, Place::Object)
    }

    /// Adds what is not an object of the API.
    pub(crate) fn add_value(&mut self, value: &RawValue) -> serde_json::Result<()> {
        self.add_values(value, Place::Inside)
    }

    fn add_values(&mut self, raw: &RawValue, place: Place) -> serde_json::Result<()> {
        let before = self.memory;
        self.has_null = false;
        // No text is longer than what it is written as.
        self.add::<serde_json::Error>(raw.get().len())?;
        let mut deserializer = serde_json::Deserializer::from_str(raw.get());
        Measure { meter: self, place, depth: 0 }.deserialize(&mut deserializer)?;
        // An object with nulls is copied to leave them out.
        if self.has_null { self.add(self.memory - before) } else { Ok(()) }
    }

    fn exceeded<E: de::Error>(&mut self, excess: Excess) -> E {
        self.excess = Some(excess);
        E::custom("too large")
    }
}

/// Reads one value and keeps nothing of it but what it costs.
struct Measure<'s> {
    meter: &'s mut Meter,
    place: Place,
    depth: usize,
}

impl<'de> DeserializeSeed<'de> for Measure<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Measure<'_> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("any JSON value")
    }

    fn visit_bool<E: de::Error>(self, _: bool) -> Result<(), E> {
        self.meter.add(VALUE)
    }

    fn visit_i64<E: de::Error>(self, _: i64) -> Result<(), E> {
        self.meter.add(VALUE)
    }

    fn visit_u64<E: de::Error>(self, _: u64) -> Result<(), E> {
        self.meter.add(VALUE)
    }

    fn visit_f64<E: de::Error>(self, _: f64) -> Result<(), E> {
        self.meter.add(VALUE)
    }

    fn visit_str<E: de::Error>(self, _: &str) -> Result<(), E> {
        self.meter.add(VALUE)
    }

    fn visit_unit<E: de::Error>(self) -> Result<(), E> {
        self.meter.has_null = true;
        self.meter.add(VALUE)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        let Self { meter, depth, .. } = self.entered(VALUE)?;
        while items.next_element_seed(Measure { meter, place: Place::Inside, depth })?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<(), A::Error> {
        let Self { meter, place, depth } = self.entered(MAP + VALUE)?;
        while let Some(below) = entries.next_key_seed(Key(place))? {
            match below {
                Some(place) => entries.next_value_seed(Measure { meter, place, depth })?,
                None => drop(entries.next_value::<IgnoredAny>()?),
            }
        }
        Ok(())
    }
}

impl Measure<'_> {
    fn entered<E: de::Error>(self, bytes: usize) -> Result<Self, E> {
        if self.depth == DEPTH {
            return Err(self.meter.exceeded(Excess::Depth));
        }
        self.meter.add(bytes)?;
        Ok(Self { depth: self.depth + 1, ..self })
    }
}

/// Reads a key and keeps the place it leads to.
struct Key(Place);

impl<'de> DeserializeSeed<'de> for Key {
    type Value = Option<Place>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for Key {
    type Value = Option<Place>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a key")
    }

    fn visit_str<E>(self, key: &str) -> Result<Self::Value, E> {
        Ok(self.0.below(key))
    }
}

/// An object that was measured, without what admission does not look at.
pub(crate) fn build(object: &RawValue) -> serde_json::Result<Value> {
    Build(Place::Object).deserialize(&mut serde_json::Deserializer::from_str(object.get()))
}

struct Build(Place);

impl<'de> DeserializeSeed<'de> for Build {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        match self.0 {
            Place::Inside => de::Deserialize::deserialize(deserializer),
            Place::Object | Place::Metadata => deserializer.deserialize_any(self),
        }
    }
}

impl<'de> Visitor<'de> for Build {
    type Value = Value;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("any JSON value")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element()? {
            list.push(item);
        }
        Ok(Value::Array(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut map = Map::new();
        while let Some(key) = entries.next_key::<String>()? {
            match self.0.below(&key) {
                Some(place) => drop(map.insert(key, entries.next_value_seed(Self(place))?)),
                None => drop(entries.next_value::<IgnoredAny>()?),
            }
        }
        Ok(Value::Object(map))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const LIMIT: usize = 1024 * 1024;

    fn measured(text: &str) -> Result<usize, Option<Excess>> {
        let raw = RawValue::from_string(text.to_owned()).unwrap();
        let mut meter = Meter::up_to(LIMIT);
        match meter.add_object(&raw) {
            Ok(()) => Ok(meter.memory()),
            Err(_) => Err(meter.excess()),
        }
    }

    fn nested(levels: usize) -> String {
        format!("{}1{}", r#"{"a":"#.repeat(levels), "}".repeat(levels))
    }

    #[test]
    fn depth_is_bounded_exactly() {
        assert!(measured(&nested(DEPTH)).is_ok());
        assert_eq!(measured(&nested(DEPTH + 1)), Err(Some(Excess::Depth)));
        let lists = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
        assert_eq!(measured(&lists), Err(Some(Excess::Depth)));
    }

    #[test]
    fn many_tiny_maps_count_as_what_they_cost_not_what_they_are_written_as() {
        let few = format!("[{}0]", r#"{"a":0},"#.repeat(1000));
        assert!(measured(&few).unwrap() > 1000 * MAP);
        let many = format!("[{}0]", r#"{"a":0},"#.repeat(2000));
        assert_eq!(measured(&many), Err(Some(Excess::Memory)));
    }

    #[test]
    fn what_nobody_looks_at_counts_nothing_but_its_text_and_is_not_built() {
        let fields = format!("[{}0]", r#"{"f:a":{}},"#.repeat(50_000));
        let object = format!(
            r#"{{"metadata":{{"name":"a","managedFields":{fields}}},"spec":{{"status":1}},"status":{fields}}}"#
        );
        let mut meter = Meter::up_to(2 * LIMIT);
        let raw = RawValue::from_string(object).unwrap();
        meter.add_object(&raw).unwrap();
        assert!(meter.memory() < raw.get().len() + 10 * (MAP + VALUE), "{}", meter.memory());
        assert_eq!(build(&raw).unwrap(), json!({ "metadata": { "name": "a" }, "spec": { "status": 1 } }));
    }

    #[test]
    fn whatever_is_built_is_what_was_written() {
        let texts = [
            r#"{"a":[1,-2,3.5,"x\u00e9",null,true,{}],"metadata":{"labels":{"b":"c"}},"spec":null}"#,
            r#"{"metadata":[{"managedFields":1}],"a":{"status":1,"metadata":{"managedFields":2}}}"#,
            r#"{"spec":{"a":1},"spec":{"b":2}}"#,
            "[1,2]",
            "\"text\"",
            "18446744073709551615",
            "-1",
            "1e300",
            "false",
            "null",
        ];
        for text in texts {
            let raw = RawValue::from_string(text.to_owned()).unwrap();
            assert_eq!(build(&raw).unwrap(), serde_json::from_str::<Value>(text).unwrap(), "{text}");
        }
    }

    #[test]
    fn an_object_with_nulls_counts_twice() {
        let (without, with) = (measured(r#"{"a":true}"#).unwrap(), measured(r#"{"a":null}"#).unwrap());
        assert_eq!(with, 2 * without);
    }
}
