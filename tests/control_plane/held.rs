//! Our finalizer: it is there before anything is made outside the namespace, it stays until that is gone, and whoever
//! keeps us from setting it is told so. And what is left when nobody was held by it is found.

use crate::policies::{refusal, refused};
use crate::stage::{Stage, condition, is_ready};
use crate::text;
use crds::names::control_plane::{operator_token_secret, workspace_role, workspace_role_binding};
use serde_json::json;
use support::until;
use support::wait::holds;

const FINALIZER: &str = "coder.com/workspace-rbac-cleanup";

async fn kubectl(stage: &Stage, words: &str) -> String {
    stage.cluster.kubectl(words).await.expect_ok()
}

async fn agree(stage: &Stage, team: &str, ns: &str) {
    kubectl(stage, &format!("label namespace {team} --overwrite coder.com/workspaces-from={ns}")).await;
}

/// How many Roles and RoleBindings of a control plane a namespace has.
async fn granted(stage: &Stage, place: &str, name: &str) -> usize {
    let words = format!("get role,rolebinding -n {place} -o name -l coder.com/control-plane={name}");
    kubectl(stage, &words).await.lines().count()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_prune_that_fails_does_not_let_the_object_go_and_a_suspended_one_stays_held() {
    let stage = Stage::shared().await;
    let (ns, team) = (stage.cluster.namespace("held").await, stage.cluster.namespace("kept").await);
    agree(stage, &team, &ns).await;
    stage.apply(&ns, "coder", &json!({ "rbac": { "workspaceNamespaces": [team] } })).await;
    stage.ready(&ns, "coder").await;
    assert_eq!(granted(stage, &team, "coder").await, 2);
    let rule = json!({ "apiGroups": ["rbac.authorization.k8s.io"], "apiVersions": ["v1"],
        "operations": ["DELETE"], "resources": ["roles"] });
    stage.apply_object(&refusal(&team, &rule, "false", "roles are kept here")).await;
    let role = workspace_role(&ns, "coder", "coder");
    refused(stage, &format!("delete role {role} -n {team} --dry-run=server"), "roles are kept here").await;

    stage.apply(&ns, "coder", &json!({})).await;
    let plane = stage
        .until(&ns, "coder", "the failure to be told", |plane| {
            plane["status"]["observedGeneration"] == plane["metadata"]["generation"]
                && text(condition(plane, "Ready"), "/message").contains("roles are kept here")
        })
        .await;
    assert_eq!(plane["metadata"]["finalizers"], json!([FINALIZER]), "something is left to take back");

    stage.apply(&ns, "coder", &json!({ "suspend": true })).await;
    let plane = stage
        .until(&ns, "coder", "Suspended", |plane| condition(plane, "Suspended")["status"] == "True")
        .await;
    assert_eq!(plane["metadata"]["finalizers"], json!([FINALIZER]));
    kubectl(stage, &format!("delete validatingadmissionpolicybinding,validatingadmissionpolicy {team}"))
        .await;
    kubectl(stage, &format!("delete ccp coder -n {ns} --timeout=60s")).await;
    assert_eq!(granted(stage, &team, "coder").await, 0, "deletion cleans up after a suspended one too");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_finalizer_that_a_policy_refuses_is_told_and_nothing_is_made_elsewhere() {
    let stage = Stage::shared().await;
    let (ns, team) = (stage.cluster.namespace("unheld").await, stage.cluster.namespace("abroad").await);
    agree(stage, &team, &ns).await;
    let rule = json!({ "apiGroups": ["coder.com"], "apiVersions": ["*"], "operations": ["CREATE", "UPDATE"],
        "resources": ["codercontrolplanes"] });
    let expression = "!has(object.metadata.finalizers) || size(object.metadata.finalizers) == 0";
    stage.apply_object(&refusal(&ns, &rule, expression, "no finalizers here")).await;
    stage.apply(&ns, "probe", &json!({ "suspend": true })).await;
    let held = json!({ "metadata": { "finalizers": ["example.com/any"] } });
    let words = format!("patch ccp probe -n {ns} --dry-run=server --type=merge -p {held}");
    refused(stage, &words, "no finalizers here").await;

    stage.apply(&ns, "coder", &json!({ "rbac": { "workspaceNamespaces": [team] } })).await;
    let plane = stage
        .until(&ns, "coder", "the refusal to be told", |plane| {
            condition(plane, "Ready")["reason"] == "FinalizerRefused"
                && condition(plane, "DeploymentAvailable")["status"] == "True"
        })
        .await;
    let message = text(condition(&plane, "Ready"), "/message");
    assert!(message.contains("no finalizers here") && message.contains(FINALIZER), "{message}");
    assert_eq!(condition(&plane, "Stalled")["status"], "True");
    assert_eq!(condition(&plane, "WorkspaceRBACReady")["reason"], "FinalizerRefused");
    assert_eq!(granted(stage, &ns, "coder").await, 2, "at home nobody has to take it back");
    assert_eq!(granted(stage, &team, "coder").await, 0);
    assert!(plane["metadata"]["finalizers"].is_null());

    kubectl(stage, &format!("delete validatingadmissionpolicybinding,validatingadmissionpolicy {ns}")).await;
    let plane = stage.ready(&ns, "coder").await;
    assert_eq!(plane["metadata"]["finalizers"], json!([FINALIZER]));
    assert_eq!(granted(stage, &team, "coder").await, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_is_echoed_whatever_comes_of_it_and_prunes_again() {
    let stage = Stage::shared().await;
    let ns = stage.cluster.namespace("echo").await;
    stage.apply(&ns, "coder", &json!({})).await;
    let plane = stage.ready(&ns, "coder").await;
    // Not asked for, and of ours: as it is left when a generation was swept before it came.
    let owner = json!([{ "apiVersion": "coder.com/v1alpha1", "kind": "CoderControlPlane", "name": "coder",
        "uid": plane["metadata"]["uid"], "controller": true }]);
    let budget = json!({ "apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
        "metadata": { "name": "coder", "namespace": ns, "ownerReferences": owner },
        "spec": { "maxUnavailable": 1, "selector": { "matchLabels": { "a": "b" } } } });
    stage.apply_object(&budget).await;
    stage.pass(&ns, "coder", "prune").await;
    assert_eq!(stage.get("poddisruptionbudget", &ns, "coder").await, None);

    // This breaks a rule, and was stored because no webhook looks at it here.
    stage.apply(&ns, "coder", &json!({ "expose": {} })).await;
    stage.pass(&ns, "coder", "invalid").await;
    stage.apply(&ns, "coder", &json!({ "suspend": true })).await;
    stage.pass(&ns, "coder", "suspended").await;
}

/// A Role, a RoleBinding and a token Secret as they are left by a control plane whose finalizer somebody took away.
async fn left_by(stage: &Stage, ns: &str, name: &str, team: &str) {
    let labels = json!({ "app.kubernetes.io/managed-by": "coder-k8s", "coder.com/control-plane": name,
        "coder.com/control-plane-namespace": ns });
    let uid = "11111111-2222-4333-8444-555555555555";
    let metadata = |place: &str, object: &str| {
        json!({ "name": object, "namespace": place, "labels": labels,
            "annotations": { "coder.com/workspace-rbac-owner-uid": uid, "coder.com/control-plane-uid": uid } })
    };
    let group = "rbac.authorization.k8s.io";
    let role = workspace_role(ns, name, name);
    let secret = operator_token_secret(ns, name);
    for object in [
        json!({ "apiVersion": format!("{group}/v1"), "kind": "Role", "metadata": metadata(team, &role),
            "rules": [{ "apiGroups": [""], "resources": ["pods"], "verbs": ["get"] }] }),
        json!({ "apiVersion": format!("{group}/v1"), "kind": "RoleBinding",
            "metadata": metadata(team, &workspace_role_binding(ns, name, name)),
            "roleRef": { "apiGroup": group, "kind": "Role", "name": role },
            "subjects": [{ "kind": "ServiceAccount", "name": name, "namespace": ns }] }),
        json!({ "apiVersion": "v1", "kind": "Secret", "metadata": metadata(&stage.installation.namespace, &secret),
            "stringData": { "token": "not-a-token" } }),
    ] {
        stage.apply_object(&object).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_vanished_control_plane_left_is_removed_and_what_one_of_its_name_may_want_is_not() {
    let stage = Stage::own().await;
    let ns = stage.cluster.namespace("vanished").await;
    let (team, denying) = (stage.cluster.namespace("crew").await, stage.cluster.namespace("denying").await);
    kubectl(&stage, &format!("label namespace {denying} coder.com/workspaces-from=none")).await;
    // Suspended: it takes over nothing by itself, and has another uid than what was left.
    stage.apply(&ns, "again", &json!({ "suspend": true })).await;
    for name in ["gone", "again"] {
        left_by(&stage, &ns, name, &team).await;
    }
    let flags = ["--orphan-check-interval=3s", "--orphan-grace=2s", "--namespace-consent=off"];
    stage.restart(&flags).await;
    let secret = operator_token_secret(&ns, "gone");
    let home = stage.installation.namespace.clone();
    until("what was left to be removed", crate::stage::LIMIT, async || {
        let secret = stage.get("secret", &home, &secret).await.is_none();
        let left = granted(&stage, &team, "gone").await;
        holds(secret && left == 0, format!("{left} grants, the Secret is gone: {secret}"))
    })
    .await;
    assert_eq!(granted(&stage, &team, "again").await, 2, "an object of that name keeps them");
    assert!(stage.get("secret", &home, &operator_token_secret(&ns, "again")).await.is_some());
    let events = kubectl(&stage, &format!("get events.events.k8s.io -n {home} -o json")).await;
    assert!(events.contains("OrphanRemoved") && events.contains("within a day"), "{events}");

    // `none` holds where nobody is asked for consent, too.
    let spec = json!({ "rbac": { "workspaceNamespaces": [team, denying] } });
    stage.apply(&ns, "coder", &spec).await;
    let plane = stage.until(&ns, "coder", "Ready", is_ready).await;
    assert_eq!(condition(&plane, "WorkspaceRBACReady")["reason"], "ConsentRefused", "{}", plane["status"]);
    assert_eq!((granted(&stage, &team, "coder").await, granted(&stage, &denying, "coder").await), (2, 0));
}
