//! Decides how the record of a proxy's registrations is written in its status, and reads it back. Each carries a seal that only the
//! operator can make: whoever may write a status still cannot name a proxy that we then delete.

use super::record::{Home, Record, Registration, Replaced};
use crate::controller::attached::seal::Sealer;
use crds::workspace_proxy::{ProxyRegistrationStatus, RecordedProxy, ReplacedToken};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::{Value, from_value};

/// What is sealed here.
const WHAT: &str = "workspace-proxy";

/// What of a registration is sealed. Whether it is in use, being made or on its way out is not part of it: entries move from one
/// to the other as they are.
fn sealed(one: &Registration) -> [String; 6] {
    [
        one.name.clone(),
        one.id.map(|id| id.to_string()).unwrap_or_default(),
        one.home.control_plane.clone().unwrap_or_default(),
        one.home.deployment.clone(),
        one.since.as_second().to_string(),
        if one.attempted { "attempted".to_owned() } else { String::new() },
    ]
}

/// The registration of an entry, if the operator wrote it for this object.
fn registration(entry: &RecordedProxy, sealer: Sealer<'_>) -> Option<Registration> {
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
    sealer.is_sealed(WHAT, &sealed(&one), &entry.seal).then_some(one)
}

fn entry(one: &Registration, sealer: Sealer<'_>) -> RecordedProxy {
    RecordedProxy {
        name: one.name.clone(),
        id: one.id.map(|id| id.to_string()),
        control_plane_uid: one.home.control_plane.clone(),
        deployment_id: one.home.deployment.clone(),
        since: Time(one.since),
        attempted: one.attempted,
        seal: sealer.seal(WHAT, &sealed(one)),
    }
}

/// The record in a status, entry by entry: one that cannot be read, or that the operator did not write, loses no other and counts
/// for nothing. Besides it the names of those that do not count.
pub(crate) fn read(written: &Value, sealer: Sealer<'_>) -> (Record, Vec<String>) {
    let mut unsealed = Vec::new();
    let mut one = |entry: &Value| {
        let entry: RecordedProxy = from_value(entry.clone()).ok()?;
        let known = registration(&entry, sealer);
        if known.is_none() {
            unsealed.push(entry.name);
        }
        known
    };
    let text = |field: &str| written[field].as_str().map(str::to_owned);
    let record = Record {
        current: one(&written["current"]),
        pending: one(&written["pending"]),
        retiring: written["retiring"].as_array().into_iter().flatten().filter_map(one).collect(),
        rotated_for: text("rotatedFor"),
        adopted: text("adopted"),
        replaced: replaced(&written["replacedByOthers"]),
    };
    (record, unsealed)
}

/// The record as a status shows it; nothing while nothing is recorded.
pub(crate) fn written(record: &Record, sealer: Sealer<'_>) -> Option<ProxyRegistrationStatus> {
    if *record == Record::default() {
        return None;
    }
    let entry = |one: &Registration| entry(one, sealer);
    Some(ProxyRegistrationStatus {
        current: record.current.as_ref().map(entry),
        pending: record.pending.as_ref().map(entry),
        retiring: record.retiring.iter().map(entry).collect(),
        rotated_for: record.rotated_for.clone(),
        adopted: record.adopted.clone(),
        replaced_by_others: record.replaced.as_ref().map(|replaced| ReplacedToken {
            times: i32::try_from(replaced.times).unwrap_or(i32::MAX),
            last: Time(replaced.last),
        }),
    })
}

/// How often others replaced the token; it is not sealed, since it names nothing.
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
    use serde_json::json;

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
}
