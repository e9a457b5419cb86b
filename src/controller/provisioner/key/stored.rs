//! Decides how the record of a provisioner's keys is written in its status, and reads it back. Each key carries a seal that
//! only the operator can make, and so does the list of places: whoever may write a status still cannot name a key that we then
//! delete, nor a Secret that we then look into.

use super::record::{Home, Key, Record, SecretPlace};
use crate::controller::attached::seal::Sealer;
use crds::provisioner::{ProvisionerKeyStatus, RecordedKey};
use crds::shared::SecretKeySelector;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::{Value, from_value};

/// What is sealed here.
const WHAT: &str = "provisioner-key";
/// What the seal of where plaintexts are and what was taken over is made for.
const REST: &str = "provisioner-key-places";
/// No provisioner ever has more keys: a higher number was written by somebody else.
const MOST_KEYS_EVER: u64 = 1_000_000_000;

/// What of a key is sealed. Whether it is in use, being made or on its way out is not part of it: entries move from one to the
/// other as they are, and `used`, `attempted` and `number` say what may be done with them wherever they are.
fn sealed(key: &Key) -> [String; 10] {
    let Home { control_plane, deployment, organization } = &key.home;
    let mark = |is: bool, text: &str| if is { text.to_owned() } else { String::new() };
    [
        key.name.clone(),
        key.id.map(|id| id.to_string()).unwrap_or_default(),
        key.number.to_string(),
        control_plane.clone(),
        deployment.clone(),
        organization.to_string(),
        key.tags_hash.clone(),
        key.since.as_second().to_string(),
        mark(key.attempted, "attempted"),
        mark(key.used, "used"),
    ]
}

fn is_sealed(sealer: Sealer<'_>, key: &Key, seal: &str) -> bool {
    sealer.is_sealed(WHAT, &sealed(key), seal)
}

/// What is sealed of all that is no key.
fn sealed_rest(number: i64, places: &[SecretKeySelector], adopted: Option<&str>) -> Vec<String> {
    let place = |one: &SecretKeySelector| [one.name.clone(), one.key.clone().unwrap_or_default()];
    let first = [number.to_string(), adopted.unwrap_or_default().to_owned()];
    first.into_iter().chain(places.iter().flat_map(place)).collect()
}

/// What is recorded in a status, entry by entry: one that cannot be read loses no other.
pub(crate) fn parsed(key: &Value) -> Option<ProvisionerKeyStatus> {
    let all = |entries: &Value| entries.as_array().cloned().unwrap_or_default();
    key.as_object()?;
    Some(ProvisionerKeyStatus {
        current: from_value(key["current"].clone()).ok(),
        pending: from_value(key["pending"].clone()).ok(),
        retiring: all(&key["retiring"]).into_iter().filter_map(|entry| from_value(entry).ok()).collect(),
        generation: key["generation"].as_i64().unwrap_or_default(),
        secrets: all(&key["secrets"]).into_iter().filter_map(|entry| from_value(entry).ok()).collect(),
        adopted: key["adopted"].as_str().map(str::to_owned),
        seal: key["seal"].as_str().map(str::to_owned),
    })
}

/// Whether the operator wrote where plaintexts are and what was taken over.
pub(crate) fn is_whole(status: &ProvisionerKeyStatus, sealer: Sealer<'_>) -> bool {
    let rest = sealed_rest(status.generation, &status.secrets, status.adopted.as_deref());
    status.seal.as_ref().is_some_and(|seal| sealer.is_sealed(REST, &rest, seal))
}

/// The names of the keys in a status that the operator did not write, or wrote with a key that is lost.
pub(crate) fn unsealed(status: Option<&ProvisionerKeyStatus>, sealer: Sealer<'_>) -> Vec<String> {
    let Some(status) = status else { return Vec::new() };
    let entries = status.current.iter().chain(&status.pending).chain(&status.retiring);
    let is_sealed =
        |entry: &RecordedKey| self::key(entry).is_some_and(|key| is_sealed(sealer, &key, &entry.seal));
    entries.filter(|entry| !is_sealed(entry)).map(|entry| entry.name.clone()).collect()
}

