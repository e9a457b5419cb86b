//! Decides where a field wants text but the file says something YAML reads as a boolean or a number.
//! Never decides whether the field may exist: the schema of admission does.

use super::codes;
use super::engine::{self, Kind, child};
use super::findings::{Collected, Draft, Spot};
use super::judging::shown;
use super::node::{Content, Node};
use super::objects::Object;
use super::yaml::scalars;
use serde_json::Value;

/// Fields that hold a file mode, which is written with a leading zero on purpose.
const MODES: [&str; 2] = ["mode", "defaultMode"];

/// Judges every scalar of an object.
pub(super) fn judge<'a>(object: &'a Object<'a>, kind: Kind, collected: &mut Collected<'a>) {
    let mut found = Vec::new();
    let schema = engine::schema(kind);
    for entry in object.node.entries() {
        match entry.key.as_str() {
            "metadata" => walk_metadata(&entry.value, object, &mut found),
            "apiVersion" | "kind" | "status" => {}
            key => {
                walk(&entry.value, member(schema, key), key, object, &mut found);
            }
        }
    }
    for (field, draft) in found {
        collected.field(object, field, Spot::Value, draft);
    }
}

/// Names, labels and annotations are text.
fn walk_metadata(metadata: &Node, object: &Object<'_>, found: &mut Vec<(String, Draft)>) {
    for entry in metadata.entries() {
        let path = child("metadata", &entry.key);
        match entry.key.as_str() {
            "name" | "namespace" | "generateName" => text_wanted(&entry.value, &path, object, found),
            "labels" | "annotations" => {
                for inner in entry.value.entries() {
                    text_wanted(&inner.value, &child(&path, &inner.key), object, found);
                }
            }
            _ => {}
        }
    }
}

fn walk(
    node: &Node,
    schema: Option<&Value>,
    path: &str,
    object: &Object<'_>,
    found: &mut Vec<(String, Draft)>,
) {
    match &node.content {
        Content::Map(entries) => {
            for entry in entries {
                let schema = schema.and_then(|schema| member(schema, &entry.key));
                walk(&entry.value, schema, &child(path, &entry.key), object, found);
            }
        }
        Content::List(items) => {
            let schema = schema.and_then(|schema| schema.get("items"));
            for (index, item) in items.iter().enumerate() {
                walk(item, schema, &format!("{path}[{index}]"), object, found);
            }
        }
        Content::Bool(_) | Content::Number(_) => {
            if schema.is_some_and(wants_text) {
                text_wanted(node, path, object, found);
            } else if matches!(node.content, Content::Number(_)) {
                octal(node, path, object, found);
            }
        }
        Content::Null | Content::Text(_) => {}
    }
}

fn member<'a>(schema: &'a Value, key: &str) -> Option<&'a Value> {
    let named = schema.get("properties").and_then(|properties| properties.get(key));
    named.or_else(|| schema.get("additionalProperties").filter(|inner| inner.is_object()))
}

fn wants_text(schema: &Value) -> bool {
    schema.get("type").is_some_and(|wanted| wanted == "string")
        && schema.get("x-kubernetes-int-or-string") != Some(&Value::Bool(true))
}

fn text_wanted(node: &Node, path: &str, object: &Object<'_>, found: &mut Vec<(String, Draft)>) {
    let read = match &node.content {
        Content::Bool(truth) => format!("the boolean {truth}"),
        Content::Number(number) => format!("the number {number}"),
        _ => return,
    };
    let written = node.span.slice(&object.source.text);
    let message = format!("the field holds text, but {} is read as {read}", shown(written));
    let draft = Draft::new(&codes::TEXT_READ_AS, message).with_help(format!("write \"{written}\""));
    found.push((path.to_owned(), draft));
}

fn octal(node: &Node, path: &str, object: &Object<'_>, found: &mut Vec<(String, Draft)>) {
    let written = node.span.slice(&object.source.text);
    let mode = MODES.iter().any(|mode| path.rsplit('.').next() == Some(mode));
    if scalars::looks_octal(written) && !mode {
        let message = format!("{} is read as {}", shown(written), node.to_value());
        found.push((path.to_owned(), Draft::new(&codes::OCTAL, message)));
    }
}
