//! Decides how the registrations of a workspace proxy that is being deleted go, and when its finalizer may: pure. It lets go only
//! of what is gone, what nobody can reach any more, and what somebody asked to be left.

use super::record::{Record, Registration};
use super::seen::Sight;
use super::steps::Left;

/// Everything the next step of an end depends on.
#[derive(Debug, Clone)]
pub(crate) struct Ending<'a> {
    /// What is recorded.
    pub record: &'a Record,
    /// What the Secret proves to be ours of which nothing is recorded; `Err` if coderd did not tell.
    pub unrecorded: Result<Option<&'a Registration>, ()>,
    /// What was seen of each recorded registration, in the order of [`Record::registrations`].
    pub sights: &'a [Sight],
    /// Whether they are to be left in coderd: the spec or an annotation says so, or namespace or control plane go as well.
    pub is_released: bool,
}

/// One step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum EndStep {
    /// Delete a registration of ours.
    Delete(Registration),
    /// Record this, and tell what was left.
    Record(Box<Record>, Vec<Left>),
    /// A coderd cannot be asked: the finalizer stays until it can be.
    Blocked,
    /// Nothing is left that has to go; the finalizer may. What is left in coderd is told.
    LetGo(Vec<Left>),
}

/// The next step.
pub(crate) fn next(ending: &Ending<'_>) -> EndStep {
    let record = ending.record;
    if ending.is_released {
        // What was never asked for is not there.
        let is_there = |one: &&Registration| one.id.is_some() || one.attempted;
        let mut names: Vec<String> =
            record.registrations().filter(is_there).map(|one| one.name.clone()).collect();
        names.dedup();
        return EndStep::LetGo(names.into_iter().map(Left).collect());
    }
    let mut is_blocked = false;
    match ending.unrecorded {
        Ok(Some(ours)) => {
            let record = Record { current: Some(ours.clone()), ..record.clone() };
            return EndStep::Record(Box::new(record), Vec::new());
        }
        Ok(None) => {}
        Err(()) => is_blocked = true,
    }
    for (one, sight) in record.registrations().zip(ending.sights) {
        let without = |left| EndStep::Record(Box::new(record.without(one)), left);
        match sight {
            Sight::There => return EndStep::Delete(one.clone()),
            Sight::Absent => return without(Vec::new()),
            Sight::HomeGone | Sight::NotLicensed => return without(vec![Left(one.name.clone())]),
            Sight::Unreachable => is_blocked = true,
        }
    }
    if is_blocked { EndStep::Blocked } else { EndStep::LetGo(Vec::new()) }
}