/// The record of a status; entries that the operator did not write count for nothing, and neither do places.
pub(crate) fn read(status: Option<&ProvisionerKeyStatus>, sealer: Sealer<'_>) -> Record {
    let Some(status) = status else { return Record::default() };
    let key = |entry: &RecordedKey| self::key(entry).filter(|key| is_sealed(sealer, key, &entry.seal));
    let is_whole = is_whole(status, sealer);
    let place = |reference: &SecretKeySelector| SecretPlace {
        secret: reference.name.clone(),
        data_key: reference.key.clone().unwrap_or_default(),
    };
    Record {
        current: status.current.as_ref().and_then(key),
        pending: status.pending.as_ref().and_then(key),
        retiring: status.retiring.iter().filter_map(key).collect(),
        number: u64::try_from(status.generation)
            .ok()
            .filter(|number| *number < MOST_KEYS_EVER)
            .unwrap_or_default(),
        places: status.secrets.iter().filter(|_| is_whole).map(place).collect(),
        adopted: status.adopted.clone(),
    }
}

fn key(entry: &RecordedKey) -> Option<Key> {
    let id = match &entry.id {
        Some(id) => Some(id.parse().ok()?),
        None => None,
    };
    Some(Key {
        home: Home {
            control_plane: entry.control_plane_uid.clone(),
            deployment: entry.deployment_id.clone(),
            organization: entry.organization_id.parse().ok()?,
        },
        name: entry.name.clone(),
        id,
        number: u64::try_from(entry.generation).ok()?,
        tags_hash: entry.tags_hash.clone(),
        since: entry.since.0,
        attempted: entry.attempted,
        used: entry.used,
    })
}

/// The record as a status shows it; nothing while nothing is recorded.
pub(crate) fn written(record: &Record, sealer: Sealer<'_>) -> Option<ProvisionerKeyStatus> {
    if *record == Record::default() {
        return None;
    }
    let entry = |key: &Key| entry(key, sealer);
    let reference = |place: &SecretPlace| SecretKeySelector {
        name: place.secret.clone(),
        key: Some(place.data_key.clone()),
    };
    let generation = i64::try_from(record.number).unwrap_or(i64::MAX);
    let secrets: Vec<SecretKeySelector> = record.places.iter().map(reference).collect();
    let rest = sealed_rest(generation, &secrets, record.adopted.as_deref());
    Some(ProvisionerKeyStatus {
        current: record.current.as_ref().map(entry),
        pending: record.pending.as_ref().map(entry),
        retiring: record.retiring.iter().map(entry).collect(),
        generation,
        secrets,
        adopted: record.adopted.clone(),
        seal: Some(sealer.seal(REST, &rest)),
    })
}

