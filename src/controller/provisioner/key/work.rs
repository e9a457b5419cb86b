//! Brings the keys of a provisioner to what they should be: looks, lets `steps` decide, acts, and looks again. It decides
//! nothing itself, and every effect was recorded before it happens.

use super::cause::{Cause, cause, unadopted};
use super::homes::{Homes, Silent};
use super::lists::Wanted;
use super::look::{Look, now};
use super::mark::Mark;
use super::record::{Key, Record, SecretPlace};
use super::seen::{Desired, Material, find};
use super::steps::{Left, Step, Unrecorded, Wait, next, unrecorded};
use super::store::RecordStore;
use crate::coderd::client::Deletion;
use crate::coderd::{Client, Error, Uuid};
use crate::confidential::Confidential;
use crate::controller::attached::refusal::is_refusal;
use crate::controller::attached::secret::{Content, Emptied, Proven, Secrets};
use crate::kubernetes::CallError;
use jiff::{SignedDuration, Timestamp};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Steps in one reconcile: more than any rotation needs.
const MOST_STEPS: usize = 24;
/// Further tries to keep a new plaintext while somebody else changes its Secret.
const MOST_WRITES: usize = 3;
/// How long a key that cannot be kept is looked for, however late it is.
const UNDO: Duration = Duration::from_secs(15);

/// What could not be done.
#[derive(Debug, thiserror::Error)]
pub(crate) enum KeyError {
    /// A call to coderd failed.
    #[error(transparent)]
    Coderd(#[from] Error),
    /// A call to the API server failed.
    #[error(transparent)]
    Kubernetes(#[from] CallError),
    /// What coderd lists lacks a key that it knows.
    #[error(
        "coderd hides provisioner keys from the user of this token; give that user the role template-admin in coderd, or use another token"
    )]
    Filtered,
    /// The same, and it is shown to the user of this token.
    #[error("coderd knows a provisioner key that it does not list; retrying")]
    Unlisted,
    /// There was no time to ask.
    #[error("there was no time to ask coderd")]
    Late,
}

/// A rollout that is complete.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Rolled {
    /// What every pod runs with.
    pub with: Proven,
    /// Since when, if the Deployment tells.
    pub at: Option<Timestamp>,
    /// Whether that is nobody, because no daemons are asked for.
    pub is_idle: bool,
}

/// What became of the keys.
#[derive(Debug, Default)]
pub(crate) struct Keyed {
    /// The key in use that the Secret of the spec was proven to hold.
    pub proven: Option<Proven>,
    /// Whether the key in use is the one that the spec asks for.
    pub is_asked_for: bool,
    /// Why not everything is done.
    pub wait: Option<Wait>,
    /// What failed in coderds that earlier keys are in, with the names of their control planes.
    pub elsewhere: Option<String>,
    /// Why the key that an annotation names is not taken over.
    pub unadopted: Option<String>,
    /// Whether a key that was made had to be given up.
    pub gave_up: bool,
    /// What failed.
    pub error: Option<KeyError>,
    /// Keys that were left alone.
    pub left: Vec<Left>,
    /// Secrets that were left with a plaintext which nothing reads any more.
    pub left_secrets: Vec<SecretPlace>,
    /// Keys that were made, by name, and why.
    pub made: Vec<(String, Cause)>,
    /// Keys that were deleted, by name.
    pub deleted: Vec<String>,
    /// The names of the daemons that coderd sees with the key in use.
    pub daemons: Option<BTreeSet<String>>,
    /// Whether there was no time for all of it.
    pub is_cut: bool,
}

impl Keyed {
    /// Whether there was no time even to see what is there: nothing is known of the keys that was not known before.
    pub(crate) fn is_unasked(&self) -> bool {
        self.is_cut && self.proven.is_none()
    }
}

