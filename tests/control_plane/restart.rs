//! A restart or an upgrade of our own operator: what runs goes on running as it was.

use crate::shared::own;
use serde_json::{Value, json};

#[tokio::test(flavor = "multi_thread")]
async fn a_restart_or_upgrade_of_our_own_operator_rolls_nothing() {
    let env = own().await;
    let ns = env.cluster.namespace("restart").await;
    // Without an image: the one that was chosen for it stays.
    let spec = json!({ "expose": { "ingress": { "host": "a.example.com" } } });
    env.apply_control_plane(&ns, "coder", &spec).await;
    env.ready(&ns, "coder").await;
    let children = async || -> Vec<Value> {
        let mut versions = Vec::new();
        for kind in ["service", "serviceaccount", "ingress"] {
            versions.push(env.get(kind, &ns, "coder").await.unwrap()["metadata"]["resourceVersion"].clone());
        }
        let deployment = env.get("deployment", &ns, "coder").await.unwrap();
        versions.extend([
            deployment["metadata"]["generation"].clone(),
            deployment["metadata"]["uid"].clone(),
            deployment["spec"].clone(),
        ]);
        versions
    };
    let before = children().await;
    env.restart(&[]).await;
    env.reconcile(&ns, "coder", "restarted").await;
    assert_eq!(children().await, before, "a restart");
    // What an upgrade brings besides other code: another default image.
    env.restart(&["--default-image=ghcr.io/coder/coder:v2.99.0"]).await;
    env.reconcile(&ns, "coder", "upgraded").await;
    assert_eq!(children().await, before, "an upgrade");
    // Scaling is no upgrade either, and an image that is no longer named stays.
    let image = async |spec: Value| {
        env.apply_control_plane(&ns, "coder", &spec).await;
        env.ready(&ns, "coder").await["status"]["resolved"]["image"].clone()
    };
    assert_eq!(image(json!({ "replicas": 2 })).await, crds::well_known::default::IMAGE);
    assert_eq!(image(json!({ "image": "ghcr.io/coder/coder:v2.50.0" })).await, "ghcr.io/coder/coder:v2.50.0");
    assert_eq!(image(json!({})).await, "ghcr.io/coder/coder:v2.50.0");
    crate::cluster_domain::is_the_end_of_every_address(&env, &ns).await;
}
