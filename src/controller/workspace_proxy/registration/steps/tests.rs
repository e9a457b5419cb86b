//! What follows from what is seen, one situation at a time.

use super::super::cause::{Cause, cause};
use super::super::others::OfOthers;
use super::super::record::Home;
use super::super::seen::{Desired, Sight};
use super::*;
use jiff::{SignedDuration, Timestamp};

const MINE: u128 = 1;
const THEIRS: u128 = 2;

fn uuid(number: u128) -> Uuid {
    format!("00000000-0000-4000-8000-{number:012x}").parse().unwrap()
}

fn now() -> Timestamp {
    Timestamp::from_second(1_800_000_000).unwrap()
}

fn home(uid: &str, deployment: &str) -> Home {
    Home::behind(uid.to_owned(), deployment.to_owned())
}

fn place(secret: &str) -> SecretPlace {
    SecretPlace { secret: secret.to_owned(), data_key: "token".to_owned() }
}

fn desired() -> Desired {
    Desired {
        brought: false,
        home: home("u1", "d1"),
        name: "eu".to_owned(),
        display_name: "Europe".to_owned(),
        icon: "/globe.png".to_owned(),
        origin: "uid-1".to_owned(),
        place: place("eu-proxy-token"),
        adopt: None,
        rotate: None,
    }
}

fn facts(id: u128, name: &str) -> ProxyFacts {
    let (display_name, icon) = ("Europe".to_owned(), "/globe.png".to_owned());
    ProxyFacts { id: uuid(id), name: name.to_owned(), display_name, icon }
}

/// One that says who makes it.
fn made_by(origin: &str, id: u128, name: &str) -> ProxyFacts {
    ProxyFacts { icon: format!("/globe.png#{origin}"), ..facts(id, name) }
}

fn registration(id: Option<u128>, attempted: bool) -> Registration {
    let (home, name, since) = (home("u1", "d1"), "eu".to_owned(), now());
    Registration { home, name, id: id.map(uuid), since, attempted, brought: false }
}

/// What somebody else has recorded behind a control plane.
fn of_others(uid: &str, id: u128) -> OfOthers {
    [(home(uid, "d1"), uuid(id))].into_iter().collect()
}

fn in_use() -> Record {
    Record { current: Some(registration(Some(MINE), true)), ..Record::default() }
}

/// What is decided, and everything it is decided from.
struct Case {
    desired: Desired,
    record: Record,
    material: Material,
    is_proven_here: bool,
    former: Option<(SecretPlace, Material)>,
    proxies: Option<Vec<ProxyFacts>>,
    retiring: Vec<Sight>,
    rolled: bool,
    admission_disabled: bool,
    entitled: bool,
    claimed: bool,
    paused: bool,
    of_others: OfOthers,
}

impl Case {
    fn new(record: Record, material: Material, proxies: &[ProxyFacts]) -> Self {
        Self {
            desired: desired(),
            record,
            material,
            is_proven_here: false,
            former: None,
            proxies: Some(proxies.to_vec()),
            retiring: Vec::new(),
            rolled: true,
            admission_disabled: false,
            entitled: true,
            claimed: false,
            paused: false,
            of_others: OfOthers::default(),
        }
    }

    fn next(&self) -> Step {
        self.next_at(now())
    }

    fn next_at(&self, now: Timestamp) -> Step {
        self.seen_at(now, next)
    }

