//! Rotation while daemons work: six of them on two nodes, in a coderd that lists whoever left for three more minutes, as a real
//! one does. Whenever a key is deleted, the double asks whether a pod that is Ready was started with it.

use crate::site::{NAME, SECRET, Site, wait};
use kube::api::{DeleteParams, ListParams};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use support::coderd::Coderd;
use support::objects::{condition, is_ready};
use support::wait::holds;

const REPLICAS: usize = 6;
/// Longer than any test: only the double's clock makes it forget a daemon.
const FOREVER: Duration = Duration::from_secs(86_400);
/// How long coderd lists a daemon that has left, and the heartbeat before.
const LISTED: Duration = Duration::from_secs(180 + 60);

/// The provisioner with a key for these tags.
fn tagged(round: u64) -> Value {
    json!({ "replicas": REPLICAS, "tags": { "round": round.to_string() } })
}

/// Waits until all daemons run with the key of this number.
async fn until_rolled(site: &Site, generation: u64) -> Value {
    site.until(&format!("all daemons to run with key {generation}"), |object| {
        let status = &object["status"];
        status["key"]["current"]["generation"] == generation && status["daemons"] == REPLICAS
    })
    .await
}

/// Lets four minutes of this coderd pass in a second.
struct Hurry(tokio::task::JoinHandle<()>);

impl Hurry {
    fn begin(coderd: &Arc<Coderd>) -> Self {
        let coderd = Arc::clone(coderd);
        Self(tokio::spawn(async move {
            loop {
                tokio::time::sleep(Duration::from_millis(250)).await;
                coderd.clock().advance(LISTED / 4);
            }
        }))
    }
}

impl Drop for Hurry {
    fn drop(&mut self) {
        self.0.abort();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_key_is_deleted_that_a_ready_pod_was_started_with() {
    let site = Site::with_daemons("load", FOREVER).await.with_control_plane().await;
    let coderd = site.coderd();
    let users = site.daemons.users();
    coderd.on_key_deletion(move |deletion| users.object_to(deletion));
    site.apply(&tagged(1)).await;
    until_rolled(&site, 1).await;

    // Whoever left is listed for three more minutes: so long nobody knows that the key is not used any more.
    site.apply(&tagged(2)).await;
    until_rolled(&site, 2).await;
    site.until("ready while the former key is there", |object| {
        is_ready(object) && condition(object, "ProvisionerKeyReady")["reason"] == "KeyRotating"
    })
    .await;
    site.reconcile("while-daemons-are-listed").await;
    assert_eq!(site.keys(), [NAME, "builders-2"]);
    coderd.clock().advance(LISTED);
    site.until_generation(2).await;
    assert_eq!(site.keys(), ["builders-2"]);

    // Several in a row, none of which waits until the one before is done.
    let _hurry = Hurry::begin(coderd);
    for round in 3..=5 {
        site.apply(&tagged(round)).await;
        site.until(&format!("round {round} to begin"), |object| {
            let key = &object["status"]["key"];
            [&key["current"], &key["pending"]].iter().any(|one| one["generation"].as_u64() >= Some(round))
        })
        .await;
    }
    site.until_generation(5).await;

    // One while every pod is being replaced anyway.
    let selector = ListParams::default().labels("app.kubernetes.io/name=coder-provisioner");
    let pods = crate::site::api(&site.client, "pod", &site.ns);
    let (deletion, last) = (DeleteParams::default(), tagged(6));
    let (lost, ()) = tokio::join!(pods.delete_collection(&deletion, &selector), site.apply(&last));
    lost.unwrap();
    site.until_generation(6).await;
    assert_eq!(site.keys(), ["builders-6"]);
    let plaintext = site.plaintext(SECRET, "key").await.unwrap();
    wait("every daemon to run with the last key", async || {
        let started = site.daemons.users().plaintexts();
        let all = started.values().filter(|one| **one == plaintext).count();
        holds(all == REPLICAS && started.len() == REPLICAS, format!("{all} of {}", started.len()))
    })
    .await;
    // One that was given up before it was made is no key.
    let (made, deleted) = site.made_and_deleted();
    assert!(made >= 4 && deleted == made - 1, "of {made} keys {deleted} were deleted");
    coderd.assert_no_violations();
}
