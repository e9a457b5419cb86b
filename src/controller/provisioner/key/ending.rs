//! Decides how the keys of a provisioner that is being deleted go, and when its finalizer may: pure. It lets go only of what
//! is gone, what nobody can reach any more, and what somebody asked to be left.

use super::record::{Key, Record};
use super::seen::Sight;
use super::steps::{Left, Unrecorded};

/// Everything the next step of an end depends on.
#[derive(Debug, Clone)]
pub(crate) struct Ending<'a> {
    /// What is recorded.
    pub record: &'a Record,
    /// What the Secret holds of which nothing is recorded: the older operator's key, or one whose status was lost.
    pub unrecorded: &'a Unrecorded,
    /// What was seen of each recorded key, in the order of [`Record::keys`].
    pub sights: &'a [Sight],
    /// Whether pods are left that may use a key.
    pub has_pods: bool,
    /// Whether the keys are to be left in coderd: the spec or an annotation says so, or namespace or control plane go as well.
    pub is_released: bool,
}

/// One step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum EndStep {
    /// Stop the pods, and wait until they are gone: none is to lose its key while it works.
    Stop,
    /// Delete a key of ours.
    Delete(Key),
    /// Record this, and tell what was left.
    Record(Box<Record>, Vec<Left>),
    /// A coderd cannot be asked: the finalizer stays until it can be.
    Blocked,
    /// Nothing is left that has to go; the finalizer may. What is left in coderd is told.
    LetGo(Vec<Left>),
}

/// The next step.
pub(crate) fn next(ending: &Ending<'_>) -> EndStep {
    if ending.is_released {
        return EndStep::LetGo(ending.record.keys().map(Left::behind).collect());
    }
    if let Unrecorded::Ours(record) = ending.unrecorded {
        return EndStep::Record(record.clone(), Vec::new());
    }
    if ending.has_pods && ending.record.keys().next().is_some() {
        return EndStep::Stop;
    }
    let mut is_blocked = *ending.unrecorded == Unrecorded::Unknown;
    for (key, sight) in ending.record.keys().zip(ending.sights) {
        let without = |left| EndStep::Record(Box::new(ending.record.without(key)), left);
        match sight {
            // One that was taken over, and whose daemons others still run.
            Sight::Listed(found) if key.is_adopted() && !found.daemons.is_none() => {
                return without(vec![Left::behind(key)]);
            }
            Sight::Listed(found) if key.is_found(found) => return EndStep::Delete(key.clone()),
            // Its name belongs to somebody else by now.
            Sight::Listed(_) | Sight::Absent => return without(Vec::new()),
            Sight::HomeGone | Sight::NotLicensed => return without(vec![Left::behind(key)]),
            Sight::OrganizationGone => return without(vec![Left::WithOrganization(key.name.clone())]),
            Sight::Unreachable => is_blocked = true,
        }
    }
    if is_blocked { EndStep::Blocked } else { EndStep::LetGo(Vec::new()) }
}
