//! What `kubectl describe` tells of a control plane: each transition once, and nothing while nothing changes.

use crate::shared::shared;
use serde_json::{Value, json};
use support::objects::condition;
use support::test_env::LIMIT;
use support::until;
use support::wait::holds;

fn event(severity: &str, reason: &str, action: &str) -> (String, String, String, u64) {
    (severity.to_owned(), reason.to_owned(), action.to_owned(), 1)
}

#[tokio::test(flavor = "multi_thread")]
async fn each_transition_is_told_once_and_a_pass_that_changes_nothing_tells_nothing() {
    let env = shared().await;
    let ns = env.cluster.namespace("told").await;
    env.apply_control_plane(&ns, "coder", &json!({})).await;
    env.ready(&ns, "coder").await;
    env.until_event(&ns, "coder", "CoderdReachable", "Answered").await;
    // Whatever a reconcile tells is told before the next one begins.
    env.reconcile(&ns, "coder", "one").await;
    env.reconcile(&ns, "coder", "two").await;
    let mut expected = vec![
        event("Normal", "Answered", "CoderdReachable"),
        event("Normal", "Available", "Ready"),
        event("Normal", "Granted", "WorkspaceRBACReady"),
        event("Normal", "RolloutComplete", "DeploymentAvailable"),
    ];
    assert_eq!(env.events_about(&ns, "coder").await, expected);

    env.apply_control_plane(&ns, "coder", &json!({ "suspend": true })).await;
    let told = env.until_event(&ns, "coder", "Suspended", "Suspended").await;
    expected.push(event("Normal", "Suspended", "Suspended"));
    assert_eq!(told, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_stands_in_the_way_is_a_warning_with_its_reason() {
    let env = shared().await;
    let ns = env.cluster.namespace("warned").await;
    env.apply(
        &json!({ "apiVersion": "v1", "kind": "Service", "metadata": { "name": "coder", "namespace": ns },
            "spec": { "ports": [{ "port": 81 }] } }),
    )
    .await;
    env.apply_control_plane(&ns, "coder", &json!({})).await;
    let told = env.until_event(&ns, "coder", "Stalled", "ChildConflict").await;
    assert!(told.contains(&event("Warning", "ChildConflict", "Stalled")), "{told:?}");
}

/// Nobody may delete Roles there, whatever RBAC says.
fn refusal(namespace: &str) -> Value {
    let policy = json!({ "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy",
        "metadata": { "name": namespace }, "spec": { "failurePolicy": "Fail",
            "matchConstraints": {
                "namespaceSelector": { "matchLabels": { "kubernetes.io/metadata.name": namespace } },
                "resourceRules": [{ "apiGroups": ["rbac.authorization.k8s.io"], "apiVersions": ["v1"],
                    "operations": ["DELETE"], "resources": ["roles"] }] },
            "validations": [{ "expression": "false", "message": "roles are kept here" }] } });
    let binding = json!({ "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": { "name": namespace }, "spec": { "policyName": namespace, "validationActions": ["Deny"] } });
    json!({ "apiVersion": "v1", "kind": "List", "items": [policy, binding] })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deletion_that_hangs_says_why_until_it_is_done() {
    let env = shared().await;
    let ns = env.cluster.namespace("hanging").await;
    let team = env.cluster.namespace("keeper").await;
    let kubectl = async |words: String| env.cluster.kubectl(&words).await.expect_ok();
    kubectl(format!("label namespace {team} coder.com/workspaces-from={ns}")).await;
    env.apply_control_plane(&ns, "coder", &json!({ "rbac": { "workspaceNamespaces": [team] } })).await;
    env.ready(&ns, "coder").await;
    env.apply(&refusal(&team)).await;
    let role = kubectl(format!("get role -n {team} -o name")).await;
    until("the policy to be in force", LIMIT, async || {
        let tried = env.cluster.kubectl(&format!("delete {} -n {team} --dry-run=server", role.trim())).await;
        holds(tried.stderr.contains("roles are kept here"), tried.stderr)
    })
    .await;

    kubectl(format!("delete ccp coder -n {ns} --wait=false")).await;
    let going = env
        .until(&ns, "coder", "held with a reason", |plane| {
            condition(plane, "CleanedUp")["reason"] == "CleanupFailed"
        })
        .await;
    assert_eq!(going["metadata"]["finalizers"], json!(["coder.com/workspace-rbac-cleanup"]));
    for about in ["Ready", "CleanedUp"] {
        let one = condition(&going, about);
        assert_eq!((&one["status"], &one["reason"]), (&json!("False"), &json!("CleanupFailed")), "{about}");
        assert!(one["message"].as_str().unwrap().contains("roles are kept here"), "{one}");
    }
    let told = env.until_event(&ns, "coder", "CleanedUp", "CleanupFailed").await;
    assert!(told.contains(&event("Warning", "CleanupFailed", "CleanedUp")), "{told:?}");

    kubectl(format!("delete validatingadmissionpolicybinding,validatingadmissionpolicy {team}")).await;
    env.until_gone("codercontrolplane", &ns, "coder").await;
    assert_eq!(kubectl(format!("get role -n {team} -o name")).await, "");
}
