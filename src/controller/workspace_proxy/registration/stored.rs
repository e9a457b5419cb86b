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

/// What the seal of a proxy that was taken over is made for.
const ADOPTED: &str = "workspace-proxy-adopted";

/// The one in use.
const CURRENT: &str = "current";
/// The one that is being made, or whose token is being replaced.
const PENDING: &str = "pending";
/// Those on their way out.
const RETIRING: &str = "retiring";

/// What of a registration is sealed, and which it is: one that is in use is not on its way out because somebody copies it.
fn sealed(one: &Registration, slot: &str) -> Vec<String> {
    // What came later is sealed only where it is there, under its name: earlier seals stay, and none stands for another.
    let address = one.home.address.as_ref().map(|address| format!("address:{address}"));
    let more = address.into_iter().chain(one.brought.then(|| "brought:".to_owned()));
    let always = [
        slot.to_owned(),
        one.name.clone(),
        one.id.map(|id| id.to_string()).unwrap_or_default(),
        one.home.control_plane.clone().unwrap_or_default(),
        one.home.deployment.clone(),
        one.since.as_second().to_string(),
        if one.attempted { "attempted".to_owned() } else { String::new() },
    ];
    always.into_iter().chain(more).collect()
}

/// The registration of an entry, if the operator wrote it for this object. One behind a control plane and at an address is nowhere.
fn registration(entry: &RecordedProxy, slot: &str, sealer: Sealer<'_>) -> Option<Registration> {
    let id = match &entry.id {
        Some(id) => Some(id.parse().ok()?),
        None => None,
    };
    if entry.control_plane_uid.is_some() && entry.address.is_some() {
        return None;
    }
    let one = Registration {
        home: Home {
            control_plane: entry.control_plane_uid.clone(),
            address: entry.address.clone(),
            deployment: entry.deployment_id.clone(),
        },
        name: entry.name.clone(),
        id,
        since: entry.since.0,
        attempted: entry.attempted,
        brought: entry.brought,
    };
    sealer.is_sealed(WHAT, &sealed(&one, slot), &entry.seal).then_some(one)
}

