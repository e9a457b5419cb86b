//! Decides how the record of a proxy's registrations is written in its status, and reads it back. Each carries a seal that only the
//! operator can make, and so does the rest: whoever may write a status still cannot name a proxy that we then delete, nor have one
//! that is in use counted among those on their way out.

use super::record::{Home, Record, Registration, Replaced};
use crate::controller::attached::seal::Sealer;
use crds::workspace_proxy::{ProxyRegistrationStatus, RecordedProxy, ReplacedToken};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::{Value, from_value, json};

/// What is sealed here.
const WHAT: &str = "workspace-proxy";

/// What the seal of all that is no registration is made for.
const REST: &str = "workspace-proxy-rest";

/// The one in use.
const CURRENT: &str = "current";
/// The one that is being made, or whose token is being replaced.
const PENDING: &str = "pending";
/// Those on their way out.
const RETIRING: &str = "retiring";

/// What of a registration is sealed, and which it is: one that is in use is not on its way out because somebody copies it.
fn sealed(one: &Registration, slot: &str) -> [String; 7] {
    [
        slot.to_owned(),
        one.name.clone(),
        one.id.map(|id| id.to_string()).unwrap_or_default(),
        one.home.control_plane.clone().unwrap_or_default(),
        one.home.deployment.clone(),
        one.since.as_second().to_string(),
        if one.attempted { "attempted".to_owned() } else { String::new() },
    ]
}

/// The registration of an entry, if the operator wrote it for this object.
fn registration(entry: &RecordedProxy, slot: &str, sealer: Sealer<'_>) -> Option<Registration> {
    let id = match &entry.id {
        Some(id) => Some(id.parse().ok()?),
        None => None,
    };
    let one = Registration {
        home: Home {
            control_plane: entry.control_plane_uid.clone(),
            deployment: entry.deployment_id.clone(),
        },
        name: entry.name.clone(),
        id,
        since: entry.since.0,
        attempted: entry.attempted,
    };
    sealer.is_sealed(WHAT, &sealed(&one, slot), &entry.seal).then_some(one)
}

fn entry(one: &Registration, slot: &str, sealer: Sealer<'_>) -> RecordedProxy {
    RecordedProxy {
        name: one.name.clone(),
        id: one.id.map(|id| id.to_string()),
        control_plane_uid: one.home.control_plane.clone(),
        deployment_id: one.home.deployment.clone(),
        since: Time(one.since),
        attempted: one.attempted,
        seal: sealer.seal(WHAT, &sealed(one, slot)),
    }
}

/// The record in a status, entry by entry: one that cannot be read, or that the operator did not write, loses no other and counts
/// for nothing. Besides it the names of those that do not count.
pub(crate) fn read(written: &Value, sealer: Sealer<'_>) -> (Record, Vec<String>) {
    let mut unsealed = Vec::new();
    let mut one = |entry: &Value, slot: &str| {
        let entry: RecordedProxy = from_value(entry.clone()).ok()?;
        let known = registration(&entry, slot, sealer);
        if known.is_none() {
            unsealed.push(entry.name);
        }
        known
    };
    let text = |field: &str| written[field].as_str().map(str::to_owned);
    let is_whole = is_whole(written, sealer);
    let (current, mut pending) = (one(&written[CURRENT], CURRENT), one(&written[PENDING], PENDING));
    let retiring = written[RETIRING].as_array().into_iter().flatten();
    let retiring = retiring.filter_map(|entry| one(entry, RETIRING)).collect();
    // Whether it is being taken over from others is not known then.
    let is_used = |one: &Registration| {
        current.as_ref().is_some_and(|current| current.home == one.home && current.id == one.id)
    };
    let unknown = pending.take_if(|one| !is_whole && one.id.is_some() && !is_used(one));
    unsealed.extend(unknown.map(|one| one.name));
    let record = Record {
        current,
        pending,
        retiring,
        rotated_for: text("rotatedFor").filter(|_| is_whole),
        adopted: text("adopted"),
        adopting: text("adopting").filter(|_| is_whole).and_then(|id| id.parse().ok()),
        replaced: replaced(&written["replacedByOthers"]).filter(|_| is_whole),
    };
    (record, unsealed)
}

/// Whether the operator wrote all that is no registration; there may be nothing.
pub(crate) fn is_whole(written: &Value, sealer: Sealer<'_>) -> bool {
    let is_sealed = |seal: &str| sealer.is_sealed(REST, &sealed_rest(written), seal);
    written.is_null() || written["seal"].as_str().is_some_and(is_sealed)
}

/// What is sealed of all that is no registration, and for which that is being made: what was written for another is no proof.
fn sealed_rest(written: &Value) -> Vec<String> {
    let replaced = &written["replacedByOthers"];
    let last = [&written[PENDING]["id"], &replaced["times"], &replaced["last"]];
    let texts = ["adopted", "adopting", "rotatedFor"].map(|field| &written[field]);
    texts.into_iter().chain(last).map(Value::to_string).collect()
}

