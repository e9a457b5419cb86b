//! Brings the keys of a provisioner to what they should be: looks, lets `steps` decide, acts, and looks again. It decides
//! nothing itself, and every effect was recorded before it happens.

use super::homes::{Homes, Keys};
use super::record::{Home, Key, Record, SecretPlace};
use super::secret::{Content, Found, Mark, Secrets};
use super::seen::{Desired, KeyFacts, Material, Seen, Sight, UNKNOWN};
use super::steps::{Left, Step, Unrecorded, Wait, next, unrecorded};
use super::store::RecordStore;
use crate::coderd::client::Deletion;
use crate::coderd::{Client, Error, Uuid};
use crate::confidential::Confidential;
use crate::controller::runtime::deadline::Deadline;
use crate::kubernetes::CallError;
use crds::names::provisioner::key_checksum;
use jiff::Timestamp;
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
    /// Daemons that coderd sees with the key in use.
    pub daemons: Option<usize>,
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
    /// The place and checksum that every pod runs with, if a rollout to it is complete.
    pub rolled: Option<Proven>,
    /// Whether the license covers external provisioners.
    pub entitled: bool,
    /// Whether another object has the older claim.
    pub claimed: bool,
    /// Keys that other objects have recorded.
    pub of_others: BTreeSet<Uuid>,
    /// Keys whose deletion was asked for in this reconcile.
    pub tried: BTreeSet<Key>,
}

