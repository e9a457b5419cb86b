//! Brings the keys of a provisioner to what they should be: looks, lets `steps` decide, acts, and looks again. It decides
//! nothing itself, and every effect was recorded before it happens.

use super::homes::Homes;
use super::look::{Look, now};
use super::record::{Key, Record, SecretPlace};
use super::secret::{Content, Mark, Secrets};
use super::seen::Desired;
use super::steps::{Left, Step, Unrecorded, Wait, next, unrecorded};
use super::store::RecordStore;
use crate::coderd::client::Deletion;
use crate::coderd::{Client, Error, Uuid};
use crate::confidential::Confidential;
use crate::controller::runtime::deadline::Deadline;
use crate::kubernetes::CallError;
use jiff::{SignedDuration, Timestamp};
use std::collections::BTreeSet;
use std::time::Instant;

/// Steps in one reconcile: more than any rotation needs.
const MOST_STEPS: usize = 24;
/// Further tries to keep a new plaintext while somebody else changes its Secret.
const MOST_WRITES: usize = 3;

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
}

/// What is known of the plaintext that pods are started with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Proven {
    /// What the annotation of the pod template is to be.
    pub checksum: String,
    /// The place it is in.
    pub place: SecretPlace,
}

/// A rollout that is complete.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Rolled {
    /// What every pod runs with.
    pub with: Proven,
    /// Since when, if the Deployment tells.
    pub at: Option<Timestamp>,
}

/// What became of the keys.
#[derive(Debug, Default)]
pub(crate) struct Keyed {
    /// The key in use that the Secret of the spec was proven to hold.
    pub proven: Option<Proven>,
    /// Why not everything is done.
    pub wait: Option<Wait>,
    /// What failed.
    pub error: Option<KeyError>,
    /// Keys that were left alone.
    pub left: Vec<Left>,
    /// Keys that were made and deleted, by name.
    pub made: Vec<String>,
    /// The same for those that were deleted.
    pub deleted: Vec<String>,
    /// The names of the daemons that coderd sees with the key in use.
    pub daemons: Option<BTreeSet<String>>,
    /// Whether there was no time for all of it.
    pub is_cut: bool,
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
    /// Keys whose deletion was asked for in this reconcile.
    pub tried: BTreeSet<Key>,
}

