//! While admission is disabled in a namespace, what its control planes may do stays what it was: what would widen it waits
//! until the label goes, and what narrows it does not.

use crate::shared::shared;
use crds::names::control_plane::workspace_role;
use serde_json::{Value, json};
use support::TestEnv;
use support::objects::{condition, is_ready, text};

const LABEL: &str = "coder.com/admission";

async fn label(env: &TestEnv, ns: &str, word: &str) {
    env.cluster.kubectl(&format!("label namespace {ns} {LABEL}{word}")).await.expect_ok();
}

fn is_held(plane: &Value) -> bool {
    let stalled = condition(plane, "Stalled");
    plane["status"]["observedGeneration"] == plane["metadata"]["generation"]
        && (stalled["status"].as_str(), stalled["reason"].as_str())
            == (Some("True"), Some("AdmissionDisabled"))
}

fn image(deployment: &Value) -> &str {
    text(deployment, "/spec/template/spec/containers/0/image")
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_widened_while_admission_is_disabled_and_everything_is_once_it_is_not() {
    let env = shared().await;
    let (ns, team) = (env.cluster.namespace("glass").await, env.cluster.namespace("glass-team").await);
    let agree = format!("label namespace {team} coder.com/workspaces-from={ns}");
    env.cluster.kubectl(&agree).await.expect_ok();
    let before = json!({ "rbac": { "enableDeployments": false }, "service": { "type": "ClusterIP" } });
    env.apply_control_plane(&ns, "coder", &before).await;
    env.ready(&ns, "coder").await;
    let role = workspace_role(&ns, "coder", "coder");
    let live = async |kind: &str, name: &str| env.get(kind, &ns, name).await.unwrap()["spec"].clone();
    let template = live("deployment", "coder").await["template"].clone();
    let rules = env.get("role", &ns, &role).await.unwrap()["rules"].clone();

    label(env, &ns, "=disabled").await;
    let widened = json!({ "image": "evil.example.com/coder:v9.9.9", "replicas": 2,
        "extraEnv": [{ "name": "CODER_PG_CONNECTION_URL", "value": "postgres://evil.example.com/x" }],
        "rbac": { "enableDeployments": true, "workspaceNamespaces": [team] },
        "service": { "type": "NodePort" }, "expose": { "ingress": { "host": "evil.example.com" } } });
    env.apply_control_plane(&ns, "coder", &widened).await;
    env.reconcile(&ns, "coder", "once").await;
    let plane = env.reconcile(&ns, "coder", "twice").await;
    assert_eq!(live("deployment", "coder").await["template"], template);
    assert!(is_held(&plane), "{}", plane["status"]);
    let told = condition(&plane, "AuthorityApplied");
    assert_eq!((&told["status"], &told["reason"]), (&json!("False"), &json!("AdmissionDisabled")));
    let message = text(condition(&plane, "Ready"), "/message");
    assert!(message.contains(&format!("kubectl label namespace {ns} {LABEL}-")), "{message}");
    assert_eq!(condition(&plane, "DeploymentAvailable")["status"], "True", "what runs goes on running");
    assert_eq!(live("service", "coder").await["type"], "ClusterIP");
    assert_eq!(env.get("role", &ns, &role).await.unwrap()["rules"], rules);
    assert!(env.get("ingress", &ns, "coder").await.is_none());
    let granted = format!("get role,rolebinding -n {team} -o name");
    assert_eq!(env.cluster.kubectl(&granted).await.expect_ok(), "");

    // One that is made now does not run at all, and one that takes rights away is in force.
    env.apply_control_plane(&ns, "fresh", &json!({ "image": "evil.example.com/coder:v9.9.9" })).await;
    env.until(&ns, "fresh", "held", is_held).await;
    for (kind, name) in [
        ("deployment", "fresh".to_owned()),
        ("serviceaccount", "fresh".to_owned()),
        ("role", workspace_role(&ns, "fresh", "fresh")),
    ] {
        assert!(env.get(kind, &ns, &name).await.is_none(), "{kind} {name}");
    }
    env.apply_control_plane(&ns, "coder", &json!({ "replicas": 2, "rbac": { "workspacePerms": false } }))
        .await;
    let plane = env.ready(&ns, "coder").await;
    assert!(condition(&plane, "AuthorityApplied").is_null(), "nothing is held back: {}", plane["status"]);
    env.until_gone("role", &ns, &role).await;
    assert_eq!(live("deployment", "coder").await["replicas"], 2);

    // Whoever takes the label off applies what was held back.
    env.apply_control_plane(&ns, "coder", &widened).await;
    env.until(&ns, "coder", "held again", is_held).await;
    label(env, &ns, "-").await;
    env.until_object("deployment", &ns, "coder", "what was held back", |deployment| {
        image(deployment) == "evil.example.com/coder:v9.9.9"
    })
    .await;
    let plane = env.until(&ns, "coder", "no longer held", |plane| !is_held(plane) && is_ready(plane)).await;
    assert!(condition(&plane, "AuthorityApplied").is_null(), "{}", plane["status"]);
    assert_eq!(live("service", "coder").await["type"], "NodePort");
    assert_eq!(env.cluster.kubectl(&granted).await.expect_ok().lines().count(), 2);
    env.ready(&ns, "fresh").await;
}

/// Nothing of the children differs but that one is no longer asked for, which nobody reads the namespace for.
#[tokio::test(flavor = "multi_thread")]
async fn an_account_is_not_given_away_while_admission_is_disabled() {
    let env = shared().await;
    let ns = env.cluster.namespace("glass-account").await;
    env.apply_control_plane(&ns, "coder", &json!({})).await;
    env.ready(&ns, "coder").await;
    label(env, &ns, "=disabled").await;
    env.apply_control_plane(&ns, "coder", &json!({ "serviceAccount": { "disableCreate": true } })).await;
    env.until(&ns, "coder", "the change to be seen", |plane| {
        plane["status"]["observedGeneration"] == plane["metadata"]["generation"]
    })
    .await;
    let owners = async || {
        env.get("serviceaccount", &ns, "coder").await.unwrap()["metadata"]["ownerReferences"].clone()
    };
    assert!(owners().await.is_array(), "it is left as it is");
    label(env, &ns, "-").await;
    env.until_object("serviceaccount", &ns, "coder", "the account to be given away", |account| {
        account["metadata"]["ownerReferences"].is_null()
    })
    .await;
}
