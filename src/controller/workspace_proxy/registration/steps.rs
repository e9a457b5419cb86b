//! Decides the next step towards one registration in coderd whose token is in the Secret, from what is recorded and seen; pure, the
//! time too. A token is replaced only where nobody has one that works or somebody asks for it, nothing is taken over that is not
//! ours, and nothing is deleted that is not recorded.

mod keeping;
mod making;

use super::record::{Record, Registration};
use super::seen::{Material, ProxyFacts, Seen};
use crate::coderd::Uuid;
use crate::controller::attached::claims::is_same;
use crate::controller::attached::secret::SecretPlace;

/// Why nothing is done now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Wait {
    /// coderd did not tell what is needed.
    Coderd,
    /// The license does not cover workspace proxies.
    Entitlement,
    /// Admission is disabled in the namespace: nobody was asked whether the author may have more than there is.
    AdmissionDisabled,
    /// Another object has the older claim on the name.
    Claimed,
    /// coderd has a proxy of this name that is not ours.
    NameTaken,
    /// Somebody else replaces the token of this proxy again and again.
    Contested,
    /// It is not known what another object has recorded: this could be among it.
    Others,
    /// The Secret that is asked for is somebody else's.
    SecretNotOurs,
    /// The Secret that is asked for is ours, and nobody can change it any more.
    SecretImmutable,
    /// A token was made a moment ago that was not accepted or could not be kept: the next one is made after a while.
    Pause,
    /// Pods are on their way to the registration in use.
    Rollout,
    /// The coderd of a registration on its way out cannot be asked; everything else is as it should be.
    Elsewhere,
    /// Too many registrations are on their way out of control planes that cannot be asked.
    TooMany,
}

/// A registration that stays in coderd.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Left {
    /// Its name.
    pub name: String,
    /// The id of the deployment it is in, if that is known.
    pub deployment: Option<String>,
}

impl Left {
    /// One that is recorded.
    pub(crate) fn of(one: &Registration) -> Self {
        Self { name: one.name.clone(), deployment: Some(one.home.deployment.clone()) }
    }

    /// One of which nothing but the name is known.
    pub(crate) fn named(name: String) -> Self {
        Self { name, deployment: None }
    }
}

/// One step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Step {
    /// Nothing is left to do.
    Rest,
    /// Nothing can be done now.
    Wait(Wait),
    /// Put the finalizer on the object: somebody must be there to undo what follows.
    AddFinalizer,
    /// Record this, and tell what was left.
    Record(Box<Record>, Vec<Left>),
    /// Make the registration that is recorded as pending, and put its token into its place.
    Create,
    /// Replace the token of the registration that is recorded as pending, and put it into its place.
    Regenerate(Uuid),
    /// Give this proxy the name, display name and icon that are asked for.
    Update(Uuid),
    /// Copy the token in use from this place to the one that is asked for.
    Copy(SecretPlace),
    /// Remove what a place holds that is no longer read.
    Empty(SecretPlace),
    /// Delete a registration of ours.
    Delete(Registration),
}

impl Step {
    fn record(record: Record) -> Self {
        Self::Record(Box::new(record), Vec::new())
    }
}

/// The next step.
pub(crate) fn next(seen: &Seen<'_>) -> Step {
    let Record { pending, current, .. } = seen.record;
    match (pending, current) {
        _ if !seen.has_finalizer => Step::AddFinalizer,
        (Some(pending), _) => seen.go_on_with(pending),
        (None, Some(current)) => seen.keep(current),
        (None, None) => seen.begin(),
    }
}

/// The registration that the Secret proves to be ours although nothing is recorded: of the older operator, or of a status that
/// was lost. A token of a proxy of another name gives nobody a right to it.
pub(crate) fn unrecorded(seen: &Seen<'_>) -> Option<Registration> {
    let Material::Is(id, _) = seen.material else { return None };
    let found = seen.of_id(*id).filter(|_| !seen.claimed && !seen.is_of_others(*id))?;
    is_same(&found.name, &seen.desired.name).then(|| seen.found(found))
}

impl Seen<'_> {
    /// Whether an id is that of the control plane itself, which coderd shows among its proxies and changes like one.
    fn is_primary(&self, id: Uuid) -> bool {
        id.to_string() == self.desired.home.deployment
    }

    /// Whether another object has recorded this proxy of the coderd that is asked for.
    fn is_of_others(&self, id: Uuid) -> bool {
        self.of_others.has(&self.desired.home, id)
    }

    /// Why nothing is made, moved or deleted: it may be what another object of the namespace has recorded.
    fn is_unread(&self) -> Option<Wait> {
        self.of_others.unread().map(|_| Wait::Others)
    }

    fn of_id(&self, id: Uuid) -> Option<&ProxyFacts> {
        self.proxies?.iter().find(|one| one.id == id && !self.is_primary(id))
    }

    /// The proxy that has the name that is asked for.
    fn of_name(&self) -> Option<&ProxyFacts> {
        self.proxies?.iter().find(|one| is_same(&one.name, &self.desired.name))
    }

    /// A proxy that coderd has, as it is recorded.
    fn found(&self, facts: &ProxyFacts) -> Registration {
        Registration {
            home: self.desired.home.clone(),
            name: facts.name.clone(),
            id: Some(facts.id),
            since: self.now,
            attempted: false,
            brought: self.desired.brought,
        }
    }

    /// The rotation of the token of this proxy in the Secret, if there is one that coderd accepts.
    fn token_of(&self, id: Uuid) -> Option<&Option<String>> {
        match self.material {
            Material::Is(of, rotation) if *of == id => Some(rotation),
            _ => None,
        }
    }

    /// Whether a token for this rotation is what is asked for.
    fn is_rotated(&self, rotation: &Option<String>) -> bool {
        let asked = &self.desired.rotate;
        asked.is_none() || asked == rotation || *asked == self.record.rotated_for
    }

    /// Why nothing can be concluded: an answer did not come.
    fn is_unseen(&self) -> Option<Wait> {
        let is_unseen = self.proxies.is_none() || *self.material == Material::Unproven;
        is_unseen.then_some(if self.entitled { Wait::Coderd } else { Wait::Entitlement })
    }

    /// What stands in the way of a new registration.
    fn may_make(&self) -> Option<Wait> {
        self.claimed.then_some(Wait::Claimed).or_else(|| self.may_write())
    }

    /// What stands in the way of a new token. Of its own name an older object keeps nobody from one.
    fn may_write(&self) -> Option<Wait> {
        if self.admission_disabled {
            return Some(Wait::AdmissionDisabled);
        }
        if *self.material == Material::Foreign {
            return Some(Wait::SecretNotOurs);
        }
        if self.is_immutable {
            return Some(Wait::SecretImmutable);
        }
        if !self.entitled {
            return Some(Wait::Entitlement);
        }
        self.paused.then_some(Wait::Pause)
    }
}

#[cfg(test)]
mod explorer;
#[cfg(test)]
mod tests;
