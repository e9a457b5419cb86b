//! CoderProvisioner on a real API server with the real Deployment controller on simulated nodes and a strict double of coderd:
//! keys that are made, rotated, recovered and deleted, and what the status says of them.

mod dropped;
mod env;
mod keys_in_the_way;
mod proxied;
mod rare_looks;
mod stale;
mod zombies;

use env::ProvisionerEnv;
use serde_json::json;
use support::objects::{condition, is_ready};

#[tokio::test(flavor = "multi_thread")]
async fn a_provisioner_gets_a_key_runs_daemons_rotates_and_leaves_nothing() {
    let env = ProvisionerEnv::shared().await;
    let ns = env.control_plane("life").await;
    env.apply_provisioner(&ns, "builders", &json!({ "tags": { "environment": "on-prem" } })).await;
    let daemons = env.daemons(&ns).await;

    let first = env.provisioner_ready(&ns, "builders").await;
    assert_eq!(env.keys(&ns), std::slice::from_ref(&ns));
    let status = &first["status"];
    assert_eq!(status["provisionerKeyName"], ns.as_str());
    assert_eq!(status["key"]["current"]["generation"], 1);
    assert_eq!(status["secretRef"], json!({ "name": "builders-provisioner-key", "key": "key" }));
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
    let plaintext = env.plaintext(&ns, "builders-provisioner-key", "key").await.unwrap();
    assert_eq!(env.coderd().plaintext_of("default", &ns).as_deref(), Some(plaintext.as_str()));
    assert!(!first.to_string().contains(&plaintext), "the plaintext is in the Secret alone");

    // Other tags are another key: it is made, rolled out, and then the first one goes.
    let users = daemons.users();
    env.coderd().on_key_deletion(move |deletion| users.object_to(deletion));
    env.apply_provisioner(&ns, "builders", &json!({ "tags": { "environment": "cloud" } })).await;
    env.until_keys(&ns, &["-2"]).await;
    env.until_provisioner(&ns, "builders", "ready with the second key alone", |object| {
        let key = &object["status"]["key"];
        is_ready(object) && key["current"]["generation"] == 2 && key["retiring"].is_null()
    })
    .await;
    let rotated = env.plaintext(&ns, "builders-provisioner-key", "key").await.unwrap();
    assert_ne!(rotated, plaintext);

    // Pods end before the key goes, too.
    env.cluster.kubectl(&format!("delete coderprovisioner builders -n {ns} --wait=false")).await.expect_ok();
    env.until_gone("coderprovisioner", &ns, "builders").await;
    assert_eq!(env.keys(&ns), Vec::<String>::new());
    env.coderd().assert_no_violations();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_missing_is_waited_for_and_named() {
    let env = ProvisionerEnv::shared().await;
    let ns = env.cluster.namespace("missing").await;
    env.apply_provisioner(&ns, "builders", &json!({})).await;
    let waiting = env.until_provisioner_reason(&ns, "builders", "Ready", "ControlPlaneUnavailable").await;
    assert_eq!(condition(&waiting, "Stalled")["status"], "False", "it may come later");
    assert!(condition(&waiting, "Ready")["message"].as_str().unwrap().contains("CoderControlPlane coder"));
    let spec = json!({ "operatorAccess": { "tokenSecretRef": { "name": "operator-token" } } });
    env.apply_control_plane(&ns, "coder", &spec).await;
    env.until_provisioner_reason(&ns, "builders", "Ready", "OperatorTokenSecretUnavailable").await;
    let token = env.coderd().token_for(&[support::coderd::Role::TemplateAdmin]);
    env.apply_secret(&ns, "operator-token", &json!({ "token": token })).await;
    env.until_keys(&ns, &[""]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_secret_and_a_deleted_key_are_replaced_by_another_key() {
    let env = ProvisionerEnv::shared().await;
    let ns = env.control_plane("lost").await;
    env.apply_provisioner(&ns, "builders", &json!({})).await;
    let _daemons = env.daemons(&ns).await;
    env.provisioner_ready(&ns, "builders").await;
    env.cluster.kubectl(&format!("delete secret builders-provisioner-key -n {ns}")).await.expect_ok();
    env.until_keys(&ns, &["-2"]).await;
    env.provisioner_ready(&ns, "builders").await;
    // Somebody deletes the key in coderd: the next verification notices.
    env.coderd().remove_provisioner_key("default", &format!("{ns}-2"));
    env.until_keys(&ns, &["-3"]).await;
    env.until_provisioner(&ns, "builders", "ready with the third key", |object| {
        is_ready(object) && object["status"]["key"]["current"]["generation"] == 3
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_of_others_is_left_alone_and_told_and_a_second_claim_waits() {
    let env = ProvisionerEnv::shared().await;
    let ns = env.control_plane("others").await;
    env.coderd().add_provisioner_key("default", &ns, &[]);
    env.apply_provisioner(&ns, "builders", &json!({})).await;
    env.until_keys(&ns, &["", "-2"]).await;
    env.until_event(&ns, "builders", "ProvisionerKey", "KeyNameTaken").await;
    env.apply_provisioner(&ns, "rivals", &json!({})).await;
    let rival = env.until_provisioner_reason(&ns, "rivals", "Stalled", "KeyNameConflict").await;
    assert!(condition(&rival, "Stalled")["message"].as_str().unwrap().contains("CoderProvisioner builders"));
    assert_eq!(env.keys(&ns).len(), 2, "nothing was made for it");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_secret_of_others_is_never_taken() {
    let env = ProvisionerEnv::shared().await;
    let ns = env.control_plane("foreign").await;
    env.apply_secret(&ns, "builders-provisioner-key", &json!({ "key": "mine" })).await;
    env.apply_provisioner(&ns, "builders", &json!({})).await;
    let stalled = env.until_provisioner_reason(&ns, "builders", "Stalled", "SecretNotOurs").await;
    assert!(condition(&stalled, "Stalled")["message"].as_str().unwrap().contains("spec.key.secretName"));
    assert_eq!(env.keys(&ns), Vec::<String>::new());
    assert_eq!(env.plaintext(&ns, "builders-provisioner-key", "key").await.as_deref(), Some("mine"));
}