fn entry(key: &Key, sealer: Sealer<'_>) -> RecordedKey {
    RecordedKey {
        name: key.name.clone(),
        id: key.id.map(|id| id.to_string()),
        generation: i64::try_from(key.number).unwrap_or(i64::MAX),
        organization_id: key.home.organization.to_string(),
        control_plane_uid: key.home.control_plane.clone(),
        deployment_id: key.home.deployment.clone(),
        tags_hash: key.tags_hash.clone(),
        since: Time(key.since),
        attempted: key.attempted,
        used: key.used,
        seal: sealer.seal(WHAT, &sealed(key)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::coderd::Uuid;
    use jiff::Timestamp;
    use ring::hmac;
    use serde_json::json;

    fn key(number: u64) -> Key {
        Key {
            home: Home {
                control_plane: "uid".to_owned(),
                deployment: "d".to_owned(),
                organization: Uuid::random().unwrap(),
            },
            name: format!("builders-{number}"),
            id: (number > 1).then(|| Uuid::random().unwrap()),
            number,
            tags_hash: "811c9dc5".to_owned(),
            since: Timestamp::from_second(1_800_000_000).unwrap(),
            attempted: number > 1,
            used: number == 2,
        }
    }

    fn record() -> Record {
        Record {
            current: Some(key(2)),
            pending: Some(key(1)),
            retiring: vec![key(3), key(4)],
            number: 4,
            places: vec![SecretPlace { secret: "s".to_owned(), data_key: "key".to_owned() }],
            adopted: Some("other".to_owned()),
        }
    }

    #[test]
    fn a_record_survives_its_status() {
        let operator = hmac::Key::new(hmac::HMAC_SHA256, b"operator");
        let sealer = Sealer { key: &operator, uid: "u1" };
        let status = written(&record(), sealer).unwrap();
        let stored: ProvisionerKeyStatus = from_value(json!(status)).unwrap();
        let before = record();
        let again = read(Some(&stored), sealer);
        assert_eq!((again.number, &again.places, &again.adopted), (4, &before.places, &before.adopted));
        assert_eq!(written(&again, sealer), Some(status), "every key is read back");
        assert_eq!(again.retiring.len(), 2);
        assert_eq!(written(&Record::default(), sealer), None);
        assert_eq!(read(None, sealer), Record::default());
    }

    /// Every way to cut one text into name, control plane and deployment is another key, whatever the text.
    #[test]
    fn no_two_keys_have_one_seal() {
        let operator = hmac::Key::new(hmac::HMAC_SHA256, b"operator");
        let sealer = Sealer { key: &operator, uid: "u1" };
        let plain = Key { id: None, ..key(1) };
        let (mut texts, mut count) = (std::collections::BTreeSet::new(), 0);
        for whole in ["a\0b\0\0c", "aaaa", "\0\0\0\0", "\0\0\0\0\0\0\0\u{1}a\0\0", "1/ä/\0"] {
            let cuts: Vec<usize> = (0..=whole.len()).filter(|at| whole.is_char_boundary(*at)).collect();
            for (first, second) in cuts.iter().flat_map(|one| cuts.iter().map(move |two| (*one, *two))) {
                let Some(middle) = whole.get(first..second) else { continue };
                let mut key = plain.clone();
                key.name = whole[..first].to_owned();
                key.home.control_plane = middle.to_owned();
                key.home.deployment = whole[second..].to_owned();
                texts.insert(sealer.text(WHAT, &sealed(&key)));
                count += 1;
            }
        }
        assert!(count > 100 && texts.len() == count, "{} texts of {count} keys", texts.len());
        let marked = [
            Key { used: true, ..plain.clone() },
            Key { attempted: true, ..plain.clone() },
            Key { number: 11, ..plain.clone() },
            Key { tags_hash: "\0used".to_owned(), ..plain.clone() },
        ];
        texts.extend(marked.iter().map(|key| sealer.text(WHAT, &sealed(key))));
        texts.insert(Sealer { uid: "u1\0a", ..sealer }.text(WHAT, &sealed(&plain)));
        assert_eq!(texts.len(), count + 5);
    }

    #[test]
    fn what_the_operator_did_not_write_for_this_object_counts_for_nothing() {
        let operator = hmac::Key::new(hmac::HMAC_SHA256, b"operator");
        let sealer = Sealer { key: &operator, uid: "u1" };
        let status = written(&record(), sealer).unwrap();
        let keys = |status: &ProvisionerKeyStatus, sealer| read(Some(status), sealer).keys().count();
        assert_eq!(keys(&status, sealer), 4);
        assert_eq!(keys(&status, Sealer { uid: "u2", ..sealer }), 0, "of another object");
        let stranger = hmac::Key::new(hmac::HMAC_SHA256, b"stranger");
        assert_eq!(keys(&status, Sealer { key: &stranger, ..sealer }), 0);
        let mut forged = status.clone();
        forged.retiring[0].name = "somebody-elses".to_owned();
        forged.retiring[1].organization_id = Uuid::random().unwrap().to_string();
        assert_eq!(keys(&forged, sealer), 2);
        let entry = forged.current.as_mut().unwrap();
        entry.id = Some(Uuid::random().unwrap().to_string());
        assert_eq!(read(Some(&forged), sealer).current, None);
    }

    #[test]
    fn a_place_that_the_operator_did_not_write_is_none() {
        let operator = hmac::Key::new(hmac::HMAC_SHA256, b"operator");
        let sealer = Sealer { key: &operator, uid: "u1" };
        let status = written(&record(), sealer).unwrap();
        let places = |status: &ProvisionerKeyStatus| read(Some(status), sealer).places.len();
        assert!(places(&status) == 1 && is_whole(&status, sealer));
        let forged = |change: fn(&mut ProvisionerKeyStatus)| {
            let mut forged = status.clone();
            change(&mut forged);
            (places(&forged), is_whole(&forged, sealer), read(Some(&forged), sealer).keys().count())
        };
        let note = |status: &mut ProvisionerKeyStatus| {
            status.secrets.push(SecretKeySelector { name: "s".to_owned(), key: Some("note".to_owned()) });
        };
        assert_eq!(forged(note), (0, false, 4), "a data key of somebody else");
        assert_eq!(forged(|status| status.secrets[0].key = Some("note".to_owned())), (0, false, 4));
        assert_eq!(forged(|status| status.adopted = None), (0, false, 4), "it would be taken over again");
        assert_eq!(forged(|status| status.generation = 1), (0, false, 4));
        assert_eq!(forged(|status| status.seal = None), (0, false, 4));
        let seal_of_a_key = |status: &mut ProvisionerKeyStatus| {
            status.seal = status.current.as_ref().map(|entry| entry.seal.clone());
        };
        assert_eq!(forged(seal_of_a_key), (0, false, 4));
    }
}
