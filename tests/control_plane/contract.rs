//! The contract of a CoderControlPlane by name: what is there without a spec, who owns what, what the status keeps.

use crate::is_controlled;
use crate::shared::shared;
use crds::names::control_plane::{workspace_role, workspace_role_binding};
use serde_json::{Value, json};
use support::objects::{condition, is_ready, text};

#[tokio::test(flavor = "multi_thread")]
async fn spec_absent_is_a_spec_of_defaults() {
    let env = shared().await;
    let ns = env.cluster.namespace("absent").await;
    let manifest = json!({ "apiVersion": "coder.com/v1alpha1", "kind": "CoderControlPlane",
        "metadata": { "name": "coder", "namespace": ns } });
    env.apply(&manifest).await;
    let plane = env.ready(&ns, "coder").await;
    assert_eq!(plane["spec"], json!({}), "nothing but the one default of the schema is stored");
    assert_eq!(plane["status"]["resolved"]["replicas"], 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn defaults_reach_the_children_and_are_shown_as_resolved() {
    let env = shared().await;
    let ns = env.cluster.namespace("defaults").await;
    env.apply_control_plane(&ns, "coder", &json!({})).await;
    let plane = env.ready(&ns, "coder").await;
    let deployment = env.get("deployment", &ns, "coder").await.unwrap();
    let service = env.get("service", &ns, "coder").await.unwrap();
    let resolved = &plane["status"]["resolved"];
    let container = deployment.pointer("/spec/template/spec/containers/0").unwrap();
    assert_eq!(
        (&container["image"], &deployment["spec"]["replicas"]),
        (&resolved["image"], &resolved["replicas"])
    );
    assert_eq!(container["readinessProbe"]["httpGet"]["path"], "/healthz");
    assert!(container["livenessProbe"].is_null(), "off unless asked for");
    assert_eq!(
        (&service["spec"]["type"], &service["spec"]["ports"][0]["port"]),
        (&json!("ClusterIP"), &json!(80))
    );
    assert_eq!(service["spec"]["ports"][0]["targetPort"], 8080);
}

#[tokio::test(flavor = "multi_thread")]
async fn owner_references_are_on_every_child_of_the_namespace_and_lead_to_its_end() {
    let env = shared().await;
    let ns = env.cluster.namespace("owned").await;
    let spec = json!({ "podDisruptionBudget": {}, "expose": { "ingress": { "host": "a.example.com" } } });
    env.apply_control_plane(&ns, "coder", &spec).await;
    let plane = env.ready(&ns, "coder").await;
    let (role, binding) =
        (workspace_role(&ns, "coder", "coder"), workspace_role_binding(&ns, "coder", "coder"));
    let children = [
        ("deployment", "coder"),
        ("service", "coder"),
        ("serviceaccount", "coder"),
        ("ingress", "coder"),
        ("poddisruptionbudget", "coder"),
        ("role", role.as_str()),
        ("rolebinding", binding.as_str()),
    ];
    for (kind, name) in children {
        let child = env.get(kind, &ns, name).await.unwrap_or_else(|| panic!("{kind} {name}"));
        assert!(is_controlled(&child, &plane), "{kind}");
    }
    env.cluster.kubectl(&format!("delete ccp coder -n {ns} --timeout=60s")).await.expect_ok();
    for (kind, name) in children {
        env.until_gone(kind, &ns, name).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn phase_transitions_follow_ready_from_pending_and_back() {
    let env = shared().await;
    let ns = env.cluster.namespace("phase").await;
    env.apply_control_plane(&ns, "coder", &json!({ "envFrom": [{ "secretRef": { "name": "settings" } }] }))
        .await;
    let phase_is = async |wanted: &str| {
        let plane = env
            .until(&ns, "coder", wanted, |plane| {
                plane["status"]["phase"] == wanted
                    && plane["status"]["observedGeneration"] == plane["metadata"]["generation"]
            })
            .await;
        assert_eq!(wanted == "Ready", is_ready(&plane), "{}", plane["status"]);
    };
    phase_is("Pending").await;
    env.apply_control_plane(&ns, "coder", &json!({})).await;
    phase_is("Ready").await;
    env.apply_control_plane(&ns, "coder", &json!({ "envFrom": [{ "secretRef": { "name": "settings" } }] }))
        .await;
    phase_is("Pending").await;
    env.apply_control_plane(&ns, "coder", &json!({ "replicas": 0 })).await;
    phase_is("Ready").await;
}

/// A status without what a request for a reconcile changes.
fn lasting(plane: &Value) -> Value {
    let mut status = plane["status"].clone();
    status.as_object_mut().unwrap().remove("lastHandledReconcileAt");
    status
}

#[tokio::test(flavor = "multi_thread")]
async fn status_persistence_across_passes_and_changes_of_the_spec() {
    let env = shared().await;
    let ns = env.cluster.namespace("persistence").await;
    env.apply_control_plane(&ns, "coder", &json!({})).await;
    let first = env.ready(&ns, "coder").await;
    let again = env.reconcile(&ns, "coder", "again").await;
    assert_eq!(lasting(&again), lasting(&first), "times of transitions stay, too");
    env.apply_control_plane(&ns, "coder", &json!({ "expose": { "ingress": { "host": "a.example.com" } } }))
        .await;
    let changed = env
        .until(&ns, "coder", "exposed", |plane| {
            condition(plane, "Exposed")["status"] == "True" && is_ready(plane)
        })
        .await;
    for field in ["url", "version", "selector", "licenseTier", "entitlementsLastChecked"] {
        assert!(!first["status"][field].is_null(), "{field}");
        assert_eq!(changed["status"][field], first["status"][field], "{field}");
    }
    let since = |plane: &Value, about: &str| text(condition(plane, about), "/lastTransitionTime").to_owned();
    assert_eq!(since(&changed, "CoderdReachable"), since(&first, "CoderdReachable"));
}

/// What has lost our label is shown by no watch; it is found by its name all the same.
#[tokio::test(flavor = "multi_thread")]
async fn a_way_in_that_lost_our_label_while_suspended_goes_when_it_is_no_longer_asked_for() {
    let env = shared().await;
    let ns = env.cluster.namespace("stripped").await;
    let expose = json!({ "ingress": { "host": "a.example.com" } });
    env.apply_control_plane(&ns, "coder", &json!({ "expose": expose })).await;
    env.ready(&ns, "coder").await;
    env.apply_control_plane(&ns, "coder", &json!({ "expose": expose, "suspend": true })).await;
    env.until(&ns, "coder", "suspended", |plane| condition(plane, "Suspended")["status"] == "True").await;
    let strip = format!("label ingress coder -n {ns} app.kubernetes.io/managed-by-");
    env.cluster.kubectl(&strip).await.expect_ok();
    env.apply_control_plane(&ns, "coder", &json!({})).await;
    env.ready(&ns, "coder").await;
    env.until_gone("ingress", &ns, "coder").await;
}
