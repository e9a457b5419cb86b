//! What coderd may do where it runs workspaces: a right that works is never taken away by a refusal, and a namespace
//! decides about itself.

use crate::shared::shared;
use crds::names::control_plane::{workspace_role, workspace_role_binding};
use serde_json::{Value, json};
use support::objects::{condition, is_ready, text};
use support::test_env::LIMIT;
use support::wait::holds;
use support::{TestEnv, until};

const VERBS: [&str; 8] = ["get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"];
/// The account for grants does not hold it, so it cannot be handed on.
const NOT_HELD: &str = "delete secrets";

fn rule(group: &str, resource: &str, verbs: &[&str]) -> Value {
    json!({ "apiGroups": [group], "resources": [resource], "verbs": verbs })
}

/// What the operator grants without being asked for more.
fn usual() -> Vec<Value> {
    [("", "pods"), ("", "persistentvolumeclaims"), ("apps", "deployments")]
        .map(|(group, resource)| rule(group, resource, &VERBS))
        .to_vec()
}

/// The Role and the RoleBinding for the control plane `name` of `home` in a namespace, as they are now.
async fn grant(env: &TestEnv, home: &str, name: &str, place: &str) -> [Option<Value>; 2] {
    let (role, binding) = (workspace_role(home, name, name), workspace_role_binding(home, name, name));
    [env.get("role", place, &role).await, env.get("rolebinding", place, &binding).await]
}

fn versions(grant: &[Option<Value>; 2]) -> Vec<Value> {
    let version = |one: &Option<Value>| one.as_ref().map_or(Value::Null, |one| one["metadata"].clone());
    grant.iter().map(version).map(|metadata| json!([metadata["uid"], metadata["resourceVersion"]])).collect()
}

fn rules(grant: &[Option<Value>; 2]) -> usize {
    let role = grant[0].as_ref().and_then(|role| role["rules"].as_array());
    role.map_or(0, Vec::len)
}

async fn label(env: &TestEnv, namespace: &str, value: &str) {
    let word = if value.is_empty() { "-".to_owned() } else { format!("={value}") };
    let words = format!("label namespace {namespace} --overwrite coder.com/workspaces-from{word}");
    env.cluster.kubectl(&words).await.expect_ok();
}

/// Waits until the rights of coderd are told with this reason, for the generation there is.
async fn until_rbac(env: &TestEnv, namespace: &str, reason: &str) -> Value {
    env.until_reason(namespace, "coder", "WorkspaceRBACReady", reason).await
}

