//! Decides whether two objects that are applied together make children of the same name.
//! Never compares objects of different units: the same name in two clusters is no collision.

use super::super::codes;
use super::super::engine::Kind;
use super::super::findings::{Collected, Draft, Spot};
use super::super::judging::shown;
use super::super::objects::Object;
use super::delivery::Delivery;
use super::units::Units;
use crds::names::{self, DerivedKind, DerivedName};
use crds::well_known::default;
use crds::{CoderControlPlaneSpec, CoderProvisionerSpec, CoderWorkspaceProxySpec};
use serde::de::DeserializeOwned;
use std::collections::{BTreeMap, BTreeSet};

/// Where a name must be the only one of its kind: a namespace, or a place in coderd, which does not tell case apart.
type Claim = (String, DerivedKind, String);

/// A claim of an object.
struct Claimed {
    claim: Claim,
    /// The name as it is written.
    name: String,
    /// The field that gives it.
    field: &'static str,
}

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
        // What one field settles is told once, however many names follow from it.
        let mut told = BTreeSet::new();
        for claimed in &own {
            let other = claims.get(&claimed.claim).filter(|other| !std::ptr::eq(other.node, object.node));
            let Some(other) = other else { continue };
            let field = if object.title() == other.title() { NAME } else { claimed.field };
            if told.insert((field, std::ptr::from_ref(other.node))) {
                let draft = Draft::new(&codes::SAME_DERIVED_NAME, collision(object, other, claimed));
                collected.field(object, field, Spot::Value, with_way_out(draft, field));
            }
        }
        for Claimed { claim, .. } in own {
            claims.entry(claim).or_insert(object);
        }
    }
}

fn with_way_out(draft: Draft, field: &str) -> Draft {
    if field == NAME { draft } else { draft.with_help(format!("give one of the two another {field}")) }
}

fn collision(object: &Object<'_>, other: &Object<'_>, claimed: &Claimed) -> String {
    let place = format!("{}:{}", other.source.name, other.node.span.line);
    if object.title() == other.title() {
        return format!("{} is also given at {place}", object.title());
    }
    let (name, other) = (&claimed.name, other.title());
    match claimed.claim.1 {
        DerivedKind::ProvisionerKey => {
            format!("the provisioner key {} in coderd is also asked for by {other} at {place}", shown(name))
        }
        DerivedKind::ProxyRegistration => {
            format!("the workspace proxy {} in coderd is also registered by {other} at {place}", shown(name))
        }
        kind => format!("the {} {name} is also made by {other} at {place}", kind.as_str()),
    }
}

/// The field of what follows from the name of an object.
const NAME: &str = "metadata.name";

/// The field that a name comes from.
fn field_of(kind: Kind, object: &Object<'_>, name: &DerivedName) -> &'static str {
    let registered = object.node.at(&["spec", "controlPlaneRef"]).is_some();
    match (kind, name.kind) {
        _ if !name.chosen => NAME,
        (Kind::Provisioner, DerivedKind::ProvisionerKey) => "spec.key.name",
        (Kind::Provisioner, DerivedKind::Secret) => "spec.key.secretName",
        (Kind::WorkspaceProxy, DerivedKind::ProxyRegistration) if registered => "spec.registration.proxyName",
        (Kind::WorkspaceProxy, DerivedKind::ProxyRegistration) => "spec.bootstrap.proxyName",
        (Kind::WorkspaceProxy, DerivedKind::Secret) if registered => "spec.registration.tokenSecretName",
        (Kind::WorkspaceProxy, DerivedKind::Secret) => "spec.bootstrap.generatedTokenSecretName",
        _ => NAME,
    }
}

/// The names an object claims. Labels are shared by design, and an account that was chosen may be.
fn claims_of(kind: Kind, object: &Object<'_>) -> Vec<Claimed> {
    let derived = derived(kind, object).unwrap_or_default();
    let claimed = derived.into_iter().filter(|name| match name.kind {
        DerivedKind::InstanceLabel => false,
        DerivedKind::ServiceAccount => !name.chosen,
        // The token of the operator lives in its own namespace.
        DerivedKind::Secret => kind != Kind::ControlPlane,
        _ => true,
    });
    claimed
        .map(|name| {
            let in_coderd = || names::as_coderd_compares(&name.name);
            let (scope, unique) = match name.kind {
                DerivedKind::ProvisionerKey => (provisioner_scope(object), in_coderd()),
                DerivedKind::ProxyRegistration => (proxy_scope(object), in_coderd()),
                _ => (object.namespace.to_owned(), name.name.clone()),
            };
            let field = field_of(kind, object, &name);
            Claimed { claim: (scope, name.kind, unique), name: name.name, field }
        })
        .collect()
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
