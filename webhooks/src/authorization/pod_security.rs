//! Decides which parts of a pod are outside of what Pod Security calls `restricted`, and asks for the right to create
//! pods. Never replaces what the namespace enforces on pods by itself.

use std::collections::BTreeSet;

use serde_json::Value;

use super::changes::{Requires, changed, required_for};
use super::{AccessCheck, RequiredAccess};
use crate::field;

/// Sources of volumes that `restricted` allows.
const VOLUMES: [&str; 9] = [
    "configMap",
    "csi",
    "downwardAPI",
    "emptyDir",
    "ephemeral",
    "image",
    "persistentVolumeClaim",
    "projected",
    "secret",
];

/// The security contexts of the main container and of the pod; init containers have theirs.
const CONTEXTS: [&str; 2] = ["spec.securityContext", "spec.podSecurityContext"];

/// What a field of a security context must be to stay within `restricted`. Where the spec is silent, the reconciler
/// stays within it by itself.
#[derive(Clone, Copy)]
enum Allowed {
    /// Not true.
    NotTrue,
    /// Not false.
    NotFalse,
    /// Another number.
    NotZero,
    /// One of these, or empty.
    OneOf(&'static [&'static str]),
    /// Empty, or not there.
    Empty,
    /// A list of nothing but these.
    Only(&'static [&'static str]),
    /// A list with this in it.
    With(&'static str),
    /// A list of nothing but things of these names.
    Named(&'static [&'static str]),
}

/// Sysctls that are the pod's own.
const SYSCTLS: &[&str] = &[
    "kernel.shm_rmid_forced",
    "net.ipv4.ip_local_port_range",
    "net.ipv4.ip_local_reserved_ports",
    "net.ipv4.ip_unprivileged_port_start",
    "net.ipv4.ping_group_range",
    "net.ipv4.tcp_fin_timeout",
    "net.ipv4.tcp_keepalive_intvl",
    "net.ipv4.tcp_keepalive_probes",
    "net.ipv4.tcp_keepalive_time",
    "net.ipv4.tcp_syncookies",
];
const PROFILES: Allowed = Allowed::OneOf(&["RuntimeDefault", "Localhost"]);
const SELINUX_TYPES: Allowed =
    Allowed::OneOf(&["container_t", "container_init_t", "container_kvm_t", "container_engine_t"]);

/// The fields of security contexts that Pod Security looks at.
const RESTRICTED: &[(&str, Allowed)] = &[
    ("privileged", Allowed::NotTrue),
    ("allowPrivilegeEscalation", Allowed::NotTrue),
    ("capabilities.add", Allowed::Only(&["NET_BIND_SERVICE"])),
    ("capabilities.drop", Allowed::With("ALL")),
    ("procMount", Allowed::OneOf(&["Default"])),
    ("runAsNonRoot", Allowed::NotFalse),
    ("runAsUser", Allowed::NotZero),
    ("seccompProfile.type", PROFILES),
    ("appArmorProfile.type", PROFILES),
    ("seLinuxOptions.type", SELINUX_TYPES),
    ("seLinuxOptions.user", Allowed::Empty),
    ("seLinuxOptions.role", Allowed::Empty),
    ("sysctls", Allowed::Named(SYSCTLS)),
    ("windowsOptions.hostProcess", Allowed::NotTrue),
];

/// Annotations of pods that choose a profile, by the beginning of their key, and the values `restricted` allows; one
/// that ends in `/` is the beginning of a value.
const PROFILE_ANNOTATIONS: [(&str, &[&str]); 3] = [
    ("container.apparmor.security.beta.kubernetes.io/", &["runtime/default", "localhost/"]),
    ("container.seccomp.security.alpha.kubernetes.io/", &["runtime/default", "docker/default", "localhost/"]),
    ("seccomp.security.alpha.kubernetes.io/pod", &["runtime/default", "docker/default", "localhost/"]),
];

/// Fields of a container that reach past the pod: a port of the node, and the address of somebody else that the node
/// asks in a probe or a hook.
const REACHING: [&str; 2] = ["hostPort", "host"];

/// What an object asks for: a description that does not move when lists do, and the field.
fn privileges(object: &Value) -> Vec<(String, String)> {
    let mut privileges = privileges_of_volumes(object);
    for context in CONTEXTS {
        privileges_of_context(field::at(object, context), context, context, &mut privileges);
    }
    reaching(field::at(object, "spec.lifecycle"), "spec.lifecycle", "spec.lifecycle", &mut privileges);
    for (index, container) in field::items_at(object, "spec.initContainers").iter().enumerate() {
        let path = format!("spec.initContainers[{index}]");
        // Known by its name: a container that is new has nothing yet.
        let name = container.get("name").and_then(Value::as_str).unwrap_or_default();
        let identity = format!("spec.initContainers[{name}]");
        let context = container.get("securityContext");
        let in_context = |of: &str| format!("{of}.securityContext");
        privileges_of_context(context, &in_context(&path), &in_context(&identity), &mut privileges);
        reaching(Some(container), &path, &identity, &mut privileges);
    }
    privileges.extend(privileges_of_annotations(object));
    // A class can drive the pods of others away.
    if let Some(class) = field::at(object, "spec.priorityClassName") {
        privileges.push((described("priorityClassName", class), "spec.priorityClassName".to_owned()));
    }
    privileges
}