/// The record as a status shows it; nothing while nothing is recorded.
pub(crate) fn written(record: &Record, sealer: Sealer<'_>) -> Option<ProxyRegistrationStatus> {
    if *record == Record::default() {
        return None;
    }
    let entry = |one: &Registration, slot: &str| entry(one, slot, sealer);
    let mut written = ProxyRegistrationStatus {
        current: record.current.as_ref().map(|one| entry(one, CURRENT)),
        pending: record.pending.as_ref().map(|one| entry(one, PENDING)),
        retiring: record.retiring.iter().map(|one| entry(one, RETIRING)).collect(),
        rotated_for: record.rotated_for.clone(),
        adopted: record.adopted.clone(),
        replaced_by_others: record.replaced.as_ref().map(|replaced| ReplacedToken {
            times: i32::try_from(replaced.times).unwrap_or(i32::MAX),
            last: Time(replaced.last),
        }),
        adopting: record.adopting.map(|id| id.to_string()),
        seal: None,
    };
    written.seal = Some(sealer.seal(REST, &sealed_rest(&json!(written))));
    Some(written)
}

/// How often others replaced the token.
fn replaced(written: &Value) -> Option<Replaced> {
    let ReplacedToken { times, last } = from_value(written.clone()).ok()?;
    Some(Replaced { times: u32::try_from(times).ok()?, last: last.0 })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::coderd::Uuid;
    use jiff::Timestamp;
    use ring::hmac;

    fn one(name: &str, uid: Option<&str>) -> Registration {
        Registration {
            home: Home { control_plane: uid.map(str::to_owned), deployment: "d".to_owned() },
            name: name.to_owned(),
            id: uid.map(|_| Uuid::random().unwrap()),
            since: Timestamp::from_second(1_800_000_000).unwrap(),
            attempted: uid.is_none(),
        }
    }

    fn record() -> Record {
        Record {
            current: Some(one("a", Some("u"))),
            pending: Some(one("b", None)),
            retiring: vec![one("c", Some("v"))],
            rotated_for: Some("now".to_owned()),
            adopted: Some("a".to_owned()),
            adopting: Uuid::random().ok(),
            replaced: Some(Replaced { times: 2, last: Timestamp::from_second(1_800_000_000).unwrap() }),
        }
    }

    #[test]
    fn a_record_survives_its_status() {
        let operator = hmac::Key::new(hmac::HMAC_SHA256, b"operator");
        let sealer = Sealer { key: &operator, uid: "u1" };
        let before = record();
        assert_eq!(read(&json!(written(&before, sealer)), sealer), (before, Vec::new()));
        assert_eq!(written(&Record::default(), sealer), None);
        assert_eq!(read(&Value::Null, sealer), (Record::default(), Vec::new()));
    }

    #[test]
    fn what_the_operator_did_not_write_for_this_object_counts_for_nothing() {
        let operator = hmac::Key::new(hmac::HMAC_SHA256, b"operator");
        let sealer = Sealer { key: &operator, uid: "u1" };
        let status = json!(written(&record(), sealer));
        let (of_another, unsealed) = read(&status, Sealer { uid: "u2", ..sealer });
        assert_eq!((of_another.registrations().count(), unsealed.len()), (0, 3));
        let mut forged = status.clone();
        forged["retiring"][0]["name"] = json!("somebody-elses");
        forged["pending"] = json!(7);
        let (read, unsealed) = read(&forged, sealer);
        assert_eq!((read.registrations().count(), unsealed), (1, vec!["somebody-elses".to_owned()]));
    }

    #[test]
    fn a_registration_in_use_is_not_on_its_way_out_because_somebody_copies_it() {
        let operator = hmac::Key::new(hmac::HMAC_SHA256, b"operator");
        let sealer = Sealer { key: &operator, uid: "u1" };
        let mut status = json!(written(&record(), sealer));
        status["retiring"] = json!([status["current"], status["pending"]]);
        let (read, unsealed) = read(&status, sealer);
        assert_eq!((read.retiring, unsealed), (Vec::new(), vec!["a".to_owned(), "b".to_owned()]));
        assert_eq!(
            read.current,
            record().current.map(|one| Registration { id: read.current.clone().unwrap().id, ..one })
        );
    }

    #[test]
    fn what_is_being_taken_over_is_not_ours_because_somebody_changes_a_status() {
        let operator = hmac::Key::new(hmac::HMAC_SHA256, b"operator");
        let sealer = Sealer { key: &operator, uid: "u1" };
        let theirs = one("b", Some("u"));
        let adopting = Record { pending: Some(theirs.clone()), adopting: theirs.id, ..record() };
        let status = json!(written(&adopting, sealer));
        let before =
            json!(written(&Record { pending: None, adopting: None, adopted: None, ..record() }, sealer));
        assert!(is_whole(&status, sealer) && is_whole(&before, sealer) && is_whole(&Value::Null, sealer));
        for field in ["adopted", "adopting", "rotatedFor", "replacedByOthers", "seal"] {
            let mut forged = status.clone();
            forged.as_object_mut().unwrap().remove(field);
            let (read, unsealed) = read(&forged, sealer);
            assert_eq!((read.pending, unsealed), (None, vec!["b".to_owned()]), "{field}");
            assert_eq!((read.rotated_for, read.replaced), (None, None), "{field}");
        }
        let mut earlier = status.clone();
        for field in ["adopted", "adopting", "seal"] {
            earlier[field] = before[field].clone();
        }
        assert_eq!(read(&earlier, sealer).0.pending, None, "the proof of an earlier status");
    }
}
