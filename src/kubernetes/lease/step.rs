//! Decides what a candidate does next about its lease: read, create, replace, release or wait.
//! Pure: it takes what was observed and when, on the local monotonic clock, and never trusts another clock.
//!
//! The rule that keeps two leaders apart: a leader counts from the moment it *sent* its last successful renewal
//! and stops after `renew_deadline`; others count from the moment they *saw* that renewal and wait the longer
//! `duration`. Nobody sees a renewal before it was sent, so the first always stops before the next one starts.

use super::record::Record;
use jiff::Timestamp;
use std::time::{Duration, Instant};

/// How long things take.
#[derive(Debug, Clone, Copy)]
pub struct Timing {
    /// How long a silent holder is respected by others.
    pub duration: Duration,
    /// How long a leader that cannot renew goes on leading.
    pub renew_deadline: Duration,
    /// The pause between two attempts.
    pub retry: Duration,
}

/// One candidate for one lease.
#[derive(Debug, Clone)]
pub struct Candidate {
    /// Unique to this process, also across restarts of the same pod.
    pub identity: String,
    /// How long things take.
    pub timing: Timing,
}

/// What the candidate knows.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct State {
    /// The record seen last and when it last changed, on our own clock.
    pub seen: Option<Seen>,
    /// Set while we lead.
    pub leading: Option<Leading>,
}

/// A record and the local time at which it was first seen in this form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    /// The record.
    pub record: Record,
    /// When it last changed.
    pub at: Instant,
}

/// That we lead, and until when we may.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Leading {
    /// The number of this leadership, growing with every change of holder.
    pub term: i32,
    /// When it ends unless renewed.
    pub until: Instant,
}

/// What happened since the last step.
#[derive(Debug, Clone)]
pub enum Observation {
    /// Nothing: it is time to try.
    Due,
    /// The lease was read; `None` when it does not exist.
    Read(Option<Record>),
    /// Our create or replace, sent at this time, was accepted and the server now holds this.
    Written {
        /// What the server holds.
        record: Record,
        /// When the request was sent.
        sent: Instant,
    },
    /// The request failed or its answer was lost: what the server holds is unknown.
    Failed,
}

/// What to do next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command {
    /// Read the lease.
    Get,
    /// Create the lease.
    Create(Record),
    /// Replace the lease; the record carries the version it must still have.
    Replace(Record),
    /// Wait this long, then observe [`Observation::Due`].
    Sleep(Duration),
}

/// The next state and the next command. `wall` is only written into records, never compared.
pub fn step(
    candidate: &Candidate,
    mut state: State,
    observation: Observation,
    now: Instant,
    wall: Timestamp,
) -> (State, Command) {
    state.leading = state.leading.filter(|leading| now < leading.until);
    let command = match observation {
        Observation::Due => on_due(candidate, &state, wall),
        Observation::Read(None) => {
            state.seen = None;
            state.leading = None;
            Command::Create(claim(candidate, None, wall))
        }
        Observation::Read(Some(record)) => {
            note(&mut state, record, now);
            // Whoever the server names leads; a claim of ours that it does not know is void.
            state.leading = state.leading.filter(|_| holds(candidate, &state));
            on_read(candidate, &state, now, wall)
        }
        Observation::Written { record, sent } => {
            let until = sent + candidate.timing.renew_deadline;
            state.leading = (now < until).then_some(Leading { term: record.transitions, until });
            state.seen = Some(Seen { record, at: now });
            Command::Sleep(candidate.timing.retry)
        }
        Observation::Failed => {
            // Our version may be old now, even by our own write: read before writing again.
            if let Some(seen) = &mut state.seen {
                seen.record.version = None;
            }
            Command::Sleep(candidate.timing.retry)
        }
    };
    (state, command)
}

/// The record that gives the lease up, when we hold it.
pub fn release(candidate: &Candidate, state: &State, wall: Timestamp) -> Option<Record> {
    let seen = state.seen.as_ref()?;
    (holds(candidate, state) && seen.record.version.is_some()).then(|| Record {
        holder: None,
        duration: Duration::from_secs(1),
        renewed: Some(wall),
        acquired: Some(wall),
        ..seen.record.clone()
    })
}

fn holds(candidate: &Candidate, state: &State) -> bool {
    let holder = state.seen.as_ref().and_then(|seen| seen.record.holder.as_deref());
    holder == Some(candidate.identity.as_str())
}

fn on_due(candidate: &Candidate, state: &State, wall: Timestamp) -> Command {
    // A leader that knows the current version renews without reading first.
    match (&state.leading, &state.seen) {
        (Some(_), Some(seen)) if seen.record.version.is_some() => {
            Command::Replace(claim(candidate, Some(&seen.record), wall))
        }
        _ => Command::Get,
    }
}

fn on_read(candidate: &Candidate, state: &State, now: Instant, wall: Timestamp) -> Command {
    let Some(seen) = &state.seen else { return Command::Get };
    let free = match &seen.record.holder {
        None => true,
        Some(holder) if *holder == candidate.identity => true,
        // A holder that names no duration is given ours.
        Some(_) if seen.record.duration.is_zero() => now >= seen.at + candidate.timing.duration,
        Some(_) => now >= seen.at + seen.record.duration,
    };
    if free {
        Command::Replace(claim(candidate, Some(&seen.record), wall))
    } else {
        Command::Sleep(candidate.timing.retry)
    }
}

/// Remembers a record; the clock restarts only when its content changed.
fn note(state: &mut State, record: Record, now: Instant) {
    let unchanged = state.seen.as_ref().is_some_and(|seen| {
        let (old, new) = (&seen.record, &record);
        old.holder == new.holder && old.renewed == new.renewed && old.transitions == new.transitions
    });
    match &mut state.seen {
        Some(seen) if unchanged => seen.record = record,
        _ => state.seen = Some(Seen { record, at: now }),
    }
}

fn claim(candidate: &Candidate, old: Option<&Record>, wall: Timestamp) -> Record {
    let ours = |record: &&Record| record.holder.as_deref() == Some(candidate.identity.as_str());
    let kept = old.filter(ours);
    Record {
        holder: Some(candidate.identity.clone()),
        duration: candidate.timing.duration,
        transitions: match (old, kept) {
            (None, _) => 0,
            (Some(_), Some(kept)) => kept.transitions,
            (Some(old), None) => old.transitions.saturating_add(1),
        },
        renewed: Some(wall),
        acquired: kept.and_then(|record| record.acquired).or(Some(wall)),
        version: old.and_then(|record| record.version.clone()),
    }
}

#[cfg(test)]
mod tests {
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
        let (state, command) =
            next("b", State::default(), Observation::Read(Some(held_by("a", 1, "7"))), start);
        assert_eq!(command, Command::Sleep(seconds(2)));
        let late = start + Duration::from_millis(14_999);
        let (state, command) = next("b", state, Observation::Read(Some(held_by("a", 1, "7"))), late);
        assert_eq!(command, Command::Sleep(seconds(2)), "not yet");
        let (_, command) =
            next("b", state, Observation::Read(Some(held_by("a", 1, "7"))), start + seconds(15));
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
        let (state, command) =
            next("a", state, Observation::Read(Some(held_by("a", 2, "8"))), now + seconds(5));
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
}
