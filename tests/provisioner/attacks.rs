//! What somebody gains who may write a status or the key's Secret: no key of others is deleted, no token goes elsewhere, no pod
//! is started with what coderd has not proven.

use crate::env::{Case, run_all};
use crate::site::{DELETE, NAME, SECRET, Site, WORKLOAD, api, checksum};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use crds::names::provisioner::key_checksum;
use kube::api::ListParams;
use serde_json::{Value, json};
use support::coderd::{Coderd, Credential, Fault, Occurrence};
use support::objects::is_ready;

const VICTIM: &str = "victim";

/// A key of somebody else: its plaintext.
fn victim(coderd: &Coderd) -> String {
    coderd.add_provisioner_key("default", VICTIM, &[])
}

/// The entries of a status that name the key of somebody else, each as much like a real one as can be had.
fn forged(status: &Value, id: &str) -> Value {
    let mut entry = status["key"]["current"].clone();
    entry["name"] = json!(VICTIM);
    entry["id"] = json!(id);
    let mut unproven = entry.clone();
    unproven.as_object_mut().unwrap().remove("id");
    json!({ "key": { "current": entry, "pending": unproven, "retiring": [entry, unproven] },
        "provisionerKeyName": VICTIM, "provisionerKeyID": id })
}

async fn a_forged_record_deletes_nothing() {
    let site = Site::with_key("forged").await;
    let foreign = victim(site.coderd());
    let id = site.coderd().key_proven_by(&foreign).unwrap().to_string();
    let status = site.ready().await["status"].clone();
    site.patch_status(&forged(&status, &id)).await;
    site.reconcile("with-forged-keys").await;
    let healed = site
        .until("the true key to be recorded again", |object| {
            is_ready(object) && object["status"]["key"]["current"]["name"] == NAME
        })
        .await;
    assert_eq!(healed["status"]["provisionerKeyName"], NAME);
    assert!(!healed["status"]["key"].to_string().contains(VICTIM), "{}", healed["status"]["key"]);
    assert_eq!((site.keys(), site.made_and_deleted()), (vec![NAME.to_owned(), VICTIM.to_owned()], (1, 0)));

    // Nor when the object is deleted a moment later.
    site.patch_status(&forged(&status, &id)).await;
    site.remove("coderprovisioner", NAME).await;
    site.until_gone("coderprovisioner", NAME).await;
    assert_eq!(site.keys(), [VICTIM]);
    let deleted = site.coderd().calls_to(DELETE);
    assert!(deleted.iter().all(|call| call.path.ends_with(NAME)), "{deleted:?}");
}

async fn a_forged_address_leads_nobody_astray() {
    let site = Site::with_key("astray").await;
    let evil = site.env.double();
    let url = format!("http://coder.{}.svc.cluster.local:{}", site.ns, evil.port);
    let before = site.get("deployment", WORKLOAD).await.unwrap()["spec"]["template"].clone();
    site.patch_status(&json!({ "controlPlaneURL": url, "controlPlaneRefName": "evil" })).await;
    let planes = api(&site.client, "codercontrolplane", &site.ns);
    let id = "00000000-0000-4000-8000-000000000000";
    let status = json!({ "status": { "url": url, "deploymentID": id, "operatorAccessReady": true } });
    let (parameters, patch) = (kube::api::PatchParams::default(), kube::api::Patch::Merge(status));
    planes.patch_status("coder", &parameters, &patch).await.unwrap();
    site.reconcile("with-a-forged-address").await;
    let healed = site
        .until("the address to be told as it is", |object| {
            is_ready(object) && object["status"]["controlPlaneRefName"] == "coder"
        })
        .await;
    assert_ne!(healed["status"]["controlPlaneURL"], url);
    assert_eq!(evil.coderd.calls().len(), 0, "nobody was asked there, with or without a token");
    assert_eq!(site.get("deployment", WORKLOAD).await.unwrap()["spec"]["template"], before);
    assert_eq!(site.made_and_deleted(), (1, 0), "another deployment id in a status rotates nothing");
}

/// Writes something else where the key is.
async fn tamper(site: &Site, plaintext: &str) {
    let change = json!({ "data": { "key": STANDARD.encode(plaintext) } });
    site.patch("secret", SECRET, &change).await;
}

