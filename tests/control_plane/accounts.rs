//! The account coderd runs as: given away when somebody else is to make it, removed when it is no longer used.

use crate::policies::{refusal, refused};
use crate::shared::shared;
use crds::names::control_plane::{workspace_role, workspace_role_binding};
use serde_json::json;
use support::objects::condition;

#[tokio::test(flavor = "multi_thread")]
async fn an_account_that_somebody_else_makes_is_no_longer_ours_to_take_along() {
    let env = shared().await;
    let ns = env.cluster.namespace("given-away").await;
    env.apply_control_plane(&ns, "coder", &json!({})).await;
    env.ready(&ns, "coder").await;
    let before = env.get("serviceaccount", &ns, "coder").await.unwrap();
    assert!(before["metadata"]["ownerReferences"].is_array());
    env.apply_control_plane(&ns, "coder", &json!({ "serviceAccount": { "disableCreate": true } })).await;
    env.ready(&ns, "coder").await;
    let after = env.get("serviceaccount", &ns, "coder").await.unwrap();
    assert_eq!(after["metadata"]["uid"], before["metadata"]["uid"]);
    assert!(after["metadata"]["ownerReferences"].is_null(), "{}", after["metadata"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_account_of_ours_that_nothing_names_any_more_is_removed_with_its_rights() {
    let env = shared().await;
    let ns = env.cluster.namespace("renamed").await;
    // Not ours, whatever its labels say.
    let foreign = json!({ "apiVersion": "v1", "kind": "ServiceAccount", "metadata": { "name": "foreign",
        "namespace": ns, "labels": { "app.kubernetes.io/managed-by": "coder-k8s",
            "app.kubernetes.io/instance": "coder" } } });
    env.apply(&foreign).await;
    env.apply_control_plane(&ns, "coder", &json!({})).await;
    env.ready(&ns, "coder").await;
    // New pods find no node, so that old ones go on running.
    let account = json!({ "name": "server" });
    env.apply_control_plane(
        &ns,
        "coder",
        &json!({ "serviceAccount": account, "nodeSelector": { "nobody": "has-it" } }),
    )
    .await;
    env.until(&ns, "coder", "the rollout to begin", |plane| {
        plane["status"]["observedGeneration"] == plane["metadata"]["generation"]
            && condition(plane, "DeploymentAvailable")["reason"] == "RollingOut"
    })
    .await;
    env.reconcile(&ns, "coder", "rolling").await;
    for (kind, name) in [
        ("serviceaccount", "coder".to_owned()),
        ("role", workspace_role(&ns, "coder", "coder")),
        ("rolebinding", workspace_role_binding(&ns, "coder", "coder")),
    ] {
        assert!(env.get(kind, &ns, &name).await.is_some(), "old pods run with {kind} {name}");
    }
    env.apply_control_plane(&ns, "coder", &json!({ "serviceAccount": account })).await;
    env.ready(&ns, "coder").await;
    env.until_gone("serviceaccount", &ns, "coder").await;
    env.until_gone("role", &ns, &workspace_role(&ns, "coder", "coder")).await;
    env.until_gone("rolebinding", &ns, &workspace_role_binding(&ns, "coder", "coder")).await;
    for (kind, name) in [
        ("serviceaccount", "server".to_owned()),
        ("serviceaccount", "foreign".to_owned()),
        ("role", workspace_role(&ns, "coder", "server")),
        ("rolebinding", workspace_role_binding(&ns, "coder", "server")),
    ] {
        assert!(env.get(kind, &ns, &name).await.is_some(), "{kind} {name}");
    }
}

/// Quotas and policies refuse to create what is there already, and our watch does not show what has lost our label.
#[tokio::test(flavor = "multi_thread")]
async fn an_account_that_lost_our_label_is_put_right_although_none_may_be_created() {
    let env = shared().await;
    let ns = env.cluster.namespace("unlabelled").await;
    env.apply_control_plane(&ns, "coder", &json!({})).await;
    env.ready(&ns, "coder").await;
    let rule = json!({ "apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"],
        "resources": ["serviceaccounts"] });
    let message = "no more accounts here";
    env.apply(&refusal(&ns, &rule, "false", message)).await;
    refused(env, &format!("create serviceaccount another -n {ns}"), message).await;
    let strip = format!("label serviceaccount coder -n {ns} app.kubernetes.io/managed-by-");
    env.cluster.kubectl(&strip).await.expect_ok();
    env.until_object("serviceaccount", &ns, "coder", "its label to be back", |account| {
        account["metadata"]["labels"]["app.kubernetes.io/managed-by"] == "coder-k8s"
    })
    .await;
    env.ready(&ns, "coder").await;
}
