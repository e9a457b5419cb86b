//! What counts as known of a child, as watches, lists and reconciles come after one another.

use super::*;
use crate::controller::children::Child;
use crate::controller::identity::ObjectKey;
use serde_json::{from_value, json};
use std::sync::Arc;

const KIND: ChildKind = ChildKind::ServiceAccount;

const OWNER: &str = "CoderControlPlane";

fn owner() -> ObjectKey {
    ObjectKey { namespace: "team".to_owned(), name: "coder".to_owned() }
}

/// The same as the watches are told.
fn told() -> OwnerKey {
    OwnerKey { kind: OWNER, key: owner() }
}

fn child(value: &str) -> Child {
    let manifest = json!({ "metadata": { "name": "coder", "namespace": "team" }, "spec": { "a": value } });
    Child::new(KIND, "team", "coder", manifest)
}

/// The child as the API server has it at a version.
fn live(child: &Child, version: &str) -> Value {
    let mut live = child.wanted();
    live["metadata"]["resourceVersion"] = json!(version);
    live["metadata"]["labels"] = json!({ "of": "others" });
    live["metadata"]["ownerReferences"] =
        json!([{ "uid": "other", "name": "x" }, { "uid": "u", "name": "coder", "controller": true }]);
    live
}

fn change(version: &str, gone: bool) -> Change {
    let metadata = json!({ "name": "coder", "namespace": "team", "resourceVersion": version });
    Change { metadata: from_value(metadata).unwrap(), gone }
}

/// A cache of which the watch has listed everything, as watches and as a reconciler see it.
fn listed() -> (Arc<SharedChildCache>, ChildCache) {
    let (shared, cache) = unlisted();
    shared.end_list("", KIND);
    (shared, cache)
}

fn unlisted() -> (Arc<SharedChildCache>, ChildCache) {
    let shared: Arc<SharedChildCache> = Arc::default();
    (shared.clone(), ChildCache::of(OWNER, shared))
}

#[test]
fn a_child_is_good_while_the_watch_shows_the_version_we_noted_and_nothing_else_is_wanted() {
    let ((shared, cache), one) = (listed(), child("1"));
    cache.note(&owner(), &one, &live(&one, "7"));
    assert_eq!(cache.up_to_date(&one), None, "the watch has not shown it yet");
    shared.seen(KIND, &change("7", false));
    assert_eq!(
        cache.up_to_date(&one),
        Some(json!({ "metadata": { "ownerReferences": [{ "uid": "u", "controller": true }] } })),
        "nothing else is kept of it"
    );
    assert_eq!(cache.up_to_date(&child("2")), None, "something else is wanted");
    assert_eq!(shared.seen(KIND, &change("8", false)), Some(told()), "somebody else wrote it");
    assert_eq!(cache.up_to_date(&one), None);
    cache.note(&owner(), &one, &live(&one, "9"));
    assert_eq!(shared.seen(KIND, &change("9", false)), None, "we wrote it");
    assert!(cache.up_to_date(&one).is_some());
    assert_eq!(shared.seen(KIND, &change("10", true)), Some(told()), "it is gone");
    assert_eq!(cache.up_to_date(&one), None);
}

#[test]
fn a_note_that_comes_after_the_watch_has_shown_more_counts_for_nothing() {
    let ((shared, cache), one) = (listed(), child("1"));
    shared.seen(KIND, &change("8", false));
    cache.note(&owner(), &one, &live(&one, "7"));
    assert_eq!(cache.up_to_date(&one), None);
    shared.seen(KIND, &change("9", true));
    cache.note(&owner(), &one, &live(&one, "8"));
    assert_eq!(cache.up_to_date(&one), None);
}

#[test]
fn nothing_counts_while_the_watch_of_its_kind_has_not_listed_or_fails() {
    let ((shared, cache), one) = (unlisted(), child("1"));
    cache.note(&owner(), &one, &live(&one, "7"));
    shared.begin_list("", KIND);
    shared.seen(KIND, &change("7", false));
    assert_eq!(cache.up_to_date(&one), None);
    shared.end_list("", KIND);
    assert!(cache.up_to_date(&one).is_some() && cache.all_up_to_date([&one].into_iter()).is_some());
    shared.doubt("", KIND);
    assert!(cache.up_to_date(&one).is_none() && cache.all_up_to_date([&one].into_iter()).is_none());
    shared.seen(KIND, &change("7", false));
    assert!(cache.up_to_date(&one).is_some(), "it goes on");
    cache.forget_owner(&owner());
    assert_eq!(cache.up_to_date(&one), None);
    cache.note(&owner(), &one, &live(&one, "7"));
    shared.begin_list("", KIND);
    assert_eq!(shared.end_list("", KIND), [told()].into(), "it went while the watch was broken");
    assert!(shared.states().0[""].children.is_empty());
}

