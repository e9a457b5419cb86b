//! Our finalizer: it is there before anything is made outside the namespace, it stays until that is gone, and whoever
//! keeps us from setting it is told so. And what is left when nobody was held by it is found.

use crate::policies::{refusal, refused};
use crate::shared::{own, shared};
use crds::names::control_plane::{operator_token_secret, workspace_role, workspace_role_binding};
use serde_json::json;
use support::objects::{condition, is_ready, text};
use support::test_env::LIMIT;
use support::wait::holds;
use support::{TestEnv, until};

const FINALIZER: &str = "coder.com/workspace-rbac-cleanup";

async fn kubectl(env: &TestEnv, words: &str) -> String {
    env.cluster.kubectl(words).await.expect_ok()
}

async fn agree(env: &TestEnv, team: &str, ns: &str) {
    kubectl(env, &format!("label namespace {team} --overwrite coder.com/workspaces-from={ns}")).await;
}

/// How many Roles and RoleBindings of a control plane a namespace has.
async fn granted(env: &TestEnv, place: &str, name: &str) -> usize {
    let words = format!("get role,rolebinding -n {place} -o name -l coder.com/control-plane={name}");
    kubectl(env, &words).await.lines().count()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_prune_that_fails_does_not_let_the_object_go_and_a_suspended_one_stays_held() {
    let env = shared().await;
    let (ns, team) = (env.cluster.namespace("held").await, env.cluster.namespace("kept").await);
    agree(env, &team, &ns).await;
    env.apply_control_plane(&ns, "coder", &json!({ "rbac": { "workspaceNamespaces": [team] } })).await;
    env.ready(&ns, "coder").await;
    assert_eq!(granted(env, &team, "coder").await, 2);
    let rule = json!({ "apiGroups": ["rbac.authorization.k8s.io"], "apiVersions": ["v1"],
        "operations": ["DELETE"], "resources": ["roles"] });
    env.apply(&refusal(&team, &rule, "false", "roles are kept here")).await;
    let role = workspace_role(&ns, "coder", "coder");
    refused(env, &format!("delete role {role} -n {team} --dry-run=server"), "roles are kept here").await;

    env.apply_control_plane(&ns, "coder", &json!({})).await;
    let plane = env
        .until(&ns, "coder", "the failure to be told", |plane| {
            plane["status"]["observedGeneration"] == plane["metadata"]["generation"]
                && text(condition(plane, "Ready"), "/message").contains("roles are kept here")
        })
        .await;
    assert_eq!(plane["metadata"]["finalizers"], json!([FINALIZER]), "something is left to take back");

    env.apply_control_plane(&ns, "coder", &json!({ "suspend": true })).await;
    let plane =
        env.until(&ns, "coder", "Suspended", |plane| condition(plane, "Suspended")["status"] == "True").await;
    assert_eq!(plane["metadata"]["finalizers"], json!([FINALIZER]));
    kubectl(env, &format!("delete validatingadmissionpolicybinding,validatingadmissionpolicy {team}")).await;
    kubectl(env, &format!("delete ccp coder -n {ns} --timeout=60s")).await;
    assert_eq!(granted(env, &team, "coder").await, 0, "deletion cleans up after a suspended one too");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_finalizer_that_a_policy_refuses_is_told_and_nothing_is_made_elsewhere() {
    let env = shared().await;
    let (ns, team) = (env.cluster.namespace("unheld").await, env.cluster.namespace("abroad").await);
    agree(env, &team, &ns).await;
    let rule = json!({ "apiGroups": ["coder.com"], "apiVersions": ["*"], "operations": ["CREATE", "UPDATE"],
        "resources": ["codercontrolplanes"] });
    let expression = "!has(object.metadata.finalizers) || size(object.metadata.finalizers) == 0";
    env.apply(&refusal(&ns, &rule, expression, "no finalizers here")).await;
    env.apply_control_plane(&ns, "probe", &json!({ "suspend": true })).await;
    let held = json!({ "metadata": { "finalizers": ["example.com/any"] } });
    let words = format!("patch ccp probe -n {ns} --dry-run=server --type=merge -p {held}");
    refused(env, &words, "no finalizers here").await;

    env.apply_control_plane(&ns, "coder", &json!({ "rbac": { "workspaceNamespaces": [team] } })).await;
    let plane = env
        .until(&ns, "coder", "the refusal to be told", |plane| {
            condition(plane, "Ready")["reason"] == "FinalizerRefused"
                && condition(plane, "DeploymentAvailable")["status"] == "True"
        })
        .await;
    let message = text(condition(&plane, "Ready"), "/message");
    assert!(message.contains("no finalizers here") && message.contains(FINALIZER), "{message}");
    assert_eq!(condition(&plane, "Stalled")["status"], "True");
    assert_eq!(condition(&plane, "WorkspaceRBACReady")["reason"], "FinalizerRefused");
    assert_eq!(granted(env, &ns, "coder").await, 2, "at home nobody has to take it back");
    assert_eq!(granted(env, &team, "coder").await, 0);
    assert!(plane["metadata"]["finalizers"].is_null());

    kubectl(env, &format!("delete validatingadmissionpolicybinding,validatingadmissionpolicy {ns}")).await;
    let plane = env.ready(&ns, "coder").await;
    assert_eq!(plane["metadata"]["finalizers"], json!([FINALIZER]));
    assert_eq!(granted(env, &team, "coder").await, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_is_echoed_whatever_comes_of_it_and_prunes_again() {
    let env = shared().await;
    let ns = env.cluster.namespace("echo").await;
    env.apply_control_plane(&ns, "coder", &json!({})).await;
    let plane = env.ready(&ns, "coder").await;
    // Not asked for, and of ours: as it is left when a generation was swept before it came.
    let owner = json!([{ "apiVersion": "coder.com/v1alpha1", "kind": "CoderControlPlane", "name": "coder",
        "uid": plane["metadata"]["uid"], "controller": true }]);
    let budget = json!({ "apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
        "metadata": { "name": "coder", "namespace": ns, "ownerReferences": owner },
        "spec": { "maxUnavailable": 1, "selector": { "matchLabels": { "a": "b" } } } });
    env.apply(&budget).await;
    env.reconcile(&ns, "coder", "prune").await;
    assert_eq!(env.get("poddisruptionbudget", &ns, "coder").await, None);

    // This breaks a rule, and was stored because no webhook looks at it here.
    env.apply_control_plane(&ns, "coder", &json!({ "expose": {} })).await;
    env.reconcile(&ns, "coder", "invalid").await;
    env.apply_control_plane(&ns, "coder", &json!({ "suspend": true })).await;
    env.reconcile(&ns, "coder", "suspended").await;
}

/// A Role, a RoleBinding and a token Secret as they are left by a control plane whose finalizer somebody took away.
async fn left_by(env: &TestEnv, ns: &str, name: &str, team: &str) {
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
        json!({ "apiVersion": "v1", "kind": "Secret", "metadata": metadata(&env.installation.namespace, &secret),
            "stringData": { "token": "not-a-token" } }),
    ] {
        env.apply(&object).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_vanished_control_plane_left_is_removed_and_what_one_of_its_name_may_want_is_not() {
    let env = own().await;
    let ns = env.cluster.namespace("vanished").await;
    let (team, denying) = (env.cluster.namespace("crew").await, env.cluster.namespace("denying").await);
    kubectl(&env, &format!("label namespace {denying} coder.com/workspaces-from=none")).await;
    // Suspended: it takes over nothing by itself, and has another uid than what was left.
    env.apply_control_plane(&ns, "again", &json!({ "suspend": true })).await;
    for name in ["gone", "again"] {
        left_by(&env, &ns, name, &team).await;
    }
    let flags = ["--orphan-check-interval=3s", "--orphan-grace=2s", "--namespace-consent=off"];
    env.restart(&flags).await;
    let secret = operator_token_secret(&ns, "gone");
    let home = env.installation.namespace.clone();
    until("what was left to be removed", LIMIT, async || {
        let secret = env.get("secret", &home, &secret).await.is_none();
        let left = granted(&env, &team, "gone").await;
        holds(secret && left == 0, format!("{left} grants, the Secret is gone: {secret}"))
    })
    .await;
    assert_eq!(granted(&env, &team, "again").await, 2, "an object of that name keeps them");
    assert!(env.get("secret", &home, &operator_token_secret(&ns, "again")).await.is_some());
    let events = kubectl(&env, &format!("get events.events.k8s.io -n {home} -o json")).await;
    assert!(events.contains("OrphanRemoved") && events.contains("within a day"), "{events}");

    // `none` holds where nobody is asked for consent, too.
    let spec = json!({ "rbac": { "workspaceNamespaces": [team, denying] } });
    env.apply_control_plane(&ns, "coder", &spec).await;
    let plane = env.until(&ns, "coder", "Ready", is_ready).await;
    assert_eq!(condition(&plane, "WorkspaceRBACReady")["reason"], "ConsentRefused", "{}", plane["status"]);
    assert_eq!((granted(&env, &team, "coder").await, granted(&env, &denying, "coder").await), (2, 0));
}
