//! State in, step out: every step, and what is recorded after it.

use super::*;

fn at(hours: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + hours * 3600).unwrap()
}

fn kept(generation: u64, expires_at: Option<i64>) -> Kept {
    Kept { token: NewToken::generate().unwrap(), generation, expires_at: expires_at.map(at) }
}

/// A record at rest at hour 0: one proven token, fresh, everything else done.
fn rested() -> Record {
    Record {
        user_id: Uuid::random().unwrap(),
        generation: 1,
        current: Some(kept(1, Some(24))),
        next: None,
        role: Some(Role::TemplateAdmin),
        revoked_before: 1,
        former_cleared: true,
    }
}

fn seen(record: &Record, now: i64) -> Seen<'_> {
    Seen {
        has_finalizer: true,
        record: Some(record),
        standing: Standing::Unknown,
        role: Role::TemplateAdmin,
        now: at(now),
    }
}

fn step(record: &Record, now: i64) -> Step {
    next(&seen(record, now))
}

#[test]
fn nothing_happens_before_the_object_is_held_and_the_token_recorded() {
    let record = rested();
    assert_eq!(next(&Seen { has_finalizer: false, ..seen(&record, 0) }), Step::AddFinalizer);
    assert_eq!(next(&Seen { has_finalizer: false, record: None, ..seen(&record, 0) }), Step::AddFinalizer);
    assert_eq!(next(&Seen { record: None, ..seen(&record, 0) }), Step::Prepare);
}

#[test]
fn a_fresh_token_rests_and_is_renewed_at_half_life_or_when_coderd_refuses_it() {
    let record = rested();
    for standing in [Standing::Unknown, Standing::Accepted] {
        assert_eq!(next(&Seen { standing, ..seen(&record, 0) }), Step::Rest);
        assert_eq!(next(&Seen { standing, ..seen(&record, 11) }), Step::Rest);
        assert_eq!(next(&Seen { standing, ..seen(&record, 12) }), Step::Prepare);
        assert_eq!(next(&Seen { standing, ..seen(&record, 48) }), Step::Prepare);
    }
    assert_eq!(next(&Seen { standing: Standing::Rejected, ..seen(&record, 0) }), Step::Prepare);
}

#[test]
fn a_new_token_goes_to_the_database_is_proven_and_takes_over_before_others_are_revoked() {
    let (renewed, user) = (NewToken::generate().unwrap(), Uuid::random().unwrap());
    let before = Record { former_cleared: false, ..rested() };
    let record = Record::prepared(Some(&before), user, renewed.clone());
    assert_eq!((record.generation, record.user_id, &record.current), (2, before.user_id, &before.current));
    assert_eq!(step(&record, 13), Step::Ensure(Which::Next));
    let record = record.ensured(Which::Next, user, Role::TemplateAdmin, at(37));
    assert_eq!((step(&record, 13), record.user_id), (Step::Prove, user));
    assert_eq!(step(&record, 37), Step::Prepare, "too late to prove it");
    assert_eq!(step(&record.doubted(), 13), Step::Ensure(Which::Next));
    let record = record.promoted();
    assert_eq!(record.current.as_ref().unwrap().token, renewed);
    assert_eq!((step(&record, 13), &record.next), (Step::Revoke, &None));
    let record = record.revoked();
    assert_eq!(step(&record, 13), Step::ClearFormer);
    assert_eq!(step(&record.cleared(), 13), Step::Rest);
}

#[test]
fn another_role_needs_no_other_token() {
    let record = rested();
    let needs_owner = Seen { role: Role::Owner, ..seen(&record, 0) };
    assert_eq!(next(&needs_owner), Step::Ensure(Which::Current));
    let owner = record.ensured(Which::Current, record.user_id, Role::Owner, at(24));
    assert_eq!(next(&Seen { role: Role::Owner, ..seen(&owner, 0) }), Step::Rest);
    assert_eq!(step(&owner, 0), Step::Ensure(Which::Current), "and less again when less is needed");
    assert_eq!(owner.current, record.current);
}

#[test]
fn a_proven_token_is_of_use_until_it_ends_or_is_refused() {
    let record = rested();
    assert_eq!(usable(&record, Standing::Unknown, at(23)), record.current.as_ref());
    assert_eq!(usable(&record, Standing::Rejected, at(0)), None);
    assert_eq!(usable(&record, Standing::Accepted, at(24)), None);
    let unproven = Record { current: None, next: Some(kept(2, Some(24))), ..record };
    assert_eq!(usable(&unproven, Standing::Unknown, at(0)), None);
}