#[test]
fn a_verification_tells_whose_children_are_gone_without_a_word() {
    let ((shared, cache), one) = (listed(), child("1"));
    cache.note(&owner(), &one, &live(&one, "7"));
    shared.seen(KIND, &change("7", false));
    shared.begin_verification("", KIND);
    assert!(!shared.verify(KIND, &change("7", false).metadata));
    assert!(shared.end_verification("", KIND).is_empty() && cache.up_to_date(&one).is_some());
    shared.begin_verification("", KIND);
    assert!(shared.verify(KIND, &change("8", false).metadata), "an event was lost");
    assert!(shared.end_verification("", KIND).is_empty() && cache.up_to_date(&one).is_none());
    shared.begin_verification("", KIND);
    assert_eq!(shared.end_verification("", KIND), [told()].into());
    assert_eq!(cache.up_to_date(&one), None);
}

#[test]
fn what_was_noted_counts_for_its_version_and_what_is_not_as_wanted_is_not_good() {
    let ((shared, cache), one) = (listed(), child("1"));
    let noted = |cache: &ChildCache| cache.noted(KIND, "team", "coder");
    cache.note(&owner(), &one, &live(&one, "7"));
    assert_eq!(noted(&cache), None, "the watch has not shown it yet");
    shared.seen(KIND, &change("7", false));
    assert!(noted(&cache).is_some() && noted(&cache) == cache.up_to_date(&one));
    cache.note_owner(&owner(), &one, &live(&one, "7"));
    assert!(noted(&cache).is_none() && cache.up_to_date(&one).is_none());
    assert_eq!(shared.seen(KIND, &change("8", true)), Some(told()), "its owner is known");
}

#[test]
fn a_snapshot_stays_what_it_was() {
    let ((shared, cache), one) = (listed(), child("1"));
    cache.note(&owner(), &one, &live(&one, "7"));
    shared.seen(KIND, &change("7", false));
    let snapshot = cache.all_up_to_date([&one].into_iter()).unwrap();
    shared.seen(KIND, &change("8", true));
    assert!(cache.up_to_date(&one).is_none() && snapshot.of(&one).is_some());
}

#[test]
fn owners_of_two_kinds_with_one_name_are_two() {
    let ((shared, cache), one) = (listed(), child("1"));
    let other = ChildCache::of("CoderProvisioner", shared.clone());
    cache.note(&owner(), &one, &live(&one, "7"));
    shared.seen(KIND, &change("7", false));
    other.forget_owner(&owner());
    assert!(cache.up_to_date(&one).is_some(), "nobody asked for this one");
    assert!(other.up_to_date(&one).is_some(), "there is one list and one watch for both");
    assert_eq!(shared.seen(KIND, &change("8", true)), Some(told()), "only its owner is told");
}

#[test]
fn a_place_that_cannot_be_listed_says_nothing_of_another_and_is_not_known_to_be_empty() {
    let shared = Arc::new(SharedChildCache::of(&["team", "refused"]));
    let (cache, one) = (ChildCache::of(OWNER, shared.clone()), child("1"));
    let elsewhere = |namespace: &str| Child::new(KIND, namespace, "coder", json!({}));
    ChildKind::ALL.iter().for_each(|kind| drop(shared.end_list("team", *kind)));
    cache.note(&owner(), &one, &live(&one, "7"));
    shared.seen(KIND, &change("7", false));
    shared.doubt("refused", KIND);
    assert!(cache.up_to_date(&one).is_some() && shared.is_followed("team", KIND));
    assert!(!shared.is_followed("refused", KIND) && !cache.is_absent(&elsewhere("refused")));
    assert!(!cache.is_absent(&elsewhere("unwatched")), "nobody looks there");
    assert!(!cache.unwanted(&owner(), "u", [&one].into_iter()).is_nothing(), "there may be more");
    ChildKind::ALL.iter().for_each(|kind| drop(shared.end_list("refused", *kind)));
    assert!(cache.unwanted(&owner(), "u", [&one].into_iter()).is_nothing());
    shared.begin_list("refused", KIND);
    assert!(cache.up_to_date(&one).is_some(), "a new list of one is not one of all");
    shared.forget_all();
    assert!(cache.up_to_date(&one).is_none() && !shared.is_followed("team", KIND));
}
