//! What a coderd that means harm, or one with very many keys, can make the client hold: no more than what was asked for.
//! Everything here goes over a real connection, under the limits that the operator runs with.

use super::{client, organization, owner_and_client};
use coder_k8s::coderd::Error;
use coder_k8s::coderd::client::{Limits, Tags};
use coder_k8s::coderd::error::Operation;
use coder_k8s::confidential::Confidential;
use serde_json::{Map, Value, json};
use std::time::Duration;
use support::coderd::{Fault, Occurrence};

const LIST: &str = "GET /organizations/{org}/provisionerkeys";
const DAEMONS: &str = "GET /organizations/{org}/provisionerkeys/daemons";
const IDENTIFY: &str = "GET /provisionerkeys/{key}";
const JOBS: &str = "GET /organizations/{org}/provisionerjobs";
const LICENSES: &str = "GET /licenses";
const ID: &str = "6f1f6a3e-0000-4000-8000-000000000001";

/// The operator's own, with time for a machine that has other things to do.
fn limits() -> Limits {
    Limits { total: Duration::from_secs(60), ..Limits::default() }
}

/// As many tags as fit into an answer: in memory they take ten times the room.
fn flood_of_tags() -> Value {
    let letters: Vec<char> = ('a'..='z').chain('A'..='Z').chain('0'..='9').collect();
    let name = |number: usize| {
        [number / 62 / 62, number / 62 % 62, number % 62].map(|at| letters[at]).iter().collect()
    };
    let tags: Map<String, Value> = (0..116_000).map(|number| (name(number), json!(""))).collect();
    assert_eq!(tags.len(), 116_000);
    let flood = Value::Object(tags);
    assert!(
        flood.to_string().len() < Limits::default().answer - 1024,
        "else it is refused for its length alone"
    );
    flood
}

fn key(name: &str, tags: &Value) -> Value {
    json!({ "id": ID, "name": name, "organization": ID, "created_at": "2026-11-18T00:00:00Z", "tags": tags })
}

#[tokio::test]
async fn tags_without_end_are_no_answer_wherever_they_are() {
    let (coderd, _, client) = owner_and_client(limits()).await;
    let default = organization(&coderd, "default");
    let flooded = key("eu", &flood_of_tags());

    coderd.inject(LIST, Occurrence::First(2), Fault::answer(200, &json!([flooded])));
    let listed = client.provisioner_keys(default, |_, _| true).await;
    assert_eq!(listed, Err(Error::Malformed { operation: Operation::ProvisionerKeys }));
    let others = client.provisioner_keys(default, |_, name| name == "us").await;
    assert_eq!(others, Ok(Vec::new()), "what somebody else gave a key of theirs is not our business");

    let secret = Confidential::new("x".repeat(43));
    coderd.inject(IDENTIFY, Occurrence::Next, Fault::answer(200, &flooded));
    let identified = client.identify_provisioner_key(&secret).await;
    assert_eq!(identified, Err(Error::Malformed { operation: Operation::IdentifyProvisionerKey }));

    let body = json!([{ "key": flooded, "daemons": [{ "name": "pod-a", "tags": {} }] }]);
    coderd.inject(DAEMONS, Occurrence::Next, Fault::answer(200, &body));
    let daemons = client.provisioner_key_daemons(default, |_| true).await.unwrap();
    assert_eq!(daemons[0].names, ["pod-a".to_owned()].into(), "its tags are not read at all");

    coderd.inject(JOBS, Occurrence::Next, Fault::answer(200, &json!([{ "tags": flood_of_tags() }])));
    let jobs = client.pending_jobs(default, &Tags::new()).await;
    assert_eq!(jobs, Err(Error::Malformed { operation: Operation::PendingJobs }));
}

#[tokio::test]
async fn names_of_daemons_without_end_are_no_answer() {
    let (coderd, _, client) = owner_and_client(limits()).await;
    let default = organization(&coderd, "default");
    let operation = Operation::ProvisionerKeyDaemons;
    let named = |count: usize| -> Vec<Value> {
        (0..count).map(|number| json!({ "name": number.to_string() })).collect()
    };
    let of_one = json!([{ "key": { "id": ID }, "daemons": named(5000) }]);
    coderd.inject(DAEMONS, Occurrence::Next, Fault::answer(200, &of_one));
    let read = client.provisioner_key_daemons(default, |_| true).await;
    assert_eq!(read, Err(Error::Malformed { operation }));
    let of_many: Vec<Value> =
        (0..5).map(|_| json!({ "key": { "id": ID }, "daemons": named(1000) })).collect();
    coderd.inject(DAEMONS, Occurrence::Next, Fault::answer(200, &json!(of_many)));
    let read = client.provisioner_key_daemons(default, |_| true).await;
    assert_eq!(read, Err(Error::TooLarge { operation, limit: 4096 }), "all of them count");
    let long = json!([{ "key": { "id": ID }, "daemons": [{ "name": "x".repeat(257) }] }]);
    coderd.inject(DAEMONS, Occurrence::Next, Fault::answer(200, &long));
    assert_eq!(client.provisioner_key_daemons(default, |_| true).await, Err(Error::Malformed { operation }));
}

