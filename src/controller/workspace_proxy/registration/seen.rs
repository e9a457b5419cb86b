//! What the next step of a registration depends on: what the spec asks for, what coderd and the Secret show. Values only; what
//! follows from them is decided in `steps`.

use super::record::{Home, Record, Registration};
use crate::coderd::Uuid;
use crate::controller::attached::secret::SecretPlace;
use jiff::{SignedDuration, Timestamp};
use std::collections::BTreeSet;

/// How much the clocks of coderd and the operator may differ.
pub(super) const CLOCK_SKEW: SignedDuration = SignedDuration::from_mins(10);
/// How long a request may be under way.
pub(super) const UNDER_WAY: SignedDuration = SignedDuration::from_mins(1);

/// What the spec asks for, where it asks for it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Desired {
    /// In which coderd.
    pub home: Home,
    /// Name of the proxy.
    pub name: String,
    /// What users see.
    pub display_name: String,
    /// Its icon.
    pub icon: String,
    /// Where its token is kept.
    pub place: SecretPlace,
    /// The registration that an annotation says may be taken over.
    pub adopt: Option<String>,
    /// The value of the annotation that asks for another token.
    pub rotate: Option<String>,
}

/// A proxy as coderd tells of it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct ProxyFacts {
    /// Its id.
    pub id: Uuid,
    /// Its name.
    pub name: String,
    /// What users see.
    pub display_name: String,
    /// Its icon.
    pub icon: String,
    /// When it was made, by coderd's clock.
    pub created_at: Timestamp,
}

/// What a place for the token holds.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Material {
    /// Nothing.
    Absent,
    /// The Secret is somebody else's.
    Foreign,
    /// Something of which coderd was not asked, or did not answer.
    Unproven,
    /// Something that the coderd that is asked for does not accept.
    Rejected,
    /// A token of this proxy that coderd accepts, and for which rotation it was made.
    Is(Uuid, Option<String>),
    /// What is marked as the token of a proxy in another coderd. It is not shown to this one.
    Elsewhere(Home),
}

/// What was seen of a registration where it is.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Sight {
    /// It is there.
    There,
    /// It is not there any more.
    Absent,
    /// Its coderd does not answer, or cannot be asked.
    Unreachable,
    /// Its coderd is gone for good, or nobody has credentials for it any more.
    HomeGone,
    /// Its coderd answers, and its license does not cover workspace proxies.
    NotLicensed,
}

/// Everything the next step depends on.
#[derive(Debug, Clone)]
pub(crate) struct Seen<'a> {
    /// Whether our finalizer is on the object.
    pub has_finalizer: bool,
    /// What the spec asks for.
    pub desired: &'a Desired,
    /// What is recorded.
    pub record: &'a Record,
    /// What the place that is asked for holds.
    pub material: &'a Material,
    /// Whether nobody can change that Secret any more.
    pub is_immutable: bool,
    /// The place that pods read so far, if it is another one of ours, and what it holds.
    pub former: Option<(&'a SecretPlace, &'a Material)>,
    /// The proxies of the coderd that is asked for that matter: the one of the name, and those of ids that are recorded or that
    /// a token is of. None if coderd did not tell.
    pub proxies: Option<&'a [ProxyFacts]>,
    /// What was seen of those on their way out, in their order.
    pub retiring: &'a [Sight],
    /// What was seen of the one that is being made, if it is in another coderd than the one that is asked for.
    pub pending_elsewhere: Option<&'a Sight>,
    /// Whether every pod was started with what the asked place holds, and no other pod is left.
    pub rolled: bool,
    /// Whether the Deployment can be changed.
    pub may_roll: bool,
    /// Whether the license covers workspace proxies now.
    pub entitled: bool,
    /// Whether another object has the older claim on this name.
    pub claimed: bool,
    /// Whether a token was made a moment ago that coderd then did not accept: the next one waits for a while.
    pub paused: bool,
    /// Registrations that other objects have recorded: those are never taken over.
    pub of_others: &'a BTreeSet<Uuid>,
    /// The time.
    pub now: Timestamp,
}

impl ProxyFacts {
    /// Whether it is the proxy that we asked coderd to make: as old as that. The name was free right before.
    pub(super) fn is_made_for(&self, intent: &Registration) -> bool {
        let earliest = intent.since.checked_sub(CLOCK_SKEW);
        let latest = intent.since.checked_add(UNDER_WAY + CLOCK_SKEW);
        let in_time = earliest.is_ok_and(|earliest| earliest <= self.created_at)
            && latest.is_ok_and(|latest| self.created_at <= latest);
        intent.attempted && self.name == intent.name && in_time
    }
}

impl Registration {
    /// Whether an earlier request about it may still come to something.
    pub(super) fn may_be_under_way(&self, now: Timestamp) -> bool {
        let latest = self.since.checked_add(UNDER_WAY + CLOCK_SKEW);
        self.attempted && latest.is_ok_and(|latest| now <= latest)
    }
}
