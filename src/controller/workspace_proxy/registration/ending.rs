//! Decides how the registrations of a workspace proxy that is being deleted go, and when its finalizer may: pure. It lets go only
//! of what is gone, what nobody can reach any more, and what somebody asked to be left.

use super::others::OfOthers;
use super::record::{Record, Registration};
use super::seen::Sight;
use super::steps::Left;

/// Everything the next step of an end depends on.
#[derive(Debug, Clone)]
pub(crate) struct Ending<'a> {
    /// What is recorded.
    pub record: &'a Record,
    /// What the Secret holds of which nothing is recorded: the older operator's, or of a status that was lost.
    pub unrecorded: &'a Unrecorded,
    /// What was seen of each recorded registration, in the order of [`Record::registrations`].
    pub sights: &'a [Sight],
    /// Whether they are to be left in coderd: the spec or an annotation says so, or namespace or control plane go as well.
    pub is_released: bool,
    /// Registrations that other objects have recorded.
    pub of_others: &'a OfOthers,
}

/// What the Secret holds of which nothing is recorded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Unrecorded {
    /// Nothing of ours.
    Nothing,
    /// A token of which coderd cannot be asked now whose it is.
    Unknown,
    /// A token of this proxy, of which nobody will ever tell whether it is ours.
    Left(String),
    /// The token of a registration of ours.
    Ours(Registration),
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
        let mut left: Vec<Left> = record.registrations().filter(is_there).map(Left::of).collect();
        left.dedup();
        return EndStep::LetGo(left);
    }
    let (mut is_blocked, mut left) = (false, Vec::new());
    match ending.unrecorded {
        Unrecorded::Ours(ours) => {
            let record = Record { current: Some(ours.clone()), ..record.clone() };
            return EndStep::Record(Box::new(record), Vec::new());
        }
        Unrecorded::Nothing => {}
        Unrecorded::Unknown => is_blocked = true,
        Unrecorded::Left(name) => left.push(Left::named(name.clone())),
    }
    for (one, sight) in record.registrations().zip(ending.sights) {
        let without = |left| EndStep::Record(Box::new(record.without(one)), left);
        // It belongs to others still.
        if record.is_adopting(one) {
            let left = one.attempted.then(|| Left::of(one));
            return EndStep::Record(Box::new(record.not_adopting()), left.into_iter().collect());
        }
        if one.id.is_some_and(|id| ending.of_others.has(&one.home, id)) {
            return without(vec![Left::of(one)]);
        }
        match sight {
            // It may be what another object of the namespace has recorded.
            Sight::There if ending.of_others.unread().is_some() => is_blocked = true,
            Sight::There => return EndStep::Delete(one.clone()),
            Sight::Absent => return without(Vec::new()),
            Sight::HomeGone | Sight::OtherDatabase | Sight::NotLicensed => {
                return without(vec![Left::of(one)]);
            }
            Sight::Unreachable => is_blocked = true,
        }
    }
    if is_blocked { EndStep::Blocked } else { EndStep::LetGo(left) }
}

#[cfg(test)]
mod tests {
    use super::super::record::Home;
    use super::*;
    use jiff::Timestamp;

    fn one(attempted: bool) -> Registration {
        let home = Home::behind("u".to_owned(), "d".to_owned());
        Registration {
            home,
            name: "eu".to_owned(),
            id: None,
            since: Timestamp::UNIX_EPOCH,
            attempted,
            brought: false,
        }
    }