/// The checksums that pods were ever started with.
async fn checksums(site: &Site) -> Vec<String> {
    let sets = api(&site.client, "replicaset", &site.ns).list(&ListParams::default()).await.unwrap();
    let sets = sets.items.iter().map(|set| serde_json::to_value(set).unwrap());
    sets.filter_map(|set| checksum(&set).map(str::to_owned)).collect()
}

async fn what_is_not_proven_starts_no_pod() {
    let site = Site::new("tampered").await;
    site.apply(&json!({})).await;
    site.ready().await;
    let foreign = victim(site.coderd());
    let first = site.get("deployment", WORKLOAD).await.unwrap();
    // While coderd cannot be asked, nothing is concluded from what somebody wrote.
    site.coderd().inject("*", Occurrence::Every, Fault::cut_before_processing());
    let made_up = "x".repeat(43);
    tamper(&site, &made_up).await;
    site.reconcile("while-nothing-can-be-proven").await;
    assert_eq!(checksum(&site.get("deployment", WORKLOAD).await.unwrap()), checksum(&first));
    site.coderd().clear_faults();
    site.until_generation(2).await;
    // The plaintext of a key that works, and is not ours.
    tamper(&site, &foreign).await;
    site.until_generation(3).await;
    assert_eq!(site.keys(), [VICTIM, "builders-3"], "that key is left alone");
    let started = checksums(&site).await;
    assert!(started.len() >= 3, "{started:?}");
    for plaintext in [&made_up, &foreign] {
        assert!(!started.contains(&key_checksum(plaintext.as_bytes())), "{started:?}");
    }
    let plaintext = site.coderd().plaintext_of("default", "builders-3").unwrap();
    assert_eq!(site.plaintext(SECRET, "key").await.as_deref(), Some(&*plaintext));
}

async fn what_others_keep_in_the_secret_stays() {
    let site = Site::with_key("shared").await;
    let note = STANDARD.encode("ours");
    let added = json!({ "metadata": { "labels": { "team": "a" } }, "data": { "note": note } });
    site.patch("secret", SECRET, &added).await;
    // Whoever may write the status names it as a place of the key's.
    let places = json!([{ "name": SECRET, "key": "key" }, { "name": SECRET, "key": "note" }]);
    site.patch_status(&json!({ "key": { "secrets": places } })).await;
    site.reconcile("with-a-place-of-others").await;
    site.patch_status(&json!({ "key": null, "secretRef": { "name": SECRET, "key": "note" } })).await;
    site.reconcile("without-a-record").await;
    site.ready().await;
    let shown = site.coderd().calls().iter().any(|call| call.credential == Credential::UnknownProvisionerKey);
    assert!(!shown, "coderd was shown what is none of its keys");
    assert_eq!(site.plaintext(SECRET, "note").await.as_deref(), Some("ours"));
    site.apply(&json!({ "replicas": 0, "tags": { "a": "b" } })).await;
    site.until_generation(2).await;
    assert_eq!(site.plaintext(SECRET, "note").await.as_deref(), Some("ours"), "a rotation keeps it");
    site.apply(&json!({ "replicas": 0, "tags": { "a": "b" }, "key": { "secretName": "elsewhere" } })).await;
    let left = site
        .until_object("secret", SECRET, "the key to be gone from it", |secret| {
            secret["data"].is_object() && secret["data"]["key"].is_null()
        })
        .await;
    assert_eq!(left["data"], json!({ "note": note }), "so does a move");
    assert_eq!(left["metadata"]["labels"]["team"], "a");
}

#[tokio::test(flavor = "multi_thread")]
async fn who_writes_a_status_or_the_secret_gains_nothing() {
    let cases: Vec<Case<'_>> = vec![
        ("forged record".to_owned(), Box::pin(a_forged_record_deletes_nothing())),
        ("forged address".to_owned(), Box::pin(a_forged_address_leads_nobody_astray())),
        ("tampered".to_owned(), Box::pin(what_is_not_proven_starts_no_pod())),
        ("shared Secret".to_owned(), Box::pin(what_others_keep_in_the_secret_stays())),
    ];
    run_all(cases).await;
}
