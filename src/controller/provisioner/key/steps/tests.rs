//! Single decisions, by sentence; every order of events is explored beside this file.

mod case;

use super::super::cause::{Cause, cause, unadopted};
use super::super::record::Home;
use super::*;
use case::{Case, daemons, listed, now, uuid};
use jiff::SignedDuration;

#[test]
fn the_first_key_has_the_name_of_the_spec_and_taken_names_are_left_alone_and_told() {
    let mut case = Case::new("builders");
    assert_eq!(case.intends(), ("builders".to_owned(), Vec::new()));
    case.listed = vec![listed(1, "BUILDERS"), listed(2, "builders-2")];
    let left = vec![Left::Taken("BUILDERS".to_owned()), Left::Taken("builders-2".to_owned())];
    assert_eq!(case.intends(), ("builders-3".to_owned(), left), "coderd does not tell case apart");
    let long = Case::new(&"x".repeat(64));
    assert_eq!(long.intends().0.len(), 64);
    let mut taken = Case::new(&"x".repeat(64));
    taken.listed = vec![listed(1, &"x".repeat(64))];
    let (name, _) = taken.intends();
    assert!(name.len() <= 64 && name.ends_with("-2"), "{name}");
}

#[test]
fn thousands_of_taken_names_cost_one_look_each_and_a_few_words() {
    let mut case = Case::new("builders");
    case.listed = (1..7000).map(|number| listed(1, &case.desired.name_of(number))).collect();
    let began = std::time::Instant::now();
    let (name, left) = case.intends();
    assert_eq!((name.as_str(), left.len()), ("builders-7000", MOST_TOLD + 1));
    assert_eq!(left.last(), Some(&Left::MoreTaken(6999 - MOST_TOLD)));
    println!("{:?}", began.elapsed());
}

#[test]
fn a_key_that_another_object_has_recorded_is_not_ours_whatever_the_secret_holds() {
    let mut case = Case::using("builders", "builders");
    case.record = Record::default();
    assert!(matches!(case.seen(unrecorded), Unrecorded::Ours(_)));
    case.of_others.insert(uuid(1));
    assert_eq!(case.seen(unrecorded), Unrecorded::Nothing, "it is theirs");
    assert_eq!(case.intends().0, "builders-2");
}

#[test]
fn after_a_key_that_was_given_up_the_next_waits() {
    let mut case = Case::new("builders");
    case.paused = true;
    assert_eq!(case.next(), Step::Wait(Wait::Pause));
    case.record.pending = Some(case.seen(|seen| seen.key("builders", 1)));
    case.record.places = vec![case.desired.place.clone()];
    assert_eq!(case.next(), Step::Wait(Wait::Pause));
    case.paused = false;
    assert_eq!(case.next(), Step::Create);
}

#[test]
fn a_former_coderd_that_does_not_answer_keeps_nothing_waiting() {
    let mut case = Case::using("builders", "builders");
    let elsewhere = Home { control_plane: "former".to_owned(), ..case.desired.home.clone() };
    let old = Key { home: elsewhere, id: Some(uuid(5)), used: true, ..case.seen(|seen| seen.key("old", 1)) };
    case.record.retiring = vec![old];
    case.retiring = Some(Sight::Unreachable);
    assert_eq!(case.next(), Step::Wait(Wait::Elsewhere));
    let former = SecretPlace { secret: "former".to_owned(), data_key: "key".to_owned() };
    case.record.places.push(former.clone());
    case.materials.push((former.clone(), Material::Rejected));
    assert_eq!(case.next(), Step::Empty(former), "the Secret of before is emptied");
    case.tagged();
    assert_eq!(case.intends().0, "builders-2", "and rotations go on");
}

#[test]
fn no_key_is_made_in_another_coderd_while_pods_cannot_follow() {
    let mut case = Case::using("builders", "builders");
    case.desired.home.control_plane = "other".to_owned();
    case.may_roll = false;
    assert_eq!(case.next(), Step::Wait(Wait::Rollout));
    let asked = |case: &mut Case| {
        case.may_roll = true;
        let asked = case.next();
        case.may_roll = false;
        asked
    };
    let Step::Record(record, _) = asked(&mut case) else { panic!("{:?}", case.next()) };
    assert!(record.pending.is_some());
    // One that was begun while they could, and could not be made then.
    case.record = *record;
    case.materials[0].1 =
        Material::Elsewhere(case.record.current.clone().unwrap().home, "builders".to_owned());
    case.listed.clear();
    assert_eq!(case.next(), Step::Wait(Wait::Rollout));
    assert_eq!(asked(&mut case), Step::Create);
    // Nor where nothing is recorded any more, and the Secret still says whose plaintext it holds.
    case.record = Record::default();
    assert_eq!(case.next(), Step::Wait(Wait::Rollout));
    assert!(matches!(asked(&mut case), Step::Record(..)));
    // Another organization of the same coderd is no other coderd.
    let mut near = Case::using("builders", "builders");
    near.desired.home.organization = uuid(201);
    near.may_roll = false;
    assert!(matches!(near.next(), Step::Record(..)));
}