fn entry(one: &Registration, slot: &str, sealer: Sealer<'_>) -> RecordedProxy {
    RecordedProxy {
        name: one.name.clone(),
        id: one.id.map(|id| id.to_string()),
        control_plane_uid: one.home.control_plane.clone(),
        address: one.home.address.clone(),
        deployment_id: one.home.deployment.clone(),
        since: Time(one.since),
        attempted: one.attempted,
        brought: one.brought,
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

/// Whether a status tells of registrations, whoever wrote it.
pub(crate) fn has_registrations(written: &Value) -> bool {
    let is_there = |slot: &str| !written[slot].is_null() && written[slot] != json!([]);
    [CURRENT, PENDING, RETIRING].into_iter().any(is_there)
}

/// Whether a status tells of a registration at this address, whoever wrote it; one that was recorded before addresses were may be
/// there. It gives nobody anything: what is there is not taken for gone.
pub(crate) fn is_registered_at(written: &Value, address: &str) -> bool {
    let retiring = written[RETIRING].as_array().into_iter().flatten();
    let mut all = [&written[CURRENT], &written[PENDING]].into_iter().chain(retiring);
    all.any(|entry| match entry["address"].as_str() {
        Some(at) => at == address,
        None => entry.is_object() && entry["controlPlaneUID"].is_null(),
    })
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

/// What is written beside a token of the proxy of others that was taken over: its name, and that the operator wrote it for this object.
pub(crate) fn adoption(name: &str, sealer: Sealer<'_>) -> String {
    format!("{} {name}", sealer.seal(ADOPTED, &[name.to_owned()]))
}

/// The proxy that such a text names, if the operator wrote it for this object.
pub(crate) fn adopted(text: &str, sealer: Sealer<'_>) -> Option<String> {
    let (seal, name) = text.split_once(' ')?;
    sealer.is_sealed(ADOPTED, &[name.to_owned()], seal).then(|| name.to_owned())
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
            home: match uid {
                Some(uid) => Home::behind(uid.to_owned(), "d".to_owned()),
                None => Home::at("https://coder.example.com:443".to_owned(), "d".to_owned()),
            },
            name: name.to_owned(),
            id: uid.map(|_| Uuid::random().unwrap()),
            since: Timestamp::from_second(1_800_000_000).unwrap(),
            attempted: uid.is_none(),
            brought: uid.is_none(),
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
        let (known, unsealed) = read(&forged, sealer);
        assert_eq!((known.registrations().count(), unsealed), (1, vec!["somebody-elses".to_owned()]));
        for (field, value) in [("address", json!("https://evil.example.com:443")), ("brought", json!(false))]
        {
            let mut elsewhere = status.clone();
            elsewhere["pending"][field] = value;
            assert_eq!(read(&elsewhere, sealer).0.pending, None, "{field}");
        }
    }

    /// As it was written before addresses were recorded, with the key of these tests.
    #[test]
    fn what_was_recorded_before_addresses_were_is_at_that_of_the_spec_if_it_is_the_same_database() {
        let operator = hmac::Key::new(hmac::HMAC_SHA256, b"operator");
        let sealer = Sealer { key: &operator, uid: "u1" };
        let status = json!({
            "current": { "name": "eu", "id": "00000000-0000-4000-8000-000000000001", "deploymentID": "d",
                "since": "2027-01-15T08:00:00Z", "attempted": true,
                "seal": "0d41e6f2d1e8d7274b495ee958965bf4d9515c3cb3c3cd2eac14d6d0f265547e" },
            "pending": { "name": "eu", "id": "00000000-0000-4000-8000-000000000001", "deploymentID": "d",
                "since": "2027-01-15T08:00:00Z", "attempted": true,
                "seal": "e303f494a9be65f838734bef574c30d4196b484dbd177e237f436ce542ccf820" },
            "retiring": [{ "name": "us", "id": "00000000-0000-4000-8000-000000000002", "deploymentID": "d",
                "since": "2027-01-15T08:00:00Z", "attempted": true,
                "seal": "93a57cb5cf79f27f7b3eb577c6113e4ef807e273455ed9e21fa85b0c05f44506" }],
            "seal": "b6707bbf9bb7ef7da55ed6e1edea3e3fe673bf93a1e01e97b594a0f447c4dd2e"
        });
        let (before, unsealed) = read(&status, sealer);
        assert_eq!((before.registrations().count(), unsealed.len()), (3, 0));
        assert!(before.registrations().all(|one| one.home.is_unlocated() && !one.brought));
        let here = Home::at("https://coder.example.com:443".to_owned(), "d".to_owned());
        let located = before.located(&here);
        assert_eq!(located.registrations().count(), 3);
        assert!(located.registrations().all(|one| one.home == here));
        assert_eq!(read(&json!(written(&located, sealer)), sealer), (located, Vec::new()));
        let elsewhere = Home { deployment: "e".to_owned(), ..here };
        for other in [elsewhere, Home::behind("u".to_owned(), "d".to_owned())] {
            assert_eq!(before.located(&other), before, "{other:?}");
        }
    }

    #[test]
    fn a_registration_at_an_address_is_found_wherever_it_is_recorded() {
        let at = |address: &str| json!({ "name": "eu", "address": address });
        let (here, behind) = ("http://coder.team.svc:80", json!({ "name": "eu", "controlPlaneUID": "u" }));
        for slot in ["current", "pending"] {
            assert!(is_registered_at(&json!({ slot: at(here) }), here), "{slot}");
            assert!(!is_registered_at(&json!({ slot: at("http://coder.other.svc:80") }), here), "{slot}");
            assert!(!is_registered_at(&json!({ slot: behind }), here), "{slot}");
        }
        assert!(is_registered_at(&json!({ "current": behind, "retiring": [behind, at(here)] }), here));
        assert!(is_registered_at(&json!({ "current": { "name": "eu" } }), here), "before addresses were");
        for nothing in [Value::Null, json!({}), json!({ "current": 7, "retiring": [] })] {
            assert!(!is_registered_at(&nothing, here), "{nothing}");
        }
    }

    #[test]
    fn a_seal_stands_for_one_entry_alone() {
        let operator = hmac::Key::new(hmac::HMAC_SHA256, b"operator");
        let sealer = Sealer { key: &operator, uid: "u1" };
        let with = |address: Option<&str>, brought: bool| {
            let home = Home { address: address.map(str::to_owned), ..one("a", None).home };
            sealed(&Registration { home, brought, ..one("a", None) }, CURRENT)
        };
        for text in ["brought", "brought:", "address:brought:"] {
            assert_ne!(with(None, true), with(Some(text), false), "{text}");
        }
        let both = Home { control_plane: Some("u".to_owned()), ..one("a", None).home };
        let record =
            Record { current: Some(Registration { home: both, ..one("a", None) }), ..Record::default() };
        let (read, unsealed) = read(&json!(written(&record, sealer)), sealer);
        assert_eq!((read.current, unsealed), (None, vec!["a".to_owned()]), "it is in one place");
    }

    #[test]
    fn what_was_taken_over_is_known_beside_the_token_for_this_very_object_alone() {
        let operator = hmac::Key::new(hmac::HMAC_SHA256, b"operator");
        let sealer = Sealer { key: &operator, uid: "u1" };
        let text = adoption("eu west", sealer);
        assert_eq!(adopted(&text, sealer).as_deref(), Some("eu west"));
        assert_eq!(
            adopted(&text, Sealer { uid: "u2", ..sealer }),
            None,
            "one made anew may take it over again"
        );
        for forged in [text.replace("west", "east"), "eu".to_owned(), " eu".to_owned(), String::new()] {
            assert_eq!(adopted(&forged, sealer), None, "{forged}");
        }
    }

    #[test]
    fn what_was_taken_over_outlives_every_registration() {
        let rest = record().without_registrations();
        assert_eq!(rest, Record { adopted: record().adopted, ..Record::default() });
        let operator = hmac::Key::new(hmac::HMAC_SHA256, b"operator");
        let sealer = Sealer { key: &operator, uid: "u1" };
        let status = json!(written(&rest, sealer));
        assert!(!has_registrations(&status) && has_registrations(&json!(written(&record(), sealer))));
        assert_eq!(read(&status, sealer), (rest, Vec::new()));
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
