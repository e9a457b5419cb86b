//! Decides the next step towards a token of our own that works, from what was recorded and seen; pure, the time too.
//! Every effect outside is recorded before it happens, so that after a crash anywhere the next reconcile goes on or repeats.

use crate::coderd::database::Role;
use crate::coderd::{NewToken, Uuid};
use jiff::{SignedDuration, Timestamp};

/// How long a token lives.
pub(super) const LIFETIME: std::time::Duration = std::time::Duration::from_secs(24 * 60 * 60);
/// A token with less than this left is renewed.
const HALF_LIFE: SignedDuration = SignedDuration::from_hours(12);

/// What is kept in the Secret of one control plane.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Record {
    /// The operator's user, chosen before it exists.
    pub user_id: Uuid,
    /// The number of the newest token, proven or not.
    pub generation: u64,
    /// The token that was proven to work.
    pub current: Option<Kept>,
    /// The token that is being made.
    pub next: Option<Kept>,
    /// The role that the user was given last.
    pub role: Option<Role>,
    /// Every token older than this generation was revoked.
    pub revoked_before: u64,
    /// What the older operator left was looked for and is gone.
    pub former_cleared: bool,
}

/// A token in a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Kept {
    /// Its plaintext, out of sight.
    pub token: NewToken,
    /// Its number.
    pub generation: u64,
    /// When it ends; not known before the database has it.
    pub expires_at: Option<Timestamp>,
}

/// What coderd says of the current token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Standing {
    /// It was not asked, or did not answer.
    Unknown,
    /// It knows the token.
    Accepted,
    /// It does not know the token.
    Rejected,
}

/// Everything the next step depends on.
#[derive(Debug, Clone)]
pub(super) struct Seen<'a> {
    /// Whether our finalizer is on the object.
    pub has_finalizer: bool,
    /// What is recorded.
    pub record: Option<&'a Record>,
    /// What coderd says of the current token.
    pub standing: Standing,
    /// The role that is needed now.
    pub role: Role,
    /// The time.
    pub now: Timestamp,
}

/// Which token a step is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Which {
    /// The proven one.
    Current,
    /// The one that is being made.
    Next,
}

/// One step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// Put the finalizer on the object: somebody must be there to undo what follows.
    AddFinalizer,
    /// Choose a token, and a user if there is none, and record them.
    Prepare,
    /// Bring user, role and this token into the database, and record what came of it.
    Ensure(Which),
    /// Ask coderd whether the new token works, and record it as the current one.
    Prove,
    /// Revoke every token but the current one, and record it.
    Revoke,
    /// Revoke what the older operator left and remove its Secret, and record it.
    ClearFormer,
    /// Nothing is left to do.
    Rest,
}

/// The next step.
pub(super) fn next(seen: &Seen<'_>) -> Step {
    if !seen.has_finalizer {
        return Step::AddFinalizer;
    }
    let Some(record) = seen.record else { return Step::Prepare };
    if let Some(next) = &record.next {
        return match next.expires_at {
            None => Step::Ensure(Which::Next),
            // Long forgotten: it cannot be proven any more.
            Some(end) if end <= seen.now => Step::Prepare,
            Some(_) => Step::Prove,
        };
    }
    let Some(current) = &record.current else { return Step::Prepare };
    if seen.standing == Standing::Rejected || is_half_over(current, seen.now) {
        return Step::Prepare;
    }
    if record.revoked_before < current.generation {
        return Step::Revoke;
    }
    if record.role != Some(seen.role) {
        return Step::Ensure(Which::Current);
    }
    if record.former_cleared { Step::Rest } else { Step::ClearFormer }
}

fn is_half_over(kept: &Kept, now: Timestamp) -> bool {
    // A time too far away to be counted is not near.
    kept.expires_at.is_none_or(|end| now.checked_add(HALF_LIFE).is_ok_and(|soon| end <= soon))
}

/// The token that can be used now: proven once, not over, and not refused meanwhile.
pub(super) fn usable(record: &Record, standing: Standing, now: Timestamp) -> Option<&Kept> {
    let current = record.current.as_ref()?;
    let unexpired = current.expires_at.is_some_and(|end| end > now);
    (unexpired && standing != Standing::Rejected).then_some(current)
}

impl Record {
    /// The record with a token to be made; `user_id` counts only where no user was chosen before.
    pub(super) fn prepared(before: Option<&Self>, user_id: Uuid, token: NewToken) -> Self {
        let mut record = before.cloned().unwrap_or(Self {
            user_id,
            generation: 0,
            current: None,
            next: None,
            role: None,
            revoked_before: 0,
            former_cleared: false,
        });
        record.generation += 1;
        record.next = Some(Kept { token, generation: record.generation, expires_at: None });
        record
    }

    /// The token a step is about.
    pub(super) fn kept(&self, which: Which) -> Option<&Kept> {
        match which {
            Which::Current => self.current.as_ref(),
            Which::Next => self.next.as_ref(),
        }
    }

    /// The record after the database has the token.
    pub(super) fn ensured(&self, which: Which, user_id: Uuid, role: Role, expires_at: Timestamp) -> Self {
        let mut record = Self { user_id, role: Some(role), ..self.clone() };
        let kept = match which {
            Which::Current => record.current.as_mut(),
            Which::Next => record.next.as_mut(),
        };
        if let Some(kept) = kept {
            kept.expires_at = Some(expires_at);
        }
        record
    }

    /// The record after coderd knew the new token.
    pub(super) fn promoted(&self) -> Self {
        let mut record = self.clone();
        record.current = record.next.take().or(record.current);
        record
    }

    /// The record after coderd did not know the new token: it is written to the database once more.
    pub(super) fn doubted(&self) -> Self {
        let mut record = self.clone();
        if let Some(next) = &mut record.next {
            next.expires_at = None;
        }
        record
    }

    /// The record after every other token was revoked.
    pub(super) fn revoked(&self) -> Self {
        let generation = self.current.as_ref().map_or(0, |current| current.generation);
        Self { revoked_before: generation, ..self.clone() }
    }

    /// The record after what the older operator left is gone.
    pub(super) fn cleared(&self) -> Self {
        Self { former_cleared: true, ..self.clone() }
    }
}

#[cfg(test)]
mod tests;

#[cfg(test)]
mod crashes;
