//! What the spec does not name stays as it runs: the image of coderd above all, and the number of replicas.

use crate::stage::Stage;
use serde_json::{Value, json};

#[tokio::test(flavor = "multi_thread")]
async fn neither_an_edit_nor_a_replace_without_image_upgrades_coderd() {
    let stage = Stage::shared().await;
    let ns = stage.cluster.namespace("image").await;
    let image = "ghcr.io/coder/coder:v2.30.0";
    stage.apply(&ns, "coder", &json!({ "image": image, "replicas": 2 })).await;
    stage.ready(&ns, "coder").await;
    let runs = async || -> (Value, Value) {
        let deployment = stage.get("deployment", &ns, "coder").await.unwrap();
        let image = deployment.pointer("/spec/template/spec/containers/0/image").unwrap();
        (image.clone(), deployment["spec"]["replicas"].clone())
    };
    let manifest = |spec: Value| {
        json!({ "apiVersion": "coder.com/v1alpha1", "kind": "CoderControlPlane",
            "metadata": { "name": "coder", "namespace": ns }, "spec": spec })
    };
    let replaced = manifest(json!({ "resources": { "requests": { "cpu": "1" } } }));
    stage.cluster.kubectl_with_input("replace -f -", &replaced.to_string()).await.expect_ok();
    let plane = stage.ready(&ns, "coder").await;
    assert!(plane["spec"]["image"].is_null() && plane["spec"]["replicas"].is_null(), "{}", plane["spec"]);
    assert_eq!(runs().await, (json!(image), json!(2)), "kubectl replace");
    let resolved = &plane["status"]["resolved"];
    assert_eq!((&resolved["image"], &resolved["replicas"]), (&json!(image), &json!(2)), "{resolved}");
    assert_eq!(resolved["imageDefaulted"], true);

    // A status that somebody wrote is no input.
    let lie = r#"{"status":{"resolved":{"image":"ghcr.io/coder/coder:v2.99.0","imageDefaulted":true,"replicas":9}}}"#;
    let words = format!("patch ccp coder -n {ns} --subresource=status --type=merge -p {lie}");
    stage.cluster.kubectl(&words).await.expect_ok();
    let plane = stage.pass(&ns, "coder", "lied-to").await;
    assert_eq!(plane["status"]["resolved"]["image"], image);
    assert_eq!(runs().await, (json!(image), json!(2)), "the status");

    // As an autoscaler does it.
    stage.cluster.kubectl(&format!("scale deployment/coder -n {ns} --replicas=3")).await.expect_ok();
    let edit = r#"{"spec":{"resources":{"requests":{"cpu":"2"}}}}"#;
    stage.cluster.kubectl(&format!("patch ccp coder -n {ns} --type=merge -p {edit}")).await.expect_ok();
    stage.ready(&ns, "coder").await;
    assert_eq!(runs().await, (json!(image), json!(3)), "an edit of resources");
}
