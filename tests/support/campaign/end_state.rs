//! Decides what of a cluster, a database and a coderd is the same after every run, and what is left or lacking in one.
//! It never asks anybody: it compares what it is given, as lines a person can read.

use crate::fault_proxy::in_every_run;
use serde_json::{Map, Value};
use std::collections::{BTreeMap, BTreeSet};

/// What differs from run to run although nothing else does, by the name of the field.
const MASKED: [&str; 20] = [
    "uid",
    "resourceVersion",
    // Every key and every token is another plaintext, and has with it another checksum.
    "checksum/provisioner-key",
    "checksum/proxy-token",
    "creationTimestamp",
    "deletionTimestamp",
    "lastTransitionTime",
    "lastUpdateTime",
    "lastProbeTime",
    "lastVerifiedAt",
    "time",
    "clusterIP",
    "clusterIPs",
    "nodePort",
    "token",
    "next",
    "token-expires-at",
    "user-id",
    "holderIdentity",
    "coder.com/written-over",
];

/// The values of one object by their path.
type Values = BTreeMap<String, String>;

/// Everything there is after a run: objects, and facts that are in none of them, by what they are called in every run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EndState(BTreeMap<String, Values>);

impl EndState {
    /// The state that these objects make. Of each pair in `names` the first is a name of this run.
    pub fn of(objects: &[Value], names: &[(String, String)]) -> Self {
        let titled = objects.iter().map(|object| {
            let name = |field: &str| object["metadata"][field].as_str().unwrap_or_default();
            let kind = object["kind"].as_str().unwrap_or_default();
            let title = in_every_run(&format!("{kind} {}/{}", name("namespace"), name("name")), names);
            let mut values = Values::new();
            // Ids that have a name are told apart, before all others are masked.
            let named = in_every_run(&object.to_string(), names);
            let object: Value = serde_json::from_str(&named).expect("names are no syntax");
            flatten(&normalised(&object), "", names, &mut values);
            (title, values)
        });
        Self(titled.collect())
    }

    /// The same with a fact that is in no object.
    pub fn with(mut self, what: &str, is: &str) -> Self {
        self.0.insert(what.to_owned(), [(String::new(), is.to_owned())].into());
        self
    }

    /// The same without the numbers of provisioner keys whose first names these are: behind their names and beside them.
    pub fn without_key_numbers(self, names: &[&str]) -> Self {
        let unnumbered =
            |text: &str| names.iter().fold(text.to_owned(), |text, name| without_number(&text, name));
        self.mapped(|path, value| match path.contains(" .status .key") && path.ends_with(" .generation") {
            true => "<number>".to_owned(),
            false => unnumbered(value),
        })
    }

    /// The same without how often Deployments were rolled out.
    pub fn without_rollouts(self) -> Self {
        let counts =
            [" .deployment.kubernetes.io/revision", " .metadata .generation", " .status .observedGeneration"];
        let Self(titled) = self;
        let (deployments, others) =
            titled.into_iter().partition(|(title, _)| title.starts_with("Deployment "));
        let counted =
            Self(deployments).mapped(|path, value| match counts.iter().any(|count| path.ends_with(count)) {
                true => "<count>".to_owned(),
                false => value.to_owned(),
            });
        let others: BTreeMap<String, Values> = others;
        Self(counted.0.into_iter().chain(others).collect())
    }

    fn mapped(self, value_of: impl Fn(&str, &str) -> String) -> Self {
        let values = |values: Values| {
            let value_of = &value_of;
            values
                .into_iter()
                .map(move |(path, value)| {
                    let value = value_of(&path, &value);
                    (path, value)
                })
                .collect()
        };
        Self(self.0.into_iter().map(|(title, of)| (title, values(of))).collect())
    }

    /// What another state has that this one lacks (`-`) or has otherwise, and what it lacks that this one has (`+`).
    pub fn difference(&self, expected: &Self) -> Vec<String> {
        let mut lines = Vec::new();
        let titles: BTreeSet<&String> = self.0.keys().chain(expected.0.keys()).collect();
        for title in titles {
            match (expected.0.get(title), self.0.get(title)) {
                (Some(expected), Some(found)) => lines.extend(differing(title, expected, found)),
                (Some(_), None) => lines.push(format!("- {title}: lacking")),
                (None, _) => lines.push(format!("+ {title}: left over")),
            }
        }
        lines
    }
}

/// A text in which numbered keys are called as the first one.
fn without_number(text: &str, name: &str) -> String {
    let numbered = format!("{name}-");
    let mut parts = text.split(&numbered);
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |text, rest| {
        let unnumbered = rest.trim_start_matches(|letter: char| letter.is_ascii_digit());
        let dash = if unnumbered.len() == rest.len() { "-" } else { "" };
        format!("{text}{name}{dash}{unnumbered}")
    })
}

fn differing(title: &str, expected: &Values, found: &Values) -> Vec<String> {
    let paths: BTreeSet<&String> = expected.keys().chain(found.keys()).collect();
    let paths = paths.into_iter().filter(|path| expected.get(*path) != found.get(*path));
    let line = |sign: &str, path: &str, values: &Values| {
        values.get(path).map(|value| format!("{sign} {title}{path} = {value}"))
    };
    paths.flat_map(|path| [line("-", path, expected), line("+", path, found)]).flatten().collect()
}

