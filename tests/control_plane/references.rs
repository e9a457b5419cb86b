//! Secrets and ConfigMaps that pods read: each is read once a pass, and one that vanishes rolls nothing.

use crate::stage::{Stage, condition};
use crate::text;
use serde_json::{Value, json};

#[tokio::test(flavor = "multi_thread")]
async fn a_secret_that_vanishes_and_comes_back_rolls_nothing_meanwhile() {
    let stage = Stage::shared().await;
    let ns = stage.cluster.namespace("vanishing").await;
    let make = async || {
        let words = format!(
            "create secret generic settings -n {ns} --from-literal=CODER_ACCESS_URL=https://coder.example.com"
        );
        stage.cluster.kubectl(&words).await.expect_ok();
    };
    make().await;
    stage.apply(&ns, "coder", &json!({ "envFrom": [{ "secretRef": { "name": "settings" } }] })).await;
    stage.ready(&ns, "coder").await;
    let deployment = async || stage.get("deployment", &ns, "coder").await.unwrap();
    let before = deployment().await;
    assert!(!before["spec"].to_string().contains("CODER_ACCESS_URL"), "the Secret gives it");
    stage.cluster.kubectl(&format!("delete secret settings -n {ns}")).await.expect_ok();
    let told = |plane: &Value| condition(plane, "Ready")["reason"] == "ReferenceMissing";
    stage.until(&ns, "coder", "the loss to be told", told).await;
    let meanwhile = deployment().await;
    assert_eq!(meanwhile["spec"], before["spec"], "nothing rolls while it is missing");
    assert_eq!(meanwhile["metadata"]["generation"], before["metadata"]["generation"]);
    make().await;
    stage.ready(&ns, "coder").await;
    assert!(
        !deployment().await["spec"].to_string().contains("CODER_ACCESS_URL"),
        "still given by the Secret"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_secret_is_read_once_a_pass_however_many_keys_are_used() {
    let stage = Stage::shared().await;
    let ns = stage.cluster.namespace("keys").await;
    let words = format!(
        "create secret generic settings -n {ns} --from-literal=a=1 --from-literal=b=2 --from-literal=c=3"
    );
    stage.cluster.kubectl(&words).await.expect_ok();
    let variable = |key: &str| json!({ "name": key.to_uppercase(), "valueFrom": { "secretKeyRef": { "name": "settings", "key": key } } });
    let variables = ["a", "b", "c"].map(variable);
    let spec = json!({ "extraEnv": variables,
        "envFrom": [{ "secretRef": { "name": "settings" }, "prefix": "ALL_" }] });
    stage.apply(&ns, "coder", &spec).await;
    stage.ready(&ns, "coder").await;
    let gets = |resource: &str| {
        let log = stage.cluster.audit_log();
        let events = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let wanted = |event: &Value| {
            event["user"]["username"] == stage.installation.user().as_str()
                && text(event, "/verb") == "get"
                && text(event, "/objectRef/namespace") == ns
                && text(event, "/objectRef/resource") == resource
        };
        events.filter(wanted).count()
    };
    // Each pass reads the object once, so that the two counts are equal, whoever asked for passes meanwhile.
    let (passes, reads) = (gets("codercontrolplanes"), gets("secrets"));
    stage.pass(&ns, "coder", "counted").await;
    let (passes, reads) = (gets("codercontrolplanes") - passes, gets("secrets") - reads);
    assert!(passes >= 1);
    assert_eq!(reads, passes, "one read of the Secret a pass");
}