    #[test]
    fn what_is_there_goes_and_what_nobody_can_reach_is_named() {
        let record = Record { current: Some(one(true)), ..Record::default() };
        let unrecorded = &Unrecorded::Nothing;
        let step = |sight: Sight, is_released: bool| {
            next(&Ending {
                record: &record,
                unrecorded,
                sights: &[sight],
                is_released,
                of_others: &OfOthers::default(),
            })
        };
        let left = || vec![Left::of(&one(true))];
        assert_eq!(step(Sight::There, false), EndStep::Delete(one(true)));
        assert_eq!(step(Sight::Unreachable, false), EndStep::Blocked);
        assert_eq!(step(Sight::Unreachable, true), EndStep::LetGo(left()));
        for sight in [Sight::NotLicensed, Sight::OtherDatabase] {
            assert_eq!(step(sight, false), EndStep::Record(Box::default(), left()));
        }
        assert_eq!(step(Sight::Absent, false), EndStep::Record(Box::default(), Vec::new()));
    }

    #[test]
    fn a_proxy_of_others_that_was_only_to_be_taken_over_stays() {
        let theirs = Registration { id: Some(crate::coderd::Uuid::random().unwrap()), ..one(false) };
        let adopting = Record { pending: Some(theirs.clone()), adopting: theirs.id, ..Record::default() };
        let step = |record: &Record| {
            let unrecorded = &Unrecorded::Nothing;
            next(&Ending {
                record,
                unrecorded,
                sights: &[Sight::There],
                is_released: false,
                of_others: &OfOthers::default(),
            })
        };
        assert_eq!(step(&adopting), EndStep::Record(Box::default(), Vec::new()));
        let attempted = Registration { attempted: true, ..theirs.clone() };
        let tried = Record { pending: Some(attempted.clone()), ..adopting.clone() };
        assert_eq!(step(&tried), EndStep::Record(Box::default(), vec![Left::of(&one(true))]));
        let taken = Record { current: Some(attempted.clone()), pending: None, ..adopting };
        assert_eq!(step(&taken), EndStep::Delete(attempted), "its token was proven to be ours");
    }

    #[test]
    fn what_another_object_has_is_left_to_it() {
        let id = crate::coderd::Uuid::random().unwrap();
        let ours = Registration { id: Some(id), ..one(true) };
        let record = Record { retiring: vec![ours.clone()], ..Record::default() };
        let step = |of_others: &OfOthers| {
            let unrecorded = &Unrecorded::Nothing;
            next(&Ending {
                record: &record,
                unrecorded,
                sights: &[Sight::There],
                is_released: false,
                of_others,
            })
        };
        let others: OfOthers = [(ours.home.clone(), id)].into_iter().collect();
        assert_eq!(step(&others), EndStep::Record(Box::default(), vec![Left::of(&ours)]));
        let mut unread = OfOthers::default();
        unread.miss_elsewhere();
        assert_eq!(step(&unread), EndStep::Delete(ours.clone()), "a long status elsewhere stops nobody");
        unread.miss("long");
        assert_eq!(step(&unread), EndStep::Blocked, "nobody knows what the other has");
        let elsewhere = Home { control_plane: Some("v".to_owned()), ..ours.home.clone() };
        let others: OfOthers = [(elsewhere, id)].into_iter().collect();
        assert_eq!(
            step(&others),
            EndStep::Delete(ours.clone()),
            "what another coderd says of itself stops nobody"
        );
    }

    #[test]
    fn a_token_that_nobody_recorded_is_looked_into_first() {
        let record = Record::default();
        let step = |unrecorded: &Unrecorded| {
            next(&Ending {
                record: &record,
                unrecorded,
                sights: &[],
                is_released: false,
                of_others: &OfOthers::default(),
            })
        };
        assert_eq!(step(&Unrecorded::Unknown), EndStep::Blocked);
        assert_eq!(step(&Unrecorded::Nothing), EndStep::LetGo(Vec::new()));
        let left = EndStep::LetGo(vec![Left::named("eu".to_owned())]);
        assert_eq!(
            step(&Unrecorded::Left("eu".to_owned())),
            left,
            "nobody tells whose it is, and it is named"
        );
        assert!(
            matches!(step(&Unrecorded::Ours(one(false))), EndStep::Record(record, _) if record.current.is_some())
        );
    }
}