    fn seen_at<T>(&self, now: Timestamp, of: impl Fn(&Seen<'_>) -> T) -> T {
        of(&Seen {
            has_finalizer: true,
            desired: &self.desired,
            record: &self.record,
            material: &self.material,
            is_immutable: false,
            is_proven_here: self.is_proven_here,
            former: self.former.as_ref().map(|(place, material)| (place, material)),
            proxies: self.proxies.as_deref(),
            retiring: &self.retiring,
            pending_elsewhere: None,
            rolled: self.rolled,
            may_roll: true,
            admission_disabled: self.admission_disabled,
            entitled: self.entitled,
            claimed: self.claimed,
            paused: self.paused,
            of_others: &self.of_others,
            now,
        })
    }

    fn recorded(&self) -> Record {
        match self.next() {
            Step::Record(record, _) => *record,
            other => panic!("{other:?}"),
        }
    }
}

fn token(id: u128) -> Material {
    Material::Is(uuid(id), None)
}

#[test]
fn a_free_name_is_intended_and_then_made() {
    let intended = Case::new(Record::default(), Material::Absent, &[]).recorded();
    assert_eq!(intended.pending, Some(registration(None, false)));
    assert_eq!(Case::new(intended, Material::Absent, &[]).next(), Step::Create);
}

#[test]
fn after_a_crash_a_proxy_of_ours_has_its_token_replaced_and_one_of_others_is_left_alone() {
    let record = Record { pending: Some(registration(None, true)), ..Record::default() };
    let mine = || [made_by("uid-1", MINE, "eu")];
    let known = Case::new(record.clone(), Material::Absent, &mine()).recorded();
    assert_eq!(known.pending.as_ref().unwrap().id, Some(uuid(MINE)));
    let again = Case::new(known, Material::Absent, &mine()).next();
    assert_eq!(again, Step::Regenerate(uuid(MINE)));
    // Somebody else, of another cluster say, asked for the same at the same time and was faster.
    for theirs in [facts(THEIRS, "eu"), made_by("uid-2", THEIRS, "eu")] {
        assert_eq!(Case::new(record.clone(), Material::Absent, &[theirs]).recorded(), Record::default());
    }
    let mut recorded = Case::new(record.clone(), Material::Absent, &mine());
    recorded.of_others = of_others("u1", MINE);
    assert_eq!(recorded.recorded(), Record::default(), "another object has it");
    recorded.of_others = of_others("u2", MINE);
    assert!(recorded.recorded().pending.is_some(), "what another coderd says of itself stops nobody");
    let mut kept = Case::new(record, token(MINE), &mine());
    kept.record = kept.recorded();
    let current = kept.record.current.clone().unwrap();
    assert_eq!(current.id, Some(uuid(MINE)), "its token was kept before the crash");
    assert_eq!(kept.next(), Step::Update(uuid(MINE)), "it no longer has to say who makes it");
}

#[test]
fn a_name_of_others_is_a_conflict_unless_an_annotation_names_it() {
    let mut case = Case::new(Record::default(), Material::Absent, &[facts(THEIRS, "eu")]);
    assert_eq!(case.next(), Step::Wait(Wait::NameTaken));
    case.desired.adopt = Some("other".to_owned());
    assert_eq!(case.next(), Step::Wait(Wait::NameTaken));
    case.desired.adopt = Some("eu".to_owned());
    let adopted = case.recorded();
    assert_eq!(
        (adopted.adopted.as_deref(), adopted.pending.as_ref().unwrap().id),
        (Some("eu"), Some(uuid(THEIRS)))
    );
    case.record = Record { adopted: Some("eu".to_owned()), ..Record::default() };
    assert_eq!(case.next(), Step::Wait(Wait::NameTaken), "it is done once");
    case.record = Record::default();
    case.of_others = of_others("u2", THEIRS);
    assert_eq!(case.next(), Step::Wait(Wait::NameTaken), "another object has it");
}

#[test]
fn what_another_object_may_have_recorded_is_waited_for() {
    let unread = |miss: fn(&mut OfOthers)| {
        let mut of_others = OfOthers::default();
        miss(&mut of_others);
        of_others
    };
    let (here, elsewhere) = (unread(|others| others.miss("long")), unread(OfOthers::miss_elsewhere));
    let wait = Step::Wait(Wait::Others);
    let begun = Record { pending: Some(registration(None, true)), ..Record::default() };
    let mut moved = in_use();
    moved.current.as_mut().unwrap().home = home("u2", "d1");
    let retiring = Registration { home: home("u2", "d2"), ..registration(Some(THEIRS), true) };
    let left = Record { retiring: vec![retiring.clone()], ..in_use() };
    let ours = || [facts(MINE, "eu")];
    let cases = [
        ("a free name", Case::new(Record::default(), Material::Absent, &[])),
        ("a token that nobody recorded", Case::new(Record::default(), token(MINE), &ours())),
        ("an answer that was lost", Case::new(begun, Material::Absent, &[made_by("uid-1", MINE, "eu")])),
        ("another control plane", Case::new(moved, Material::Absent, &[])),
        ("a former one", Case { retiring: vec![Sight::There], ..Case::new(left, token(MINE), &ours()) }),
    ];
    for (what, mut case) in cases {
        case.of_others = here.clone();
        assert_eq!(case.next(), wait, "{what}");
        case.of_others = elsewhere.clone();
        assert_ne!(case.next(), wait, "{what}: a long status elsewhere stops nobody");
    }
    // What is in use is recorded here, whatever others have.
    let mut used = Case::new(in_use(), Material::Rejected, &ours());
    used.of_others = here.clone();
    used.record = used.recorded();
    assert_eq!(used.next(), Step::Regenerate(uuid(MINE)));

    let mut adopting = Case::new(Record::default(), Material::Absent, &[facts(THEIRS, "eu")]);
    adopting.desired.adopt = Some("eu".to_owned());
    let intended = adopting.recorded();
    for of_others in [here, elsewhere] {
        adopting.of_others = of_others;
        for record in [Record::default(), intended.clone()] {
            adopting.record = record;
            assert_eq!(adopting.next(), wait, "nothing is taken over");
        }
        let mut asked = intended.clone();
        asked.pending.as_mut().unwrap().attempted = true;
        adopting.record = asked;
        assert_eq!(adopting.next(), Step::Regenerate(uuid(THEIRS)), "its token may be gone already");
    }
}

#[test]
fn what_this_object_made_is_its_own_though_it_took_over_a_proxy_of_that_name_before() {
    let before = Record { adopted: Some("eu".to_owned()), adopting: Some(uuid(THEIRS)), ..Record::default() };
    let mine = || [made_by("uid-1", MINE, "eu")];
    let lost = Record { pending: Some(registration(None, true)), ..before.clone() };
    let known = Case::new(lost, Material::Absent, &mine()).recorded();
    assert_eq!(Case::new(known, Material::Absent, &mine()).next(), Step::Regenerate(uuid(MINE)));
    let begun = Case::new(before, Material::Absent, &mine()).recorded();
    assert_eq!(begun.pending.as_ref().unwrap().id, Some(uuid(MINE)), "whatever is recorded");
    assert_eq!(Case::new(begun, Material::Absent, &mine()).next(), Step::Regenerate(uuid(MINE)));
}

#[test]
fn a_token_that_works_is_taken_over_without_another() {
    let taken_over = Case::new(Record::default(), token(MINE), &[facts(MINE, "eu")]).recorded();
    assert_eq!(taken_over.current.unwrap().id, Some(uuid(MINE)));
    let lent = Case::new(Record::default(), token(THEIRS), &[facts(THEIRS, "theirs")]).recorded();
    assert_eq!((lent.current, lent.pending), (None, Some(registration(None, false))), "a token is no right");
    let mut claimed = Case::new(Record::default(), token(MINE), &[facts(MINE, "eu")]);
    claimed.of_others = of_others("u2", MINE);
    assert!(
        claimed.recorded().current.is_some(),
        "a token beats what is recorded behind another control plane"
    );
    claimed.of_others = of_others("u1", MINE);
    assert_eq!(claimed.next(), Step::Wait(Wait::NameTaken), "another object has it");
    let unknown = Case::new(Record::default(), Material::Unproven, &[facts(MINE, "eu")]).next();
    assert_eq!(unknown, Step::Wait(Wait::Coderd), "nothing is concluded from silence");
}

#[test]
fn an_older_object_that_asks_for_its_name_keeps_nobody_from_a_token() {
    let mut case = Case::new(in_use(), Material::Rejected, &[facts(MINE, "eu")]);
    case.claimed = true;
    case.record = case.recorded();
    assert_eq!(case.next(), Step::Regenerate(uuid(MINE)));
}

#[test]
fn a_proxy_of_others_is_taken_over_only_as_long_as_somebody_asks_for_it() {
    let mut case = Case::new(Record::default(), Material::Absent, &[facts(THEIRS, "eu")]);
    case.desired.adopt = Some("eu".to_owned());
    case.record = case.recorded();
    assert_eq!(case.next(), Step::Regenerate(uuid(THEIRS)));
    for withdraw in [
        |case: &mut Case| case.desired.adopt = None,
        |case: &mut Case| case.desired.name = "other".to_owned(),
        |case: &mut Case| case.of_others = of_others("u2", THEIRS),
        |case: &mut Case| case.desired.home.deployment = "d2".to_owned(),
    ] {
        let mut withdrawn = Case::new(case.record.clone(), Material::Absent, &[facts(THEIRS, "eu")]);
        withdrawn.desired = case.desired.clone();
        withdraw(&mut withdrawn);
        let record = withdrawn.recorded();
        assert_eq!(record, Record::default(), "it stays theirs, and may be named again");
    }
}

#[test]
fn a_lost_or_invalid_token_is_replaced_and_one_that_was_not_read_is_not() {
    for lost in [Material::Absent, Material::Rejected, Material::Ended(uuid(THEIRS)), token(THEIRS)] {
        let record = Case::new(in_use(), lost, &[facts(MINE, "eu")]).recorded();
        assert_eq!(record.pending, Some(registration(Some(MINE), true)));
        assert!(record.current.is_some());
    }
    let mut silent = Case::new(in_use(), Material::Unproven, &[facts(MINE, "eu")]);
    assert_eq!(silent.next(), Step::Wait(Wait::Coderd));
    silent.material = Material::Foreign;
    assert_eq!(silent.next(), Step::Wait(Wait::SecretNotOurs));
    (silent.material, silent.paused) = (Material::Rejected, true);
    assert_eq!(silent.next(), Step::Wait(Wait::Pause));
    (silent.paused, silent.entitled) = (false, false);
    assert_eq!(silent.next(), Step::Wait(Wait::Entitlement));
}

#[test]
fn while_admission_is_disabled_nothing_is_made_taken_over_renamed_or_rotated_and_what_is_there_is_kept() {
    let held = |mut case: Case| {
        case.admission_disabled = true;
        case.next()
    };
    let waits = Step::Wait(Wait::AdmissionDisabled);
    let new = || Case::new(Record::default(), Material::Absent, &[]);
    assert_eq!(held(new()), waits);
    assert_eq!(held(Case { record: new().recorded(), ..new() }), waits, "what was intended before");
    let theirs = || {
        let mut case = Case::new(Record::default(), Material::Absent, &[facts(THEIRS, "eu")]);
        case.desired.adopt = Some("eu".to_owned());
        case
    };
    assert_eq!(held(theirs()), waits);
    assert_eq!(held(Case { record: theirs().recorded(), ..theirs() }), waits);
    let used = || Case::new(in_use(), token(MINE), &[facts(MINE, "eu")]);
    let (mut renamed, mut rotated) = (used(), used());
    renamed.desired.name = "other".to_owned();
    rotated.desired.rotate = Some("now".to_owned());
    assert_eq!((held(renamed), held(rotated)), (waits.clone(), waits));
    assert_eq!(held(used()), Step::Rest);
}

#[test]
fn who_replaces_a_token_again_and_again_is_left_with_it_until_a_person_or_a_day_decides() {
    let mut case = Case::new(in_use(), Material::Ended(uuid(MINE)), &[facts(MINE, "eu")]);
    for times in 1..=3 {
        let intended = case.recorded();
        assert_eq!(intended.replaced.as_ref().map(|replaced| replaced.times), Some(times));
        // The new token works, and is replaced by somebody else again.
        let works = Case { record: intended, material: token(MINE), ..case };
        case = Case { record: works.recorded(), material: Material::Ended(uuid(MINE)), ..works };
    }
    assert_eq!(case.next(), Step::Wait(Wait::Contested));
    let tomorrow = now() + SignedDuration::from_hours(25);
    assert!(matches!(case.next_at(tomorrow), Step::Record(record, _) if record.pending.is_some()));
    case.desired.rotate = Some("mine again".to_owned());
    let asked = case.recorded();
    assert_eq!((asked.replaced, asked.pending.is_some()), (None, true));
}

#[test]
fn the_control_plane_itself_is_no_proxy_to_take_over() {
    let mut case = Case::new(Record::default(), Material::Absent, &[facts(THEIRS, "primary")]);
    case.desired.home = home("u1", &uuid(THEIRS).to_string());
    (case.desired.name, case.desired.adopt) = ("primary".to_owned(), Some("primary".to_owned()));
    assert_eq!(case.next(), Step::Wait(Wait::NameTaken));
    let forged = Registration { home: case.desired.home.clone(), ..registration(Some(THEIRS), true) };
    case.record = Record { pending: Some(forged), ..Record::default() };
    assert_eq!(case.recorded(), Record::default(), "its token is never replaced");
}

#[test]
fn a_name_that_is_taken_in_another_case_can_be_taken_over() {
    let mut case = Case::new(Record::default(), Material::Absent, &[facts(THEIRS, "EU")]);
    assert_eq!(case.next(), Step::Wait(Wait::NameTaken));
    case.desired.adopt = Some("EU".to_owned());
    case.record = case.recorded();
    assert_eq!(case.next(), Step::Regenerate(uuid(THEIRS)));
    case.material = token(THEIRS);
    case.record = case.recorded();
    assert_eq!(case.next(), Step::Update(uuid(THEIRS)), "it has the name that is asked for then");
}

#[test]
fn another_value_of_the_annotation_replaces_the_token_once() {
    let rotated = |rotation: Option<&str>| Material::Is(uuid(MINE), rotation.map(str::to_owned));
    let mut case = Case::new(in_use(), rotated(None), &[facts(MINE, "eu")]);
    case.desired.rotate = Some("1".to_owned());
    case.record = case.recorded();
    assert_eq!(case.next(), Step::Regenerate(uuid(MINE)), "also after a crash before the request");
    case.material = rotated(Some("1"));
    case.record = case.recorded();
    assert_eq!((case.record.rotated_for.as_deref(), &case.record.pending), (Some("1"), &None));
    assert_eq!(case.next(), Step::Rest);
    let mut lost = Case::new(Record::default(), rotated(Some("1")), &[facts(MINE, "eu")]);
    lost.desired.rotate = Some("1".to_owned());
    lost.record = lost.recorded();
    assert_eq!(lost.next(), Step::Rest, "the Secret knows for which rotation its token is");
}

#[test]
fn a_new_name_renames_the_same_proxy_if_it_is_free() {
    let mut case = Case::new(in_use(), token(MINE), &[facts(MINE, "eu")]);
    assert_eq!(case.next(), Step::Rest);
    case.desired.name = "us".to_owned();
    assert_eq!(case.next(), Step::Update(uuid(MINE)));
    case.proxies = Some(vec![facts(MINE, "eu"), facts(THEIRS, "us")]);
    assert_eq!(case.next(), Step::Wait(Wait::NameTaken));
    case.desired = Desired { icon: "/other.png".to_owned(), ..desired() };
    assert_eq!(case.next(), Step::Update(uuid(MINE)));
}

#[test]
fn one_that_somebody_removed_is_made_again() {
    let record = Case::new(in_use(), Material::Rejected, &[]).recorded();
    assert_eq!(record.current, None);
    assert!(Case::new(record, Material::Rejected, &[]).recorded().pending.is_some());
}

#[test]
fn in_another_coderd_it_registers_first_and_removes_the_former_after_the_rollout() {
    let before = Registration { home: home("u0", "d0"), ..registration(Some(THEIRS), true) };
    let record = Record { current: Some(before.clone()), ..Record::default() };
    let elsewhere = Material::Elsewhere(before.home.clone());
    let intended = Case::new(record, elsewhere, &[]).recorded();
    assert_eq!((intended.current.as_ref(), intended.pending.is_some()), (Some(&before), true));
    let attempted = intended.attempting(now());
    let mut case = Case::new(attempted, token(MINE), &[made_by("uid-1", MINE, "eu")]);
    case.record = case.recorded();
    assert_eq!(case.record.retiring.len(), 1);
    case.proxies = Some(vec![facts(MINE, "eu")]);
    (case.retiring, case.rolled) = (vec![Sight::There], false);
    assert_eq!(case.next(), Step::Wait(Wait::Rollout));
    case.rolled = true;
    assert!(matches!(case.next(), Step::Delete(one) if one.id == before.id));
    case.retiring = vec![Sight::Unreachable];
    assert_eq!(case.next(), Step::Wait(Wait::Elsewhere));
}

#[test]
fn the_same_database_behind_another_control_plane_is_the_same_coderd_only_with_a_proof() {
    let mut case = Case::new(in_use(), Material::Elsewhere(home("u1", "d1")), &[facts(MINE, "eu")]);
    case.desired.home = home("u2", "d1");
    assert_eq!(case.next(), Step::Wait(Wait::NameTaken), "a coderd says of itself what it likes");
    case.is_proven_here = true;
    let moved = case.recorded();
    assert_eq!(moved.current.unwrap().home, case.desired.home);
    for uid in ["u1", "u2"] {
        case.of_others = of_others(uid, MINE);
        assert_eq!(case.next(), Step::Wait(Wait::NameTaken), "another object has it");
    }
    (case.of_others, case.proxies) = (OfOthers::default(), Some(vec![facts(MINE, "theirs")]));
    let begun = case.recorded();
    assert_eq!(begun.pending.unwrap().id, None, "one of another name is not touched");
    assert_eq!(begun.current, in_use().current, "what was there goes with its own home");
}

#[test]
fn what_was_begun_behind_another_control_plane_is_never_gone_on_with_here() {
    for attempted in [false, true] {
        let pending = Some(registration(Some(THEIRS), attempted));
        let record = Record { pending: pending.clone(), ..Record::default() };
        let mut case = Case::new(record, Material::Absent, &[facts(THEIRS, "eu")]);
        (case.desired.home, case.is_proven_here) = (home("u2", "d1"), true);
        let left = case.recorded();
        assert_eq!((left.pending, left.retiring), (None, pending.into_iter().collect()));
    }
}

#[test]
fn what_is_in_use_is_never_deleted_because_it_is_said_to_be_on_its_way_out() {
    let mine = registration(Some(MINE), true);
    let retiring = vec![mine.clone()];
    let mut case = Case::new(Record { retiring, ..in_use() }, token(MINE), &[facts(MINE, "eu")]);
    case.retiring = vec![Sight::There];
    assert_eq!(case.recorded(), in_use());
    let other = Registration { since: Timestamp::UNIX_EPOCH, home: home("u0", "d1"), ..mine };
    case.record.retiring = vec![other];
    assert_eq!(case.recorded(), in_use(), "its database has it whichever control plane is in front of it");
    let theirs = Registration { home: home("u0", "d0"), ..registration(Some(THEIRS), true) };
    case.record.retiring = vec![theirs.clone()];
    assert_eq!(case.next(), Step::Delete(theirs.clone()));
    case.of_others = [(theirs.home.clone(), uuid(THEIRS))].into_iter().collect();
    assert_eq!(
        case.next(),
        Step::Record(Box::new(in_use()), vec![Left::of(&theirs)]),
        "another object has it"
    );
}

#[test]
fn a_database_that_comes_back_finds_its_registration_known() {
    let before = Registration { home: home("u1", "d0"), ..registration(Some(THEIRS), true) };
    let mut case = Case::new(in_use(), token(MINE), &[facts(MINE, "eu")]);
    (case.record.retiring, case.retiring) = (vec![before.clone()], vec![Sight::OtherDatabase]);
    assert_eq!(case.next(), Step::Rest);
    let elsewhere = Material::Elsewhere(case.desired.home.clone());
    let mut back = Case::new(case.record.clone(), elsewhere, &[facts(THEIRS, "eu")]);
    (back.desired.home, back.retiring) = (before.home.clone(), vec![Sight::There]);
    back.record = back.recorded();
    assert_eq!(back.next(), Step::Regenerate(uuid(THEIRS)));
    back.material = token(THEIRS);
    back.record = back.recorded();
    assert_eq!(back.record.current.as_ref().and_then(|one| one.id), before.id);
    assert_eq!(back.record.retiring, in_use().current.into_iter().collect::<Vec<_>>());
    // They keep nobody from a registration in yet another one.
    let mut full = Case::new(Record::default(), Material::Absent, &[]);
    let of = |number: u8| Registration { home: home("u1", &format!("e{number}")), ..before.clone() };
    (full.record.retiring, full.retiring) = ((0..5).map(of).collect(), vec![Sight::OtherDatabase; 5]);
    assert_eq!(full.recorded().retiring.len(), 4);
}

#[test]
fn a_renamed_secret_gets_the_token_that_works() {
    let mut case = Case::new(in_use(), Material::Absent, &[facts(MINE, "eu")]);
    case.former = Some((place("old"), token(MINE)));
    assert_eq!(case.next(), Step::Copy(place("old")));
    (case.material, case.rolled) = (token(MINE), false);
    assert_eq!(case.next(), Step::Wait(Wait::Rollout));
    case.rolled = true;
    assert_eq!(case.next(), Step::Empty(place("old")));
}

#[test]
fn a_token_is_replaced_for_a_reason_that_can_be_told() {
    let why = |record: Record, material: Material| {
        let pending = Some(registration(Some(MINE), true));
        Case::new(Record { pending, ..record }, material, &[facts(MINE, "eu")]).seen_at(now(), cause)
    };
    let secret = || "eu-proxy-token".to_owned();
    assert_eq!(why(Record::default(), Material::Absent), Cause::Lost);
    let adopting = Record { adopting: Some(uuid(MINE)), ..Record::default() };
    assert_eq!(why(adopting, Material::Absent), Cause::Adopted);
    assert_eq!(why(in_use(), Material::Absent), Cause::SecretEmptied(secret()));
    assert_eq!(why(in_use(), Material::Rejected), Cause::SecretChanged(secret()));
    assert_eq!(why(in_use(), Material::Ended(uuid(MINE))), Cause::ReplacedByOthers);
    let mut rotated = Case::new(in_use(), token(MINE), &[facts(MINE, "eu")]);
    rotated.desired.rotate = Some("a1".to_owned());
    assert_eq!(rotated.seen_at(now(), cause), Cause::Rotation("a1".to_owned()));
}

#[test]
fn a_token_is_copied_to_no_other_secret_while_admission_is_disabled() {
    let mut case = Case::new(in_use(), Material::Absent, &[facts(MINE, "eu")]);
    case.former = Some((place("before"), token(MINE)));
    assert_eq!(case.next(), Step::Copy(place("before")));
    case.admission_disabled = true;
    assert_eq!(case.next(), Step::Wait(Wait::AdmissionDisabled));
}

#[test]
fn what_an_address_led_to_is_used_behind_a_control_plane_with_a_proof_alone() {
    let mut record = in_use();
    let address = Home::at("https://coder.example.com:443".to_owned(), "d1".to_owned());
    record.current.as_mut().unwrap().home = address.clone();
    let mut case = Case::new(record, Material::Elsewhere(address), &[facts(MINE, "eu")]);
    assert_eq!(case.next(), Step::Wait(Wait::NameTaken));
    case.is_proven_here = true;
    assert_eq!(case.recorded().current.unwrap().home, home("u1", "d1"));
}

#[test]
fn what_a_coderd_at_another_address_claims_is_not_what_is_recorded() {
    let at = |host: &str| Home::at(format!("https://{host}:443"), "d1".to_owned());
    let mut record = in_use();
    record.current.as_mut().unwrap().home = at("evil.example.com");
    let elsewhere = Material::Elsewhere(at("evil.example.com"));
    let mut case = Case::new(record, elsewhere, &[facts(MINE, "eu")]);
    assert_eq!(
        case.next(),
        Step::Wait(Wait::NameTaken),
        "the id alone gets nobody a token of the operator's"
    );
    case.desired.home = at("coder.example.com");
    case.of_others = [(at("evil.example.com"), uuid(MINE))].into_iter().collect();
    case.record = Record::default();
    case.material = token(MINE);
    assert!(case.recorded().current.is_some(), "nor does it keep somebody else from his own");
}

#[test]
fn what_credentials_of_the_spec_make_is_recorded_as_theirs() {
    let mut case = Case::new(Record::default(), Material::Absent, &[]);
    case.desired.brought = true;
    assert!(case.recorded().pending.unwrap().brought);
}

#[test]
fn whose_credentials_lead_to_a_registration_is_recorded_as_it_is_now() {
    for brought in [true, false] {
        let mut record = in_use();
        record.current.as_mut().unwrap().brought = !brought;
        let mut case = Case::new(record, token(MINE), &[facts(MINE, "eu")]);
        case.desired.brought = brought;
        assert_eq!(case.recorded().current.unwrap().brought, brought, "it is kept");
        case.record.pending = Some(registration(Some(MINE), true));
        case.record.pending.as_mut().unwrap().brought = !brought;
        assert_eq!(case.recorded().current.unwrap().brought, brought, "it has another token");
        case.record.pending = None;
        (case.desired.home, case.is_proven_here) = (home("u2", "d1"), true);
        assert_eq!(case.recorded().current.unwrap().brought, brought, "it is moved");
    }
}

#[test]
fn at_another_address_of_its_coderd_a_registration_gets_another_token_and_needs_no_annotation() {
    let at = |host: &str| Home::at(format!("https://{host}:443"), "d1".to_owned());
    let mut record = Record { adopted: Some("eu".to_owned()), ..in_use() };
    record.current.as_mut().unwrap().home = at("old.example.com");
    let elsewhere = Material::Elsewhere(at("old.example.com"));
    let mut case = Case::new(record, elsewhere, &[facts(MINE, "eu")]);
    (case.desired.home, case.desired.brought) = (at("new.example.com"), true);
    let intended = case.recorded();
    assert_eq!(
        intended.pending.as_ref().map(|one| (one.id, &one.home)),
        Some((Some(uuid(MINE)), &case.desired.home))
    );
    let begun = Case { record: intended, ..case };
    assert_eq!(begun.next(), Step::Regenerate(uuid(MINE)));
    assert_eq!(begun.seen_at(now(), cause), Cause::Moved);
    let proven = Case { material: token(MINE), ..begun };
    let used = proven.recorded();
    assert_eq!((used.current.unwrap().home, used.retiring), (at("new.example.com"), Vec::new()));
}

#[test]
fn at_another_address_what_is_not_known_by_id_and_database_is_a_proxy_of_others() {
    let at = |deployment: &str| Home::at("https://old.example.com:443".to_owned(), deployment.to_owned());
    let case = |id: u128, deployment: &str| {
        let mut record = in_use();
        record.current.as_mut().unwrap().home = at(deployment);
        let mut case = Case::new(record, Material::Elsewhere(at(deployment)), &[facts(id, "eu")]);
        (case.desired.home, case.desired.brought) =
            (Home::at("https://new.example.com:443".to_owned(), "d1".to_owned()), true);
        case
    };
    assert_eq!(case(THEIRS, "d1").next(), Step::Wait(Wait::NameTaken));
    assert_eq!(case(MINE, "d0").next(), Step::Wait(Wait::NameTaken));
    let mut of_another = case(MINE, "d1");
    of_another.of_others = of_others("u7", MINE);
    assert_eq!(of_another.next(), Step::Wait(Wait::NameTaken));
}
