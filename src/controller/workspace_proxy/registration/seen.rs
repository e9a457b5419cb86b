//! What the next step of a registration depends on: what the spec asks for, what coderd and the Secret show. Values only; what
//! follows from them is decided in `steps`.

use super::others::OfOthers;
use super::record::{Home, Record, Registration};
use crate::coderd::Uuid;
use crate::controller::attached::secret::SecretPlace;
use jiff::Timestamp;

/// What the spec asks for, where it asks for it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Desired {
    /// In which coderd.
    pub home: Home,
    /// Whether the spec brings the credentials for it.
    pub brought: bool,
    /// Name of the proxy.
    pub name: String,
    /// What users see.
    pub display_name: String,
    /// Its icon.
    pub icon: String,
    /// What tells what this object makes from what anybody else makes at the same time: its uid.
    pub origin: String,
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
    /// A token of this proxy that coderd does not accept any more: it has another one since.
    Ended(Uuid),
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
    /// Its control plane is there, with another database behind it, for a while perhaps.
    OtherDatabase,
    /// Its coderd answers, and its license does not cover workspace proxies.
    NotLicensed,
}

/// Everything the next step depends on.
#[derive(Debug, Clone)]
pub(crate) struct Seen<'a> {
    /// What the spec asks for.
    pub desired: &'a Desired,
    /// The time.
    pub now: Timestamp,
    /// What is recorded.
    pub record: &'a Record,
    /// What was seen of the registrations on their way out, in their order.
    pub retiring: &'a [Sight],
    /// What was seen of the one that is being made, if it is in another coderd than the one that is asked for.
    pub pending_elsewhere: Option<&'a Sight>,
    /// What the place that is asked for holds.
    pub material: &'a Material,
    /// Whether nobody can change that Secret any more.
    pub is_immutable: bool,
    /// Whether the registration in use, of a control plane that is gone, is proven to be in the coderd that is asked for: the same
    /// database, which accepts the token in the Secret.
    pub is_proven_here: bool,
    /// The place that pods read so far, if it is another one of ours, and what it holds.
    pub former: Option<(&'a SecretPlace, &'a Material)>,
    /// The proxies of the coderd that is asked for that matter: the one of the name, and those of ids that are recorded or that
    /// a token is of. None if coderd did not tell.
    pub proxies: Option<&'a [ProxyFacts]>,
    /// Whether every pod was started with what the asked place holds, and no other pod is left.
    pub rolled: bool,
    /// Whether the Deployment can be changed.
    pub may_roll: bool,
    /// Whether our finalizer is on the object.
    pub has_finalizer: bool,
    /// Whether the license covers workspace proxies now.
    pub entitled: bool,
    /// Whether admission is disabled in the namespace: then nothing is made, taken over, renamed, and no token replaced.
    pub admission_disabled: bool,
    /// Whether another object has the older claim on this name.
    pub claimed: bool,
    /// Whether a token was made a moment ago that coderd then did not accept: the next one waits for a while.
    pub paused: bool,
    /// Registrations that other objects have recorded.
    pub of_others: &'a OfOthers,
}

impl Desired {
    /// The icon of a proxy that is being made. It says who makes it, behind what browsers look at, until the answer has come: an
    /// answer that is lost leaves nothing else to know the proxy by.
    pub(super) fn first_icon(&self) -> String {
        format!("{}#{}", self.icon, self.origin)
    }
}

impl ProxyFacts {
    /// Whether it is the proxy that this object asked coderd to make, and of which it has had no answer yet.
    pub(super) fn is_made_for(&self, intent: &Registration, origin: &str) -> bool {
        intent.attempted && self.name == intent.name && self.is_made_by(origin)
    }

    /// Whether it says that the object of this uid makes it.
    pub(super) fn is_made_by(&self, origin: &str) -> bool {
        let maker = self.icon.rsplit_once('#').map(|(_, maker)| maker);
        !origin.is_empty() && maker == Some(origin)
    }
}
