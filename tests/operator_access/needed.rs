//! A token of our own is there while something needs it, with the least role that serves, and goes with what needed it.
//! Each test works in a namespace and a database of its own.

use crate::from_secret;
use crate::stage::{LIMIT, Stage, condition};
use serde_json::{Value, json};
use support::until;
use support::wait::holds;

const ROLES: &str = "SELECT rbac_roles FROM users";

fn not_needed(plane: &Value) -> bool {
    let access = condition(plane, "OperatorAccessReady");
    (access["status"].as_str(), access["reason"].as_str()) == (Some("Unknown"), Some("NotNeeded"))
        && condition(plane, "Ready")["status"] == "True"
        && plane["metadata"]["finalizers"].is_null()
}

/// Waits until nothing is left of a token: not in the database, not in the cluster, not in the status.
async fn nothing_left(stage: &Stage, ns: &str, database: &str) {
    let plane = stage.until(ns, "without access that nobody needs", not_needed).await;
    assert_eq!(plane["status"]["operatorAccessReady"], false);
    assert!(plane["status"]["operatorTokenSecretRef"].is_null());
    assert_eq!((stage.live_tokens(database).as_str(), stage.record(ns).await), ("0", None));
}

async fn role(stage: &Stage, database: &str, expected: &str) {
    until(&format!("the role {expected}"), LIMIT, async || {
        let roles = stage.postgres.sql(database, ROLES);
        holds(roles == expected, roles)
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_comes_with_what_needs_it_and_goes_with_the_last_of_it() {
    let stage = Stage::shared().await;
    let ns = stage.cluster.namespace("needed").await;
    let (database, url) = stage.database();
    stage.secret(&ns, "db", &json!({ "url": url })).await;
    let spec = json!({ "extraEnv": from_secret() });
    stage.apply(&ns, &spec).await;
    stage.until(&ns, "ready", |plane| condition(plane, "Ready")["status"] == "True").await;
    let plane = stage.pass(&ns, "ready").await;
    assert_eq!(stage.postgres.sql(&database, "SELECT username, rbac_roles FROM users"), "", "nobody is made");
    assert!(not_needed(&plane), "{}", plane["status"]);

    // One of another control plane changes nothing.
    let other = json!({ "apiVersion": "coder.com/v1alpha1", "kind": "CoderProvisioner",
        "metadata": { "name": "others", "namespace": ns }, "spec": { "controlPlaneRef": { "name": "other" } } });
    stage.apply_object(&other).await;
    let plane = stage.pass(&ns, "others").await;
    assert!(not_needed(&plane), "{}", plane["status"]);

    stage.needed(&ns).await;
    stage.until_reason(&ns, "OperatorAccessReady", "TokenProven").await;
    role(stage, &database, "{template-admin}").await;

    // A license needs an owner; without it the provisioner is left, which does not.
    let mut licensed = spec.clone();
    licensed["licenseSecretRef"] = json!({ "name": "license" });
    stage.apply(&ns, &licensed).await;
    role(stage, &database, "{owner}").await;
    stage.apply(&ns, &spec).await;
    role(stage, &database, "{template-admin}").await;
    stage.until_reason(&ns, "OperatorAccessReady", "TokenProven").await;

    stage.cluster.kubectl(&format!("delete coderprovisioner builders -n {ns}")).await.expect_ok();
    nothing_left(stage, &ns, &database).await;
    role(stage, &database, "{}").await;
    until("what was done to be told", LIMIT, async || {
        let told = stage.told(&ns, "OperatorToken").await;
        holds(told == ["Normal TokenIssued x1", "Normal TokenRevoked x1"], told.join(", "))
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_provisioner_takes_no_ready_from_a_control_plane_that_the_operator_has_no_way_into() {
    let stage = Stage::shared().await;
    let ns = stage.cluster.namespace("unreached").await;
    stage.apply(&ns, &json!({})).await;
    stage.needed(&ns).await;
    stage
        .until(&ns, "ready although a provisioner lacks access", |plane| {
            condition(plane, "Ready")["status"] == "True"
                && condition(plane, "OperatorAccessReady")["reason"] == "NoDatabaseURL"
        })
        .await;
}
