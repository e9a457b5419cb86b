//! Decides when a change runs other code, or runs it with another reach, and asks for the right to run pods.
//! Never asks about a Secret, a ConfigMap or an account of the namespace: whoever may run pods there reaches them all.

use crds::CoderWorkspaceProxy;
use crds::well_known::annotation::ACTING;
use serde_json::Value;

use super::changes::{Requires, changed, required_for};
use super::{AccessCheck, RequiredAccess};
use crate::defaults::proxy_addresses;
use crate::field;
use crate::kind::Kind;

/// Either right is enough: pods by way of a Deployment are pods all the same.
fn may_run(field: impl Into<String>, namespace: &str) -> RequiredAccess {
    let alternatives = vec![
        AccessCheck::create_pods(namespace),
        AccessCheck::new("create", "apps", "deployments", namespace),
    ];
    RequiredAccess::any(field, "CODER0509", alternatives)
}

/// What the change asks for: once for a new object, else for each field and each annotation that acts.
pub(super) fn added(kind: Kind, old: Option<&Value>, new: &Value, namespace: &str) -> Vec<RequiredAccess> {
    let Some(old) = old else { return vec![may_run("spec", namespace)] };
    let runs = |name: &&str| {
        required_for(name) == Requires::RunPods || *name == "expose" && tells_another_address(kind, old, new)
    };
    let fields = changed(old, new).into_iter().filter(runs);
    let fields = fields.map(|name| field::child("spec", name));
    let annotations = ACTING.into_iter().filter(|name| {
        let value = annotation(new, name);
        value.is_some() && value != annotation(old, name)
    });
    let annotations = annotations.map(|name| field::child("metadata.annotations", name));
    fields.chain(annotations).map(|field| may_run(field, namespace)).collect()
}

/// Whether pods of a proxy are told another address of theirs: that is where users are sent with their sessions. Nobody knows what
/// pods are told by a spec that cannot be read. Of a control plane pods are told nothing about the way in.
fn tells_another_address(kind: Kind, old: &Value, new: &Value) -> bool {
    let told = |object: &Value| {
        let spec = serde_json::from_value(object.get("spec")?.clone()).ok()?;
        let mut proxy = CoderWorkspaceProxy::new("proxy", spec);
        proxy.metadata.namespace = Some("namespace".to_owned());
        Some(proxy_addresses(&proxy))
    };
    let told = [told(old), told(new)];
    kind == Kind::WorkspaceProxy && (told.contains(&None) || told[0] != told[1])
}

/// Keys of annotations have dots in them: no path leads to one.
pub(super) fn annotation<'a>(object: &'a Value, name: &str) -> Option<&'a Value> {
    object.get("metadata")?.get("annotations")?.get(name)
}
