//! Takes values out of a tree by their path, so that whatever nobody took is left over and can be told.
//! Never decides what a value becomes.

use super::Told;
use serde_json::{Map, Value};

/// The values of a release, and what is told of them.
pub(super) struct Values {
    tree: Value,
    not_carried: Vec<Told>,
    to_do: Vec<Told>,
}

impl Values {
    /// Values in which null means absent, as in Helm.
    pub(super) fn new(values: &Value) -> Self {
        Self { tree: without_nulls(values), not_carried: Vec::new(), to_do: Vec::new() }
    }

    /// Takes a value. What is empty says nothing in these charts, and is as good as absent.
    pub(super) fn take(&mut self, path: &str) -> Option<Value> {
        let (parents, key) = path.rsplit_once('.').unwrap_or(("", path));
        let mut at = &mut self.tree;
        for parent in parents.split('.').filter(|parent| !parent.is_empty()) {
            at = at.get_mut(parent)?;
        }
        at.as_object_mut()?.remove(key).filter(|value| !is_empty(value))
    }

    /// Takes a list; something else in its place is told.
    pub(super) fn take_list(&mut self, path: &str) -> Vec<Value> {
        match self.take(path) {
            Some(Value::Array(items)) => items,
            Some(_) => self.wrong(path, "a list"),
            None => Vec::new(),
        }
    }

    /// Takes a mapping; something else in its place is told.
    pub(super) fn take_map(&mut self, path: &str) -> Map<String, Value> {
        match self.take(path) {
            Some(Value::Object(map)) => map,
            Some(_) => self.wrong(path, "a mapping"),
            None => Map::new(),
        }
    }

    /// Takes a text; something else in its place is told.
    pub(super) fn take_text(&mut self, path: &str) -> Option<String> {
        match self.take(path)? {
            Value::String(text) => Some(text),
            _ => self.wrong(path, "a text"),
        }
    }

    /// Takes a truth value; something else in its place is told.
    pub(super) fn take_bool(&mut self, path: &str) -> Option<bool> {
        match self.take(path)? {
            Value::Bool(held) => Some(held),
            _ => self.wrong(path, "true or false"),
        }
    }

    /// Takes a whole number; something else in its place is told.
    pub(super) fn take_number(&mut self, path: &str) -> Option<i64> {
        match self.take(path)?.as_i64() {
            Some(number) => Some(number),
            None => self.wrong(path, "a whole number"),
        }
    }

    fn wrong<T: Default>(&mut self, path: &str, wanted: &str) -> T {
        self.not_carried(
            path,
            &format!("it is not {wanted}"),
            "write it as the chart wants it and convert again",
        );
        T::default()
    }

    /// Tells that a value has no place.
    pub(super) fn not_carried(&mut self, value: &str, why: &str, instead: &str) {
        self.not_carried.push(told(value, why, instead));
    }

    /// The same for something that is told in several places.
    pub(super) fn not_carried_as(&mut self, told: Told) {
        self.not_carried.push(told);
    }

    /// Tells that a value is carried and needs a hand.
    pub(super) fn left_to_do(&mut self, value: &str, why: &str, instead: &str) {
        self.to_do.push(told(value, why, instead));
    }

    /// Everything that is told, with what nobody took.
    pub(super) fn told(mut self) -> (Vec<Told>, Vec<Told>) {
        let mut left = Vec::new();
        leaves("", &self.tree, &mut left);
        for path in left {
            self.not_carried(
                &path,
                "this version of coder-k8s knows no such value",
                "see what it does in the chart you use",
            );
        }
        (self.not_carried, self.to_do)
    }
}

fn told(value: &str, why: &str, instead: &str) -> Told {
    Told { value: value.to_owned(), why: why.to_owned(), instead: instead.to_owned() }
}

/// Whether a value says nothing.
pub(super) fn is_empty(value: &Value) -> bool {
    match value {
        Value::Object(map) => map.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::String(text) => text.is_empty(),
        Value::Null => true,
        Value::Bool(_) | Value::Number(_) => false,
    }
}

fn without_nulls(value: &Value) -> Value {
    match value {
        Value::Object(map) => {
            let held = map.iter().filter(|(_, value)| !value.is_null());
            held.map(|(key, value)| (key.clone(), without_nulls(value))).collect::<Map<_, _>>().into()
        }
        Value::Array(items) => items.iter().map(without_nulls).collect(),
        other => other.clone(),
    }
}

/// The paths of everything that says something. A list is told as one.
fn leaves(path: &str, value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                let below = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
                leaves(&below, value, found);
            }
        }
        value if is_empty(value) => {}
        _ => found.push(path.to_owned()),
    }
}