/// What was seen before a step.
struct Look {
    places: Vec<(SecretPlace, Found)>,
    materials: Vec<(SecretPlace, Material)>,
    keys: Keys,
    retiring: Vec<Sight>,
    pending_elsewhere: Option<Sight>,
    rolled: bool,
    now: Timestamp,
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
        keyed.proven = proven(&store.record, &look, self.desired);
        keyed.daemons = daemons(&store.record, &look);
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
            Step::Move(from, to) => self.copy(&store.record, &look, &from, &to).await?,
            Step::Empty(place) => {
                let is_alone =
                    store.record.places.iter().all(|one| *one == place || one.secret != place.secret);
                let whole = is_alone && self.desired.place.secret != place.secret;
                self.secrets.empty(&place, look.found(&place)?, whole).await?;
            }
            Step::Delete(key) => self.delete(store, &key, keyed).await?,
        }
        Ok(true)
    }

    /// What the Secret holds of which nothing is recorded, for an object that is going.
    pub(crate) async fn unrecorded(&mut self, record: &Record) -> Result<Unrecorded, KeyError> {
        let look = self.look(record).await?;
        Ok(unrecorded(&self.seen(record, &look)))
    }

    fn seen<'b>(&'b self, record: &'b Record, look: &'b Look) -> Seen<'b> {
        Seen {
            has_finalizer: self.has_finalizer,
            desired: self.desired,
            record,
            materials: &look.materials,
            listed: look.keys.listed(),
            retiring: &look.retiring,
            pending_elsewhere: look.pending_elsewhere.as_ref(),
            rolled: look.rolled,
            entitled: self.entitled && !matches!(look.keys, Keys::NotLicensed),
            claimed: self.claimed,
            of_others: &self.of_others,
            now: look.now,
        }
    }

    async fn look(&mut self, record: &Record) -> Result<Look, KeyError> {
        let (keys, error) = self.homes.keys(&self.desired.home).await;
        if let (Keys::Unreachable, Some(error)) = (&keys, error) {
            return Err(error.into());
        }
        let mut places = Vec::new();
        for place in self.places(record) {
            let found = self.secrets.read(&place).await?;
            places.push((place, found));
        }
        let mut materials = Vec::new();
        for (place, found) in &places {
            materials.push((place.clone(), self.material(record, found).await?));
        }
        if is_filtered(&keys, &materials, &self.desired.home) {
            return Err(KeyError::Filtered);
        }
        let mut retiring = Vec::new();
        for key in &record.retiring {
            retiring.push(self.sight(&keys, key).await);
        }
        let pending_elsewhere = match &record.pending {
            Some(pending) if pending.home != self.desired.home => Some(self.sight(&keys, pending).await),
            _ => None,
        };
        let checksum = checksum(&places, &self.desired.place);
        let rolled = self.rolled.as_ref().is_some_and(|rolled| {
            rolled.place == self.desired.place && Some(&rolled.checksum) == checksum.as_ref()
        });
        let now = now();
        Ok(Look { places, materials, keys, retiring, pending_elsewhere, rolled, now })
    }

    /// The place that is asked for, and those that are recorded.
    fn places(&self, record: &Record) -> Vec<SecretPlace> {
        let others = record.places.iter().filter(|place| **place != self.desired.place);
        std::iter::once(&self.desired.place).chain(others).cloned().collect()
    }

    /// What a place holds. A plaintext is shown to the coderd that it is marked for; one without a mark, which the older
    /// operator left, to the one that is asked for, unless the key in use is known to be elsewhere.
    async fn material(&self, record: &Record, found: &Found) -> Result<Material, KeyError> {
        let (plaintext, mark) = match &found.content {
            Content::Nothing => return Ok(Material::Absent),
            Content::Foreign => return Ok(Material::Foreign),
            Content::Plaintext(plaintext, mark) => (plaintext, mark),
        };
        let current =
            record.current.as_ref().map(|key| Mark { home: key.home.clone(), name: key.name.clone() });
        if let Some(mark) = mark.as_ref().or(current.as_ref()).filter(|mark| mark.home != self.desired.home) {
            return Ok(Material::Elsewhere(mark.home.clone(), mark.name.clone()));
        }
        Ok(match self.client.identify_provisioner_key(plaintext).await? {
            Some(key) => Material::Is(KeyFacts {
                id: key.id,
                organization: key.organization_id,
                name: key.name,
                tags: key.tags,
            }),
            None => Material::Rejected,
        })
    }

    async fn sight(&mut self, keys: &Keys, key: &Key) -> Sight {
        if key.home == self.desired.home {
            return keys.sight(key);
        }
        let (keys, error) = self.homes.keys(&key.home).await;
        if let Some(error) = error {
            tracing::warn!(%error, key = key.name, "the coderd of an earlier key does not list it");
        }
        keys.sight(key)
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
        let mut kept = self.secrets.put(place, look.found(place)?, plaintext, mark).await;
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

    async fn copy(
        &self,
        record: &Record,
        look: &Look,
        from: &SecretPlace,
        to: &SecretPlace,
    ) -> Result<(), KeyError> {
        let (Some(current), Some(plaintext)) = (&record.current, look.plaintext(from)) else { return Ok(()) };
        let mark = Mark { home: current.home.clone(), name: current.name.clone() };
        Ok(self.secrets.put(to, look.found(to)?, plaintext, &mark).await?)
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

impl Look {
    fn found(&self, place: &SecretPlace) -> Result<&Found, KeyError> {
        let found = self.places.iter().find(|(one, _)| one == place).map(|(_, found)| found);
        // Every place that a step names was looked at.
        found.ok_or(KeyError::Filtered)
    }

    fn plaintext(&self, place: &SecretPlace) -> Option<&Confidential<String>> {
        match self.places.iter().find(|(one, _)| one == place).map(|(_, found)| &found.content) {
            Some(Content::Plaintext(plaintext, _)) => Some(plaintext),
            _ => None,
        }
    }
}

/// The time, as exact as a status keeps it.
pub(crate) fn now() -> Timestamp {
    let now = Timestamp::now();
    Timestamp::from_second(now.as_second()).unwrap_or(now)
}

/// Whether a list lacks a key that coderd knows: whoever may not see keys is shown none.
fn is_filtered(keys: &Keys, materials: &[(SecretPlace, Material)], home: &Home) -> bool {
    let Some(listed) = keys.listed() else { return false };
    materials.iter().any(|(_, material)| match material {
        Material::Is(facts) if facts.organization == home.organization => {
            listed.iter().all(|one| one.facts.id != facts.id)
        }
        _ => false,
    })
}

fn checksum(places: &[(SecretPlace, Found)], place: &SecretPlace) -> Option<String> {
    let found = places.iter().find(|(one, _)| one == place).map(|(_, found)| &found.content);
    match found {
        Some(Content::Plaintext(plaintext, _)) => Some(key_checksum(plaintext.expose().as_bytes())),
        _ => None,
    }
}

/// What pods may be started with: the plaintext of the key in use, where the spec asks for it.
fn proven(record: &Record, look: &Look, desired: &Desired) -> Option<Proven> {
    let current = record.current.as_ref().filter(|current| current.home == desired.home)?;
    let material =
        look.materials.iter().find(|(place, _)| *place == desired.place).map(|(_, material)| material);
    match material {
        Some(Material::Is(facts)) if Some(facts.id) == current.id => {
            Some(Proven { checksum: checksum(&look.places, &desired.place)?, place: desired.place.clone() })
        }
        _ => None,
    }
}

fn daemons(record: &Record, look: &Look) -> Option<usize> {
    let id = record.current.as_ref()?.id?;
    let daemons = look.keys.listed()?.iter().find(|one| one.facts.id == id).map_or(0, |one| one.daemons);
    (daemons != UNKNOWN).then_some(daemons)
}