/// What the keys of a provisioner are brought into place with.
pub(crate) struct KeyWork<'a> {
    /// Where plaintexts are.
    pub secrets: Secrets<'a>,
    /// Other coderds.
    pub homes: Homes<'a>,
    /// The coderd that is asked for.
    pub client: &'a Client,
    /// What is asked for.
    pub desired: &'a Desired,
    /// Whether our finalizer is on the object.
    pub has_finalizer: bool,
    /// What every pod runs with, if a rollout to it is complete.
    pub rolled: Option<Rolled>,
    /// How long daemons may go on with a key after all pods run with another.
    pub patience: SignedDuration,
    /// Whether the license covers external provisioners.
    pub entitled: bool,
    /// Whether another object has the older claim.
    pub claimed: bool,
    /// Keys that other objects have recorded.
    pub of_others: BTreeSet<Uuid>,
    /// The place that pods read, which a status that was lost may have known of.
    pub read_place: Option<SecretPlace>,
    /// The place that a status tells, which anybody may have written: it counts only where the Secret is marked for it.
    pub told_place: Option<SecretPlace>,
    /// The name of the key that the older operator left, if its status says that it is in another control plane's coderd: a
    /// plaintext without a mark is not shown to this one.
    pub left_elsewhere: Option<String>,
    /// Whether no key is made now: one was made a moment ago, or had to be given up.
    pub paused: bool,
    /// Whether the Deployment can be changed.
    pub may_roll: bool,
    /// Keys whose deletion was asked for in this reconcile.
    pub tried: BTreeSet<Key>,
    /// What coderd said of plaintexts, by their checksum, since the last change there.
    pub identified: BTreeMap<Vec<u8>, Material>,
}

impl<'a> KeyWork<'a> {
    /// Only to look, for an object that is going.
    pub(crate) fn for_end(
        secrets: Secrets<'a>,
        homes: Homes<'a>,
        client: &'a Client,
        desired: &'a Desired,
    ) -> Self {
        Self {
            secrets,
            homes,
            client,
            desired,
            has_finalizer: true,
            rolled: None,
            patience: SignedDuration::ZERO,
            entitled: true,
            claimed: false,
            of_others: BTreeSet::new(),
            read_place: None,
            told_place: None,
            left_elsewhere: None,
            paused: true,
            may_roll: true,
            tried: BTreeSet::new(),
            identified: BTreeMap::new(),
        }
    }
}

