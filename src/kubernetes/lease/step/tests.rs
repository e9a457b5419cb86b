//! The next step of a lease, state by state, and whole histories of several replicas.
//! No clock and no cluster: time is a number here.

use super::*;

const TIMING: Timing = Timing {
    duration: Duration::from_secs(15),
    renew_deadline: Duration::from_secs(10),
    retry: Duration::from_secs(2),
};

fn candidate(identity: &str) -> Candidate {
    Candidate { identity: identity.to_owned(), timing: TIMING }
}

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn held_by(holder: &str, renewed: i64, version: &str) -> Record {
    Record {
        holder: Some(holder.to_owned()),
        duration: seconds(15),
        transitions: 3,
        renewed: Some(Timestamp::from_second(renewed).unwrap()),
        acquired: Some(Timestamp::UNIX_EPOCH),
        version: Some(version.to_owned()),
    }
}

fn next(who: &str, state: State, seen: Observation, now: Instant) -> (State, Command) {
    step(&candidate(who), state, seen, now, Timestamp::UNIX_EPOCH)
}

#[test]
fn a_lease_nobody_made_is_created_and_leads_from_the_moment_of_sending() {
    let sent = Instant::now();
    let (state, command) = next("a", State::default(), Observation::Read(None), sent);
    let Command::Create(record) = command else { panic!("{command:?}") };
    assert_eq!((record.transitions, record.version.clone()), (0, None));
    let answered = sent + seconds(4);
    let (state, command) = next("a", state, Observation::Written { record, sent }, answered);
    assert_eq!(state.leading.unwrap().until, sent + seconds(10));
    assert_eq!(command, Command::Sleep(seconds(2)));
}

#[test]
fn a_foreign_holder_is_respected_for_its_whole_duration_on_our_clock() {
    let start = Instant::now();
    let (state, command) = next("b", State::default(), Observation::Read(Some(held_by("a", 1, "7"))), start);
    assert_eq!(command, Command::Sleep(seconds(2)));
    let late = start + Duration::from_millis(14_999);
    let (state, command) = next("b", state, Observation::Read(Some(held_by("a", 1, "7"))), late);
    assert_eq!(command, Command::Sleep(seconds(2)), "not yet");
    let (_, command) = next("b", state, Observation::Read(Some(held_by("a", 1, "7"))), start + seconds(15));
    let Command::Replace(record) = command else { panic!("{command:?}") };
    assert_eq!((record.transitions, record.version.as_deref()), (4, Some("7")));
}

#[test]
fn a_renewal_restarts_the_wait_whatever_the_holders_clock_says() {
    let start = Instant::now();
    let (state, _) = next("b", State::default(), Observation::Read(Some(held_by("a", 900, "7"))), start);
    // The holder's clock jumped back by a day: still a change, still alive.
    let renewed = held_by("a", -86_400, "8");
    let (state, _) = next("b", state, Observation::Read(Some(renewed.clone())), start + seconds(14));
    let (_, command) = next("b", state, Observation::Read(Some(renewed)), start + seconds(28));
    assert_eq!(command, Command::Sleep(seconds(2)));
}

#[test]
fn a_released_lease_is_taken_at_once() {
    let released = Record { holder: None, ..held_by("a", 1, "7") };
    let (_, command) = next("b", State::default(), Observation::Read(Some(released)), Instant::now());
    assert!(matches!(command, Command::Replace(record) if record.transitions == 4));
}

#[test]
fn a_leader_renews_without_reading() {
    let now = Instant::now();
    let written = Observation::Written { record: held_by("a", 1, "7"), sent: now };
    let (state, _) = next("a", State::default(), written, now);
    let (_, command) = next("a", state, Observation::Due, now + seconds(2));
    assert!(
        matches!(command, Command::Replace(record) if record.version.as_deref() == Some("7") && record.transitions == 3)
    );
}

#[test]
fn after_a_lost_answer_it_reads_and_recognises_its_own_write() {
    let now = Instant::now();
    let written = Observation::Written { record: held_by("a", 1, "7"), sent: now };
    let (state, _) = next("a", State::default(), written, now);
    let (state, _) = next("a", state, Observation::Failed, now + seconds(3));
    assert!(state.leading.is_some(), "one failure does not end a leadership");
    let (state, command) = next("a", state, Observation::Due, now + seconds(5));
    assert_eq!(command, Command::Get);
    let (state, command) = next("a", state, Observation::Read(Some(held_by("a", 2, "8"))), now + seconds(5));
    let Command::Replace(record) = command else { panic!("{command:?}") };
    assert_eq!((record.transitions, record.version.as_deref()), (3, Some("8")));
    assert_eq!(state.leading.unwrap().until, now + seconds(10), "reading renews nothing");
}

