//! Rotations one after another, and keys of others: what is ready is what the spec asks for, and nobody deletes what another
//! object has recorded.

use crate::one_double::OneDouble;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;
use support::objects::{condition, is_observed, is_ready, text};

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_ready_while_the_key_of_an_earlier_spec_is_in_force() {
    let env = OneDouble::shared().await;
    let ns = env.control_plane("twice").await;
    env.apply_provisioner(&ns, "builders", &json!({ "tags": { "zone": "a" } })).await;
    let _daemons = env.daemons(&ns).await;
    env.provisioner_ready(&ns, "builders").await;
    // Somebody has copied the first key, and uses it: it stays while its daemons have time to end.
    let first = env.plaintext(&ns, "builders-provisioner-key", "key").await.unwrap();
    let copy = format!("{ns}-copy");
    env.coderd().connect_daemon(&first, &copy).unwrap();
    env.apply_provisioner(&ns, "builders", &json!({ "tags": { "zone": "b" } })).await;
    env.until_provisioner(&ns, "builders", "ready with the second key beside the first", |object| {
        let is_rotating = condition(object, "ProvisionerKeyReady")["reason"] == "KeyRotating";
        is_ready(object) && is_rotating && object["status"]["key"]["current"]["generation"] == 2
    })
    .await;
    env.apply_provisioner(&ns, "builders", &json!({ "tags": { "zone": "c" } })).await;
    let waiting = env
        .until_provisioner(&ns, "builders", "observed, and not ready with the tags of before", |object| {
            let key = condition(object, "ProvisionerKeyReady");
            is_observed(object) && key["status"] == "False" && key["reason"] == "KeyRotating"
        })
        .await;
    assert_eq!(condition(&waiting, "Ready")["status"], "False");
    assert_eq!(waiting["status"]["key"]["current"]["generation"], 2, "there is no room for a third key");
    env.coderd().disconnect_daemon(&copy);
    env.coderd().forget_daemon(&copy);
    env.until_provisioner(&ns, "builders", "ready with the third key", |object| {
        is_ready(object) && object["status"]["key"]["current"]["generation"] == 3
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_deletion_of_a_second_object_leaves_the_key_of_the_first() {
    let env = OneDouble::shared().await;
    let ns = env.control_plane("second").await;
    env.apply_provisioner(&ns, "builders", &json!({})).await;
    let _daemons = env.daemons(&ns).await;
    env.provisioner_ready(&ns, "builders").await;
    let plaintext = env.plaintext(&ns, "builders-provisioner-key", "key").await.unwrap();
    // `default` and the name of the default organization are one.
    let organization = env.get("coderprovisioner", &ns, "builders").await.unwrap();
    let organization = text(&organization, "/status/organizationName").to_owned();
    env.apply_provisioner(&ns, "rivals", &json!({ "organizationName": organization })).await;
    let rival = env.until_provisioner_reason(&ns, "rivals", "Stalled", "KeyNameConflict").await;
    // Its Secret holds the plaintext of the first: restored from a copy, say.
    let owner = json!([{ "apiVersion": "coder.com/v1alpha1", "kind": "CoderProvisioner", "name": "rivals",
        "uid": text(&rival, "/metadata/uid"), "controller": true }]);
    let secret = json!({ "apiVersion": "v1", "kind": "Secret",
        "metadata": { "name": "rivals-provisioner-key", "namespace": ns, "ownerReferences": owner },
        "data": { "key": STANDARD.encode(plaintext) } });
    env.apply(&secret).await;
    env.cluster.kubectl(&format!("delete coderprovisioner rivals -n {ns} --wait=false")).await.expect_ok();
    env.until_gone("coderprovisioner", &ns, "rivals").await;
    assert_eq!(env.keys(&ns), std::slice::from_ref(&ns), "the key of the first is still there");
}