impl KeyWork<'_> {
    /// Goes on until nothing can be done now.
    pub(crate) async fn run(mut self, store: &mut RecordStore<'_>, deadline: &Deadline) -> Keyed {
        let mut keyed = Keyed::default();
        for _ in 0..MOST_STEPS {
            if deadline.is_over(Instant::now()) {
                keyed.is_cut = true;
                return keyed;
            }
            match self.step(store, &mut keyed).await {
                Ok(true) => {}
                Ok(false) => return keyed,
                Err(error) => {
                    keyed.error = Some(error);
                    return keyed;
                }
            }
        }
        keyed.is_cut = true;
        keyed
    }

    /// One step; returns whether another may follow.
    async fn step(&mut self, store: &mut RecordStore<'_>, keyed: &mut Keyed) -> Result<bool, KeyError> {
        let look = self.look(&store.record).await?;
        let step = next(&self.seen(&store.record, &look));
        keyed.proven = look.proven(&store.record, self.desired);
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
                store.save(*record).await?;
                keyed.left.extend(left);
            }
            Step::Create => self.create(store, &look, keyed).await?,
            Step::Move(from) => self.copy(&store.record, &look, &from).await?,
            Step::Empty(place) => self.empty(&store.record, &look, &place).await?,
            Step::Delete(key) => self.delete(store, &key, keyed).await?,
        }
        Ok(true)
    }

    /// What the Secret holds of which nothing is recorded, for an object that is going.
    pub(crate) async fn unrecorded(&mut self, record: &Record) -> Result<Unrecorded, KeyError> {
        let look = self.look(record).await?;
        Ok(unrecorded(&self.seen(record, &look)))
    }

    /// Makes the key that is recorded as pending and keeps its plaintext. That it is attempted is recorded first, and nothing
    /// is looked at in between: a name that is taken now is somebody else's. If the plaintext cannot be kept, the next look
    /// finds the key, and it is deleted; if somebody else has taken over meanwhile, who knows nothing of it, it is deleted here.
    async fn create(
        &self,
        store: &mut RecordStore<'_>,
        look: &Look,
        keyed: &mut Keyed,
    ) -> Result<(), KeyError> {
        store.save(store.record.attempting(now())).await?;
        let Some(pending) = store.record.pending.clone() else { return Ok(()) };
        let organization = pending.home.organization;
        let made = self.client.create_provisioner_key(organization, &pending.name, &self.desired.tags).await;
        if let Err(Error::Conflict { .. }) = &made {
            store.save(store.record.forgetting_pending()).await?;
            keyed.left.push(Left::Taken(pending.name));
            return Ok(());
        }
        let plaintext = made?;
        let mark = Mark { home: pending.home.clone(), name: pending.name.clone() };
        if let Err(error) = self.keep(look, &plaintext, &mark).await {
            if !store.is_still_pending(&pending).await? {
                tracing::warn!(
                    key = pending.name,
                    "somebody else works on this provisioner; the new key is deleted"
                );
                self.client.delete_provisioner_key(organization, &pending.name).await?;
            }
            return Err(error);
        }
        keyed.made.push(pending.name);
        Ok(())
    }

    /// Puts a new plaintext into its place. Somebody else's change of the Secret meanwhile, a label say, is no reason to lose it.
    async fn keep(&self, look: &Look, plaintext: &Confidential<String>, mark: &Mark) -> Result<(), KeyError> {
        let place = &self.desired.place;
        let mut kept = self.secrets.put(place, &look.asked_for, plaintext, mark).await;
        for _ in 0..MOST_WRITES {
            let Err(error) = &kept else { break };
            if !error.is_outdated() && !error.is_already_exists() {
                break;
            }
            let again = self.secrets.read(place).await?;
            if matches!(again.content, Content::Foreign) {
                break;
            }
            kept = self.secrets.put(place, &again, plaintext, mark).await;
        }
        Ok(kept?)
    }

    /// Copies the plaintext of the key in use to where it is asked for.
    async fn copy(&self, record: &Record, look: &Look, from: &SecretPlace) -> Result<(), KeyError> {
        let (Some(current), Some(plaintext)) = (&record.current, look.plaintext(from)) else { return Ok(()) };
        let mark = Mark { home: current.home.clone(), name: current.name.clone() };
        Ok(self.secrets.put(&self.desired.place, &look.asked_for, plaintext, &mark).await?)
    }

    /// Removes what an earlier place holds: the whole Secret, unless another place of ours is in it.
    async fn empty(&self, record: &Record, look: &Look, place: &SecretPlace) -> Result<(), KeyError> {
        let Some(found) = look.other(place) else { return Ok(()) };
        let whole = record.is_alone(place) && self.desired.place.secret != place.secret;
        Ok(self.secrets.empty(place, found, whole).await?)
    }

    /// Deletes a key, which coderd does by name: `steps` has seen that its id is the recorded one. One that coderd still lists
    /// afterwards, or cannot delete, is left behind: asking again changes nothing.
    async fn delete(
        &mut self,
        store: &mut RecordStore<'_>,
        key: &Key,
        keyed: &mut Keyed,
    ) -> Result<(), KeyError> {
        let Some(client) = self.homes.client(&key.home).await else { return Ok(()) };
        let deletion = if self.tried.insert(key.clone()) {
            client.delete_provisioner_key(key.home.organization, &key.name).await?
        } else {
            Deletion::Impossible
        };
        match deletion {
            Deletion::Deleted => keyed.deleted.push(key.name.clone()),
            Deletion::NotThere => {}
            Deletion::Impossible => {
                store.save(store.record.without(key)).await?;
                keyed.left.push(Left::Behind(key.name.clone()));
            }
        }
        Ok(())
    }
}
