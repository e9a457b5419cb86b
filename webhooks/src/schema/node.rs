//! Decides what is kept of a schema besides its checks: which fields there are, and how nulls and lists are taken there.
//! Never keeps the schema itself, which takes ten times the room once it is read.

use serde_json::Value;

/// The schema of one value.
#[derive(Debug, Default)]
pub(crate) struct Node {
    /// By name, in order.
    properties: Box<[(Box<str>, Self)]>,
    /// Of every property that has no name of its own.
    others: Option<Box<Self>>,
    items: Option<Box<Self>>,
    /// The properties by which the items of a list are told apart.
    keys: Box<[Box<str>]>,
    /// Whether it may be null.
    pub(super) nullable: bool,
    /// Whether properties stay that the schema does not have.
    pub(super) keeps_unknown: bool,
    /// Whether the schema says how much it may hold.
    pub(super) bounded: bool,
}

impl Node {
    /// What is kept of a schema.
    pub(super) fn of(schema: &Value) -> Self {
        let is = |name: &str| schema.get(name) == Some(&Value::Bool(true));
        let boxed = |inner: &Value| inner.is_object().then(|| Box::new(Self::of(inner)));
        let properties = schema.get("properties").and_then(Value::as_object).into_iter().flatten();
        let mut properties: Vec<(Box<str>, Self)> =
            properties.map(|(name, inner)| (name.as_str().into(), Self::of(inner))).collect();
        properties.sort_by(|(one, _), (other, _)| one.cmp(other));
        let keys = schema.get("x-kubernetes-list-map-keys").and_then(Value::as_array).into_iter().flatten();
        Self {
            properties: properties.into_boxed_slice(),
            others: schema.get("additionalProperties").and_then(boxed),
            items: schema.get("items").and_then(boxed),
            keys: keys.filter_map(Value::as_str).map(Box::from).collect(),
            nullable: is("nullable"),
            keeps_unknown: is("x-kubernetes-preserve-unknown-fields"),
            bounded: is_bounded(schema),
        }
    }

    /// The schema of a property.
    pub(super) fn property(&self, name: &str) -> Option<&Self> {
        self.named(name).or(self.others.as_deref())
    }

    /// The schema of a property that has a name of its own.
    pub(super) fn named(&self, name: &str) -> Option<&Self> {
        let named = self.properties.binary_search_by(|(known, _)| (**known).cmp(name));
        named.ok().and_then(|index| self.properties.get(index)).map(|(_, node)| node)
    }

    /// The names of its properties.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.properties.iter().map(|(name, _)| &**name)
    }

    /// The schema of every item.
    pub(super) fn items(&self) -> Option<&Self> {
        self.items.as_deref()
    }

    /// The properties by which the items of a list are told apart; none where they are not.
    pub(super) fn keys(&self) -> &[Box<str>] {
        &self.keys
    }
}

fn is_bounded(schema: &Value) -> bool {
    match schema.get("type").and_then(Value::as_str) {
        Some("string") => schema.get("maxLength").is_some() || schema.get("enum").is_some(),
        Some("array") => schema.get("maxItems").is_some(),
        Some("object") if schema.get("additionalProperties").is_some() => {
            schema.get("maxProperties").is_some()
        }
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_is_looked_at_of_a_schema_is_kept() {
        let schema = json!({"type": "object", "properties": {
            "list": {"type": "array", "items": {"type": "string", "maxLength": 3}, "x-kubernetes-list-map-keys": ["a", "b"]},
            "map": {"type": "object", "additionalProperties": {"type": "string", "nullable": true}},
            "any": {"x-kubernetes-preserve-unknown-fields": true}, "open": {"additionalProperties": true}}});
        let node = Node::of(&schema);
        let below = |name| node.property(name).unwrap();
        assert_eq!(below("list").keys().iter().map(|key| &**key).collect::<Vec<_>>(), ["a", "b"]);
        assert!(below("list").items().unwrap().bounded && !below("list").bounded);
        assert!(below("map").property("whatever").unwrap().nullable && !below("map").nullable);
        assert!(below("any").keeps_unknown && below("open").property("a").is_none());
        assert!(node.property("other").is_none() && below("map").keys().is_empty());
    }
}
