//! What the next step towards a key depends on: what the spec asks for, what coderd and the Secrets show. Values only; what
//! follows from them is decided in `steps`.

use super::record::{Home, Key, Record, SecretPlace};
use crate::coderd::Uuid;
use crate::coderd::client::ProvisionerKey;
use crds::names::provisioner::{numbered_key, tags_hash};
use jiff::{SignedDuration, Timestamp};
use std::collections::{BTreeMap, BTreeSet};

pub(crate) use crate::controller::attached::claims::is_same;

/// How much the clocks of coderd and the operator may differ.
pub(super) const CLOCK_SKEW: SignedDuration = SignedDuration::from_mins(5);
/// How long a request to make a key may be under way.
pub(super) const UNDER_WAY: SignedDuration = SignedDuration::from_mins(1);

/// The tags of a key.
pub(crate) type Tags = BTreeMap<String, String>;

/// What the spec asks for, where it asks for it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Desired {
    /// In which coderd.
    pub home: Home,
    /// Name of the first key.
    pub base: String,
    /// Its tags.
    pub tags: Tags,
    /// Their hash.
    pub tags_hash: String,
    /// Where its plaintext is kept.
    pub place: SecretPlace,
    /// The key that an annotation says may be taken over.
    pub adopt: Option<String>,
    /// The name of the key in a status that has no record: the older operator's.
    pub former_name: Option<String>,
}

impl Desired {
    /// The name of one of our keys.
    pub(super) fn name_of(&self, number: u64) -> String {
        numbered_key(&self.base, number)
    }

    /// Which of our keys this name is, if it is one.
    pub(super) fn number_of(&self, name: &str) -> Option<u64> {
        if is_same(name, &self.name_of(1)) {
            return Some(1);
        }
        let number = name.rsplit_once('-')?.1.parse().ok()?;
        is_same(name, &self.name_of(number)).then_some(number)
    }

    /// Whether a key that is being made is not the one that is asked for now.
    pub(super) fn is_stale(&self, pending: &Key) -> bool {
        pending.home != self.home
            || self.number_of(&pending.name).is_none()
            || pending.tags_hash != self.tags_hash
    }
}

/// A key as coderd tells of it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct KeyFacts {
    /// Its id.
    pub id: Uuid,
    /// The id of its organization.
    pub organization: Uuid,
    /// Its name.
    pub name: String,
    /// Hash of its tags.
    pub tags_hash: String,
}

/// The daemons that were seen with a key within the last minutes.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Daemons {
    /// coderd did not tell.
    Unknown,
    /// These, by name.
    Seen(BTreeSet<String>),
}

impl Daemons {
    /// Whether coderd says that there is none.
    pub(crate) fn is_none(&self) -> bool {
        matches!(self, Self::Seen(names) if names.is_empty())
    }
}

/// A key in a list, with who uses it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Listed {
    /// What coderd tells of it.
    pub facts: KeyFacts,
    /// When it was made, by coderd's clock.
    pub created_at: Timestamp,
    /// Who uses it.
    pub daemons: Daemons,
}

/// What a place for the plaintext holds.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Material {
    /// Nothing.
    Absent,
    /// The Secret is somebody else's.
    Foreign,
    /// Something of which coderd was not asked, or did not answer.
    Unproven,
    /// Something that the coderd that is asked for does not know.
    Rejected,
    /// The plaintext of this key of the coderd that is asked for.
    Is(KeyFacts),
    /// What is marked as the plaintext of a key of this name in another coderd. It is not shown to this one.
    Elsewhere(Home, String),
}

/// What was seen of a key where it is.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Sight {
    /// A key of its name.
    Listed(Listed),
    /// No key of its name.
    Absent,
    /// Its coderd does not answer, or cannot be asked.
    Unreachable,
    /// Its control plane, or the database behind it, is gone for good.
    HomeGone,
    /// Its coderd answers, and the organization was deleted there, with all its keys.
    OrganizationGone,
    /// Its coderd answers, and its license does not cover external provisioners.
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
    /// What each recorded place holds, and the one that is asked for.
    pub materials: &'a [(SecretPlace, Material)],
    /// Secrets that nobody can change any more, by name.
    pub immutable: &'a BTreeSet<String>,
    /// The keys of the organization; none if coderd did not tell.
    pub listed: Option<&'a [Listed]>,
    /// Numbers of names of ours that others have, of whose keys nothing else is known.
    pub taken: &'a BTreeSet<u64>,
    /// What was seen of the keys on their way out, in their order.
    pub retiring: &'a [Sight],
    /// What was seen of the key that is being made, if its home is not the one that is asked for.
    pub pending_elsewhere: Option<&'a Sight>,
    /// Whether every pod was started with what the asked place holds, and no other pod is left.
    pub rolled: bool,
    /// Since when that is so, as far as the Deployment tells.
    pub rolled_at: Option<Timestamp>,
    /// Whether no daemons are asked for, and none run.
    pub is_idle: bool,
    /// How long daemons may go on with a key after all pods run with another.
    pub patience: SignedDuration,
    /// Whether the license covers external provisioners now.
    pub entitled: bool,
    /// Whether another object has the older claim on this name.
    pub claimed: bool,
    /// Whether a key was made a moment ago, or one that was made had to be given up: the next one waits for a while.
    pub paused: bool,
    /// Whether the Deployment can follow: there is none, or it was just applied, nothing of it was withheld or refused, and it has
    /// an address to follow to.
    pub may_roll: bool,
    /// Keys that other objects have recorded: those are never taken over.
    pub of_others: &'a BTreeSet<Uuid>,
    /// The time.
    pub now: Timestamp,
}

impl KeyFacts {
    /// What matters of a key.
    pub(super) fn of(key: ProvisionerKey) -> Self {
        let tags_hash = tags_hash(&key.tags);
        Self { id: key.id, organization: key.organization_id, name: key.name, tags_hash }
    }

    /// Whether it is this key, whatever its id was.
    pub(super) fn is(&self, key: &Key) -> bool {
        self.organization == key.home.organization && is_same(&self.name, &key.name)
    }
}

impl Listed {
    /// Whether it is the key that we asked coderd to make: of its tags, and as old as that. The name was free right before.
    pub(super) fn is_made_for(&self, intent: &Key) -> bool {
        let latest = intent.since.checked_add(UNDER_WAY + CLOCK_SKEW);
        self.may_be_made_for(intent) && latest.is_ok_and(|latest| self.created_at <= latest)
    }

    /// Whether it may be that key, if something else speaks for it: a mark on the Secret alone does not, which others can write.
    pub(super) fn may_be_made_for(&self, intent: &Key) -> bool {
        let earliest = intent.since.checked_sub(CLOCK_SKEW);
        intent.attempted
            && is_same(&self.facts.name, &intent.name)
            && self.facts.tags_hash == intent.tags_hash
            && earliest.is_ok_and(|earliest| earliest <= self.created_at)
    }
}

/// The key of a name.
pub(super) fn find<'a>(listed: &'a [Listed], name: &str) -> Option<&'a Listed> {
    listed.iter().find(|one| is_same(&one.facts.name, name))
}
