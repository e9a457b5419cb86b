//! Looks at everything the next step towards a key depends on: Secrets, coderd's lists, whose plaintext something is. It changes
//! nothing; what follows from it is decided in `steps`.

use super::homes::Silent;
use super::lists::{Keys, Wanted};
use super::mark::Mark;
use super::record::{Home, Key, Record, SecretPlace};
use super::seen::{Daemons, Desired, KeyFacts, Material, Seen, Sight};
use super::work::{KeyError, KeyWork};
use crate::confidential::Confidential;
use crate::controller::attached::secret::{Content, Found, Proven};
use jiff::Timestamp;
use ring::digest::{SHA256, digest};
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
            taken: look.keys.taken(),
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

    /// Looks, as long as there is time. A key that somebody deleted between two questions is no sign that others are hidden: it
    /// is looked once more.
    pub(super) async fn look(&mut self, record: &Record) -> Result<Look, KeyError> {
        match self.look_once(record).await {
            Err(KeyError::Unlisted) => {}
            looked => return looked,
        }
        match self.homes.may_read(&self.desired.home).await {
            Ok(true) => {}
            Ok(false) => return Err(KeyError::Filtered),
            Err(Silent::Coderd(error)) => return Err(error.into()),
            Err(Silent::Unreached(_)) => return Err(KeyError::Unlisted),
        }
        self.changed_here();
        self.look_once(record).await
    }

    async fn look_once(&mut self, record: &Record) -> Result<Look, KeyError> {
        let asked_for = self.secrets.read(&self.desired.place).await?;
        let mut materials =
            vec![(self.desired.place.clone(), self.material(record, &self.desired.place, &asked_for).await?)];
        let mut others = Vec::new();
        for place in self.other_places(record) {
            let found = self.secrets.read(&place).await?;
            if !is_marked(&found.content, &place) && self.is_only_told(&place, record) {
                continue;
            }
            materials.push((place.clone(), self.material(record, &place, &found).await?));
            others.push((place, found));
        }
        let wanted = Wanted { desired: Some(self.desired), record, materials: &materials };
        let keys = self.homes.keys(&self.desired.home, wanted).await?;
        if is_filtered(&keys, &materials, &self.desired.home) {
            return Err(KeyError::Unlisted);
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
        let read = self.read_place.iter().filter(|_| is_lost || record.places.is_empty());
        let told = self.told_place.iter().filter(|_| is_lost);
        let all: BTreeSet<&SecretPlace> = record.places.iter().chain(read).chain(told).collect();
        all.into_iter().filter(|place| **place != self.desired.place).cloned().collect()
    }

    /// Whether nothing but a status speaks for a place: what is there is not shown to coderd.
    fn is_only_told(&self, place: &SecretPlace, record: &Record) -> bool {
        !record.places.contains(place) && self.read_place.as_ref() != Some(place)
    }

    /// What a place holds. A plaintext is shown to the coderd that it is marked for; one without a mark, which the older
    /// operator left, to the one that is asked for, unless the key in use is known, or told, to be elsewhere.
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
        if let Some(name) = self.left_elsewhere.as_ref().filter(|_| mark.is_none() && current.is_none()) {
            return Ok(Material::Elsewhere(Home::unknown(self.desired.home.organization), name.clone()));
        }
        let identity = identity(plaintext);
        if let Some(known) = self.identified.get(&identity) {
            return Ok(known.clone());
        }
        let left = self.homes.time().left();
        let asked = timeout(left, self.client.identify_provisioner_key(plaintext)).await;
        let material = match asked.map_err(|_| KeyError::Late)?? {
            Some(key) => Material::Is(KeyFacts::of(key)),
            None => Material::Rejected,
        };
        self.identified.insert(identity, material.clone());
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

/// Whether the Secret says itself that this is a plaintext of ours.
fn is_marked(content: &Content, place: &SecretPlace) -> bool {
    matches!(content, Content::Plaintext(_, Some(mark)) if Mark::read(mark, &place.data_key).is_some())
}

/// What a plaintext is known by while coderd's answers are kept. The checksum that pods carry is too short for that: whoever may
/// write the Secret finds another text with the same one in a moment, and would have the answer about ours stand for it.
fn identity(plaintext: &Confidential<String>) -> Vec<u8> {
    digest(&SHA256, plaintext.expose().as_bytes()).as_ref().to_vec()
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

#[cfg(test)]
mod tests {
    use super::*;
    use crds::names::provisioner::key_checksum;

    #[test]
    fn two_plaintexts_of_one_checksum_are_two() {
        let forged =
            ["PZRmFlbGXAU9Pq1hLhKz09QA9st4hAtRXNVF3lp8GoC", "qXACTdzjGynmQnpfHz7JbV4RbCKBtKKJPtcEq3VeyUy"];
        let [one, other] = forged.map(|text| Confidential::new(text.to_owned()));
        let checksum = |text: &Confidential<String>| key_checksum(text.expose().as_bytes());
        assert_eq!(checksum(&one), checksum(&other));
        assert_ne!(identity(&one), identity(&other));
    }
}
