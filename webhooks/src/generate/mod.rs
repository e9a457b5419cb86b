//! Decides what tests are fed: sensible objects, objects with something wrong, and JSON that is no object at all.
//! Never surprises twice: the same seed gives the same objects.

mod pools;

use serde_json::{Map, Value, json};

use crate::kind::Kind;
use crate::schema;

/// A source of objects.
#[derive(Clone, Debug)]
pub struct Generator {
    state: u64,
}

impl Generator {
    /// A source that always gives the same objects for the same seed.
    pub fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// The next number (splitmix64: good enough to vary, and nothing to depend on).
    fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, bound: usize) -> usize {
        let bound = u64::try_from(bound.max(1)).unwrap_or(1);
        usize::try_from(self.next() % bound).unwrap_or_default()
    }

    /// True once in so many times.
    fn once_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }

    fn pick<T: Copy>(&mut self, choices: &[T]) -> Option<T> {
        let index = self.below(choices.len());
        choices.get(index).copied()
    }

    /// A kind.
    pub fn kind(&mut self) -> Kind {
        self.pick(&Kind::ALL).unwrap_or(Kind::ControlPlane)
    }

    /// An object of a kind: every field of its schema may be there, most values are good and some are not.
    pub fn object(&mut self, kind: Kind) -> Value {
        let mut object = Map::new();
        object.insert("apiVersion".into(), json!("coder.com/v1alpha1"));
        object.insert("kind".into(), json!(kind.name()));
        object.insert("metadata".into(), self.metadata());
        if !self.once_in(10) {
            let spec = schema::shipped(kind).pointer("/properties/spec").unwrap_or(&Value::Null);
            let mut spec = self.value(spec, "spec", 3);
            if kind == Kind::WorkspaceProxy && !self.once_in(4) {
                self.give_one_way_to_a_token(&mut spec);
            }
            object.insert("spec".into(), spec);
        }
        Value::Object(object)
    }

    /// Chance alone would rarely give a proxy one way to its token and no other.
    fn give_one_way_to_a_token(&mut self, spec: &mut Value) {
        let Some(spec) = spec.as_object_mut() else { return };
        let (address, secret) = (json!("https://coder.example.com"), json!({"name": "session"}));
        let (gone, there): (&[&str], _) = match self.below(3) {
            0 => {
                let there = vec![("controlPlaneRef", json!({"name": "coder"}))];
                (&["bootstrap", "proxySessionTokenSecretRef"], there)
            }
            1 => {
                let bootstrap = json!({"coderURL": address, "credentialsSecretRef": secret});
                (&["controlPlaneRef", "registration"], vec![("bootstrap", bootstrap)])
            }
            _ => {
                let there = vec![("primaryAccessURL", address), ("proxySessionTokenSecretRef", secret)];
                (&["controlPlaneRef", "registration", "bootstrap"], there)
            }
        };
        gone.iter().for_each(|name| drop(spec.remove(*name)));
        for (name, value) in there {
            spec.entry(name).or_insert(value);
        }
    }

    fn metadata(&mut self) -> Value {
        let field = if self.once_in(8) { "generateName" } else { "name" };
        let name = self.pick(pools::NAMES).unwrap_or_default().to_owned();
        let name = if self.once_in(12) { "n".repeat(self.below(70)) } else { name };
        json!({ field: name, "namespace": "coder" })
    }

    /// A value for a schema; `likely` is how seldom a field is there.
    fn value(&mut self, schema: &Value, name: &str, likely: usize) -> Value {
        if self.once_in(60) {
            return self.odd();
        }
        if let Some(choices) = schema.get("enum").and_then(Value::as_array) {
            let index = self.below(choices.len());
            return choices.get(index).cloned().unwrap_or_default();
        }
        match schema.get("type").and_then(Value::as_str) {
            Some("object") => self.map(schema, likely),
            Some("array") => {
                let items = schema.get("items").unwrap_or(&Value::Null);
                // A type with many fields gets a few of them: a volume has one source, not thirty.
                let fields = items.get("properties").and_then(Value::as_object).map_or(0, Map::len);
                (0..self.below(3)).map(|_| self.value(items, name, 2.max(fields / 3))).collect()
            }
            Some("integer") => json!(self.pick(pools::NUMBERS).unwrap_or_default()),
            Some("boolean") => json!(self.once_in(2)),
            Some("string") => json!(self.text(name)),
            _ => json!("1Gi"),
        }
    }

    fn map(&mut self, schema: &Value, likely: usize) -> Value {
        let mut map = Map::new();
        let required: Vec<&str> = schema
            .get("required")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .collect();
        for (name, property) in schema.get("properties").and_then(Value::as_object).into_iter().flatten() {
            let wanted = required.contains(&name.as_str()) && !self.once_in(40);
            if wanted || (self.once_in(likely) && !pools::RARE.contains(&name.as_str())) {
                map.insert(name.clone(), self.value(property, name, likely + 1));
            }
        }
        if let Some(inner) = schema.get("additionalProperties").filter(|inner| inner.is_object()) {
            for _ in 0..self.below(3) {
                let key = self.pick(pools::KEYS).unwrap_or_default();
                map.insert(key.to_owned(), self.value(inner, key, likely));
            }
        }
        Value::Object(map)
    }

    /// A text that suits a field of this name, mostly.
    fn text(&mut self, name: &str) -> String {
        if self.once_in(12) {
            return self.pick(pools::ODD_TEXTS).unwrap_or_default().to_owned();
        }
        if self.once_in(40) {
            return "x".repeat(self.below(300));
        }
        self.pick(pools::suiting(name)).unwrap_or_default().to_owned()
    }

    /// A copy with one thing changed, added or removed.
    pub fn mutated(&mut self, object: &Value) -> Value {
        let mut copy = object.clone();
        let depth = 1 + self.below(4);
        self.change(&mut copy, depth);
        copy
    }

    fn change(&mut self, value: &mut Value, depth: usize) {
        match value {
            Value::Object(map) if depth > 0 && !map.is_empty() => {
                let index = self.below(map.len());
                let Some(key) = map.keys().nth(index).cloned() else { return };
                match self.below(5) {
                    0 => {
                        map.remove(&key);
                    }
                    1 => {
                        let added = self.pick(pools::FIELDS).unwrap_or_default();
                        map.insert(added.to_owned(), self.odd());
                    }
                    _ => {
                        if let Some(inner) = map.get_mut(&key) {
                            self.change(inner, depth - 1);
                        }
                    }
                }
            }
            Value::Array(items) if depth > 0 && !items.is_empty() => {
                let index = self.below(items.len());
                match self.below(4) {
                    0 => {
                        items.remove(index);
                    }
                    1 => items.push(items.get(index).cloned().unwrap_or_default()),
                    _ => {
                        if let Some(inner) = items.get_mut(index) {
                            self.change(inner, depth - 1);
                        }
                    }
                }
            }
            other => *other = self.odd(),
        }
    }

    /// A value that may stand anywhere and mostly should not.
    fn odd(&mut self) -> Value {
        match self.below(8) {
            0 => Value::Null,
            1 => json!(""),
            2 => json!(self.pick(pools::ODD_TEXTS).unwrap_or_default()),
            3 => json!(self.pick(pools::NUMBERS).unwrap_or_default()),
            4 => json!([]),
            5 => json!({}),
            6 => json!(self.once_in(2)),
            _ => json!(1.5),
        }
    }

    /// Any JSON, of bounded size.
    pub fn json(&mut self, depth: usize) -> Value {
        match self.below(if depth == 0 { 5 } else { 8 }) {
            0 => Value::Null,
            1 => json!(self.once_in(2)),
            2 => json!(self.next()),
            3 => json!(self.pick(pools::ODD_TEXTS).unwrap_or_default()),
            4 => json!(f64::from(u32::try_from(self.below(1000)).unwrap_or_default()) / 7.0),
            5 => (0..self.below(4)).map(|_| self.json(depth - 1)).collect(),
            _ => {
                let mut map = Map::new();
                for _ in 0..self.below(5) {
                    let key = self.pick(pools::FIELDS).unwrap_or_default();
                    map.insert(key.to_owned(), self.json(depth - 1));
                }
                Value::Object(map)
            }
        }
    }
}
