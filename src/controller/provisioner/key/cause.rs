//! Decides why a key is made, for whoever asks why all pods were started again. Pure: it looks at what the step was decided by,
//! and nothing is decided by it.

use super::record::Key;
use super::seen::{Material, Seen, find, is_same};

/// Why the key that an annotation names is not taken over: it is not there, or it is somebody's.
pub(super) fn unadopted(seen: &Seen<'_>) -> Option<String> {
    let name = seen.desired.adopt.as_ref()?;
    let is_done = seen.record.adopted.as_ref().is_some_and(|done| is_same(done, name));
    match find(seen.listed?, name) {
        _ if is_done => None,
        None => Some("coderd has no such key".to_owned()),
        Some(found) if seen.of_others.contains(&found.facts.id) => {
            Some("another CoderProvisioner of this cluster has it".to_owned())
        }
        Some(found) if seen.record.knows(&seen.desired.home, found.facts.id) => {
            Some("it is this object's own already".to_owned())
        }
        Some(_) => None,
    }
}

/// Why a key is made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Cause {
    /// It is the first one.
    First,
    /// The spec names another control plane, or another organization.
    Moved,
    /// The spec gives keys another name.
    Renamed,
    /// The spec gives other tags.
    Tags,
    /// The Secret of this name does not hold the key in use, or is gone.
    SecretEmptied(String),
    /// The Secret of this name holds something else.
    SecretChanged(String),
    /// Somebody deleted the key in use in coderd.
    DeletedInCoderd(String),
    /// The one before was made and could not be kept.
    GivenUp,
}

impl Cause {
    /// Whether somebody changed what nobody but the operator changes.
    pub(crate) fn is_interference(&self) -> bool {
        matches!(self, Self::SecretChanged(_) | Self::DeletedInCoderd(_))
    }
}

/// Why the key that is recorded as pending is made now.
pub(super) fn cause(seen: &Seen<'_>) -> Cause {
    match &seen.record.current {
        Some(current) => replacing(seen, current),
        None if seen.record.retiring.is_empty() => Cause::First,
        None => Cause::GivenUp,
    }
}

fn replacing(seen: &Seen<'_>, current: &Key) -> Cause {
    let desired = seen.desired;
    if current.home != desired.home {
        return Cause::Moved;
    }
    if desired.number_of(&current.name).is_none() {
        return Cause::Renamed;
    }
    if current.tags_hash != desired.tags_hash {
        return Cause::Tags;
    }
    let is_there = seen
        .listed
        .is_some_and(|listed| find(listed, &current.name).is_some_and(|one| current.is_found(one)));
    let secret = || desired.place.secret.clone();
    match seen.at(&desired.place) {
        Material::Absent => Cause::SecretEmptied(secret()),
        Material::Rejected if !is_there => Cause::DeletedInCoderd(current.name.clone()),
        _ => Cause::SecretChanged(secret()),
    }
}
