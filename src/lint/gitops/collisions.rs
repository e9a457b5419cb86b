//! Decides whether two objects that are applied together make children of the same name.
//! Never compares objects of different units: the same name in two clusters is no collision.

use super::super::codes;
use super::super::engine::Kind;
use super::super::findings::{Collected, Draft, Spot};
use super::super::objects::Object;
use super::delivery::Delivery;
use super::units::Units;
use crds::names::{self, DerivedKind, DerivedName};
use crds::well_known::default;
use crds::{CoderControlPlaneSpec, CoderProvisionerSpec, CoderWorkspaceProxySpec};
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;

/// Where a name must be the only one of its kind: a namespace, or a place in coderd.
type Claim = (String, DerivedKind, String);

/// Judges every unit.
pub(super) fn judge<'a>(
    objects: &'a [Object<'a>],
    units: &Units<'a>,
    deliveries: &[Delivery<'a>],
    collected: &mut Collected<'a>,
) {
    let mut by_source: BTreeMap<*const u8, Vec<&'a Object<'a>>> = BTreeMap::new();
    for object in objects.iter().filter(|object| !units.is_patch(object)) {
        by_source.entry(object.source.text.as_ptr()).or_default().push(object);
    }
    by_source.values().for_each(|members| compare(members, collected));
    units.all.iter().for_each(|unit| compare(&unit.members, collected));
    Delivery::places(deliveries).for_each(|there| compare(&there.unit.members, collected));
}

fn compare<'a>(members: &[&'a Object<'a>], collected: &mut Collected<'a>) {
    if members.iter().filter(|object| object.our_kind().is_some()).count() < 2 {
        return;
    }
    let mut claims: BTreeMap<Claim, &'a Object<'a>> = BTreeMap::new();
    for object in members.iter().copied().filter(|object| !object.name.is_empty()) {
        let Some(kind) = object.our_kind() else { continue };
        let own = claims_of(kind, object);
        let earlier = own.iter().find_map(|claim| Some((claim, *claims.get(claim)?)));
        if let Some((claim, other)) = earlier.filter(|(_, other)| !std::ptr::eq(other.node, object.node)) {
            let draft = Draft::new(&codes::SAME_DERIVED_NAME, collision(object, other, claim));
            collected.field(object, "metadata.name", Spot::Value, draft);
        }
        for claim in own {
            claims.entry(claim).or_insert(object);
        }
    }
}

fn collision(object: &Object<'_>, other: &Object<'_>, (_, kind, name): &Claim) -> String {
    let place = format!("{}:{}", other.source.name, other.node.span.line);
    if object.title() == other.title() {
        return format!("{} is also given at {place}", object.title());
    }
    format!("the {} {name} is also made by {} at {place}", kind.as_str(), other.title())
}

/// The names an object claims. Labels are shared by design, and an account that was chosen may be.
fn claims_of(kind: Kind, object: &Object<'_>) -> Vec<Claim> {
    let namespace = object.namespace;
    let derived = derived(kind, object).unwrap_or_default();
    let claimed = derived.into_iter().filter(|name| match name.kind {
        DerivedKind::InstanceLabel => false,
        DerivedKind::ServiceAccount => !name.chosen,
        // The token of the operator lives in its own namespace.
        DerivedKind::Secret => kind != Kind::ControlPlane,
        _ => true,
    });
    let scope = |name: &DerivedName| match name.kind {
        DerivedKind::ProvisionerKey => provisioner_scope(object),
        DerivedKind::ProxyRegistration => proxy_scope(object),
        _ => namespace.to_owned(),
    };
    claimed.map(|name| (scope(&name), name.kind, name.name)).collect()
}

/// Keys are told apart within an organization of a control plane.
fn provisioner_scope(object: &Object<'_>) -> String {
    let spec = object.node.get("spec");
    let text = |keys: &[&str]| spec.and_then(|spec| spec.text_at(keys)).filter(|text| !text.is_empty());
    let control_plane = text(&["controlPlaneRef", "name"]).unwrap_or_default();
    let organization = text(&["organizationName"]).unwrap_or(default::ORGANIZATION);
    format!("{}/{control_plane}/{organization}", object.namespace)
}

/// Proxies are told apart within a control plane: the one that is referred to, or the one at an address.
fn proxy_scope(object: &Object<'_>) -> String {
    let spec = object.node.get("spec");
    let text = |keys: &[&str]| spec.and_then(|spec| spec.text_at(keys)).unwrap_or_default();
    if spec.is_some_and(|spec| spec.get("controlPlaneRef").is_some()) {
        return format!("{}/{}", object.namespace, text(&["controlPlaneRef", "name"]));
    }
    text(&["bootstrap", "coderURL"]).trim_end_matches('/').to_owned()
}

/// Every name derived from an object; none where its spec cannot be read.
pub(super) fn derived(kind: Kind, object: &Object<'_>) -> Option<Vec<DerivedName>> {
    let name = object.name;
    Some(match kind {
        Kind::ControlPlane => {
            names::control_plane::derived(object.namespace, name, &spec::<CoderControlPlaneSpec>(object)?)
        }
        Kind::Provisioner => names::provisioner::derived(name, &spec::<CoderProvisionerSpec>(object)?),
        Kind::WorkspaceProxy => {
            names::workspace_proxy::derived(name, &spec::<CoderWorkspaceProxySpec>(object)?)
        }
    })
}

fn spec<Spec: DeserializeOwned + Default>(object: &Object<'_>) -> Option<Spec> {
    match object.node.get("spec") {
        Some(spec) => serde_json::from_value(spec.to_value()).ok(),
        None => Some(Spec::default()),
    }
}
