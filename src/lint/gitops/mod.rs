//! Decides what only the way from Git to the cluster can get wrong: several objects together, and the tools that apply
//! them. Never repeats what admission says about one object.

mod collisions;
mod delivery;
mod references;
mod registrations;
mod secrets;
mod substitutions;
mod units;

use super::findings::Collected;
use super::objects::{Object, Role};
#[cfg(test)]
pub(crate) use references::referring_fields;
pub(super) use substitutions::Substitutions;
pub(super) use units::Units;

/// Judges all objects together.
pub(super) fn judge<'a>(objects: &'a [Object<'a>], units: &Units<'a>, collected: &mut Collected<'a>) {
    for object in objects.iter().filter(|object| object.role == Role::Registration) {
        registrations::judge(object, collected);
    }
    let deliveries = delivery::Delivery::all(objects, units);
    delivery::judge(objects, units, &deliveries, collected);
    collisions::judge(objects, units, &deliveries, collected);
    let kept = secrets::Kept::of(objects);
    references::judge(objects, units, &kept, collected);
    secrets::judge(objects, units, &kept, collected);
}

/// Whether an object is the operator: its webhooks, or a Deployment of its image.
fn is_operator(object: &Object<'_>) -> bool {
    match object.role {
        Role::Registration => registrations::is_webhook_of_ours(object),
        Role::Deployment => {
            let pod = object.node.at(&["spec", "template", "spec", "containers"]);
            let containers = pod.map_or(&[][..], |containers| containers.items());
            containers.iter().filter_map(|container| container.text_at(&["image"])).any(is_operator_image)
        }
        _ => false,
    }
}

/// The image keeps its name, whatever registry it is mirrored to.
fn is_operator_image(image: &str) -> bool {
    let last = image.rsplit('/').next().unwrap_or_default();
    last.split(['@', ':']).next() == Some(crds::well_known::MANAGER)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_operator_is_known_by_the_name_of_its_image() {
        let mirrored = "registry.example.com:5000/mirror/coder-k8s@sha256:00";
        assert!(
            ["coder-k8s", "coder-k8s:0.1.0", "ghcr.io/x/coder-k8s:1", mirrored]
                .into_iter()
                .all(is_operator_image)
        );
        assert!(
            !["coder", "ghcr.io/coder/coder:v2", "coder-k8s-proxy:1", ""].into_iter().any(is_operator_image)
        );
    }
}
