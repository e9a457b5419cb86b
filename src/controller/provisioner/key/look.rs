//! Looks at everything the next step towards a key depends on: Secrets, coderd's lists, whose plaintext something is. It changes
//! nothing; what follows from it is decided in `steps`.

use super::homes::{Keys, Wanted};
use super::mark::Mark;
use super::record::{Home, Key, Record, SecretPlace};
use super::seen::{Daemons, Desired, KeyFacts, Material, Seen, Sight};
use super::work::{KeyError, KeyWork};
use crate::confidential::Confidential;
use crate::controller::attached::secret::{Content, Found, Proven};
use crds::names::provisioner::key_checksum;
use jiff::Timestamp;
use std::collections::BTreeSet;
use tokio::time::timeout;

/// What was seen before a step.
pub(super) struct Look {
    /// The Secret that is asked for: there is no look without it.
    pub(super) asked_for: Found,
    /// The others that are recorded.
    others: Vec<(SecretPlace, Found)>,
    materials: Vec<(SecretPlace, Material)>,
    /// Secrets that nobody can change any more, by name.
    immutable: BTreeSet<String>,
    keys: Keys,
    retiring: Vec<Sight>,
    pending_elsewhere: Option<Sight>,
    rolled: bool,
    now: Timestamp,
}

impl KeyWork<'_> {
    /// What a step is decided from.
    pub(super) fn seen<'b>(&'b self, record: &'b Record, look: &'b Look) -> Seen<'b> {
        Seen {
            has_finalizer: self.has_finalizer,
            desired: self.desired,
            record,
            materials: &look.materials,
            immutable: &look.immutable,
            listed: look.keys.listed(),
            retiring: &look.retiring,
            pending_elsewhere: look.pending_elsewhere.as_ref(),
            rolled: look.rolled,
            rolled_at: self.rolled.as_ref().and_then(|rolled| rolled.at),
            is_idle: self.rolled.as_ref().is_some_and(|rolled| rolled.is_idle),
            patience: self.patience,
            entitled: self.entitled && !matches!(look.keys, Keys::NotLicensed),
            claimed: self.claimed,
            paused: self.paused,
            may_roll: self.may_roll,
            of_others: &self.of_others,
            now: look.now,
        }
    }

    /// Looks, as long as there is time.
    pub(super) async fn look(&mut self, record: &Record) -> Result<Look, KeyError> {
        let asked_for = self.secrets.read(&self.desired.place).await?;
        let mut materials =
            vec![(self.desired.place.clone(), self.material(record, &self.desired.place, &asked_for).await?)];
        let mut others = Vec::new();
        for place in self.other_places(record) {
            let found = self.secrets.read(&place).await?;
            materials.push((place.clone(), self.material(record, &place, &found).await?));
            others.push((place, found));
        }
        let wanted = Wanted { desired: Some(self.desired), record, materials: &materials };
        let keys = self.homes.keys(&self.desired.home, wanted).await?;
        if is_filtered(&keys, &materials, &self.desired.home) {
            return Err(KeyError::Filtered);
        }
        let mut retiring = Vec::new();
        for key in &record.retiring {
            retiring.push(self.sight(&keys, key, record).await);
        }
        let pending_elsewhere = match &record.pending {
            Some(pending) if pending.home != self.desired.home => {
                Some(self.sight(&keys, pending, record).await)
            }
            _ => None,
        };
        let checksum = asked_for.content.checksum();
        let rolled = self.rolled.as_ref().map(|rolled| &rolled.with).is_some_and(|with| {
            with.place == self.desired.place && Some(&with.checksum) == checksum.as_ref()
        });
        let asked = std::iter::once((&self.desired.place, &asked_for));
        let all = asked.chain(others.iter().map(|(place, found)| (place, found)));
        let immutable = all.filter(|(_, found)| found.is_immutable()).map(|(place, _)| place.secret.clone());
        let (immutable, now) = (immutable.collect(), now());
        Ok(Look { asked_for, others, materials, immutable, keys, retiring, pending_elsewhere, rolled, now })
    }

    /// The places that are looked at besides the one that is asked for: those that are recorded. Where no key is, a status that
    /// was lost may have known of others that the Deployment still names.
    fn other_places(&self, record: &Record) -> Vec<SecretPlace> {
        let is_lost = record.keys().next().is_none();
        let unrecorded = self.unrecorded_places.iter().filter(|_| is_lost);
        let all: BTreeSet<&SecretPlace> = record.places.iter().chain(unrecorded).collect();
        all.into_iter().filter(|place| **place != self.desired.place).cloned().collect()
    }

    /// What a place holds. A plaintext is shown to the coderd that it is marked for; one without a mark, which the older
    /// operator left, to the one that is asked for, unless the key in use is known to be elsewhere.
    async fn material(
        &mut self,
        record: &Record,
        place: &SecretPlace,
        found: &Found,
    ) -> Result<Material, KeyError> {
        let (plaintext, mark) = match &found.content {
            Content::Nothing => return Ok(Material::Absent),
            Content::Foreign => return Ok(Material::Foreign),
            Content::Plaintext(plaintext, mark) => {
                (plaintext, mark.as_deref().and_then(|text| Mark::read(text, &place.data_key)))
            }
        };
        let current =
            record.current.as_ref().map(|key| Mark { home: key.home.clone(), name: key.name.clone() });
        if let Some(mark) = mark.as_ref().or(current.as_ref()).filter(|mark| mark.home != self.desired.home) {
            return Ok(Material::Elsewhere(mark.home.clone(), mark.name.clone()));
        }
        let checksum = key_checksum(plaintext.expose().as_bytes());
        if let Some(known) = self.identified.get(&checksum) {
            return Ok(known.clone());
        }
        let left = self.homes.time().left();
        let asked = timeout(left, self.client.identify_provisioner_key(plaintext)).await;
        let material = match asked.map_err(|_| KeyError::Late)?? {
            Some(key) => Material::Is(KeyFacts::of(key)),
            None => Material::Rejected,
        };
        self.identified.insert(checksum, material.clone());
        Ok(material)
    }

    async fn sight(&mut self, keys: &Keys, key: &Key, record: &Record) -> Sight {
        if key.home == self.desired.home {
            return self.homes.sight(key, keys).await;
        }
        let keys = self.homes.keys_elsewhere(&key.home, record).await;
        self.homes.sight(key, &keys).await
    }
}

