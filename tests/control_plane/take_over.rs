//! What the older operator, written in Go, leaves behind is taken over in place: every object, with the marks it leaves.

use crate::shared::{former, shared};
use crds::names::control_plane::{workspace_role, workspace_role_binding};
use serde_json::{Value, json};
use support::cluster::kustomize;
use support::installation::repository;
use support::objects::{self, condition, is_ready, text};
use support::{Cluster, TestEnv};

const FINALIZER: &str = "coder.com/workspace-rbac-cleanup";

/// Everything that operator makes for a control plane of this name, as it makes it.
fn leftovers(ns: &str, plane: &str, uid: &Value) -> Vec<Value> {
    let labels = json!({ "app.kubernetes.io/name": "coder-control-plane", "app.kubernetes.io/instance": plane,
        "app.kubernetes.io/managed-by": "coder-k8s" });
    let owner = json!([{ "apiVersion": "coder.com/v1alpha1", "kind": "CoderControlPlane", "name": plane,
        "uid": uid, "controller": true, "blockOwnerDeletion": true }]);
    let metadata =
        |name: &str| json!({ "name": name, "namespace": ns, "labels": labels, "ownerReferences": owner });
    let mut of_role = labels.clone();
    of_role["coder.com/control-plane"] = json!(plane);
    of_role["coder.com/control-plane-namespace"] = json!(ns);
    let rbac = |name: &str| {
        json!({ "name": name, "namespace": ns, "labels": of_role, "ownerReferences": owner,
        "annotations": { "coder.com/workspace-rbac-owner-uid": uid } })
    };
    let (role, binding) = (workspace_role(ns, plane, plane), workspace_role_binding(ns, plane, plane));
    let verbs = ["get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"];
    let group = "rbac.authorization.k8s.io";
    vec![
        json!({ "apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata(plane) }),
        json!({ "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": rbac(&role),
            "rules": [{ "apiGroups": [""], "resources": ["pods"], "verbs": verbs }] }),
        json!({ "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": rbac(&binding),
            "roleRef": { "apiGroup": group, "kind": "Role", "name": role },
            "subjects": [{ "kind": "ServiceAccount", "name": plane, "namespace": ns }] }),
        json!({ "apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata(plane),
            "spec": { "replicas": 1, "selector": { "matchLabels": labels }, "template": { "metadata": { "labels": labels },
                "spec": { "serviceAccountName": plane, "containers": [{ "name": "coder",
                    "image": "ghcr.io/coder/coder:v2.36.1", "args": ["--http-address=0.0.0.0:8080"],
                    "env": [{ "name": "OLD", "value": "1" }, { "name": "LEFT_BEHIND", "value": "1" }] }] } } } }),
        json!({ "apiVersion": "v1", "kind": "Service", "metadata": metadata(plane),
            "spec": { "type": "ClusterIP", "selector": labels,
                "ports": [{ "name": "http", "port": 80, "targetPort": 8080, "protocol": "TCP" }] } }),
    ]
}

/// The operations by which fields of an object were written in our name, without those of its status.
fn marks(object: &Value) -> Vec<&str> {
    let entries = object["metadata"]["managedFields"].as_array().unwrap().iter();
    let ours = entries.filter(|entry| entry["manager"] == "coder-k8s" && entry["subresource"].is_null());
    ours.map(|entry| text(entry, "/operation")).collect()
}

/// Leaves objects behind as the older operator does, with its finalizer and its status on the control plane.
async fn leave(cluster: &Cluster, ns: &str, plane: &str, left: &[Value]) {
    let as_go = async |words: &str, input: &Value| {
        let words = format!("{words} --field-manager=coder-k8s");
        cluster.kubectl_with_input(&words, &input.to_string()).await.expect_ok();
    };
    let list = json!({ "apiVersion": "v1", "kind": "List", "items": left });
    as_go("create -f -", &list).await;
    let finalizer = json!({ "metadata": { "finalizers": [FINALIZER] } });
    as_go(&format!("patch ccp {plane} -n {ns} --type=merge -p {finalizer}"), &Value::Null).await;
    let status =
        json!({ "status": { "phase": "Ready", "operatorAccessReady": false, "licenseTier": "none" } });
    as_go(&format!("patch ccp {plane} -n {ns} --subresource=status --type=merge -p {status}"), &Value::Null)
        .await;
}

/// The same objects as they are now.
async fn live(env: &TestEnv, ns: &str, left: &[Value]) -> Vec<Value> {
    let mut live = Vec::new();
    for object in left {
        let (kind, name) = (text(object, "/kind").to_lowercase(), text(object, "/metadata/name"));
        live.push(env.get(&kind, ns, name).await.unwrap());
    }
    live
}

/// Control planes that run and break a rule of ours: name, code of the rule, spec.
fn broken() -> [(&'static str, &'static str, Value); 4] {
    let wildcard = json!({ "host": "coder.example.com", "wildcardHost": "apps.example.com" });
    let (one, two) = (json!({ "name": "OLD", "value": "0" }), json!({ "name": "OLD", "value": "1" }));
    [
        ("empty", "CODER0202", json!({ "serviceAccount": { "name": "" }, "priorityClassName": "" })),
        ("doubled", "CODER0210", json!({ "extraEnv": [one, two] })),
        ("unsaid", "CODER0302", json!({ "expose": {} })),
        ("wildcard", "CODER0304", json!({ "expose": { "ingress": wildcard } })),
    ]
}

/// The definitions as the older operator ships them, as far as it matters here: without our rules.
async fn without_rules() -> Value {
    fn strip(value: &mut Value) {
        match value {
            Value::Object(map) => {
                for rule in ["validations", "list-type", "list-map-keys"] {
                    map.remove(&format!("x-kubernetes-{rule}"));
                }
                map.values_mut().for_each(strip);
            }
            Value::Array(items) => items.iter_mut().for_each(strip),
            _ => {}
        }
    }
    let yaml = kustomize(&repository().join("crds")).await.expect_ok();
    let mut definitions: Vec<Value> = serde_saphyr::from_multiple(&yaml).unwrap();
    definitions.iter_mut().for_each(strip);
    json!({ "apiVersion": "v1", "kind": "List", "items": definitions })
}

/// Lays out what the older operator ran before anything of ours is installed; returns its namespace.
pub async fn lay_out(cluster: &Cluster) -> String {
    let ns = cluster.namespace("former").await;
    let definitions = without_rules().await.to_string();
    cluster.kubectl_with_input("apply --server-side -f -", &definitions).await.expect_ok();
    cluster.crds_established().await;
    cluster.forget_discovery();
    for (name, _, spec) in broken() {
        let plane = objects::control_plane(&ns, name, &spec);
        let stored = cluster.kubectl_with_input("create -o json -f -", &plane.to_string()).await.expect_ok();
        let stored: Value = serde_json::from_str(&stored).unwrap();
        leave(cluster, &ns, name, &leftovers(&ns, name, &stored["metadata"]["uid"])).await;
    }
    ns
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_that_break_rules_go_on_running_and_their_changes_are_rolled_out() {
    let env = shared().await;
    let ns = former().await;
    for (name, code, _) in broken() {
        let plane = env.ready(ns, name).await;
        let accepted = condition(&plane, "SpecAccepted");
        assert_eq!((&accepted["status"], &accepted["reason"]), (&json!("False"), &json!("RulesBroken")));
        assert!(text(accepted, "/message").contains(code), "{accepted}");
        let left = leftovers(ns, name, &plane["metadata"]["uid"]);
        for (object, live) in left.iter().zip(live(env, ns, &left).await) {
            assert_eq!(marks(&live), ["Apply"], "{name}: {} is taken over", object["kind"]);
        }
        let deployment = async || env.get("deployment", ns, name).await.unwrap();
        let (before, revision) =
            (deployment().await, "/metadata/annotations/deployment.kubernetes.io~1revision");
        assert!(text(&before, revision).parse::<u32>().unwrap() <= 2, "{name}: at most one rollout");
        assert_eq!(
            before.pointer("/spec/template/spec/containers/0/image").unwrap(),
            "ghcr.io/coder/coder:v2.36.1"
        );
        let change = r#"{"spec":{"extraArgs":["--verbose"]}}"#;
        env.cluster.kubectl(&format!("patch ccp {name} -n {ns} --type=merge -p {change}")).await.expect_ok();
        env.ready(ns, name).await;
        let after = deployment().await;
        assert_eq!(after["metadata"]["uid"], before["metadata"]["uid"]);
        assert!(
            after["spec"].to_string().contains("--verbose"),
            "{name}: a change of the spec is rolled out"
        );
    }
    let ingress = env.get("ingress", ns, "wildcard").await.unwrap();
    assert!(ingress["spec"].to_string().contains("apps.example.com"));
    // Mended, it is accepted.
    let mended = r#"[{"op":"remove","path":"/spec/expose"}]"#;
    env.cluster.kubectl(&format!("patch ccp unsaid -n {ns} --type=json -p {mended}")).await.expect_ok();
    env.until(ns, "unsaid", "to be accepted", |plane| {
        condition(plane, "SpecAccepted")["status"] == "True" && is_ready(plane)
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_go_operator_left_behind_is_taken_over_in_place() {
    let env = shared().await;
    let ns = env.cluster.namespace("takeover").await;
    let variables =
        |suspend: bool| json!({ "suspend": suspend, "extraEnv": [{ "name": "OLD", "value": "1" }] });
    // Suspended, so that everything can be laid out as the older operator leaves it.
    env.apply_control_plane(&ns, "coder", &variables(true)).await;
    let plane = env.get("codercontrolplane", &ns, "coder").await.unwrap();
    let left = leftovers(&ns, "coder", &plane["metadata"]["uid"]);
    leave(&env.cluster, &ns, "coder", &left).await;
    let before = live(env, &ns, &left).await;
    assert!(before.iter().all(|object| marks(object) == ["Update"]), "as seen on a running cluster");

    env.apply_control_plane(&ns, "coder", &variables(false)).await;
    let plane = env.ready(&ns, "coder").await;
    let taken = live(env, &ns, &left).await;
    for (old, new) in before.iter().zip(&taken) {
        assert_eq!(new["metadata"]["uid"], old["metadata"]["uid"], "{} is the same object", old["kind"]);
        assert_eq!(marks(new), ["Apply"], "{}", old["kind"]);
    }
    assert!(plane["metadata"]["finalizers"].is_null(), "nothing outside the namespace: nobody holds it");
    let deployment = &taken[3];
    let revision = text(deployment, "/metadata/annotations/deployment.kubernetes.io~1revision");
    assert!(revision.parse::<u32>().unwrap() <= 2, "at most one rollout");
    let variables =
        |object: &Value| object.pointer("/spec/template/spec/containers/0/env").unwrap().to_string();
    assert!(variables(deployment).contains("OLD") && !variables(deployment).contains("LEFT_BEHIND"));
    assert_eq!(taken[1]["rules"].as_array().unwrap().len(), 3, "the Role is brought up to date");

    env.apply_control_plane(&ns, "coder", &json!({ "suspend": false })).await;
    env.until_object("deployment", &ns, "coder", "the variable to be gone", |object| {
        object["spec"].is_object() && !variables(object).contains("OLD")
    })
    .await;
}
