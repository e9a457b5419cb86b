//! What the spec does not name stays as it runs: the image of coderd above all, and the number of replicas.

use crate::shared::shared;
use serde_json::{Value, json};
use support::objects::{self, condition};

#[tokio::test(flavor = "multi_thread")]
async fn a_lower_version_than_runs_is_told_and_not_rolled_out_until_it_is_allowed() {
    let env = shared().await;
    let ns = env.cluster.namespace("downgrade").await;
    let image = |tag: &str| format!("ghcr.io/coder/coder:{tag}");
    let runs = async || -> Value {
        let deployment = env.get("deployment", &ns, "coder").await.unwrap();
        deployment.pointer("/spec/template/spec/containers/0/image").unwrap().clone()
    };
    env.apply_control_plane(&ns, "coder", &json!({ "image": image("v2.30.0") })).await;
    env.ready(&ns, "coder").await;
    // The spec names none, so that admission has nothing to compare with.
    env.apply_control_plane(&ns, "coder", &json!({})).await;
    env.ready(&ns, "coder").await;
    env.apply_control_plane(&ns, "coder", &json!({ "image": image("v2.29.0") })).await;
    let plane = env.ready(&ns, "coder").await;
    assert_eq!(runs().await, image("v2.30.0"));
    let told = condition(&plane, "SpecAccepted");
    assert_eq!(told["status"], "False");
    let message = told["message"].as_str().unwrap();
    assert!(
        message.contains("CODER0221") && message.contains("coder.com/allow-downgrade: v2.29.0"),
        "{message}"
    );
    assert_eq!(plane["status"]["resolved"]["image"], image("v2.30.0"));

    let words = format!("annotate ccp/coder -n {ns} coder.com/allow-downgrade=v2.29.0");
    env.cluster.kubectl(&words).await.expect_ok();
    env.until(&ns, "coder", "what is allowed", |plane| condition(plane, "SpecAccepted")["status"] == "True")
        .await;
    assert_eq!(runs().await, image("v2.29.0"));
}

#[tokio::test(flavor = "multi_thread")]
async fn neither_an_edit_nor_a_replace_without_image_upgrades_coderd() {
    let env = shared().await;
    let ns = env.cluster.namespace("image").await;
    let image = "ghcr.io/coder/coder:v2.30.0";
    env.apply_control_plane(&ns, "coder", &json!({ "image": image, "replicas": 2 })).await;
    env.ready(&ns, "coder").await;
    let runs = async || -> (Value, Value) {
        let deployment = env.get("deployment", &ns, "coder").await.unwrap();
        let image = deployment.pointer("/spec/template/spec/containers/0/image").unwrap();
        (image.clone(), deployment["spec"]["replicas"].clone())
    };
    let manifest = |spec: Value| objects::control_plane(&ns, "coder", &spec);
    let replaced = manifest(json!({ "resources": { "requests": { "cpu": "1" } } }));
    env.cluster.kubectl_with_input("replace -f -", &replaced.to_string()).await.expect_ok();
    let plane = env.ready(&ns, "coder").await;
    assert!(plane["spec"]["image"].is_null() && plane["spec"]["replicas"].is_null(), "{}", plane["spec"]);
    assert_eq!(runs().await, (json!(image), json!(2)), "kubectl replace");
    let resolved = &plane["status"]["resolved"];
    assert_eq!((&resolved["image"], &resolved["replicas"]), (&json!(image), &json!(2)), "{resolved}");
    assert_eq!(resolved["imageDefaulted"], true);

    // A status that somebody wrote is no input.
    let lie = r#"{"status":{"resolved":{"image":"ghcr.io/coder/coder:v2.99.0","imageDefaulted":true,"replicas":9}}}"#;
    let words = format!("patch ccp coder -n {ns} --subresource=status --type=merge -p {lie}");
    env.cluster.kubectl(&words).await.expect_ok();
    let plane = env.reconcile(&ns, "coder", "lied-to").await;
    assert_eq!(plane["status"]["resolved"]["image"], image);
    assert_eq!(runs().await, (json!(image), json!(2)), "the status");

    // As an autoscaler does it.
    env.cluster.kubectl(&format!("scale deployment/coder -n {ns} --replicas=3")).await.expect_ok();
    let edit = r#"{"spec":{"resources":{"requests":{"cpu":"2"}}}}"#;
    env.cluster.kubectl(&format!("patch ccp coder -n {ns} --type=merge -p {edit}")).await.expect_ok();
    env.ready(&ns, "coder").await;
    assert_eq!(runs().await, (json!(image), json!(3)), "an edit of resources");
}
