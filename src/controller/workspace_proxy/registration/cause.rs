//! Decides why a token is replaced, for whoever asks why all pods were started again. Pure: it looks at what the step was decided by,
//! and nothing is decided by it.

use super::seen::{Material, Seen};

/// Why a token is replaced.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Cause {
    /// The answer with the one before was lost.
    Lost,
    /// The spec leads to its coderd by another address, which was not shown the one before.
    Moved,
    /// A registration of others is taken over.
    Adopted,
    /// The annotation has this value.
    Rotation(String),
    /// The Secret of this name does not hold the token in use, or is gone.
    SecretEmptied(String),
    /// The Secret of this name holds something else.
    SecretChanged(String),
    /// Somebody else replaced it in coderd.
    ReplacedByOthers,
}

impl Cause {
    /// Whether somebody changed what nobody but the operator changes.
    pub(crate) fn is_interference(&self) -> bool {
        matches!(self, Self::SecretChanged(_) | Self::ReplacedByOthers)
    }
}

/// Why the token of the registration that is recorded as pending is replaced now.
pub(super) fn cause(seen: &Seen<'_>) -> Cause {
    let (record, desired) = (seen.record, seen.desired);
    if record.pending.as_ref().is_some_and(|pending| record.is_adopting(pending)) {
        return Cause::Adopted;
    }
    match &record.current {
        None => return Cause::Lost,
        Some(current) if current.home != desired.home => return Cause::Moved,
        Some(_) => {}
    }
    if let Some(asked) = desired.rotate.as_ref().filter(|_| desired.rotate != record.rotated_for) {
        return Cause::Rotation(asked.clone());
    }
    let secret = desired.place.secret.clone();
    match seen.material {
        Material::Absent => Cause::SecretEmptied(secret),
        Material::Ended(_) => Cause::ReplacedByOthers,
        _ => Cause::SecretChanged(secret),
    }
}