/// Waits until the control plane `coder` of `home` has no rights in a namespace.
async fn until_gone(env: &TestEnv, home: &str, place: &str) {
    until("the grant to be gone", LIMIT, async || {
        let left = grant(env, home, "coder", place).await;
        holds(left.iter().all(Option::is_none), format!("in {place}: {left:?}"))
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rule_that_may_not_be_granted_takes_nothing_away_and_is_named() {
    let env = shared().await;
    let (ns, team) = (env.cluster.namespace("refused").await, env.cluster.namespace("theirs").await);
    label(env, &team, &ns).await;
    let spec = |extra: &Value| json!({ "rbac": { "workspaceNamespaces": [team], "extraRules": extra } });
    env.apply_control_plane(&ns, "coder", &spec(&json!([]))).await;
    env.ready(&ns, "coder").await;
    let all = async || [grant(env, &ns, "coder", &ns).await, grant(env, &ns, "coder", &team).await];
    let before = all().await;
    assert_eq!(before.each_ref().map(rules), [3, 3]);

    // The operator itself may read Secrets, which gives nobody anything.
    let extra = json!([
        rule("", "secrets", &["get", "delete"]),
        rule("example.com", "widgets", &["get"]),
        rule("", "pods", &["get"])
    ]);
    env.apply_control_plane(&ns, "coder", &spec(&extra)).await;
    let plane = env
        .until(&ns, "coder", "the refusal to be told", |plane| {
            plane["status"]["observedGeneration"] == plane["metadata"]["generation"]
                && condition(plane, "WorkspaceRBACReady")["status"] == "False"
        })
        .await;
    for about in ["Ready", "Stalled"] {
        assert_eq!(condition(&plane, about)["reason"], "WorkspaceGrantRefused", "{}", plane["status"]);
    }
    assert_eq!(condition(&plane, "Stalled")["status"], "True");
    let account = format!("{}:{}", env.installation.namespace, env.installation.grants_account);
    for about in ["Ready", "WorkspaceRBACReady"] {
        let message = text(condition(&plane, about), "/message");
        let account = format!("ServiceAccount {}", account.replace(':', "/"));
        for words in ["get,delete secrets", "get widgets.example.com", &account] {
            assert!(message.contains(words), "{about}: {message}");
        }
        assert!(!message.contains("pods"), "held: {message}");
        assert!(message.len() <= 300 && !message.contains('{'), "{message}");
    }
    assert_eq!(all().await.each_ref().map(versions), before.each_ref().map(versions));
    env.reconcile(&ns, "coder", "again").await;
    assert_eq!(all().await.each_ref().map(versions), before.each_ref().map(versions));

    // As the message says: whoever runs the operator gives that account what it is to hand on.
    let name = format!("{ns}-handed-on");
    let role = json!({ "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": { "name": name }, "rules": extra });
    env.apply(&role).await;
    let bind = format!("create clusterrolebinding {name} --clusterrole={name} --serviceaccount={account}");
    env.cluster.kubectl(&bind).await.expect_ok();
    env.ready(&ns, "coder").await;
    assert_eq!(all().await.each_ref().map(rules), [6, 6]);

    // What was granted when it could be is not rewritten when it cannot: so it is after an upgrade from a build whose own
    // account was the limit.
    let granted = all().await;
    env.cluster.kubectl(&format!("delete clusterrolebinding {name}")).await.expect_ok();
    env.reconcile(&ns, "coder", "kept").await;
    let plane = env.ready(&ns, "coder").await;
    assert_eq!(condition(&plane, "WorkspaceRBACReady")["reason"], "Granted", "{}", plane["status"]);
    assert_eq!(all().await.each_ref().map(versions), granted.each_ref().map(versions));
}

/// Everything the older operator, written in Go, leaves of a grant at home.
async fn leave(env: &TestEnv, ns: &str, name: &str, uid: &Value, rules: &[Value]) {
    let labels = json!({ "app.kubernetes.io/managed-by": "coder-k8s", "coder.com/control-plane": name,
        "coder.com/control-plane-namespace": ns });
    let metadata = |object: String| {
        json!({ "name": object, "namespace": ns, "labels": labels,
            "annotations": { "coder.com/workspace-rbac-owner-uid": uid },
            "ownerReferences": [{ "apiVersion": "coder.com/v1alpha1", "kind": "CoderControlPlane", "name": name,
                "uid": uid, "controller": true, "blockOwnerDeletion": true }] })
    };
    let (role, binding) = (workspace_role(ns, name, name), workspace_role_binding(ns, name, name));
    let group = "rbac.authorization.k8s.io";
    let items = [
        json!({ "apiVersion": format!("{group}/v1"), "kind": "Role", "metadata": metadata(role.clone()),
            "rules": rules }),
        json!({ "apiVersion": format!("{group}/v1"), "kind": "RoleBinding", "metadata": metadata(binding),
            "roleRef": { "apiGroup": group, "kind": "Role", "name": role },
            "subjects": [{ "kind": "ServiceAccount", "name": name, "namespace": ns }] }),
    ];
    let list = json!({ "apiVersion": "v1", "kind": "List", "items": items }).to_string();
    let words = "create --field-manager=coder-k8s -f -";
    env.cluster.kubectl_with_input(words, &list).await.expect_ok();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_role_of_the_go_operator_with_more_than_we_may_hand_on_stays_and_works() {
    let env = shared().await;
    let ns = env.cluster.namespace("handed-over").await;
    let beyond = rule("", "secrets", &["delete"]);
    let unwanted = rule("", "services", &["delete"]);
    let with = |more: &[&Value]| -> Vec<Value> {
        usual().into_iter().chain(more.iter().copied().cloned()).collect()
    };
    // What the spec asks for, and what the Role already has.
    let cases = [
        ("same", vec![beyond.clone()], with(&[&beyond])),
        ("wider", vec![beyond.clone()], with(&[&beyond, &unwanted])),
        ("narrowed", vec![], with(&[&beyond])),
    ];
    for (name, extra, left) in &cases {
        let spec = |suspend| json!({ "suspend": suspend, "rbac": { "extraRules": extra } });
        env.apply_control_plane(&ns, name, &spec(true)).await;
        let plane = env.get("codercontrolplane", &ns, name).await.unwrap();
        leave(env, &ns, name, &plane["metadata"]["uid"], left).await;
        env.apply_control_plane(&ns, name, &spec(false)).await;
    }
    let same = env.ready(&ns, "same").await;
    let told = condition(&same, "WorkspaceRBACReady");
    assert_eq!(told["status"], "True", "it works: {told}");
    assert!(text(told, "/message").contains(NOT_HELD), "{told}");
    assert_eq!(rules(&grant(env, &ns, "same", &ns).await), 4);

    let wider = env
        .until(&ns, "wider", "what cannot be taken", |plane| {
            condition(plane, "WorkspaceRBACReady")["status"] == "False"
        })
        .await;
    let told = condition(&wider, "WorkspaceRBACReady");
    assert!(text(told, "/message").contains("delete services"), "{told}");
    assert!(text(told, "/message").contains(NOT_HELD), "{told}");
    assert_eq!(rules(&grant(env, &ns, "wider", &ns).await), 5);

    env.ready(&ns, "narrowed").await;
    assert_eq!(rules(&grant(env, &ns, "narrowed", &ns).await), 3, "what is not asked for is taken");
}

/// The account for grants holds these for its own work, so that the API server would let it hand them on.
#[tokio::test(flavor = "multi_thread")]
async fn a_rule_on_roles_that_admission_never_saw_is_not_handed_on() {
    let env = shared().await;
    let ns = env.cluster.namespace("never").await;
    let roles = rule("rbac.authorization.k8s.io", "roles", &["create"]);
    let finalizers = rule("coder.com", "codercontrolplanes/finalizers", &["update"]);
    for (name, extra, words) in [
        ("roles", &roles, "create roles.rbac.authorization.k8s.io"),
        ("finalizers", &finalizers, "update codercontrolplanes.coder.com/finalizers"),
    ] {
        env.apply_control_plane(&ns, name, &json!({ "rbac": { "extraRules": [extra] } })).await;
        let plane = env
            .until(&ns, name, "the refusal to be told", |plane| {
                condition(plane, "WorkspaceRBACReady")["status"] == "False"
            })
            .await;
        let message = text(condition(&plane, "WorkspaceRBACReady"), "/message");
        assert!(message.contains(&format!("never grants: {words};")), "{message}");
        assert_eq!(grant(env, &ns, name, &ns).await, [None, None], "nothing of it is granted");
    }
    let plane = env.get("codercontrolplane", &ns, "roles").await.unwrap();
    let accepted = condition(&plane, "SpecAccepted");
    assert!(text(accepted, "/message").contains("CODER0501"), "{accepted}");

    // A Role that has such a rule already goes on working.
    let spec = |suspend| json!({ "suspend": suspend, "rbac": { "extraRules": [roles] } });
    env.apply_control_plane(&ns, "before", &spec(true)).await;
    let plane = env.get("codercontrolplane", &ns, "before").await.unwrap();
    let left: Vec<Value> = usual().into_iter().chain([roles.clone()]).collect();
    leave(env, &ns, "before", &plane["metadata"]["uid"], &left).await;
    let before = versions(&grant(env, &ns, "before", &ns).await);
    env.apply_control_plane(&ns, "before", &spec(false)).await;
    let plane = env
        .until(&ns, "before", "what stays to be told", |plane| {
            text(condition(plane, "WorkspaceRBACReady"), "/message").contains("never grants")
        })
        .await;
    assert_eq!(condition(&plane, "WorkspaceRBACReady")["status"], "True", "it works: {}", plane["status"]);
    assert_eq!(versions(&grant(env, &ns, "before", &ns).await), before);
}

#[tokio::test(flavor = "multi_thread")]
async fn consent_that_is_withdrawn_freezes_a_grant_and_none_revokes_it() {
    let env = shared().await;
    let (ns, team) = (env.cluster.namespace("asking").await, env.cluster.namespace("asked").await);
    label(env, &team, &ns).await;
    let spec = |extra: Value| json!({ "rbac": { "workspaceNamespaces": [team], "extraRules": extra } });
    env.apply_control_plane(&ns, "coder", &spec(json!([]))).await;
    until_rbac(env, &ns, "Granted").await;
    let before = versions(&grant(env, &ns, "coder", &team).await);

    label(env, &team, "").await;
    let plane = until_rbac(env, &ns, "GrantFrozen").await;
    let message = text(condition(&plane, "WorkspaceRBACReady"), "/message").to_owned();
    let fix = format!("kubectl label namespace {team} coder.com/workspaces-from={ns} --overwrite");
    assert!(message.contains(&fix), "{message}");
    env.apply_control_plane(&ns, "coder", &spec(json!([rule("", "pods", &["get"])]))).await;
    let plane = env.until(&ns, "coder", "Ready", is_ready).await;
    assert_eq!(condition(&plane, "WorkspaceRBACReady")["reason"], "GrantFrozen");
    assert_eq!(rules(&grant(env, &ns, "coder", &ns).await), 4, "at home the rule is granted");
    label(env, &team, "somebody-else").await;
    env.reconcile(&ns, "coder", "other").await;
    assert_eq!(versions(&grant(env, &ns, "coder", &team).await), before, "neither widened nor removed");

    label(env, &team, "none").await;
    let plane = until_rbac(env, &ns, "ConsentRefused").await;
    until_gone(env, &ns, &team).await;
    assert!(text(condition(&plane, "WorkspaceRBACReady"), "/message").contains(&team));
    assert_eq!(condition(&plane, "Ready")["status"], "True", "others decide about their namespace");
    label(env, &team, &ns).await;
    until_rbac(env, &ns, "Granted").await;
    assert_eq!(rules(&grant(env, &ns, "coder", &team).await), 4);
}

#[tokio::test(flavor = "multi_thread")]
async fn none_revokes_also_while_the_control_plane_is_suspended_and_where_its_spec_no_longer_names_it() {
    let env = shared().await;
    let ns = env.cluster.namespace("resting").await;
    let (named, dropped) = (env.cluster.namespace("named").await, env.cluster.namespace("dropped").await);
    for place in [&named, &dropped] {
        label(env, place, &ns).await;
    }
    env.apply_control_plane(&ns, "coder", &json!({ "rbac": { "workspaceNamespaces": [named, dropped] } }))
        .await;
    until_rbac(env, &ns, "Granted").await;
    let spec = json!({ "suspend": true, "rbac": { "workspaceNamespaces": [named] } });
    env.apply_control_plane(&ns, "coder", &spec).await;
    let before =
        env.until(&ns, "coder", "Suspended", |plane| condition(plane, "Suspended")["status"] == "True").await;
    assert_eq!(rules(&grant(env, &ns, "coder", &dropped).await), 3, "a suspended object prunes nothing");
    for place in [&named, &dropped] {
        label(env, place, "none").await;
        until_gone(env, &ns, place).await;
    }
    env.reconcile(&ns, "coder", "still").await;
    let plane = env.get("codercontrolplane", &ns, "coder").await.unwrap();
    assert_eq!(condition(&plane, "Suspended"), condition(&before, "Suspended"));
    assert_eq!(plane["metadata"]["finalizers"], before["metadata"]["finalizers"]);
    assert_eq!(rules(&grant(env, &ns, "coder", &ns).await), 3, "at home nobody refuses");
}

#[tokio::test(flavor = "multi_thread")]
async fn grants_of_an_object_that_was_restored_are_adopted_under_consent_and_go_with_it() {
    let env = shared().await;
    let ns = env.cluster.namespace("restored").await;
    let (team, other) = (env.cluster.namespace("agreeing").await, env.cluster.namespace("silent").await);
    let unasked = env.cluster.namespace("unasked").await;
    label(env, &team, &ns).await;
    let former = "11111111-2222-4333-8444-555555555555";
    let (role, binding) =
        (workspace_role(&ns, "coder", "coder"), workspace_role_binding(&ns, "coder", "coder"));
    for place in [&ns, &team, &other, &unasked] {
        let metadata = |name: &str| {
            json!({ "name": name, "namespace": place, "labels": { "app.kubernetes.io/managed-by": "coder-k8s",
                    "coder.com/control-plane": "coder", "coder.com/control-plane-namespace": ns },
                "annotations": { "coder.com/workspace-rbac-owner-uid": former } })
        };
        let group = "rbac.authorization.k8s.io";
        env.apply(&json!({ "apiVersion": format!("{group}/v1"), "kind": "Role",
                "metadata": metadata(&role), "rules": usual() }))
            .await;
        env
            .apply(&json!({ "apiVersion": format!("{group}/v1"), "kind": "RoleBinding",
                "metadata": metadata(&binding), "roleRef": { "apiGroup": group, "kind": "Role", "name": role },
                "subjects": [{ "kind": "ServiceAccount", "name": "coder", "namespace": ns }] }))
            .await;
    }
    let left = versions(&grant(env, &ns, "coder", &other).await);
    env.apply_control_plane(&ns, "coder", &json!({ "rbac": { "workspaceNamespaces": [team, other] } })).await;
    let plane = env.ready(&ns, "coder").await;
    for place in [&ns, &team] {
        for one in grant(env, &ns, "coder", place).await {
            let owner = &one.unwrap()["metadata"]["annotations"]["coder.com/workspace-rbac-owner-uid"];
            assert_eq!(*owner, plane["metadata"]["uid"], "in {place}: {}", plane["status"]);
        }
    }
    let told = condition(&plane, "WorkspaceRBACReady");
    assert_eq!(told["reason"], "GrantFrozen");
    let fix = format!("kubectl label namespace {other} coder.com/workspaces-from={ns} --overwrite");
    assert!(text(told, "/message").contains(&fix), "{told}");
    assert_eq!(versions(&grant(env, &ns, "coder", &other).await), left);

    until_gone(env, &ns, &unasked).await;
    env.cluster.kubectl(&format!("delete ccp coder -n {ns} --timeout=60s")).await.expect_ok();
    assert_eq!(grant(env, &ns, "coder", &other).await, [None, None], "nobody is left who wants them");
}

/// Anybody who may write Roles can make one that looks as if an earlier control plane had left it, and hold it.
#[tokio::test(flavor = "multi_thread")]
async fn a_role_that_looks_like_a_former_one_and_is_held_fails_nobody_and_holds_nobody() {
    let env = shared().await;
    let (ns, evil) = (env.cluster.namespace("victim").await, env.cluster.namespace("evil").await);
    env.apply_control_plane(&ns, "coder", &json!({})).await;
    env.ready(&ns, "coder").await;
    env.apply(
        &json!({ "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": { "name": "evil",
        "namespace": evil, "finalizers": ["example.com/held"],
        "annotations": { "coder.com/workspace-rbac-owner-uid": "another" },
        "labels": { "app.kubernetes.io/managed-by": "coder-k8s", "coder.com/control-plane": "coder",
            "coder.com/control-plane-namespace": ns } } }),
    )
    .await;
    env.until_object("role", &evil, "evil", "removed, and held", |role| {
        role["metadata"]["deletionTimestamp"].is_string()
    })
    .await;
    let plane = env.reconcile(&ns, "coder", "again").await;
    assert!(is_ready(&plane), "{}", plane["status"]);
    env.cluster.kubectl(&format!("delete ccp coder -n {ns} --wait=false")).await.expect_ok();
    env.until_gone("codercontrolplane", &ns, "coder").await;
    let release =
        format!("patch role evil -n {evil} --type=merge -p {{\"metadata\":{{\"finalizers\":null}}}}");
    env.cluster.kubectl(&release).await.expect_ok();
}
