//! What can be told of objects while watches list, work, fail and are verified.

use super::verification::LONGEST_DOUBT;
use super::*;
use serde_json::{from_value, json};

const KIND: ChildKind = ChildKind::Role;

fn metadata(name: &str, version: &str) -> ObjectMeta {
    from_value(json!({ "name": name, "namespace": "team", "resourceVersion": version,
        "ownerReferences": [{ "apiVersion": "v1", "kind": "X", "name": "coder", "uid": "o", "controller": true }] }))
    .unwrap()
}

fn owner() -> ObjectKey {
    ObjectKey { namespace: "team".to_owned(), name: "coder".to_owned() }
}

/// Every kind is listed, and nothing is there.
fn complete() -> ObservedVersions {
    let mut observed = ObservedVersions::default();
    ChildKind::ALL.iter().for_each(|kind| observed.end_list(*kind));
    observed
}

#[test]
fn whether_an_object_is_there_is_told_once_its_kind_is_listed_and_while_its_watch_works() {
    let mut observed = ObservedVersions::default();
    let place = observed.place(KIND, "team", "a");
    observed.begin_list(KIND);
    observed.observe(KIND, &metadata("a", "7"), false);
    assert!(
        observed.current(KIND, place).is_none() && !observed.is_absent(KIND, place),
        "nobody can tell yet"
    );
    observed.end_list(KIND);
    assert_eq!(observed.current(KIND, place), Some(observed.version("7")));
    assert!(observed.is_absent(KIND, observed.place(KIND, "team", "b")));
    observed.doubt(KIND, Instant::now());
    assert!(observed.current(KIND, place).is_none() && !observed.is_absent(KIND, place), "its watch fails");
    observed.observe(KIND, &metadata("a", "8"), true);
    assert!(observed.is_absent(KIND, place), "it goes on");
    observed.begin_list(KIND);
    assert!(!observed.is_absent(KIND, place), "it is listed again");
    observed.unserved(KIND);
    assert!(observed.current(KIND, place).is_none() && !observed.is_absent(KIND, place));
}

#[test]
fn what_belongs_to_an_owner_is_found_by_its_uid_and_by_labels_once_every_kind_is_known() {
    let mut observed = complete();
    observed.observe(KIND, &metadata("a", "7"), false);
    let a = observed.place(KIND, "team", "a");
    let beyond = |observed: &ObservedVersions, uid: &str, wanted: &[Place]| {
        observed.beyond(&owner(), uid, &wanted.iter().copied().collect())
    };
    let only = |places: &[Place]| Unwanted { places: places.iter().copied().collect(), complete: true };
    assert_eq!(beyond(&observed, "o", &[]), only(&[a]));
    assert_eq!(beyond(&observed, "o", &[a]), only(&[]));
    assert_eq!(beyond(&observed, "other", &[]), only(&[]), "another one's");
    let labelled =
        from_value(json!({ "name": "b", "namespace": "elsewhere", "resourceVersion": "9", "labels": {
        "coder.com/control-plane": "coder", "coder.com/control-plane-namespace": "team" } }));
    observed.observe(KIND, &labelled.unwrap(), false);
    let b = observed.place(KIND, "elsewhere", "b");
    assert_eq!(beyond(&observed, "o", &[a]), only(&[b]), "one elsewhere has labels");
    observed.unserved(ChildKind::HttpRoute);
    assert_eq!(beyond(&observed, "o", &[a]), only(&[b]), "there is nothing of a kind that nobody serves");
    observed.doubt(ChildKind::Service, Instant::now());
    let more = Unwanted { complete: false, ..only(&[b]) };
    assert_eq!(beyond(&observed, "o", &[a]), more, "there may be more");
    observed.observe(ChildKind::Service, &metadata("c", "1"), true);
    observed.observe(KIND, &metadata("a", "8"), true);
    assert_eq!(beyond(&observed, "o", &[]), only(&[b]), "it is gone");
}

#[test]
fn an_object_that_changes_hands_is_its_former_owners_no_more() {
    let mut observed = complete();
    observed.observe(KIND, &metadata("a", "7"), false);
    let mut other = metadata("a", "8");
    other.owner_references.iter_mut().flatten().for_each(|owner| owner.uid = "p".to_owned());
    observed.observe(KIND, &other, false);
    assert!(observed.beyond(&owner(), "o", &HashSet::new()).places.is_empty());
    assert_eq!(observed.of.len(), 1, "nothing is kept of what was");
}

#[test]
fn a_verification_finds_what_a_watch_has_missed_and_never_knows_better_than_a_watch_that_has_not() {
    let mut observed = complete();
    for name in ["kept", "changed", "lost"] {
        observed.observe(KIND, &metadata(name, "1"), false);
    }
    observed.begin_verification(KIND);
    observed.observe(KIND, &metadata("fresh", "5"), false);
    observed.observe(KIND, &metadata("deleted", "6"), true);
    let news = |observed: &mut ObservedVersions, name: &str, version: &str| {
        observed.verify(KIND, &metadata(name, version))
    };
    assert!(!news(&mut observed, "kept", "1"));
    assert!(news(&mut observed, "changed", "2") && news(&mut observed, "added", "3"));
    assert!(!news(&mut observed, "fresh", "4") && !news(&mut observed, "deleted", "4"), "the list is older");
    let (changed, now) = (observed.place(KIND, "team", "changed"), Instant::now());
    assert_eq!(observed.end_verification(KIND, now), [observed.place(KIND, "team", "lost")]);
    assert_eq!(observed.current(KIND, changed), Some(observed.version("2")));
    assert!(observed.is_absent(KIND, observed.place(KIND, "team", "lost")));
    assert!(observed.current(KIND, observed.place(KIND, "team", "fresh")).is_some(), "it came meanwhile");
    observed.doubt(KIND, Instant::now());
    observed.begin_verification(KIND);
    observed.end_verification(KIND, now);
    assert!(!observed.is_absent(KIND, changed), "its watch may still fail");
    observed.begin_verification(KIND);
    observed.end_verification(KIND, now + LONGEST_DOUBT * 2);
    assert!(observed.is_absent(KIND, changed), "a list ends a doubt that nobody has renewed");
}

#[test]
fn whoever_has_too_many_objects_is_told_how_to_find_them() {
    let command = find_command();
    assert!(command.starts_with("kubectl get serviceaccounts,"), "{command}");
    assert!(command.contains(" -A -l app.kubernetes.io/managed-by=coder-k8s "), "{command}");
    assert!(!command.contains("httproutes"), "a kind that a cluster may lack would fail it: {command}");
}

#[test]
fn beyond_a_number_of_objects_nothing_is_kept_and_nobody_can_tell() {
    let mut observed = complete();
    for number in 0..=MOST {
        observed.observe(KIND, &metadata(&number.to_string(), "1"), false);
    }
    let place = observed.place(KIND, "team", "1");
    assert!(observed.current(KIND, place).is_none() && !observed.is_absent(KIND, place));
    assert_eq!(observed.beyond(&owner(), "o", &HashSet::new()), Unwanted::default());
    observed.begin_verification(KIND);
    assert!(!observed.verify(KIND, &metadata("1", "2")), "nothing is news");
    assert!(observed.of.is_empty() && observed.kinds[&KIND].there.is_empty());
}