/// Seventeen bytes of an answer were a map of half a kilobyte: of 1 MiB came 35.
#[tokio::test]
async fn jobs_and_licenses_without_end_are_no_answer() {
    let (coderd, _, client) = owner_and_client(limits()).await;
    let default = organization(&coderd, "default");
    let many = |object: &str, count: usize| format!("[{}]", vec![object; count].join(","));
    let answer = |body: &str| Fault::answer_text(200, "application/json", body);
    let operation = Operation::PendingJobs;
    coderd.inject(JOBS, Occurrence::Next, answer(&many(r#"{"tags":{"":""}}"#, 60_000)));
    let jobs = client.pending_jobs(default, &Tags::new()).await;
    assert_eq!(jobs, Err(Error::TooLarge { operation, limit: 50 }), "fifty were asked for");
    coderd.inject(JOBS, Occurrence::Next, answer(&many(r#"{"tags":null}"#, 50)));
    let jobs = client.pending_jobs(default, &Tags::new()).await.unwrap();
    assert_eq!((jobs.count, jobs.more), (50, true), "as many as there can be");

    let operation = Operation::Licenses;
    let license = r#"{"id":1,"uuid":"","claims":{"":0}}"#;
    coderd.inject(LICENSES, Occurrence::Next, answer(&many(license, 29_000)));
    assert_eq!(client.licenses().await, Err(Error::TooLarge { operation, limit: 1000 }));
    let long = json!([{ "id": 1, "uuid": "", "claims": { "a": vec![0; 200_000] } }]);
    coderd.inject(LICENSES, Occurrence::Next, Fault::answer(200, &long));
    assert_eq!(client.licenses().await, Err(Error::TooLarge { operation, limit: 128 << 10 }));
}

/// The keys of others must not keep us from finding ours.
#[tokio::test]
async fn an_organisation_with_twenty_thousand_keys_shows_the_one_that_is_asked_for() {
    let (coderd, _, client) = owner_and_client(limits()).await;
    let default = organization(&coderd, "default");
    let id = |number: usize| format!("6f1f6a3e-0000-4000-8000-{number:012x}");
    let tags = json!({ "scope": "organization", "owner": "", "zone": "eu-west-1" });
    let keys: Vec<Value> = (0..20_000)
        .map(|number| {
            let mut key = key(&format!("builders-of-team-{number}"), &tags);
            key["id"] = json!(id(number));
            key
        })
        .collect();
    let size = json!(keys).to_string().len();
    assert!(size > 4 * Limits::default().answer, "{size} bytes are no more than one answer may bring");
    coderd.inject(LIST, Occurrence::First(2), Fault::answer(200, &json!(keys)));
    let found = client.provisioner_keys(default, |_, name| name == "builders-of-team-19999").await.unwrap();
    assert_eq!(found.iter().map(|key| key.id.to_string()).collect::<Vec<String>>(), [id(19_999)]);
    let all = client.provisioner_keys(default, |_, _| true).await;
    let limit = 256;
    assert_eq!(
        all,
        Err(Error::TooLarge { operation: Operation::ProvisionerKeys, limit }),
        "nobody wants them all"
    );

    let daemons: Vec<Value> =
        keys.iter().map(|key| json!({ "key": key, "daemons": [{ "name": key["name"] }] })).collect();
    coderd.inject(DAEMONS, Occurrence::Next, Fault::answer(200, &json!(daemons)));
    let wanted = id(12_345).parse().unwrap();
    let found = client.provisioner_key_daemons(default, |id| id == wanted).await.unwrap();
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].names, ["builders-of-team-12345".to_owned()].into());
}

#[tokio::test]
async fn a_list_and_an_object_in_it_end_somewhere() {
    let (coderd, token, _) = owner_and_client(limits()).await;
    let small = Limits { list: 3 << 20, ..limits() };
    let client = client(&coderd, &token, small);
    let default = organization(&coderd, "default");
    let operation = Operation::ProvisionerKeys;
    let endless = json!([key(&"x".repeat(2 << 20), &json!({}))]);
    coderd.inject(LIST, Occurrence::Next, Fault::answer(200, &endless));
    let read = client.provisioner_keys(default, |_, _| true).await;
    assert_eq!(read, Err(Error::TooLarge { operation, limit: 1 << 20 }), "one object");
    let many = format!("[{}]", vec![key("a", &json!({})).to_string(); 30_000].join(","));
    coderd.inject(LIST, Occurrence::Next, Fault::answer_text(200, "application/json", &many));
    let read = client.provisioner_keys(default, |_, _| false).await;
    assert_eq!(read, Err(Error::TooLarge { operation, limit: 3 << 20 }), "all of them");
}
