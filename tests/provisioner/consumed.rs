//! Secrets and ConfigMaps that the spec lets daemons read: a new value rolls them as any other change does, and one that is not
//! there is told and changes nothing.

use crate::site::{Site, WORKLOAD, checksum};
use serde_json::{Value, json};
use support::objects::{condition, secret, text};

async fn give(site: &Site, value: &str) {
    site.put(&secret(&site.ns, "settings", &json!({ "PIN": value }))).await;
}

/// Daemons that read a Secret named `settings`.
fn reading(replicas: u32) -> Value {
    json!({ "replicas": replicas, "envFrom": [{ "secretRef": { "name": "settings" } }] })
}

fn consumed(deployment: &Value) -> &str {
    text(deployment, "/spec/template/metadata/annotations/coder.com~1checksum")
}

fn is_rolled_out(deployment: &Value) -> bool {
    let status = &deployment["status"];
    status["observedGeneration"] == deployment["metadata"]["generation"]
        && ["replicas", "updatedReplicas", "availableReplicas"].iter().all(|count| status[*count] == 1)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_value_rolls_daemons_once_as_any_change_does_and_they_keep_their_key() {
    let site = Site::new("values").await;
    give(&site, "1234").await;
    site.apply(&reading(1)).await;
    site.ready().await;
    let before = site.get("deployment", WORKLOAD).await.unwrap();
    assert!(!consumed(&before).is_empty(), "{before}");
    site.patch("secret", "settings", &json!({ "metadata": { "labels": { "team": "a" } } })).await;
    site.reconcile("labelled").await;
    let touched = site.get("deployment", WORKLOAD).await.unwrap();
    assert_eq!(touched["spec"], before["spec"], "the same contents roll nothing");
    give(&site, "1235").await;
    let after = site
        .until_object("deployment", WORKLOAD, "to roll", |object| {
            consumed(object) != consumed(&before) && is_rolled_out(object)
        })
        .await;
    site.reconcile("rolled").await;
    let now = site.get("deployment", WORKLOAD).await.unwrap();
    let generation = |object: &Value| object["metadata"]["generation"].as_u64().unwrap();
    assert_eq!(generation(&now), generation(&before) + 1, "once");
    assert_eq!(now["spec"]["strategy"], before["spec"]["strategy"]);
    assert_eq!(checksum(&after), checksum(&before), "the key is the same");
    assert_eq!(site.made_and_deleted(), (1, 0));
    site.until("its daemon", |object| object["status"]["daemons"] == 1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_secret_that_is_not_there_is_told_rolls_nothing_and_heals() {
    let site = Site::new("missing").await;
    site.apply(&reading(0)).await;
    let told = site.until_reason("Ready", "ReferenceMissing").await;
    let expected = format!("Secret {}/settings does not exist; create it or correct spec.envFrom", site.ns);
    assert_eq!(condition(&told, "Ready")["message"], expected);
    let stalled = condition(&told, "Stalled");
    assert_eq!(stalled["status"], "False");
    assert!(stalled["message"].as_str().unwrap().starts_with("waiting for the object"), "{stalled}");
    give(&site, "1234").await;
    site.ready().await;
    let before = site.get("deployment", WORKLOAD).await.unwrap();
    site.remove("secret", "settings").await;
    site.until_reason("Ready", "ReferenceMissing").await;
    let meanwhile = site.get("deployment", WORKLOAD).await.unwrap();
    assert_eq!(meanwhile["spec"], before["spec"], "nothing rolls while it is missing");
    give(&site, "1234").await;
    site.ready().await;
    let after = site.get("deployment", WORKLOAD).await.unwrap();
    assert_eq!(after["spec"], before["spec"], "it is the same again");
    assert_eq!(site.made_and_deleted(), (1, 0));
}
