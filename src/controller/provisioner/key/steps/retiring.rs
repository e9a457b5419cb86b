//! Decides when keys on their way out are deleted and earlier places are emptied: when no pod needs them, neither now nor when it
//! is started again. Nothing is deleted that is not recorded as ours.

use super::super::record::{Key, SecretPlace};
use super::super::seen::{Daemons, Listed, Material, Seen, Sight, find, is_same};
use super::{Left, Step, Wait};
use crds::well_known::default;
use jiff::SignedDuration;

/// How long daemons may go on with a key after all pods run with another, whatever the spec says.
const LEAST_PATIENCE: SignedDuration = SignedDuration::from_mins(30);
/// How long coderd lists a daemon that is gone, and a minute for clocks and nodes.
const AFTERWARDS: SignedDuration = SignedDuration::from_mins(4);

/// How long daemons may go on with a key after all pods run with another: a build may take as long as the grace period of its
/// pod.
pub(crate) fn patience(grace_period: Option<i64>) -> SignedDuration {
    let seconds = grace_period.unwrap_or(default::TERMINATION_GRACE_PERIOD_SECONDS);
    SignedDuration::from_secs(seconds).saturating_add(AFTERWARDS).max(LEAST_PATIENCE)
}

impl Seen<'_> {
    /// What is to be done about keys on their way out; nothing if there are none. With `unused` it is enough that nobody uses
    /// one.
    pub(super) fn tidy(&self, unused: bool) -> Option<Step> {
        let mut wait = None;
        for (key, sight) in self.record.retiring.iter().zip(self.retiring) {
            match sight {
                // Ours is gone or never was, and its name belongs to somebody else.
                Sight::Listed(found) if !key.is_found(found) => {
                    return Some(Step::record(self.record.without(key)));
                }
                Sight::Absent => return Some(Step::record(self.record.without(key))),
                Sight::HomeGone => {
                    let left = vec![Left::behind(key)];
                    return Some(Step::Record(Box::new(self.record.without(key)), left));
                }
                Sight::OrganizationGone => {
                    let left = vec![Left::WithOrganization(key.name.clone())];
                    return Some(Step::Record(Box::new(self.record.without(key)), left));
                }
                Sight::Listed(found) if self.may_delete(key, found, unused) && self.entitled => {
                    return Some(Step::Delete(key.clone()));
                }
                Sight::Listed(found) if self.may_delete(key, found, unused) => wait = Some(Wait::Entitlement),
                Sight::NotLicensed => wait = wait.or(Some(Wait::Entitlement)),
                Sight::Listed(_) => wait = Some(Wait::Rollout),
                Sight::Unreachable => wait = wait.or(Some(Wait::Elsewhere)),
            }
        }
        wait.map(Step::Wait)
    }

    /// Whether no pod needs a key on its way out, neither now nor when it is started again.
    fn may_delete(&self, key: &Key, found: &Listed, unused: bool) -> bool {
        let is_kept = |material: &Material| match material {
            Material::Is(facts) => key.home == self.desired.home && facts.id == found.facts.id,
            Material::Elsewhere(home, name) => *home == key.home && is_same(name, &key.name),
            Material::Unproven => true,
            Material::Absent | Material::Foreign | Material::Rejected => false,
        };
        // Once all pods are of the template of now, no pod reads another place.
        let is_read = |place: &SecretPlace| !self.rolled || *place == self.desired.place;
        if self.materials.iter().any(|(place, material)| is_read(place) && is_kept(material)) {
            return false;
        }
        let is_over = self.is_over(key);
        let is_unused = found.daemons.is_none() || found.daemons == Daemons::Unknown && is_over;
        if !key.used || unused {
            return is_unused;
        }
        let is_replaced = self.record.current.as_ref().is_some_and(|current| {
            current.home == self.desired.home
                && matches!(self.at(&self.desired.place), Material::Is(facts) if facts.is(current))
                && self.is_taken_up(current)
        });
        is_replaced && self.rolled && (found.daemons.is_none() || is_over)
    }

    /// Whether daemons work with a key, or none are asked for: pods that run are no proof that coderd lets them in.
    fn is_taken_up(&self, current: &Key) -> bool {
        let listed = self.listed.and_then(|all| find(all, &current.name));
        self.is_idle || listed.is_some_and(|listed| !listed.daemons.is_none())
    }

    /// Whether no daemon of ours can still work with a key: whoever uses it now has copied it. The last pods of it were told to
    /// stop when the rollout to another was complete.
    fn is_over(&self, key: &Key) -> bool {
        let stopped = self.rolled_at.map_or(key.since, |rolled| rolled.max(key.since));
        stopped.checked_add(self.patience).is_ok_and(|end| end <= self.now)
    }

    /// Everything is where it should be: what earlier specs asked for is emptied once no pod reads it.
    pub(super) fn empty_former_places(&self) -> Step {
        let Some(place) = self.record.places.iter().find(|place| **place != self.desired.place) else {
            return Step::Rest;
        };
        match self.at(place) {
            Material::Absent | Material::Foreign => Step::record(self.record.emptied(place)),
            _ if !self.rolled => Step::Wait(Wait::Rollout),
            // It can only go as a whole.
            _ if self.immutable.contains(&place.secret) && !self.is_alone(place) => {
                Step::Wait(Wait::SecretImmutable)
            }
            _ => Step::Empty(place.clone()),
        }
    }

    /// Whether nothing else of ours is in the Secret of an earlier place.
    fn is_alone(&self, place: &SecretPlace) -> bool {
        self.desired.place.secret != place.secret && self.record.is_alone(place)
    }
}
