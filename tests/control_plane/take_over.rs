//! What the older operator, written in Go, leaves behind is taken over in place: every object, with the marks it leaves.

use crate::stage::Stage;
use crate::text;
use crds::names::control_plane::{workspace_role, workspace_role_binding};
use serde_json::{Value, json};

const FINALIZER: &str = "coder.com/workspace-rbac-cleanup";

/// Everything that operator makes for a control plane named `coder`, as it makes it.
fn leftovers(ns: &str, uid: &Value) -> Vec<Value> {
    let labels = json!({ "app.kubernetes.io/name": "coder-control-plane", "app.kubernetes.io/instance": "coder",
        "app.kubernetes.io/managed-by": "coder-k8s" });
    let owner = json!([{ "apiVersion": "coder.com/v1alpha1", "kind": "CoderControlPlane", "name": "coder",
        "uid": uid, "controller": true, "blockOwnerDeletion": true }]);
    let metadata =
        |name: &str| json!({ "name": name, "namespace": ns, "labels": labels, "ownerReferences": owner });
    let mut of_role = labels.clone();
    of_role["coder.com/control-plane"] = json!("coder");
    of_role["coder.com/control-plane-namespace"] = json!(ns);
    let rbac = |name: &str| {
        json!({ "name": name, "namespace": ns, "labels": of_role, "ownerReferences": owner,
        "annotations": { "coder.com/workspace-rbac-owner-uid": uid } })
    };
    let (role, binding) =
        (workspace_role(ns, "coder", "coder"), workspace_role_binding(ns, "coder", "coder"));
    let verbs = ["get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"];
    let group = "rbac.authorization.k8s.io";
    vec![
        json!({ "apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata("coder") }),
        json!({ "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": rbac(&role),
            "rules": [{ "apiGroups": [""], "resources": ["pods"], "verbs": verbs }] }),
        json!({ "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": rbac(&binding),
            "roleRef": { "apiGroup": group, "kind": "Role", "name": role },
            "subjects": [{ "kind": "ServiceAccount", "name": "coder", "namespace": ns }] }),
        json!({ "apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata("coder"),
            "spec": { "replicas": 1, "selector": { "matchLabels": labels }, "template": { "metadata": { "labels": labels },
                "spec": { "serviceAccountName": "coder", "containers": [{ "name": "coder",
                    "image": "ghcr.io/coder/coder:v2.36.1", "args": ["--http-address=0.0.0.0:8080"],
                    "env": [{ "name": "OLD", "value": "1" }, { "name": "LEFT_BEHIND", "value": "1" }] }] } } } }),
        json!({ "apiVersion": "v1", "kind": "Service", "metadata": metadata("coder"),
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

#[tokio::test(flavor = "multi_thread")]
async fn what_the_go_operator_left_behind_is_taken_over_in_place() {
    let stage = Stage::shared().await;
    let ns = stage.cluster.namespace("takeover").await;
    let env = |suspend: bool| json!({ "suspend": suspend, "extraEnv": [{ "name": "OLD", "value": "1" }] });
    // Suspended, so that everything can be laid out as the older operator leaves it.
    stage.apply(&ns, "coder", &env(true)).await;
    let plane = stage.get("codercontrolplane", &ns, "coder").await.unwrap();
    let left = leftovers(&ns, &plane["metadata"]["uid"]);
    let as_go = async |words: &str, input: &Value| {
        let words = format!("{words} --field-manager=coder-k8s");
        stage.cluster.kubectl_with_input(&words, &input.to_string()).await.expect_ok();
    };
    for object in &left {
        as_go("create -f -", object).await;
    }
    let finalizer = json!({ "metadata": { "finalizers": [FINALIZER] } });
    as_go(&format!("patch ccp coder -n {ns} --type=merge -p {finalizer}"), &Value::Null).await;
    let status =
        json!({ "status": { "phase": "Ready", "operatorAccessReady": false, "licenseTier": "none" } });
    as_go(&format!("patch ccp coder -n {ns} --subresource=status --type=merge -p {status}"), &Value::Null)
        .await;
    let live = async || -> Vec<Value> {
        let mut live = Vec::new();
        for object in &left {
            let (kind, name) = (text(object, "/kind").to_lowercase(), text(object, "/metadata/name"));
            live.push(stage.get(&kind, &ns, name).await.unwrap());
        }
        live
    };
    let before = live().await;
    assert!(before.iter().all(|object| marks(object) == ["Update"]), "as seen on a running cluster");

    stage.apply(&ns, "coder", &env(false)).await;
    let plane = stage.ready(&ns, "coder").await;
    let taken = live().await;
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

    stage.apply(&ns, "coder", &json!({ "suspend": false })).await;
    stage
        .until_object("deployment", &ns, "coder", "the variable to be gone", |object| {
            object["spec"].is_object() && !variables(object).contains("OLD")
        })
        .await;
}
