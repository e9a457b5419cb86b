//! Decides when a change runs other code, or runs it with another reach, and asks for the right to run pods.
//! Never asks about a Secret, a ConfigMap or an account of the namespace: whoever may run pods there reaches them all.

use crds::well_known::annotation::ACTING;
use serde_json::Value;

use super::changes::{Requires, changed, required_for};
use super::{AccessCheck, RequiredAccess};
use crate::field;

/// Either right is enough: pods by way of a Deployment are pods all the same.
fn may_run(field: impl Into<String>, namespace: &str) -> RequiredAccess {
    let alternatives = vec![
        AccessCheck::create_pods(namespace),
        AccessCheck::new("create", "apps", "deployments", namespace),
    ];
    RequiredAccess::any(field, "CODER0509", alternatives)
}

/// What the change asks for: once for a new object, else for each field and each annotation that acts.
pub(super) fn added(old: Option<&Value>, new: &Value, namespace: &str) -> Vec<RequiredAccess> {
    let Some(old) = old else { return vec![may_run("spec", namespace)] };
    let fields = changed(old, new).into_iter().filter(|name| required_for(name) == Requires::RunPods);
    let fields = fields.map(|name| field::child("spec", name));
    let annotations = ACTING.into_iter().filter(|name| {
        let value = annotation(new, name);
        value.is_some() && value != annotation(old, name)
    });
    let annotations = annotations.map(|name| field::child("metadata.annotations", name));
    fields.chain(annotations).map(|field| may_run(field, namespace)).collect()
}

/// Keys of annotations have dots in them: no path leads to one.
fn annotation<'a>(object: &'a Value, name: &str) -> Option<&'a Value> {
    object.get("metadata")?.get("annotations")?.get(name)
}