/// Longer values of a Secret, as the API server writes them, are keys, certificates, tokens and URLs with passwords: they
/// differ, and nobody is to read them in a log.
const LONGEST_SHOWN: usize = 40;

/// An object without what differs from run to run.
fn normalised(object: &Value) -> Value {
    let mut object = object.clone();
    let is_long = |value: &Value| value.as_str().is_some_and(|text| text.len() > LONGEST_SHOWN);
    if object["kind"] == "Secret"
        && let Some(data) = object["data"].as_object_mut()
    {
        data.values_mut().filter(|value| is_long(value)).for_each(|value| *value = Value::from("<set>"));
    }
    // Of who wrote what it counts what is owned, not in which order it was first.
    if let Some(Value::Array(managers)) = object.pointer_mut("/metadata/managedFields") {
        managers.iter_mut().for_each(mask);
        managers.sort_by_key(Value::to_string);
    }
    let is_rolled_out = object["kind"] == "Deployment";
    if let Some(Value::Array(conditions)) = object.pointer_mut("/status/conditions") {
        conditions.sort_by_key(|condition| condition["type"].to_string());
        // The controller manager names the ReplicaSet, and thereby the namespace in the pods' environment, as a hash.
        for condition in conditions.iter_mut().filter(|_| is_rolled_out).filter_map(Value::as_object_mut) {
            condition.remove("message");
        }
    }
    mask(&mut object);
    object
}

