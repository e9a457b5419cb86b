//! A token of our own is there while something needs it, with the least role that serves, and goes with what needed it.
//! Each test works in a namespace and a database of its own.

use crate::env::OperatorAccessEnv;
use crate::from_secret;
use serde_json::{Value, json};
use support::objects::{condition, workspace_proxy};
use support::test_env::LIMIT;
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
async fn nothing_left(env: &OperatorAccessEnv, ns: &str, database: &str) {
    let plane = env.until(ns, "coder", "without access that nobody needs", not_needed).await;
    assert_eq!(plane["status"]["operatorAccessReady"], false);
    assert!(plane["status"]["operatorTokenSecretRef"].is_null());
    assert_eq!((env.live_tokens(database).as_str(), env.record(ns).await), ("0", None));
}

async fn role(env: &OperatorAccessEnv, database: &str, expected: &str) {
    until(&format!("the role {expected}"), LIMIT, async || {
        let roles = env.postgres.sql(database, ROLES);
        holds(roles == expected, roles)
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_comes_with_what_needs_it_and_goes_with_the_last_of_it() {
    let env = OperatorAccessEnv::shared().await;
    let ns = env.cluster.namespace("needed").await;
    let (database, url) = env.database();
    env.apply_secret(&ns, "db", &json!({ "url": url })).await;
    let spec = json!({ "extraEnv": from_secret() });
    env.apply_control_plane(&ns, "coder", &spec).await;
    env.until(&ns, "coder", "ready", |plane| condition(plane, "Ready")["status"] == "True").await;
    let plane = env.reconcile(&ns, "coder", "ready").await;
    assert_eq!(env.postgres.sql(&database, "SELECT username, rbac_roles FROM users"), "", "nobody is made");
    assert!(not_needed(&plane), "{}", plane["status"]);

    // One of another control plane changes nothing.
    let other = json!({ "apiVersion": "coder.com/v1alpha1", "kind": "CoderProvisioner",
        "metadata": { "name": "others", "namespace": ns }, "spec": { "controlPlaneRef": { "name": "other" } } });
    env.apply(&other).await;
    let plane = env.reconcile(&ns, "coder", "others").await;
    assert!(not_needed(&plane), "{}", plane["status"]);

    env.add_provisioner(&ns).await;
    env.until_reason(&ns, "coder", "OperatorAccessReady", "TokenProven").await;
    role(env, &database, "{template-admin}").await;

    // A license needs an owner; without it the provisioner is left, which does not.
    let mut licensed = spec.clone();
    licensed["licenseSecretRef"] = json!({ "name": "license" });
    env.apply_control_plane(&ns, "coder", &licensed).await;
    role(env, &database, "{owner}").await;
    env.apply_control_plane(&ns, "coder", &spec).await;
    role(env, &database, "{template-admin}").await;
    env.until_reason(&ns, "coder", "OperatorAccessReady", "TokenProven").await;

    env.cluster.kubectl(&format!("delete coderprovisioner builders -n {ns}")).await.expect_ok();
    nothing_left(env, &ns, &database).await;
    role(env, &database, "{}").await;
    until("what was done to be told", LIMIT, async || {
        let told = env.events_of(&ns, "OperatorToken").await;
        holds(told == ["Normal TokenIssued x1", "Normal TokenRevoked x1"], told.join(", "))
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_provisioner_takes_no_ready_from_a_control_plane_that_the_operator_has_no_way_into() {
    let env = OperatorAccessEnv::shared().await;
    let ns = env.cluster.namespace("unreached").await;
    env.apply_control_plane(&ns, "coder", &json!({})).await;
    env.add_provisioner(&ns).await;
    env.until(&ns, "coder", "ready although a provisioner lacks access", |plane| {
        condition(plane, "Ready")["status"] == "True"
            && condition(plane, "OperatorAccessReady")["reason"] == "NoDatabaseURL"
    })
    .await;
}

/// The attack: whoever may write the status of a provisioner says that a key of it is in a control plane, to have the operator
/// make itself a user and a token there.
#[tokio::test(flavor = "multi_thread")]
async fn a_status_that_somebody_else_wrote_makes_no_user_and_no_token() {
    let env = OperatorAccessEnv::shared().await;
    let ns = env.cluster.namespace("forged").await;
    let (database, url) = env.database();
    env.apply_secret(&ns, "db", &json!({ "url": url })).await;
    env.apply_control_plane(&ns, "coder", &json!({ "extraEnv": from_secret() })).await;
    let plane = env.until(&ns, "coder", "ready", |plane| condition(plane, "Ready")["status"] == "True").await;
    // Suspended, so that the operator does not put its status right.
    let other = json!({ "apiVersion": "coder.com/v1alpha1", "kind": "CoderProvisioner",
        "metadata": { "name": "others", "namespace": ns },
        "spec": { "controlPlaneRef": { "name": "other" }, "suspend": true } });
    env.apply(&other).await;
    let id = "6f1f6a3e-0000-4000-8000-000000000001";
    let forged = json!({ "name": "k", "id": id, "generation": 1, "organizationID": id, "deploymentID": id,
        "controlPlaneUID": plane["metadata"]["uid"], "tagsHash": "811c9dc5", "since": "2026-11-18T00:00:00Z",
        "attempted": true, "used": true, "seal": "00" });
    let status = json!({ "status": { "key": { "generation": 1, "retiring": [forged] } } });
    let patch =
        format!("patch coderprovisioner others -n {ns} --subresource=status --type=merge -p {status}");
    env.cluster.kubectl(&patch).await.expect_ok();
    for round in ["once", "twice"] {
        let plane = env.reconcile(&ns, "coder", round).await;
        assert!(not_needed(&plane), "{}", plane["status"]);
    }
    let shown = format!("get coderprovisioner others -n {ns} -o jsonpath={{.status.key.retiring[0].name}}");
    assert_eq!(env.cluster.kubectl(&shown).await.expect_ok().trim(), "k", "it still says so");
    assert_eq!(env.postgres.sql(&database, "SELECT username, rbac_roles FROM users"), "", "nobody is made");
    assert_eq!((env.live_tokens(&database).as_str(), env.record(&ns).await), ("0", None));
}

/// The attack: whoever may write the status of a workspace proxy says that a registration of it is in a control plane, to have the
/// operator make itself an owner there.
#[tokio::test(flavor = "multi_thread")]
async fn a_status_of_a_proxy_that_somebody_else_wrote_makes_no_owner() {
    let env = OperatorAccessEnv::shared().await;
    let ns = env.cluster.namespace("forged-owner").await;
    let (database, url) = env.database();
    env.apply_secret(&ns, "db", &json!({ "url": url })).await;
    env.apply_control_plane(&ns, "coder", &json!({ "extraEnv": from_secret() })).await;
    env.add_provisioner(&ns).await;
    let plane = env.until_reason(&ns, "coder", "OperatorAccessReady", "TokenProven").await;
    role(env, &database, "{template-admin}").await;
    // Of another control plane, and suspended, so that the operator does not put its status right.
    let other = json!({ "apiVersion": "coder.com/v1alpha1", "kind": "CoderWorkspaceProxy",
        "metadata": { "name": "others", "namespace": ns },
        "spec": { "controlPlaneRef": { "name": "other" }, "suspend": true } });
    env.apply(&other).await;
    let id = "6f1f6a3e-0000-4000-8000-000000000001";
    let forged = json!({ "name": "k", "id": id, "deploymentID": id, "controlPlaneUID": plane["metadata"]["uid"],
        "since": "2026-11-18T00:00:00Z", "attempted": true, "seal": "00" });
    let status = json!({ "status": { "registration": { "retiring": [forged] } } });
    let patch =
        format!("patch coderworkspaceproxy others -n {ns} --subresource=status --type=merge -p {status}");
    env.cluster.kubectl(&patch).await.expect_ok();
    for round in ["once", "twice"] {
        env.reconcile(&ns, "coder", round).await;
    }
    assert_eq!(env.postgres.sql(&database, ROLES), "{template-admin}", "a status gives nobody an owner");
}

/// Nobody but an owner registers a proxy: the first one waits until the operator's user is one, and is not refused before.
#[tokio::test(flavor = "multi_thread")]
async fn the_first_proxy_waits_for_an_owner_and_warns_of_nothing() {
    let env = OperatorAccessEnv::shared().await;
    let ns = env.cluster.namespace("first-proxy").await;
    let (database, url) = env.database();
    env.apply_secret(&ns, "db", &json!({ "url": url })).await;
    env.apply_control_plane(&ns, "coder", &json!({ "extraEnv": from_secret() })).await;
    env.add_provisioner(&ns).await;
    env.until_reason(&ns, "coder", "OperatorAccessReady", "TokenProven").await;
    role(env, &database, "{template-admin}").await;
    let mut proxy = workspace_proxy(&ns, "first", "coder");
    proxy["spec"]["replicas"] = json!(0);
    env.apply(&proxy).await;
    let registered = |object: &Value| condition(object, "ProxyRegistered")["status"] == "True";
    env.until_object("coderworkspaceproxy", &ns, "first", "registered", registered).await;
    role(env, &database, "{owner}").await;
    let refused = env.events(&ns, |event| event["reason"] == "RegistrationFailed").await;
    assert_eq!(refused.len(), 0, "it was asked for before there was an owner");
}