#[test]
fn a_leadership_that_cannot_be_renewed_ends_by_itself() {
    let now = Instant::now();
    let written = Observation::Written { record: held_by("a", 1, "7"), sent: now };
    let (state, _) = next("a", State::default(), written, now);
    let (state, _) = next("a", state, Observation::Failed, now + seconds(10));
    assert_eq!(state.leading, None);
}

#[test]
fn an_answer_that_comes_after_the_deadline_gives_no_leadership() {
    let sent = Instant::now();
    let late = Observation::Written { record: held_by("a", 1, "7"), sent };
    let (state, _) = next("a", State::default(), late, sent + seconds(11));
    assert_eq!(state.leading, None);
}

#[test]
fn a_lease_that_was_deleted_or_taken_ends_the_leadership_at_once() {
    let now = Instant::now();
    let written = Observation::Written { record: held_by("a", 1, "7"), sent: now };
    let (leading, _) = next("a", State::default(), written, now);
    let (leading, _) = next("a", leading, Observation::Failed, now);
    let (state, _) = next("a", leading.clone(), Observation::Read(None), now);
    assert_eq!(state.leading, None);
    let (state, _) = next("a", leading, Observation::Read(Some(held_by("b", 2, "8"))), now);
    assert_eq!(state.leading, None);
}

#[test]
fn a_holder_that_names_no_duration_is_given_ours() {
    let start = Instant::now();
    let silent = Record { duration: Duration::ZERO, ..held_by("a", 1, "7") };
    let (state, _) = next("b", State::default(), Observation::Read(Some(silent.clone())), start);
    let (_, command) = next("b", state, Observation::Read(Some(silent)), start + seconds(14));
    assert_eq!(command, Command::Sleep(seconds(2)));
}

#[test]
fn only_the_holder_releases() {
    let now = Instant::now();
    let (state, _) = next("b", State::default(), Observation::Read(Some(held_by("a", 1, "7"))), now);
    assert_eq!(release(&candidate("b"), &state, Timestamp::UNIX_EPOCH), None);
    let record = release(&candidate("a"), &state, Timestamp::UNIX_EPOCH).unwrap();
    assert_eq!((record.holder, record.transitions), (None, 3));
}

/// Two candidates, one server, every interleaving a small random generator finds in many runs:
/// lost answers, slow answers and pauses of whole processes never make two leaders at one time.
#[test]
fn two_candidates_never_lead_at_the_same_time() {
    for seed in 1..=400 {
        simulate(seed);
    }
}

fn simulate(seed: u64) {
    let mut random = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut draw = move |below: u64| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random % below
    };
    let epoch = Instant::now();
    let mut server: Option<Record> = None;
    let mut version = 0_u64;
    let mut players = [("a", State::default(), epoch), ("b", State::default(), epoch)];
    for _ in 0..300 {
        // The player whose turn comes first acts; its call takes 0 to 4 s and may lose its answer.
        let turn = usize::from(players[1].2 < players[0].2);
        let (who, state, now) = players[turn].clone();
        let took = Duration::from_millis(draw(4000));
        let (state, command) = next(who, state, Observation::Due, now);
        let (state, command, now) = match command {
            Command::Get => {
                let (state, command) = next(who, state, Observation::Read(server.clone()), now + took);
                (state, command, now + took)
            }
            other => (state, other, now),
        };
        let (state, now) = match command {
            Command::Create(mut record) | Command::Replace(mut record) => {
                let current = server.as_ref().and_then(|record| record.version.clone());
                let accepted = record.version == current;
                let sent = now;
                // Renewal times must differ, as real clocks make them.
                record.renewed = Some(Timestamp::from_second(i64::try_from(version).unwrap()).unwrap());
                version += 1;
                record.version = Some(version.to_string());
                if accepted {
                    server = Some(record.clone());
                }
                let lost = draw(4) == 0;
                let seen = if accepted && !lost {
                    Observation::Written { record, sent }
                } else {
                    Observation::Failed
                };
                (next(who, state, seen, now + took).0, now + took)
            }
            _ => (state, now),
        };
        let pause = if draw(8) == 0 { seconds(draw(40)) } else { seconds(2) };
        players[turn] = (who, state, now + pause);
        let until = |player: &(&str, State, Instant)| player.1.leading.map(|leading| leading.until);
        if let (Some(a), Some(b)) = (until(&players[0]), until(&players[1])) {
            // Both hold a claim: the older one must have ended before the newer began to be usable.
            let (older, newer) = if a < b { (a, b) } else { (b, a) };
            let newer_began = newer - TIMING.renew_deadline;
            assert!(older <= newer_began, "seed {seed}: two leaders");
        }
    }
}