#[test]
fn a_key_of_ours_that_a_former_control_plane_knows_is_nobody_elses() {
    let mut case = Case::using("builders", "builders");
    case.desired.home.control_plane = "made-anew".to_owned();
    case.materials =
        vec![(case.desired.place.clone(), Material::Elsewhere(Home::unknown(uuid(200)), "x".to_owned()))];
    let Step::Record(record, left) = case.next() else { panic!("{:?}", case.next()) };
    assert_eq!(record.pending.map(|key| key.name).as_deref(), Some("builders-2"));
    assert_eq!(left, [Left::Unproven("x".to_owned())], "of what the older operator left, its name is told");
}

#[test]
fn names_that_others_have_are_skipped_however_many_there_are() {
    let mut case = Case::using("builders", "builders");
    case.tagged();
    case.taken = (2..=400).collect();
    let Step::Record(record, left) = case.next() else { panic!("{:?}", case.next()) };
    assert_eq!(record.pending.map(|key| key.name).as_deref(), Some("builders-401"));
    assert_eq!(left.len(), MOST_TOLD + 1);
    assert_eq!(left.last(), Some(&Left::MoreTaken(399 - MOST_TOLD)));
}

#[test]
fn an_annotation_takes_nothing_over_while_there_is_no_room() {
    let mut case = Case::using("builders", "builders");
    let old = |number: u8| Key { id: Some(uuid(number)), used: true, ..case.seen(|seen| seen.key("old", 1)) };
    case.record.retiring = (50..54).map(old).collect();
    case.retiring = Some(Sight::Unreachable);
    case.listed.push(listed(9, "theirs"));
    case.desired.adopt = Some("theirs".to_owned());
    assert_eq!(case.next(), Step::Wait(Wait::Elsewhere));
    case.record.retiring.pop();
    assert!(matches!(case.next(), Step::Record(record, _) if record.retiring.len() == 4));
}

#[test]
fn a_request_may_be_under_way_for_as_long_as_its_key_would_count_as_ours() {
    let case = Case::new("builders");
    let key = Key { attempted: true, ..case.seen(|seen| seen.key("builders", 1)) };
    let later = |minutes| now() + SignedDuration::from_mins(minutes);
    assert!(key.may_be_under_way(later(5)) && !key.may_be_under_way(later(7)));
    assert!(!Key { attempted: false, ..key }.may_be_under_way(now()));
}

#[test]
fn changed_tags_make_a_numbered_key_and_another_name_is_used_as_it_is() {
    let mut tagged = Case::using("builders", "builders");
    tagged.tagged();
    assert_eq!(tagged.intends().0, "builders-2");
    let mut renamed = Case::using("builders", "builders");
    renamed.desired.base = "other".to_owned();
    assert_eq!(renamed.intends().0, "other");
    let same = Case::using("Builders", "builders");
    assert_eq!(same.next(), Step::Rest, "another spelling is no other name");
}

#[test]
fn no_key_is_made_without_a_license_for_a_foreign_secret_or_against_an_older_claim() {
    let wait = |change: fn(&mut Case)| {
        let mut case = Case::new("builders");
        change(&mut case);
        case.next()
    };
    assert_eq!(wait(|case| case.entitled = false), Step::Wait(Wait::Entitlement));
    assert_eq!(wait(|case| case.claimed = true), Step::Wait(Wait::Claimed));
    let foreign = |case: &mut Case| case.materials = vec![(case.desired.place.clone(), Material::Foreign)];
    assert_eq!(wait(foreign), Step::Wait(Wait::SecretNotOurs));
    let silent = |case: &mut Case| case.materials = vec![(case.desired.place.clone(), Material::Unproven)];
    assert_eq!(wait(silent), Step::Wait(Wait::Coderd), "nothing is concluded from silence");
}