impl KeyWork<'_> {
    /// Goes on until nothing can be done now, or there is no time left.
    pub(crate) async fn run(mut self, store: &mut RecordStore<'_>) -> Keyed {
        let mut keyed = Keyed { is_cut: true, ..Keyed::default() };
        for _ in 0..MOST_STEPS {
            if self.is_late() {
                break;
            }
            match self.step(store, &mut keyed).await {
                Ok(true) => {}
                Ok(false) => {
                    keyed.is_cut = false;
                    break;
                }
                // An answer that was not waited for says nothing of coderd.
                Err(KeyError::Late | KeyError::Coderd(Error::TimedOut { .. })) if self.is_late() => break,
                Err(error) => {
                    (keyed.error, keyed.is_cut) = (Some(error), false);
                    break;
                }
            }
        }
        keyed.elsewhere = self.homes.told();
        keyed.left.extend(store.take_dropped().into_iter().map(Left::Unproven));
        keyed
    }

    fn is_late(&self) -> bool {
        self.homes.time().left().is_zero()
    }

    /// One step; returns whether another may follow.
    async fn step(&mut self, store: &mut RecordStore<'_>, keyed: &mut Keyed) -> Result<bool, KeyError> {
        let look = self.look(&store.record).await?;
        let seen = self.seen(&store.record, &look);
        let (step, cause) = (next(&seen), cause(&seen));
        keyed.unadopted = unadopted(&seen);
        keyed.proven = look.proven(&store.record, self.desired);
        keyed.is_asked_for = look.is_asked_for(&store.record, self.desired);
        keyed.daemons = look.daemons(&store.record);
        keyed.wait = None;
        tracing::debug!(?step, "the next step of the provisioner's keys");
        match step {
            // It is set before keys are worked on.
            Step::AddFinalizer | Step::Rest => return Ok(false),
            Step::Wait(wait) => {
                keyed.wait = Some(wait);
                return Ok(false);
            }
            Step::Record(record, left) => {
                keyed.gave_up |= self.gives_up(&store.record, &record);
                self.paused |= keyed.gave_up;
                store.save(*record).await?;
                keyed.left.extend(left);
            }
            Step::Create => {
                let made = self.create(store, &look, keyed).await?;
                keyed.made.extend(made.map(|name| (name, cause)));
            }
            Step::Move(from) => self.copy(&store.record, &look, &from).await?,
            Step::Empty(place) => self.empty(store, &look, place, keyed).await?,
            Step::Delete(key) => self.delete(store, &key, keyed).await?,
        }
        Ok(true)
    }

    /// Whether a key that coderd was asked to make here is on its way out before it was ever used.
    fn gives_up(&self, before: &Record, after: &Record) -> bool {
        let asked = before.pending.as_ref().filter(|key| key.attempted && key.home == self.desired.home);
        let is_out =
            |key: &Key| after.retiring.iter().any(|one| one.name == key.name && one.home == key.home);
        after.pending.is_none() && asked.is_some_and(is_out)
    }

    /// What the Secret holds of which nothing is recorded, for an object that is going.
    pub(crate) async fn unrecorded(&mut self, record: &Record) -> Result<Unrecorded, KeyError> {
        let look = self.look(record).await?;
        Ok(unrecorded(&self.seen(record, &look)))
    }

    /// Makes the key that is recorded as pending and keeps its plaintext. That it is attempted is recorded first, and nothing
    /// is looked at in between: a name that is taken now is somebody else's, unless an earlier request of ours was still under
    /// way; then the next look tells. If the plaintext cannot be kept, the next look finds the key, and it is deleted; if
    /// somebody else has taken over meanwhile, who knows nothing of it, it is deleted here. One is made in a reconcile. Returns
    /// the name of the key that was made.
    async fn create(
        &mut self,
        store: &mut RecordStore<'_>,
        look: &Look,
        keyed: &mut Keyed,
    ) -> Result<Option<String>, KeyError> {
        let under_way = |key: Key| Key { attempted: key.may_be_under_way(now()), ..key };
        let before = store.record.pending.clone().map(under_way);
        store.save(store.record.attempting(now())).await?;
        let Some(pending) = store.record.pending.clone() else { return Ok(None) };
        self.changed_here();
        self.paused = true;
        let organization = pending.home.organization;
        let made = self.client.create_provisioner_key(organization, &pending.name, &self.desired.tags).await;
        let plaintext = match made {
            Ok(plaintext) => plaintext,
            Err(Error::Conflict { .. }) if before.as_ref().is_some_and(|key| key.attempted) => {
                store.save(store.record.unattempted(before)).await?;
                return Ok(None);
            }
            Err(Error::Conflict { .. }) => {
                store.save(store.record.forgetting_pending()).await?;
                keyed.left.push(Left::Taken(pending.name));
                return Ok(None);
            }
            Err(error) => {
                if is_refusal(&error) {
                    store.save(store.record.unattempted(before)).await?;
                }
                return Err(error.into());
            }
        };
        if let Err(error) = self.keep(store, look, &plaintext, &pending).await {
            if !store.is_still_pending(&pending).await? {
                self.undo(&pending, &plaintext).await?;
            }
            return Err(error);
        }
        Ok(Some(pending.name))
    }

    /// Forgets what the coderd that is asked for said: something is changed there.
    pub(super) fn changed_here(&mut self) {
        self.homes.forget(&self.desired.home);
        self.identified.clear();
    }

    /// Deletes the key that was just made, of which nobody knows: the very one that its plaintext opens.
    async fn undo(&mut self, pending: &Key, plaintext: &Confidential<String>) -> Result<(), KeyError> {
        tracing::warn!(key = pending.name, "somebody else works on this provisioner; the new key is deleted");
        // It must end, however late it is.
        self.homes.extend(UNDO);
        let Some(made) = self.client.identify_provisioner_key(plaintext).await? else { return Ok(()) };
        let record = Record { pending: Some(pending.clone()), ..Record::default() };
        let keys = self.homes.keys(&pending.home, Wanted::recorded(&record)).await?;
        let found = keys.listed().and_then(|listed| find(listed, &pending.name));
        if found.is_some_and(|found| found.facts.id == made.id) {
            self.client.delete_provisioner_key(pending.home.organization, &pending.name).await?;
        }
        Ok(())
    }

    /// Puts a new plaintext into its place. Somebody else's change of the Secret meanwhile, a label say, is no reason to lose it;
    /// somebody who works on the same object is.
    async fn keep(
        &self,
        store: &RecordStore<'_>,
        look: &Look,
        plaintext: &Confidential<String>,
        pending: &Key,
    ) -> Result<(), KeyError> {
        let place = &self.desired.place;
        let mark = Mark { home: pending.home.clone(), name: pending.name.clone() }.written(&place.data_key);
        let mut kept = self.secrets.put(place, &look.asked_for, plaintext, &mark).await;
        for _ in 0..MOST_WRITES {
            let Err(error) = &kept else { break };
            if !error.is_outdated() && !error.is_already_exists() || !store.is_still_pending(pending).await? {
                break;
            }
            let again = self.secrets.read(place).await?;
            if matches!(again.content, Content::Foreign) {
                break;
            }
            kept = self.secrets.put(place, &again, plaintext, &mark).await;
        }
        Ok(kept?)
    }

    /// Copies the plaintext of the key in use to where it is asked for.
    async fn copy(&self, record: &Record, look: &Look, from: &SecretPlace) -> Result<(), KeyError> {
        let (Some(current), Some(plaintext)) = (&record.current, look.plaintext(from)) else { return Ok(()) };
        let mark = Mark { home: current.home.clone(), name: current.name.clone() };
        let mark = mark.written(&self.desired.place.data_key);
        Ok(self.secrets.put(&self.desired.place, &look.asked_for, plaintext, &mark).await?)
    }

    /// Removes what an earlier place holds: the whole Secret, unless something else is in it. What cannot be removed is told and
    /// forgotten.
    async fn empty(
        &self,
        store: &mut RecordStore<'_>,
        look: &Look,
        place: SecretPlace,
        keyed: &mut Keyed,
    ) -> Result<(), KeyError> {
        let Some(found) = look.other(&place) else { return Ok(()) };
        let whole = store.record.is_alone(&place) && self.desired.place.secret != place.secret;
        match self.secrets.empty(&place, found, whole).await? {
            // The place stays recorded until it is seen to be empty.
            Emptied::Done | Emptied::Changed => {}
            Emptied::Left => {
                store.save(store.record.emptied(&place)).await?;
                keyed.left_secrets.push(place);
            }
        }
        Ok(())
    }

    /// Deletes a key, which coderd does by name: `steps` has seen that its id is the recorded one. One that coderd still lists
    /// afterwards, or cannot delete, is left behind: asking again changes nothing. What fails in another coderd than the one
    /// that is asked for is told, and keeps nothing here waiting.
    async fn delete(
        &mut self,
        store: &mut RecordStore<'_>,
        key: &Key,
        keyed: &mut Keyed,
    ) -> Result<(), KeyError> {
        self.changed_here();
        let asked = match self.tried.insert(key.clone()) {
            true => self.homes.delete(key).await,
            false => Ok(Deletion::Impossible),
        };
        match asked {
            Ok(Deletion::Deleted) => keyed.deleted.push(key.name.clone()),
            Ok(Deletion::NotThere) => {}
            Ok(Deletion::Impossible) => {
                store.save(store.record.without(key)).await?;
                keyed.left.push(Left::behind(key));
            }
            Err(Silent::Coderd(error)) if key.home == self.desired.home => return Err(error.into()),
            Err(why) => self.homes.fail(&key.home, &why),
        }
        Ok(())
    }
}
