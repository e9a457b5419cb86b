//! Decides what a shipped schema must not contain, and names the place where it does.
//! Never repairs anything.

use crds::schema::EMBEDDED_CORE_PROPERTIES;
use serde_json::Value;

/// Where in a CRD a schema stands, as far as the rules depend on it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    /// The object itself, `spec` or `status`: described by the kind.
    Root,
    /// A property of ours that a user writes.
    Spec,
    /// A property of ours that the operator writes.
    Status,
    /// A type of the core API.
    Core,
}

/// Every trap in the schema of a kind, each as `path: what is wrong`.
pub fn traps(root: &Value) -> Vec<String> {
    let mut walk = Walk { found: Vec::new() };
    walk.schema("", root, Place::Root);
    walk.found
}

struct Walk {
    found: Vec<String>,
}

impl Walk {
    fn trap(&mut self, path: &str, what: &str) {
        self.found.push(format!("{path}: {what}"));
    }

    fn schema(&mut self, path: &str, schema: &Value, place: Place) {
        self.shape(path, schema);
        self.prose(path, schema, place);
        if place == Place::Spec {
            self.bounds(path, schema);
        }
        self.rules(path, schema);
        self.map_keys(path, schema);
        for (name, property) in members(schema, "properties") {
            self.schema(&format!("{path}.{name}"), property, inside(place, path, name));
        }
        // Items and values have no name of their own; what they are is said by the list or the map.
        for part in ["items", "additionalProperties"] {
            if let Some(inner) = schema.get(part).filter(|inner| inner.is_object()) {
                let place = if holds_core(path) { Place::Core } else { place };
                self.unnamed(&format!("{path}[]"), inner, place);
            }
        }
    }

    fn unnamed(&mut self, path: &str, schema: &Value, place: Place) {
        let described = schema.get("description").is_some() || place == Place::Core;
        let mut with_prose = schema.clone();
        if !described {
            with_prose["description"] = "An item.".into();
        }
        self.schema(path, &with_prose, place);
    }

    fn shape(&mut self, path: &str, schema: &Value) {
        let flag = |name: &str| schema.get(name) == Some(&Value::Bool(true));
        if !schema.is_object() || schema.as_object().is_some_and(|members| members.is_empty()) {
            return self.trap(path, "empty schema, refused by the API server");
        }
        if schema.get("type").is_none() && !flag("x-kubernetes-int-or-string") {
            self.trap(path, "no type");
        }
        if schema.get("additionalProperties").is_some_and(Value::is_boolean) {
            self.trap(path, "additionalProperties is a boolean: what is inside would be pruned");
        }
        let open = ["properties", "additionalProperties"].iter().all(|part| schema.get(part).is_none());
        if schema.get("type") == Some(&"object".into()) && open {
            self.trap(path, "an object without properties loses everything inside");
        }
        if schema.get("format").and_then(Value::as_str).is_some_and(|format| format.starts_with("uint")) {
            self.trap(path, "unsigned format, which the API server warns about");
        }
        for part in ["nullable", "title", "$ref", "anyOf", "oneOf", "allOf", "not", "uniqueItems"] {
            if schema.get(part).is_some() {
                self.trap(path, &format!("{part} does not belong here"));
            }
        }
        if schema.get("default").is_some() && ![".spec", ".status"].contains(&path) {
            self.trap(path, "a schema default");
        }
    }

    fn prose(&mut self, path: &str, schema: &Value, place: Place) {
        let text = schema.get("description").and_then(Value::as_str);
        match (place, text) {
            (Place::Core, Some(_)) => self.trap(path, "a core type with a description"),
            (Place::Core, None) => {}
            (_, None) => self.trap(path, "no description"),
            (_, Some(text)) => {
                if text.len() < 6 || !text.ends_with('.') || text.contains('\n') {
                    self.trap(path, "a description is one or more sentences in one line");
                }
            }
        }
    }

    fn bounds(&mut self, path: &str, schema: &Value) {
        if !is_bounded(schema) {
            self.trap(path, "no bound on its length");
        }
    }

    /// Whatever a rule names must be bounded, or its cost is not.
    fn rules(&mut self, path: &str, schema: &Value) {
        let rules = schema.get("x-kubernetes-validations").and_then(Value::as_array);
        for rule in rules.into_iter().flatten() {
            let text = rule["rule"].as_str().unwrap_or_default();
            if rule["message"].as_str().is_none_or(str::is_empty) {
                self.trap(path, "a rule without a message");
            }
            if !is_bounded(schema) {
                self.trap(path, "a rule over something without a bound");
            }
            for (name, property) in every_property(schema) {
                let touched = text.split(|c: char| !c.is_alphanumeric()).any(|word| word == name);
                if touched && !is_bounded(property) {
                    self.trap(path, &format!("a rule touches {name}, which has no bound"));
                }
            }
        }
    }

    fn map_keys(&mut self, path: &str, schema: &Value) {
        let keys = schema.get("x-kubernetes-list-map-keys").and_then(Value::as_array);
        let required = schema.pointer("/items/required").and_then(Value::as_array);
        for key in keys.into_iter().flatten() {
            if !required.is_some_and(|required| required.contains(key)) {
                self.trap(path, &format!("list key {key} is not required"));
            }
        }
    }
}

fn inside(place: Place, path: &str, name: &str) -> Place {
    match (place, name) {
        (Place::Core, _) => Place::Core,
        _ if holds_core(path) => Place::Core,
        (Place::Root, "status") | (Place::Status, _) => Place::Status,
        _ => Place::Spec,
    }
}

/// The property itself is ours, with our description; what is below it is not.
fn holds_core(path: &str) -> bool {
    path.rsplit('.').next().is_some_and(|last| EMBEDDED_CORE_PROPERTIES.contains(&last))
}

fn members<'a>(schema: &'a Value, part: &str) -> impl Iterator<Item = (&'a String, &'a Value)> {
    schema.get(part).and_then(Value::as_object).into_iter().flatten()
}

/// Properties at any depth.
fn every_property(schema: &Value) -> Vec<(&String, &Value)> {
    let mut found: Vec<_> = members(schema, "properties").collect();
    for inner in members(schema, "properties").map(|(_, inner)| inner).chain(schema.get("items")) {
        found.extend(every_property(inner));
    }
    found
}

fn is_bounded(schema: &Value) -> bool {
    let has = |name: &str| schema.get(name).is_some();
    match schema.get("type").and_then(Value::as_str) {
        Some("string") => has("maxLength") || has("enum") || has("format"),
        Some("array") => has("maxItems"),
        Some("object") => has("properties") || has("maxProperties"),
        _ => true,
    }
}