/// The fields that give privileges to the main container, whatever image it runs.
pub(crate) fn privileges_of_main_container(object: &Value) -> Vec<String> {
    let fields = privileges(object).into_iter().map(|(_, field)| field);
    // A container that runs before names its own image, and a class gives the code of a pod nothing.
    fields
        .filter(|field| !field.starts_with("spec.initContainers[") && field != "spec.priorityClassName")
        .collect()
}

fn privileges_of_volumes(object: &Value) -> Vec<(String, String)> {
    let mut privileges = Vec::new();
    for (index, volume) in field::items_at(object, "spec.volumes").iter().enumerate() {
        let sources = volume.as_object().into_iter().flatten();
        for (kind, source) in sources.filter(|(key, _)| *key != "name" && !VOLUMES.contains(&key.as_str())) {
            privileges.push((described(kind, source), format!("spec.volumes[{index}].{kind}")));
        }
    }
    privileges
}

fn privileges_of_annotations(object: &Value) -> Vec<(String, String)> {
    let annotations = field::at(object, "spec.podAnnotations").and_then(Value::as_object);
    let outside = |key: &str, value: &Value| {
        PROFILE_ANNOTATIONS.iter().any(|(start, within)| {
            let value = value.as_str().unwrap_or_default();
            let allowed = |good: &&str| value == *good || (good.ends_with('/') && value.starts_with(*good));
            // Kubernetes accepts keys of annotations in any case.
            key.to_ascii_lowercase().starts_with(start) && !value.is_empty() && !within.iter().any(allowed)
        })
    };
    let outside = annotations.into_iter().flatten().filter(|(key, value)| outside(key, value));
    outside.map(|(key, value)| (described(key, value), field::child("spec.podAnnotations", key))).collect()
}

/// What a security context at a path asks for.
fn privileges_of_context(
    given: Option<&Value>,
    path: &str,
    identity: &str,
    privileges: &mut Vec<(String, String)>,
) {
    let Some(given) = given else { return };
    for (key, within) in RESTRICTED {
        if let Some(value) = field::at(given, key) {
            privileges.extend(outside(format!("{path}.{key}"), &format!("{identity}.{key}"), *within, value));
        }
    }
}

/// Every field below a value that reaches past the pod.
fn reaching(value: Option<&Value>, path: &str, identity: &str, privileges: &mut Vec<(String, String)>) {
    match value {
        Some(Value::Object(map)) => {
            for (key, value) in map {
                let path = field::child(path, key);
                let nothing = value == 0 || value == "";
                if REACHING.contains(&key.as_str()) && !value.is_object() {
                    let privilege = (described(&format!("{identity} {key}"), value), path);
                    privileges.extend((!nothing).then_some(privilege));
                } else {
                    reaching(Some(value), &path, identity, privileges);
                }
            }
        }
        Some(Value::Array(items)) => {
            for (index, item) in items.iter().enumerate() {
                reaching(Some(item), &format!("{path}[{index}]"), identity, privileges);
            }
        }
        _ => {}
    }
}

/// What one field of a security context asks for, item by item where it is a list.
fn outside(path: String, identity: &str, within: Allowed, value: &Value) -> Vec<(String, String)> {
    let items = || value.as_array().into_iter().flatten().enumerate();
    let each = |is_good: &dyn Fn(&Value) -> bool| {
        let bad = items().filter(|(_, item)| !is_good(item));
        bad.map(|(index, item)| (described(identity, item), format!("{path}[{index}]"))).collect()
    };
    let among = |item: &Value, words: &[&str]| item.as_str().is_some_and(|item| words.contains(&item));
    let is_good = match within {
        Allowed::NotTrue => value != &Value::Bool(true),
        Allowed::NotFalse => value != &Value::Bool(false),
        Allowed::NotZero => value != 0,
        Allowed::OneOf(words) => value == "" || among(value, words),
        Allowed::Empty => value == "",
        Allowed::With(word) => items().any(|(_, item)| item == word),
        Allowed::Only(words) => return each(&|item| among(item, words)),
        Allowed::Named(words) => {
            return each(&|item| item.get("name").is_some_and(|name| among(name, words)));
        }
    };
    if is_good { Vec::new() } else { vec![(described(identity, value), path)] }
}

/// The whole value in words, however its keys are ordered.
fn described(what: &str, value: &Value) -> String {
    let mut value = value.clone();
    value.sort_all_objects();
    format!("{what} {value}")
}

/// Fields that only give or take privileges: a change of another one runs other code, which gets every privilege there is.
const ONLY_PRIVILEGES: [&str; 3] = ["securityContext", "podSecurityContext", "priorityClassName"];

/// Whether the change runs other code.
fn runs_other_code(old: &Value, new: &Value) -> bool {
    changed(old, new)
        .into_iter()
        .any(|name| required_for(name) == Requires::RunPods && !ONLY_PRIVILEGES.contains(&name))
}

/// The privileges the change adds, or gives to other code.
pub(super) fn added(old: Option<&Value>, new: &Value, namespace: &str) -> Vec<RequiredAccess> {
    let before = old.filter(|old| !runs_other_code(old, new)).map(privileges).unwrap_or_default();
    let before: BTreeSet<String> = before.into_iter().map(|(what, _)| what).collect();
    let fresh = privileges(new).into_iter().filter(|(what, _)| !before.contains(what));
    fresh
        .map(|(_, field)| RequiredAccess::any(field, "CODER0507", vec![AccessCheck::create_pods(namespace)]))
        .collect()
}
