//! What holds for the children of every provisioner that admission accepts, tried on generated ones and the samples.

use super::fixtures::Provisioner;
use crate::controller::children::ChildKind;
use crate::controller::children::sound::assert_all_sound;
use std::collections::BTreeSet;
use webhooks::generate::Generator;
use webhooks::{Config, Kind, Operation, defaulted, validate};

const TRIED: u64 = 30_000;
const ENOUGH: usize = 100;

/// Objects as they are stored: admitted, and readable as what they are.
fn admitted() -> impl Iterator<Item = Provisioner> {
    (0..TRIED).filter_map(|seed| {
        let object = Generator::new(seed).object(Kind::Provisioner);
        let mut stored = defaulted(Kind::Provisioner, &object, None, &Config::default()).into_owned();
        let verdict = validate(Kind::Provisioner, &stored, Operation::Create);
        // The API server gives or demands a name after admission.
        let named = stored["metadata"]["name"].as_str().is_some_and(|name| !name.is_empty());
        if !named || !verdict.allowed() {
            return None;
        }
        stored["metadata"]["uid"] = "u-1".into();
        Some(Provisioner::from(stored))
    })
}

#[test]
fn children_of_whatever_is_admitted_are_sound_and_the_same_each_time() {
    let mut kinds = BTreeSet::new();
    let mut count = 0;
    for given in admitted().take(ENOUGH * 2) {
        let given = if count % 2 == 0 { given } else { given.of_tls_control_plane(&["a", "b.c"]) };
        let children = given.children();
        assert_eq!(children, given.children());
        assert_all_sound(children.all(), &given.object);
        kinds.extend(children.all().map(|child| child.kind));
        // A pass over what it has made changes nothing, also when nothing else is known any more.
        let left = given.clone().running(given.deployment()).without_control_plane().without_key();
        assert_eq!(left.deployment(), given.deployment(), "{}", given.object);
        count += 1;
    }
    assert!(count >= ENOUGH, "{count} were admitted");
    let expected = [
        ChildKind::ServiceAccount,
        ChildKind::Role,
        ChildKind::RoleBinding,
        ChildKind::Deployment,
        ChildKind::PodDisruptionBudget,
        ChildKind::PodMonitor,
    ];
    assert_eq!(kinds, BTreeSet::from(expected), "every kind was met");
}

#[test]
fn the_sample_with_every_field_has_every_child() {
    let given = Provisioner::test().with_everything();
    assert_all_sound(given.children().all(), &given.object);
    assert_eq!(given.children().absent(), []);
}