impl Look {
    /// What a place that is not the one that is asked for holds; one that was not looked at is left alone.
    pub(super) fn other(&self, place: &SecretPlace) -> Option<&Found> {
        self.others.iter().find(|(one, _)| one == place).map(|(_, found)| found)
    }

    /// The plaintext in such a place.
    pub(super) fn plaintext(&self, place: &SecretPlace) -> Option<&Confidential<String>> {
        match &self.other(place)?.content {
            Content::Plaintext(plaintext, _) => Some(plaintext),
            Content::Nothing | Content::Foreign => None,
        }
    }

    /// What pods may be started with: the plaintext of the key in use, where the spec asks for it.
    pub(super) fn proven(&self, record: &Record, desired: &Desired) -> Option<Proven> {
        let current = record.current.as_ref().filter(|current| current.home == desired.home)?;
        let material = self.materials.iter().find(|(place, _)| *place == desired.place);
        match material {
            Some((_, Material::Is(facts))) if Some(facts.id) == current.id => {
                Some(Proven { checksum: self.asked_for.content.checksum()?, place: desired.place.clone() })
            }
            _ => None,
        }
    }

    /// Whether the key in use is the one that the spec asks for: of its name and tags, where it asks for it.
    pub(super) fn is_asked_for(&self, record: &Record, desired: &Desired) -> bool {
        let Some(current) = record.current.as_ref().filter(|current| current.home == desired.home) else {
            return false;
        };
        let is_it = |facts: &KeyFacts| Some(facts.id) == current.id && facts.tags_hash == desired.tags_hash;
        desired.number_of(&current.name).is_some()
            && self.materials.iter().any(|(place, material)| {
                *place == desired.place && matches!(material, Material::Is(facts) if is_it(facts))
            })
    }

    /// The daemons that coderd sees with the key in use, if it tells.
    pub(super) fn daemons(&self, record: &Record) -> Option<BTreeSet<String>> {
        let id = record.current.as_ref()?.id?;
        let found = self.keys.listed()?.iter().find(|one| one.facts.id == id);
        match found.map(|found| &found.daemons) {
            Some(Daemons::Seen(names)) => Some(names.clone()),
            Some(Daemons::Unknown) => None,
            None => Some(BTreeSet::new()),
        }
    }
}

/// The time, as exact as a status keeps it.
pub(super) fn now() -> Timestamp {
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
