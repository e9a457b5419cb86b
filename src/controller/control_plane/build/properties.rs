//! What holds for the children of every control plane that admission accepts, tried on generated ones and the samples.

use std::collections::BTreeSet;

use webhooks::generate::Generator;
use webhooks::{Config, Kind, Operation, defaulted, validate};

use super::consumed;
use super::fixtures::ControlPlane;
use crate::controller::children::ChildKind;
use crate::controller::children::sound::assert_all_sound;

const TRIED: u64 = 20_000;
const ENOUGH: usize = 500;

/// Objects as they are stored: admitted, and readable as what they are.
fn admitted() -> impl Iterator<Item = ControlPlane> {
    (0..TRIED).filter_map(|seed| {
        let object = Generator::new(seed).object(Kind::ControlPlane);
        let mut stored = defaulted(Kind::ControlPlane, &object, None, &Config::default()).into_owned();
        let verdict = validate(Kind::ControlPlane, &stored, Operation::Create);
        // The API server gives or demands a name after admission.
        let named = stored["metadata"]["name"].as_str().is_some_and(|name| !name.is_empty());
        if !named || !verdict.allowed() {
            return None;
        }
        stored["metadata"]["uid"] = "u-1".into();
        Some(ControlPlane::from(stored))
    })
}

#[test]
fn children_of_whatever_is_admitted_are_sound_and_the_same_each_time() {
    let mut kinds = BTreeSet::new();
    let mut count = 0;
    for given in admitted().take(ENOUGH * 2) {
        let children = given.children();
        assert_eq!(children, given.children());
        assert_all_sound(children.all(), &given.object);
        kinds.extend(children.all().map(|child| child.kind));
        let read = consumed(&given.complete());
        assert!(read.is_sorted() && read.iter().all(|consumed| !consumed.name.is_empty()));
        count += 1;
    }
    assert!(count >= ENOUGH, "{count} were admitted");
    // Its pods are read through its Service.
    let all: BTreeSet<_> = ChildKind::ALL.iter().filter(|kind| **kind != ChildKind::PodMonitor).collect();
    assert_eq!(kinds.iter().collect::<BTreeSet<_>>(), all, "every kind was met");
}

#[test]
fn the_samples_have_sound_children() {
    let given = ControlPlane::test().with_everything().with_checksum("abc");
    let children = given.children();
    assert_all_sound(children.all(), &given.object);
    let kinds: Vec<&str> = children.all().map(|child| child.kind.as_str()).collect();
    assert_eq!(
        kinds,
        [
            "ServiceAccount",
            "Role",
            "RoleBinding",
            "Role",
            "RoleBinding",
            "Deployment",
            "Service",
            "Ingress",
            "PodDisruptionBudget",
            "ServiceMonitor",
        ]
    );
}
