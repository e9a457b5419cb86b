//! Decides the next step of the CA's life from what the Secret holds, what the targets carry, and the time.
//! Pure: it never generates a key, reads a clock or writes anything.
//!
//! The order that keeps every call verified: a new CA is trusted everywhere before it signs anything, and the old
//! one is trusted until the last leaf it signed has ended.

use super::contents::{Authority, Phase};
use jiff::{SignedDuration, Timestamp};
use std::time::Duration;

/// How long things last.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Times {
    /// The life of a CA; its successor is made when two thirds are over.
    pub ca_lifetime: Duration,
    /// How long API servers may take to notice a changed bundle.
    pub propagation: Duration,
    /// How long a retired CA stays trusted after its successor signs: the life of a leaf and a margin.
    pub retirement: Duration,
}

/// What the step depends on besides the Secret.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Facts {
    /// Now.
    pub now: Timestamp,
    /// Every target was read back with exactly our bundle.
    pub bundle_everywhere: bool,
    /// Somebody asked for a rotation.
    pub rotation_requested: bool,
}

/// What to do with the CA.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    /// Nothing before this time.
    Wait(Timestamp),
    /// The signer's life is over: put a new one in its place at once, there is nothing left to protect.
    Replace,
    /// Make the next CA and add it to the bundle.
    Distribute,
    /// Note that every target carries the bundle.
    NoteInjected,
    /// A target lost the bundle or appeared since: it gets the whole propagation time, too.
    ForgetInjected,
    /// Let the next CA sign.
    Promote,
    /// Stop trusting all but the signer.
    Complete,
}

/// The next step.
pub(crate) fn step(authority: &Authority, facts: Facts, times: &Times) -> Step {
    let now = facts.now;
    if now >= authority.signer.not_after {
        return Step::Replace;
    }
    match authority.phase {
        Phase::Stable => {
            let due = renewal(authority);
            if facts.rotation_requested || now >= due { Step::Distribute } else { Step::Wait(due) }
        }
        Phase::Distributing { injected_at: None } if facts.bundle_everywhere => Step::NoteInjected,
        Phase::Distributing { injected_at: None } => Step::Wait(after(now, times.propagation)),
        Phase::Distributing { injected_at: Some(_) } if !facts.bundle_everywhere => Step::ForgetInjected,
        Phase::Distributing { injected_at: Some(moment) } => {
            let due = after(moment, times.propagation);
            if now >= due { Step::Promote } else { Step::Wait(due) }
        }
        Phase::Retiring { promoted_at } => {
            let due = after(promoted_at, times.retirement);
            if now >= due { Step::Complete } else { Step::Wait(due) }
        }
    }
}

/// When a stable CA gets a successor: at two thirds of its life.
fn renewal(authority: &Authority) -> Timestamp {
    let life = authority.signer.not_after.duration_since(authority.signer.not_before);
    authority.signer.not_after.checked_sub(life / 3).unwrap_or(Timestamp::MIN)
}

fn after(moment: Timestamp, time: Duration) -> Timestamp {
    let time = SignedDuration::try_from(time).unwrap_or(SignedDuration::MAX);
    moment.checked_add(time).unwrap_or(Timestamp::MAX)
}

#[cfg(test)]
mod tests {
    use super::super::ca::Ca;
    use super::*;

    const DAY: u64 = 86_400;
    const TIMES: Times = Times {
        ca_lifetime: Duration::from_secs(365 * DAY),
        propagation: Duration::from_secs(600),
        retirement: Duration::from_secs(8 * DAY),
    };

    fn at(seconds: u64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + i64::try_from(seconds).unwrap()).unwrap()
    }

    fn authority(phase: Phase) -> Authority {
        Authority { phase, ..Authority::first(Ca::generate(at(0), TIMES.ca_lifetime).unwrap()) }
    }

    fn facts(now: Timestamp) -> Facts {
        Facts { now, bundle_everywhere: true, rotation_requested: false }
    }

    #[test]
    fn a_young_ca_is_left_alone_until_two_thirds_of_its_life() {
        let stable = authority(Phase::Stable);
        let Step::Wait(due) = step(&stable, facts(at(10)), &TIMES) else { panic!("it should wait") };
        let days = due.duration_since(at(0)).as_secs() / i64::try_from(DAY).unwrap();
        assert_eq!(days, 243, "two thirds of a year");
        assert_eq!(step(&stable, facts(due), &TIMES), Step::Distribute);
    }

    #[test]
    fn a_request_starts_a_rotation_of_a_stable_ca_only() {
        let asked = |now| Facts { rotation_requested: true, ..facts(now) };
        assert_eq!(step(&authority(Phase::Stable), asked(at(10)), &TIMES), Step::Distribute);
        let retiring = authority(Phase::Retiring { promoted_at: at(0) });
        assert!(matches!(step(&retiring, asked(at(10)), &TIMES), Step::Wait(_)));
    }

    #[test]
    fn the_next_ca_signs_only_after_every_target_carried_it_for_the_propagation_time() {
        let distributing = |injected_at| authority(Phase::Distributing { injected_at });
        let missing = Facts { bundle_everywhere: false, ..facts(at(10)) };
        assert!(matches!(step(&distributing(None), missing, &TIMES), Step::Wait(_)));
        assert_eq!(step(&distributing(None), facts(at(10)), &TIMES), Step::NoteInjected);
        assert_eq!(step(&distributing(Some(at(10))), facts(at(609)), &TIMES), Step::Wait(at(610)));
        assert_eq!(step(&distributing(Some(at(10))), facts(at(610)), &TIMES), Step::Promote);
    }

    #[test]
    fn a_target_that_comes_late_gets_the_whole_propagation_time() {
        let distributing = |injected_at| authority(Phase::Distributing { injected_at });
        let reset = Facts { bundle_everywhere: false, ..facts(at(609)) };
        assert_eq!(step(&distributing(Some(at(10))), reset, &TIMES), Step::ForgetInjected);
        assert_eq!(step(&distributing(None), facts(at(611)), &TIMES), Step::NoteInjected);
        assert_eq!(step(&distributing(Some(at(611))), facts(at(612)), &TIMES), Step::Wait(at(1211)));
    }

    #[test]
    fn the_old_ca_is_trusted_until_its_last_leaf_has_ended() {
        let retiring = authority(Phase::Retiring { promoted_at: at(0) });
        assert_eq!(step(&retiring, facts(at(8 * DAY - 1)), &TIMES), Step::Wait(at(8 * DAY)));
        assert_eq!(step(&retiring, facts(at(8 * DAY)), &TIMES), Step::Complete);
    }

    #[test]
    fn a_ca_that_slept_through_its_end_is_replaced_in_any_phase() {
        let late = facts(at(366 * DAY));
        for phase in
            [Phase::Stable, Phase::Distributing { injected_at: None }, Phase::Retiring { promoted_at: at(0) }]
        {
            assert_eq!(step(&authority(phase), late, &TIMES), Step::Replace);
        }
    }

    #[test]
    fn a_clock_that_jumps_back_causes_nothing() {
        let before = Timestamp::from_second(1_700_000_000).unwrap();
        assert!(matches!(step(&authority(Phase::Stable), facts(before), &TIMES), Step::Wait(_)));
        let retiring = authority(Phase::Retiring { promoted_at: at(0) });
        assert!(matches!(step(&retiring, facts(before), &TIMES), Step::Wait(_)));
    }
}
