//! A provisioner from its first key to its last, and what it waits for before.

use crate::env::{Case, run_all};
use crate::site::{NAME, SECRET, Site};
use serde_json::json;
use support::objects::condition;

#[tokio::test(flavor = "multi_thread")]
async fn keys_come_rotate_are_replaced_and_go() {
    let cases: Vec<Case<'_>> = vec![
        ("a whole life".to_owned(), Box::pin(a_whole_life())),
        ("what is missing".to_owned(), Box::pin(what_is_missing_is_waited_for_and_named())),
        ("lost and deleted".to_owned(), Box::pin(a_lost_secret_and_a_deleted_key_are_replaced())),
        ("a key of others".to_owned(), Box::pin(a_key_of_others_is_left_alone_and_told())),
        ("a Secret of others".to_owned(), Box::pin(a_secret_of_others_is_never_taken())),
    ];
    run_all(cases).await;
}

async fn a_whole_life() {
    let site = Site::new("life").await;
    site.apply(&json!({ "tags": { "environment": "on-prem" } })).await;
    let first = site.ready().await;
    assert_eq!(site.keys(), [NAME]);
    let status = &first["status"];
    assert_eq!(status["provisionerKeyName"], NAME);
    assert_eq!(status["key"]["current"]["generation"], 1);
    assert_eq!(status["secretRef"], json!({ "name": SECRET, "key": "key" }));
    assert_eq!(status["daemons"], 1);
    for name in [
        "ControlPlaneReady",
        "OperatorAccessReady",
        "ExternalProvisionersEntitled",
        "ProvisionerKeyReady",
        "ProvisionerKeySecretReady",
        "DeploymentReady",
    ] {
        assert_eq!(condition(&first, name)["status"], "True", "{name}: {status}");
    }
    let plaintext = site.plaintext(SECRET, "key").await.unwrap();
    assert_eq!(site.coderd().plaintext_of("default", NAME).as_deref(), Some(&*plaintext));
    assert!(!first.to_string().contains(&plaintext), "the plaintext is in the Secret alone");

    // Other tags are another key: it is made, rolled out, and then the first one goes.
    let users = site.daemons.users();
    site.coderd().on_key_deletion(move |deletion| users.object_to(deletion));
    site.apply(&json!({ "tags": { "environment": "cloud" } })).await;
    site.until_generation(2).await;
    assert_eq!(site.keys(), ["builders-2"]);
    assert_ne!(site.plaintext(SECRET, "key").await.unwrap(), plaintext);

    // Pods end before the key goes, too.
    site.remove("coderprovisioner", NAME).await;
    site.until_gone("coderprovisioner", NAME).await;
    assert_eq!(site.keys(), Vec::<String>::new());
    site.coderd().assert_no_violations();
}

async fn what_is_missing_is_waited_for_and_named() {
    let site = Site::empty("missing").await;
    site.apply(&json!({})).await;
    let waiting = site.until_reason("Ready", "ControlPlaneUnavailable").await;
    assert_eq!(condition(&waiting, "Stalled")["status"], "False", "it may come later");
    assert!(condition(&waiting, "Ready")["message"].as_str().unwrap().contains("CoderControlPlane coder"));
    site.apply_control_plane("coder", &site.double, &json!({})).await;
    site.until_reason("Ready", "OperatorTokenSecretUnavailable").await;
    site.give_token(&site.token).await;
    site.until_keys(&[NAME]).await;
}

async fn a_lost_secret_and_a_deleted_key_are_replaced() {
    let site = Site::new("lost").await;
    site.apply(&json!({})).await;
    site.ready().await;
    site.remove("secret", SECRET).await;
    site.until_generation(2).await;
    assert_eq!(site.keys(), ["builders-2"]);
    // Somebody deletes the key in coderd: the next verification notices.
    site.coderd().remove_provisioner_key("default", "builders-2");
    site.until_generation(3).await;
    assert_eq!(site.keys(), ["builders-3"]);
}

async fn a_key_of_others_is_left_alone_and_told() {
    let site = Site::new("others").await;
    site.coderd().add_provisioner_key("default", NAME, &[]);
    site.apply(&json!({})).await;
    site.until_keys(&[NAME, "builders-2"]).await;
    let told = site.until_event("KeyNameTaken").await;
    assert!(told.contains("coder.com/adopt-key: builders"), "{told}");
}

async fn a_secret_of_others_is_never_taken() {
    let site = Site::new("foreign").await;
    let secret = support::objects::secret(&site.ns, SECRET, &json!({ "key": "mine" }));
    site.put(&secret).await;
    site.apply(&json!({})).await;
    let stalled = site.until_reason("Stalled", "SecretNotOurs").await;
    assert!(condition(&stalled, "Stalled")["message"].as_str().unwrap().contains("spec.key.secretName"));
    assert_eq!(site.keys(), Vec::<String>::new());
    assert_eq!(site.plaintext(SECRET, "key").await.as_deref(), Some("mine"));
}