#[test]
fn a_key_that_an_annotation_names_is_taken_over_once_and_deleted_when_ours_is_in_use() {
    let mut case = Case::using("builders", "builders");
    case.listed.push(Listed { daemons: daemons(3), ..listed(9, "old") });
    case.desired.adopt = Some("Old".to_owned());
    case.of_others.insert(uuid(9));
    assert_eq!(case.next(), Step::Rest, "another object has recorded it");
    case.of_others.clear();
    let Step::Record(record, _) = case.next() else { panic!("{:?}", case.next()) };
    assert_eq!((record.adopted.as_deref(), record.retiring.len()), (Some("Old"), 1));
    case.record = *record;
    assert_eq!(case.next(), Step::Wait(Wait::Rollout), "its daemons have some time");
    case.listed[1].daemons = daemons(0);
    assert!(matches!(case.next(), Step::Delete(key) if key.name == "old"));
    case.listed.pop();
    let Step::Record(record, _) = case.next() else { panic!("{:?}", case.next()) };
    case.record = *record;
    case.listed.push(listed(10, "old"));
    assert_eq!(case.next(), Step::Rest, "a later key of that name is somebody else's");
}

#[test]
fn a_key_of_another_id_under_a_retired_name_is_not_deleted() {
    let mut case = Case::using("builders", "builders");
    case.record.retiring =
        vec![Key { id: Some(uuid(5)), used: true, ..case.seen(|seen| seen.key("gone", 0)) }];
    case.listed.push(listed(6, "gone"));
    let Step::Record(record, _) = case.next() else { panic!("{:?}", case.next()) };
    assert!(record.retiring.is_empty());
}

#[test]
fn nothing_is_deleted_while_pods_are_on_their_way() {
    let mut case = Case::using("builders", "builders-2");
    case.record.retiring =
        vec![Key { id: Some(uuid(5)), used: true, ..case.seen(|seen| seen.key("builders", 1)) }];
    case.listed.push(listed(5, "builders"));
    case.rolled = false;
    assert_eq!(case.next(), Step::Wait(Wait::Rollout));
    case.rolled = true;
    case.listed[0].daemons = daemons(0);
    assert_eq!(case.next(), Step::Wait(Wait::Rollout), "pods run, and coderd lets none of their daemons in");
    case.is_idle = true;
    assert!(matches!(case.next(), Step::Delete(_)), "no daemons are asked for");
    (case.is_idle, case.listed[0].daemons) = (false, daemons(1));
    assert!(matches!(case.next(), Step::Delete(_)));
    case.entitled = false;
    assert_eq!(case.next(), Step::Wait(Wait::Entitlement));
}

#[test]
fn a_daemon_that_finishes_a_build_keeps_its_key_until_no_pod_can_be_left() {
    let mut case = Case::using("builders", "builders-2");
    let ago = |minutes| now() - SignedDuration::from_mins(minutes);
    let old = Key { id: Some(uuid(5)), used: true, ..case.seen(|seen| seen.key("builders", 1)) };
    case.record.retiring = vec![Key { since: ago(90), ..old }];
    case.listed.push(Listed { daemons: daemons(1), ..listed(5, "builders") });
    assert!(matches!(case.next(), Step::Delete(_)), "whoever uses it after half an hour has copied it");
    case.patience = SignedDuration::from_mins(120);
    assert_eq!(case.next(), Step::Wait(Wait::Rollout), "its pod may take two hours to end");
    case.patience = SignedDuration::from_mins(60);
    assert!(matches!(case.next(), Step::Delete(_)));
    case.rolled_at = Some(ago(40));
    assert_eq!(case.next(), Step::Wait(Wait::Rollout), "the last pod was told to stop 40 minutes ago");
    case.listed[1].daemons = daemons(0);
    assert!(matches!(case.next(), Step::Delete(_)), "nobody waits for a daemon that is gone");
}

#[test]
fn no_key_is_made_for_a_secret_that_nobody_can_change() {
    let waits = Step::Wait(Wait::SecretImmutable);
    let mut works = Case::using("builders", "builders");
    works.immutable.insert("s".to_owned());
    assert_eq!(works.next(), Step::Rest, "a key that works stays where it is");
    works.tagged();
    assert_eq!(works.next(), waits);
    let mut empty = Case::new("builders");
    empty.materials = vec![(empty.desired.place.clone(), Material::Absent)];
    empty.immutable.insert("s".to_owned());
    assert_eq!(empty.next(), waits);
    let mut moved = Case::using("builders", "builders");
    moved.desired.place.data_key = "other".to_owned();
    moved.immutable.insert("s".to_owned());
    assert_eq!(moved.next(), waits, "not even to another data key of it");
    moved.desired.place = SecretPlace { secret: "t".to_owned(), data_key: "key".to_owned() };
    let Step::Record(record, _) = moved.next() else { panic!("{:?}", moved.next()) };
    moved.record = *record;
    let former = SecretPlace { secret: "s".to_owned(), data_key: "key".to_owned() };
    assert_eq!(moved.next(), Step::Move(former.clone()));
    moved.materials.push((moved.desired.place.clone(), moved.materials[0].1.clone()));
    assert_eq!(moved.next(), Step::Empty(former), "as a whole it can go");
}

