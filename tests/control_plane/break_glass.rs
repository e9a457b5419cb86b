//! While admission is disabled in a namespace, what its control planes may do stays what it was: what would widen it waits
//! until the label goes, and what narrows it does not.

use crate::stage::{Stage, condition, is_ready};
use crate::text;
use crds::names::control_plane::workspace_role;
use serde_json::{Value, json};

const LABEL: &str = "coder.com/admission";

async fn label(stage: &Stage, ns: &str, word: &str) {
    stage.cluster.kubectl(&format!("label namespace {ns} {LABEL}{word}")).await.expect_ok();
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
    let stage = Stage::shared().await;
    let (ns, team) = (stage.cluster.namespace("glass").await, stage.cluster.namespace("glass-team").await);
    let agree = format!("label namespace {team} coder.com/workspaces-from={ns}");
    stage.cluster.kubectl(&agree).await.expect_ok();
    let before = json!({ "rbac": { "enableDeployments": false }, "service": { "type": "ClusterIP" } });
    stage.apply(&ns, "coder", &before).await;
    stage.ready(&ns, "coder").await;
    let role = workspace_role(&ns, "coder", "coder");
    let live = async |kind: &str, name: &str| stage.get(kind, &ns, name).await.unwrap()["spec"].clone();
    let template = live("deployment", "coder").await["template"].clone();
    let rules = stage.get("role", &ns, &role).await.unwrap()["rules"].clone();

    label(stage, &ns, "=disabled").await;
    let widened = json!({ "image": "evil.example.com/coder:v9.9.9", "replicas": 2,
        "extraEnv": [{ "name": "CODER_PG_CONNECTION_URL", "value": "postgres://evil.example.com/x" }],
        "rbac": { "enableDeployments": true, "workspaceNamespaces": [team] },
        "service": { "type": "NodePort" }, "expose": { "ingress": { "host": "evil.example.com" } } });
    stage.apply(&ns, "coder", &widened).await;
    stage.pass(&ns, "coder", "once").await;
    let plane = stage.pass(&ns, "coder", "twice").await;
    assert_eq!(live("deployment", "coder").await["template"], template);
    assert!(is_held(&plane), "{}", plane["status"]);
    let told = condition(&plane, "AuthorityApplied");
    assert_eq!((&told["status"], &told["reason"]), (&json!("False"), &json!("AdmissionDisabled")));
    let message = text(condition(&plane, "Ready"), "/message");
    assert!(message.contains(&format!("kubectl label namespace {ns} {LABEL}-")), "{message}");
    assert_eq!(condition(&plane, "DeploymentAvailable")["status"], "True", "what runs goes on running");
    assert_eq!(live("service", "coder").await["type"], "ClusterIP");
    assert_eq!(stage.get("role", &ns, &role).await.unwrap()["rules"], rules);
    assert!(stage.get("ingress", &ns, "coder").await.is_none());
    let granted = format!("get role,rolebinding -n {team} -o name");
    assert_eq!(stage.cluster.kubectl(&granted).await.expect_ok(), "");

    // One that is made now does not run at all, and one that takes rights away is in force.
    stage.apply(&ns, "fresh", &json!({ "image": "evil.example.com/coder:v9.9.9" })).await;
    stage.until(&ns, "fresh", "held", is_held).await;
    for (kind, name) in [
        ("deployment", "fresh".to_owned()),
        ("serviceaccount", "fresh".to_owned()),
        ("role", workspace_role(&ns, "fresh", "fresh")),
    ] {
        assert!(stage.get(kind, &ns, &name).await.is_none(), "{kind} {name}");
    }
    stage.apply(&ns, "coder", &json!({ "replicas": 2, "rbac": { "workspacePerms": false } })).await;
    let plane = stage.ready(&ns, "coder").await;
    assert!(condition(&plane, "AuthorityApplied").is_null(), "nothing is held back: {}", plane["status"]);
    stage.until_gone("role", &ns, &role).await;
    assert_eq!(live("deployment", "coder").await["replicas"], 2);

    // Whoever takes the label off applies what was held back.
    stage.apply(&ns, "coder", &widened).await;
    stage.until(&ns, "coder", "held again", is_held).await;
    label(stage, &ns, "-").await;
    stage
        .until_object("deployment", &ns, "coder", "what was held back", |deployment| {
            image(deployment) == "evil.example.com/coder:v9.9.9"
        })
        .await;
    let plane = stage.until(&ns, "coder", "no longer held", |plane| !is_held(plane) && is_ready(plane)).await;
    assert!(condition(&plane, "AuthorityApplied").is_null(), "{}", plane["status"]);
    assert_eq!(live("service", "coder").await["type"], "NodePort");
    assert_eq!(stage.cluster.kubectl(&granted).await.expect_ok().lines().count(), 2);
    stage.ready(&ns, "fresh").await;
}

/// Nothing of the children differs but that one is no longer asked for, which nobody reads the namespace for.
#[tokio::test(flavor = "multi_thread")]
async fn an_account_is_not_given_away_while_admission_is_disabled() {
    let stage = Stage::shared().await;
    let ns = stage.cluster.namespace("glass-account").await;
    stage.apply(&ns, "coder", &json!({})).await;
    stage.ready(&ns, "coder").await;
    label(stage, &ns, "=disabled").await;
    stage.apply(&ns, "coder", &json!({ "serviceAccount": { "disableCreate": true } })).await;
    stage
        .until(&ns, "coder", "the change to be seen", |plane| {
            plane["status"]["observedGeneration"] == plane["metadata"]["generation"]
        })
        .await;
    let owners = async || {
        stage.get("serviceaccount", &ns, "coder").await.unwrap()["metadata"]["ownerReferences"].clone()
    };
    assert!(owners().await.is_array(), "it is left as it is");
    label(stage, &ns, "-").await;
    stage
        .until_object("serviceaccount", &ns, "coder", "the account to be given away", |account| {
            account["metadata"]["ownerReferences"].is_null()
        })
        .await;
}
