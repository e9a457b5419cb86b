//! What must hold for provisioner keys, by what is written, what is recorded and what there is in the end.
//! It judges what it is given, and asks nobody but the double.

use super::RunCoderd;
use crate::coderd::Call;
use crate::fault_proxy::Exchange;
use serde_json::Value;

/// Keys of ours in one coderd at most.
pub(super) const MOST: usize = 3;
const PATH: &str = "/provisionerkeys";

/// A write that is about a key: its organization and its name.
pub(super) struct KeyWrite {
    is_deletion: bool,
    organization: String,
    name: String,
}

impl KeyWrite {
    /// The write that a request is.
    pub(super) fn of(exchange: &Exchange) -> Option<Self> {
        let (before, after) = exchange.path.split_once(PATH)?;
        let organization = before.rsplit('/').next().unwrap_or_default().to_owned();
        let (is_deletion, name) = match exchange.method.as_str() {
            "POST" => {
                let body: Value = serde_json::from_slice(&exchange.body).unwrap_or_default();
                (false, body["name"].as_str().unwrap_or_default().to_owned())
            }
            "DELETE" => (true, after.trim_start_matches('/').to_owned()),
            _ => return None,
        };
        Some(Self { is_deletion, organization, name })
    }

    /// I7: nothing is made that was not recorded before. I5: nothing is deleted that is not recorded as ours.
    pub(super) fn judged_by(&self, recorded: &Value) -> Vec<String> {
        let Self { is_deletion, organization, name } = self;
        let broken = match is_deletion {
            false if !is_intended(recorded, organization, name) => {
                Some(format!("I7: key {name} is made, and the status does not say so: {recorded}"))
            }
            true if !is_recorded(recorded, organization, name) => {
                Some(format!("I5: key {name} is deleted, and is not recorded as ours: {recorded}"))
            }
            _ => None,
        };
        broken.into_iter().collect()
    }
}

/// The plaintext that an answer shows.
pub(super) fn shown(exchange: &Exchange, body: &Value) -> Option<String> {
    let makes = exchange.method == "POST" && exchange.path.ends_with(PATH);
    body["key"].as_str().filter(|_| makes).map(str::to_owned)
}

/// How many keys clients had at once, by what they made and deleted.
pub(super) fn most(calls: &[Call]) -> usize {
    let (mut now, mut most) = (0_usize, 0);
    for call in calls.iter().filter(|call| call.path.contains(PATH)) {
        match (call.method.as_str(), call.status()) {
            ("POST", Some(201)) => now += 1,
            ("DELETE", Some(204)) => now = now.saturating_sub(1),
            _ => {}
        }
        most = most.max(now);
    }
    most
}

/// I1: there is the key in use and no other of ours. I2: the Secret holds its plaintext.
pub(super) fn in_the_end(coderd: &RunCoderd, subject: Option<&Value>, plaintext: &str) -> Vec<String> {
    let own: Vec<String> = coderd.own_keys().into_iter().map(|(_, key)| key.id.to_string()).collect();
    let wanted = subject.and_then(|one| one["status"]["key"]["current"]["id"].as_str());
    let mut broken = Vec::new();
    if own != Vec::from_iter(wanted) {
        let name = coderd.control_plane;
        broken.push(format!("I1: the coderd of {name} has keys of ours {own:?}, recorded are {wanted:?}"));
    }
    broken.extend(subject.filter(|_| wanted.is_some()).and_then(|one| material(coderd, one, plaintext)));
    broken
}

fn material(coderd: &RunCoderd, subject: &Value, plaintext: &str) -> Option<String> {
    let proven = coderd.double.key_proven_by(plaintext);
    let current = &subject["status"]["key"]["current"];
    let key = coderd.own_keys().into_iter().find(|(_, key)| Some(key.id) == proven).map(|(_, key)| key);
    let Some(key) = key.filter(|key| current["id"] == key.id.to_string()) else {
        return Some(format!("I2: the Secret proves {proven:?}, in use is {current}"));
    };
    let tags = serde_json::to_value(&key.tags).expect("tags are JSON");
    let wanted = subject["spec"]["tags"].clone();
    let wanted = if wanted.is_null() { Value::Object(Default::default()) } else { wanted };
    (tags != wanted).then(|| format!("I2: key {} has the tags {tags}, not {wanted}", key.name))
}

fn is_entry(entry: &Value, organization: &str, name: &str) -> bool {
    let named = entry["name"].as_str().is_some_and(|one| one.eq_ignore_ascii_case(name));
    named && entry["organizationID"] == organization
}

fn is_intended(recorded: &Value, organization: &str, name: &str) -> bool {
    let pending = &recorded["pending"];
    is_entry(pending, organization, name) && pending["attempted"] == true
}

fn is_recorded(recorded: &Value, organization: &str, name: &str) -> bool {
    let retiring = recorded["retiring"].as_array().into_iter().flatten();
    let mut entries = [&recorded["current"], &recorded["pending"]].into_iter().chain(retiring);
    entries.any(|entry| is_entry(entry, organization, name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn only_what_is_recorded_for_this_organization_is_ours() {
        let key = |name: &str, attempted: bool| json!({ "name": name, "organizationID": "o", "attempted": attempted });
        let recorded = json!({ "current": key("farm", true), "pending": key("farm-2", true), "retiring": [key("a", true)] });
        assert!(["FARM", "farm-2", "a"].iter().all(|name| is_recorded(&recorded, "o", name)));
        assert!(!is_recorded(&recorded, "p", "farm") && !is_recorded(&recorded, "o", "others"));
        assert!(is_intended(&recorded, "o", "farm-2") && !is_intended(&recorded, "o", "farm"));
        assert!(
            !is_intended(&json!({ "pending": key("farm", false) }), "o", "farm"),
            "it is not attempted yet"
        );
    }
}
