//! Events that are lost: what no watch has told is found within `--verify-interval`, whatever object it was about, and nobody
//! has to ask for it.

use crate::proxied::{CONTROL_PLANES, DEPLOYMENTS, PROVISIONERS, Proxied, SECRETS};
use serde_json::{Value, json};
use support::objects::text;

/// Often enough for a test; everything else that looks again by itself does so after half a minute or more.
const INTERVAL: &str = "2s";

/// An environment whose provisioner runs no pods and has its key.
async fn with_a_provisioner(purpose: &str) -> Proxied {
    let env = Proxied::start(purpose, INTERVAL).await;
    env.apply_provisioner("builders", &json!({ "replicas": 0 })).await;
    env.provisioner_ready("builders").await;
    env
}

fn is_of(event: &Value, name: &str) -> bool {
    text(event, "/object/metadata/name") == name
}

#[tokio::test(flavor = "multi_thread")]
async fn a_secret_whose_deletion_was_not_told_is_made_up_for() {
    let env = with_a_provisioner("secret").await;
    env.proxy().drop_event(|url, event| {
        url.starts_with(SECRETS) && event["type"] == "DELETED" && is_of(event, "builders-provisioner-key")
    });
    let words = format!("delete secret builders-provisioner-key -n {}", env.namespace);
    env.cluster.kubectl(&words).await.expect_ok();
    env.until_dropped().await;
    env.until_key("builders", "builders-2").await;
    env.provisioner_ready("builders").await;
    let kept = env.plaintext("builders").await;
    assert_eq!(kept, env.coderd().plaintext_of("default", "builders-2"));
    assert_eq!(env.asked("builders"), (2, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deployment_whose_deletion_was_not_told_is_made_again() {
    let env = with_a_provisioner("deployment").await;
    let before = env.get("deployment", &env.namespace, "provisioner-builders").await.expect("it is there");
    env.proxy().drop_event(|url, event| {
        url.starts_with(DEPLOYMENTS) && event["type"] == "DELETED" && is_of(event, "provisioner-builders")
    });
    let words = format!("delete deployment provisioner-builders -n {}", env.namespace);
    env.cluster.kubectl(&words).await.expect_ok();
    env.until_dropped().await;
    let other = |child: &Value| child.is_object() && child["metadata"]["uid"] != before["metadata"]["uid"];
    env.until_object("deployment", &env.namespace, "provisioner-builders", "to be made again", other).await;
    env.provisioner_ready("builders").await;
    assert_eq!(env.asked("builders"), (1, 0), "its key stays");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_of_the_provisioner_that_was_not_told_is_made_up_for() {
    let env = with_a_provisioner("changed").await;
    env.proxy().drop_event(|url, event| {
        url.starts_with(PROVISIONERS) && event["object"]["metadata"]["generation"] == 2
    });
    env.apply_provisioner("builders", &json!({ "replicas": 0, "tags": { "zone": "eu" } })).await;
    env.until_dropped().await;
    env.until_key("builders", "builders-2").await;
    env.provisioner_ready("builders").await;
    assert_eq!(env.asked("builders"), (2, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deletion_of_the_provisioner_that_was_not_told_is_made_up_for() {
    let env = with_a_provisioner("going").await;
    env.proxy().drop_event(|url, event| {
        let metadata = &event["object"]["metadata"];
        url.starts_with(PROVISIONERS) && metadata["deletionTimestamp"].is_string()
    });
    let words = format!("delete coderprovisioner builders -n {} --wait=false", env.namespace);
    env.cluster.kubectl(&words).await.expect_ok();
    env.until_dropped().await;
    env.until_gone("coderprovisioner", &env.namespace, "builders").await;
    assert_eq!((env.keys("builders").len(), env.asked("builders")), (0, (1, 1)));
}

/// Daemons follow the image of their control plane.
#[tokio::test(flavor = "multi_thread")]
async fn a_change_of_the_control_plane_that_was_not_told_is_made_up_for() {
    const IMAGE: &str = "ghcr.io/coder/coder:v2.36.2";
    let env = with_a_provisioner("plane").await;
    env.proxy().drop_event(|url, event| {
        url.starts_with(CONTROL_PLANES) && event["object"]["metadata"]["generation"] == 2
    });
    let access = json!({ "tokenSecretRef": { "name": "operator-token" } });
    env.apply_control_plane(&env.namespace, "coder", &json!({ "operatorAccess": access, "image": IMAGE }))
        .await;
    env.until_dropped().await;
    let follows = |child: &Value| text(child, "/spec/template/spec/containers/0/image") == IMAGE;
    env.until_object("deployment", &env.namespace, "provisioner-builders", "to follow the image", follows)
        .await;
    env.provisioner_ready("builders").await;
    assert_eq!(env.asked("builders"), (1, 0), "its key stays");
}
