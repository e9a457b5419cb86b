//! Decides which parts of a pod reach beyond it: the node, the claims of others, privileges.
//! Never replaces what the namespace enforces on pods by itself.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{Access, AccessCheck};
use crate::field;

/// Sources of volumes that stay within the pod; the Secrets and ConfigMaps among them are asked for one by one.
const HARMLESS: [&str; 6] = ["emptyDir", "secret", "configMap", "projected", "downwardAPI", "image"];

/// The security contexts of coderd's container and of the pod; init containers have theirs.
const CONTEXTS: [&str; 2] = ["spec.securityContext", "spec.podSecurityContext"];

/// When a field of a security context loosens the pod.
#[derive(Clone, Copy)]
enum Loose {
    /// It is given at all.
    Given,
    /// It is true.
    True,
    /// It has this value.
    Is(&'static str),
    /// It has another value than this.
    IsNot(&'static str),
    /// Each item of the list, on its own.
    Items,
}

/// Fields of a security context that loosen the pod.
const LOOSENING: &[(&str, Loose)] = &[
    ("privileged", Loose::True),
    ("allowPrivilegeEscalation", Loose::True),
    ("capabilities.add", Loose::Items),
    ("procMount", Loose::IsNot("Default")),
    ("seccompProfile.type", Loose::Is("Unconfined")),
    ("appArmorProfile.type", Loose::Is("Unconfined")),
    ("seLinuxOptions", Loose::Given),
    ("sysctls", Loose::Items),
    ("windowsOptions.hostProcess", Loose::True),
];

/// Fields of a container that reach past the pod: a port of the node, and the address of somebody else that the node
/// asks in a probe or a hook.
const REACHING: [&str; 2] = ["hostPort", "host"];

/// What an object asks for: a description that does not move when lists do, and the field.
fn powers(object: &Value) -> Vec<(String, String)> {
    let mut powers = powers_of_volumes(object);
    for context in CONTEXTS {
        powers_of_context(field::at(object, context), context, context, &mut powers);
    }
    reaching(field::at(object, "spec.lifecycle"), "spec.lifecycle", "spec.lifecycle", &mut powers);
    for (index, container) in field::items_at(object, "spec.initContainers").iter().enumerate() {
        let path = format!("spec.initContainers[{index}]");
        // Known by its name: a container that is new has nothing yet.
        let name = container.get("name").and_then(Value::as_str).unwrap_or_default();
        let identity = format!("spec.initContainers[{name}]");
        let context = container.get("securityContext");
        let in_context = |of: &str| format!("{of}.securityContext");
        powers_of_context(context, &in_context(&path), &in_context(&identity), &mut powers);
        reaching(Some(container), &path, &identity, &mut powers);
    }
    // A class can drive the pods of others away.
    if let Some(class) = field::at(object, "spec.priorityClassName") {
        powers.push((described("priorityClassName", class), "spec.priorityClassName".to_owned()));
    }
    powers
}

fn powers_of_volumes(object: &Value) -> Vec<(String, String)> {
    let mut powers = Vec::new();
    for (index, volume) in field::items_at(object, "spec.volumes").iter().enumerate() {
        let sources = volume.as_object().into_iter().flatten();
        for (kind, source) in sources.filter(|(key, _)| *key != "name" && !HARMLESS.contains(&key.as_str())) {
            powers.push((described(kind, source), format!("spec.volumes[{index}].{kind}")));
        }
    }
    powers
}

/// What a security context at a path asks for.
fn powers_of_context(given: Option<&Value>, path: &str, identity: &str, powers: &mut Vec<(String, String)>) {
    let Some(given) = given else { return };
    for (key, loose) in LOOSENING {
        if let Some(value) = field::at(given, key) {
            powers.extend(loosened(format!("{path}.{key}"), &format!("{identity}.{key}"), *loose, value));
        }
    }
}

/// Every field below a value that reaches past the pod.
fn reaching(value: Option<&Value>, path: &str, identity: &str, powers: &mut Vec<(String, String)>) {
    match value {
        Some(Value::Object(map)) => {
            for (key, value) in map {
                let path = field::child(path, key);
                if REACHING.contains(&key.as_str()) && !value.is_object() {
                    powers.push((described(&format!("{identity} {key}"), value), path));
                } else {
                    reaching(Some(value), &path, identity, powers);
                }
            }
        }
        Some(Value::Array(items)) => {
            for (index, item) in items.iter().enumerate() {
                reaching(Some(item), &format!("{path}[{index}]"), identity, powers);
            }
        }
        _ => {}
    }
}

/// What one field of a security context asks for.
fn loosened(path: String, identity: &str, loose: Loose, value: &Value) -> Vec<(String, String)> {
    let loosens = match loose {
        Loose::Given => true,
        Loose::True => value == &Value::Bool(true),
        Loose::Is(word) => value == word,
        Loose::IsNot(word) => value != word,
        Loose::Items => {
            let items = value.as_array().into_iter().flatten().enumerate();
            return items
                .map(|(index, item)| (described(identity, item), format!("{path}[{index}]")))
                .collect();
        }
    };
    if loosens { vec![(described(identity, value), path)] } else { Vec::new() }
}

/// The whole value in words, however its keys are ordered.
fn described(what: &str, value: &Value) -> String {
    let mut value = value.clone();
    value.sort_all_objects();
    format!("{what} {value}")
}

/// What the change adds.
pub(super) fn added(old: Option<&Value>, new: &Value, namespace: &str) -> Vec<Access> {
    let before: BTreeSet<String> =
        old.map(powers).unwrap_or_default().into_iter().map(|(what, _)| what).collect();
    let fresh = powers(new).into_iter().filter(|(what, _)| !before.contains(what));
    fresh
        .map(|(_, field)| Access::any(field, "CODER0507", vec![AccessCheck::create_pods(namespace)]))
        .collect()
}
