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
pub(crate) struct Candidate {
    /// Unique to this process, also across restarts of the same pod.
    pub identity: String,
    /// How long things take.
    pub timing: Timing,
}

/// What the candidate knows.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct State {
    /// The record seen last and when it last changed, on our own clock.
    pub seen: Option<Seen>,
    /// Set while we lead.
    pub leading: Option<Leading>,
}

/// A record and the local time at which it was first seen in this form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Seen {
    /// The record.
    pub record: Record,
    /// When it last changed.
    pub at: Instant,
}

/// That we lead, and until when we may.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Leading {
    /// The number of this leadership, growing with every change of holder.
    pub term: i32,
    /// When it ends unless renewed.
    pub until: Instant,
}

/// What happened since the last step.
#[derive(Debug, Clone)]
pub(crate) enum Observation {
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
pub(crate) enum Command {
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
pub(crate) fn step(
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
pub(crate) fn release(candidate: &Candidate, state: &State, wall: Timestamp) -> Option<Record> {
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
mod tests;