#[test]
fn patience_is_at_least_the_grace_period_of_the_pods_and_coderds_window() {
    let minutes = SignedDuration::from_mins;
    assert_eq!((patience(None), patience(Some(0))), (minutes(30), minutes(30)));
    assert_eq!(patience(Some(2 * 60 * 60)), minutes(124));
    assert_eq!(patience(Some(i64::MAX)), SignedDuration::MAX);
}

#[test]
fn a_mark_that_anybody_can_write_makes_no_key_of_others_ours() {
    let mut case = Case::new("builders");
    let elsewhere = Home { control_plane: "former".to_owned(), ..case.desired.home.clone() };
    let intent = case.seen(|seen| Key { home: elsewhere.clone(), ..seen.key("builders", 1) });
    let mark = Material::Elsewhere(elsewhere, "builders".to_owned());
    case.materials = vec![(case.desired.place.clone(), mark)];
    let given_up = |case: &Case| match case.next() {
        Step::Record(record, _) => record.retiring.first().and_then(|key| key.id),
        other => panic!("{other:?}"),
    };
    case.pending_elsewhere = Some(Sight::Listed(listed(7, "builders")));
    case.record.pending = Some(intent.clone());
    assert_eq!(given_up(&case), None, "coderd was never asked to make it");
    case.record.pending = Some(Key { attempted: true, ..intent.clone() });
    assert_eq!(given_up(&case), Some(uuid(7)));
    let of_before = Listed { created_at: now() - SignedDuration::from_hours(1), ..listed(7, "builders") };
    case.pending_elsewhere = Some(Sight::Listed(of_before));
    assert_eq!(given_up(&case), None, "it was there before we asked");
    let mut tagged = listed(7, "builders");
    tagged.facts.tags_hash = "else".to_owned();
    case.pending_elsewhere = Some(Sight::Listed(tagged));
    assert_eq!(given_up(&case), None, "we asked for other tags");
    let late = Listed { created_at: now() + SignedDuration::from_hours(1), ..listed(7, "builders") };
    case.pending_elsewhere = Some(Sight::Listed(late));
    assert_eq!(given_up(&case), Some(uuid(7)), "a slow coderd made it, and its plaintext was kept");
    case.materials.clear();
    assert_eq!(given_up(&case), None, "nothing speaks for it");
}

#[test]
fn a_key_is_made_for_a_reason_that_can_be_told() {
    let why = |case: &Case| case.seen(cause);
    assert_eq!(why(&Case::new("builders")), Cause::First);
    let using = || Case::using("builders", "builders");
    let mut tagged = using();
    tagged.tagged();
    assert_eq!(why(&tagged), Cause::Tags);
    let mut renamed = using();
    renamed.desired.base = "others".to_owned();
    assert_eq!(why(&renamed), Cause::Renamed);
    let mut moved = using();
    moved.desired.home.control_plane = "v".to_owned();
    assert_eq!(why(&moved), Cause::Moved);
    let holding = |material: Material| {
        let mut case = using();
        case.materials = vec![(case.desired.place.clone(), material)];
        case
    };
    assert_eq!(why(&holding(Material::Absent)), Cause::SecretEmptied("s".to_owned()));
    assert_eq!(why(&holding(Material::Rejected)), Cause::SecretChanged("s".to_owned()));
    let mut deleted = holding(Material::Rejected);
    deleted.listed.clear();
    assert_eq!(why(&deleted), Cause::DeletedInCoderd("builders".to_owned()));
}

#[test]
fn an_annotation_that_takes_nothing_over_says_why() {
    let mut case = Case::using("builders", "builders");
    let why = |case: &Case| case.seen(unadopted).unwrap_or_default();
    assert_eq!(why(&case), "");
    case.desired.adopt = Some("theirs".to_owned());
    assert_eq!(why(&case), "coderd has no such key");
    case.listed.push(listed(2, "Theirs"));
    assert_eq!(why(&case), "", "it is taken over");
    case.of_others.insert(uuid(2));
    assert_eq!(why(&case), "another CoderProvisioner of this cluster has it");
    case.record.adopted = Some("theirs".to_owned());
    assert_eq!(why(&case), "", "that was done");
    case.desired.adopt = Some("builders".to_owned());
    assert_eq!(why(&case), "it is this object's own already");
}