/// Replaces what is of this run alone, so that it still counts whether it is there.
fn mask(value: &mut Value) {
    match value {
        Value::Object(fields) => mask_fields(fields),
        Value::Array(items) => items.iter_mut().for_each(mask),
        Value::String(text) => *text = masked_text(text),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// What is counted from time to time, and who counted it: whether coderd was asked by then depends on the moment.
const COUNTED: [&str; 2] = ["pendingJobs", "f:pendingJobs"];

fn mask_fields(fields: &mut Map<String, Value>) {
    fields.retain(|name, _| !COUNTED.contains(&name.as_str()));
    for (name, value) in fields.iter_mut() {
        let is_set = !value.is_null() && value.as_str() != Some("");
        if MASKED.contains(&name.as_str()) && is_set && !value.is_object() {
            *value = Value::from("<set>");
        } else {
            mask(value);
        }
    }
}

/// A text with its times, ids and checksums masked, word by word.
fn masked_text(text: &str) -> String {
    let is_part = |letter: char| letter.is_ascii_alphanumeric() || "-:.".contains(letter);
    let mut masked = String::new();
    let mut rest = text;
    while !rest.is_empty() {
        let end = rest.find(|letter| !is_part(letter)).unwrap_or(rest.len());
        masked.push_str(masked_word(&rest[..end]));
        let next = rest[end..].find(is_part).map_or(rest.len(), |found| end + found);
        masked.push_str(&rest[end..next]);
        rest = &rest[next..];
    }
    masked
}

fn masked_word(word: &str) -> &str {
    let shape: String =
        word.chars().map(|letter| if letter.is_ascii_digit() { '0' } else { letter }).collect();
    let is_hex = |word: &str| word.chars().all(|letter| letter.is_ascii_hexdigit());
    let parts: Vec<&str> = word.split('-').collect();
    let is_uuid =
        parts.iter().map(|part| part.len()).eq([8, 4, 4, 4, 12]) && parts.iter().all(|part| is_hex(part));
    if shape.starts_with("0000-00-00T00:00:00") {
        "<time>"
    } else if is_uuid {
        "<uuid>"
    } else if word.len() >= 16 && is_hex(word) {
        "<hash>"
    } else {
        word
    }
}

fn flatten(value: &Value, path: &str, names: &[(String, String)], lines: &mut Values) {
    let mut line = |value: String| drop(lines.insert(path.to_owned(), in_every_run(&value, names)));
    match value {
        // Who owns what is one line: the set is compared, and seldom read.
        Value::Object(fields) if fields.contains_key("fieldsV1") => line(masked_text(&value.to_string())),
        Value::Object(fields) if !fields.is_empty() => {
            for (name, field) in fields {
                flatten(field, &in_every_run(&format!("{path} .{name}"), names), names, lines);
            }
        }
        Value::Array(items) if !items.is_empty() => {
            for (at, item) in items.iter().enumerate() {
                // Conditions and the like are told by their name, not by their place.
                let name = item["type"].as_str().or(item["name"].as_str());
                let name = name.map_or_else(|| at.to_string(), str::to_owned);
                flatten(item, &format!("{path} [{name}]"), names, lines);
            }
        }
        Value::String(text) => line(text.clone()),
        other => line(other.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn names(home: &str) -> Vec<(String, String)> {
        vec![(home.to_owned(), "{home}".to_owned())]
    }

    /// A Role as one run has it.
    fn role(home: &str, uid: &str, version: &str) -> Value {
        json!({ "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role",
            "metadata": { "name": "coder", "namespace": home, "uid": uid, "resourceVersion": version,
                "creationTimestamp": "2026-11-17T17:40:08Z",
                "annotations": { "of": format!("{home}/coder"), "sum": format!("{uid}abcdef0123456789abcdef") },
                "managedFields": [{ "manager": "coder-k8s", "operation": "Apply", "time": "2026-11-17T17:40:08Z",
                    "fieldsV1": { "f:rules": {} } }] },
            "rules": [{ "verbs": ["get"] }] })
    }

    fn token(value: &str) -> Value {
        json!({ "kind": "Secret", "metadata": { "name": "coder.operator-token", "namespace": "operator-0" },
            "data": { "token": value } })
    }

    #[test]
    fn two_runs_that_did_the_same_are_the_same() {
        let one = EndState::of(&[role("creation-3", "aa", "17"), token("b25l")], &names("creation-3"));
        let other = EndState::of(&[role("creation-9", "bb", "4711"), token("dHdv")], &names("creation-9"));
        assert_eq!(one.difference(&other), Vec::<String>::new());
        let values: Vec<&String> = one.0["Role {home}/coder"].values().collect();
        assert!(["{home}/coder", "<hash>"].iter().all(|masked| values.iter().any(|value| value == masked)));
    }

    #[test]
    fn what_is_left_over_is_found_and_named() {
        let expected = EndState::of(&[role("creation-3", "aa", "17")], &names("creation-3"));
        let mut abroad = role("elsewhere", "cc", "20");
        abroad["metadata"]["name"] = json!("coder-abroad");
        let found = EndState::of(&[role("creation-4", "bb", "18"), abroad], &names("creation-4"));
        assert_eq!(found.difference(&expected), ["+ Role elsewhere/coder-abroad: left over"]);
        assert_eq!(expected.difference(&found), ["- Role elsewhere/coder-abroad: lacking"]);
    }

    #[test]
    fn a_value_that_differs_is_shown_with_what_it_should_be() {
        let expected = EndState::of(&[role("a-1", "aa", "17")], &names("a-1")).with("tokens that live", "1");
        let mut other = role("a-2", "bb", "18");
        other["rules"][0]["verbs"][0] = json!("delete");
        let found = EndState::of(&[other], &names("a-2")).with("tokens that live", "2");
        assert_eq!(
            found.difference(&expected),
            [
                "- Role {home}/coder .rules [0] .verbs [0] = get",
                "+ Role {home}/coder .rules [0] .verbs [0] = delete",
                "- tokens that live = 1",
                "+ tokens that live = 2",
            ]
        );
    }

    #[test]
    fn a_token_that_is_lacking_or_empty_is_no_token() {
        let expected = EndState::of(&[token("b25l")], &[]);
        assert_eq!(EndState::of(&[token("dHdv")], &[]).difference(&expected), Vec::<String>::new());
        assert_eq!(EndState::of(&[token("")], &[]).difference(&expected).len(), 2);
        let long = "c2VjcmV0".repeat(9);
        let mut key = token("b25l");
        key["data"]["key"] = json!(long);
        assert!(!format!("{:?}", EndState::of(&[key], &[])).contains(&long), "nobody reads it in a log");
        let mut without = token("");
        without["data"] = json!({});
        assert!(!EndState::of(&[without], &[]).difference(&expected).is_empty());
    }

    #[test]
    fn a_key_of_another_number_is_the_same_where_that_is_tolerated_and_nothing_else_is() {
        let provisioner = |name: &str, number: i64, tags: &str| {
            let current = json!({ "name": name, "generation": number, "tagsHash": tags });
            json!({ "kind": "CoderProvisioner", "metadata": { "name": "builders", "generation": 2 },
                "status": { "key": { "generation": number, "current": current } } })
        };
        let state = |name: &str, number, tags: &str| EndState::of(&[provisioner(name, number, tags)], &[]);
        let (one, other) = (state("farm-3", 3, "a"), state("farm-14", 14, "a"));
        assert_eq!(one.difference(&other).len(), 6);
        let tolerant = |state: EndState| state.without_key_numbers(&["farm"]);
        assert_eq!(tolerant(one.clone()).difference(&tolerant(other)), Vec::<String>::new());
        assert_eq!(tolerant(state("farm-3", 3, "b")).difference(&tolerant(one)).len(), 2);
        assert_eq!(without_number("farm-2, farm-house and farm", "farm"), "farm, farm-house and farm");
    }

    #[test]
    fn times_ids_and_checksums_in_texts_are_masked_and_words_are_not() {
        let text =
            "proven at 2026-11-17T17:40:08Z by 0b1ce000-0000-4000-8000-000000000001 (sum 0123456789abcdef0)";
        assert_eq!(masked_text(text), "proven at <time> by <uuid> (sum <hash>)");
        assert_eq!(masked_text("ghcr.io/coder/coder:v2.36.1, decade"), "ghcr.io/coder/coder:v2.36.1, decade");
    }
}
