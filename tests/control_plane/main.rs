//! CoderControlPlane on a real API server with the real Deployment controller on simulated nodes: what a user applies,
//! what comes of it, and what its status says.

mod accounts;
mod break_glass;
mod cluster_domain;
mod contract;
mod drift;
mod events;
mod grants;
mod held;
mod helm_release;
mod kept;
mod policies;
mod references;
mod restart;
mod shared;
mod take_over;
mod tenants;
mod trouble;
mod verified;
mod watched;

use serde_json::{Value, json};
use shared::shared;
use std::time::Duration;
use support::objects::{condition, is_ready, text};
use support::wait::holds;

fn is_controlled(child: &Value, owner: &Value) -> bool {
    let owners = child["metadata"]["ownerReferences"].as_array();
    owners
        .into_iter()
        .flatten()
        .any(|one| one["uid"] == owner["metadata"]["uid"] && one["controller"] == true)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_comes_from_an_empty_spec_and_says_so() {
    let env = shared().await;
    let ns = env.cluster.namespace("empty").await;
    env.apply_control_plane(&ns, "coder", &json!({})).await;
    let plane = env.ready(&ns, "coder").await;
    let status = &plane["status"];
    assert_eq!(status["phase"], "Ready");
    assert_eq!(status["url"], format!("http://coder.{ns}.svc.cluster.local:80"));
    assert_eq!(status["resolved"]["image"], "ghcr.io/coder/coder:v2.36.1");
    assert_eq!(status["version"], "v2.36.1", "{status}");
    assert_eq!(status["deploymentID"].as_str().map(str::len), Some(36), "{status}");
    assert_eq!((&status["replicas"], &status["readyReplicas"]), (&json!(1), &json!(1)));
    for name in ["DeploymentAvailable", "WorkspaceRBACReady", "CoderdReachable"] {
        assert_eq!(condition(&plane, name)["status"], "True", "{name}: {status}");
    }
    assert!(
        plane["metadata"]["finalizers"].is_null(),
        "nothing outside the namespace, nothing to hold it for"
    );
    // An account is made by a create, which fails where somebody else was faster.
    for (kind, operation) in [("deployment", "Apply"), ("service", "Apply"), ("serviceaccount", "Update")] {
        let child = env.get(kind, &ns, "coder").await.unwrap();
        assert!(is_controlled(&child, &plane), "{kind}");
        let managers: Vec<&str> = child["metadata"]["managedFields"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|entry| entry["manager"] == "coder-k8s")
            .map(|entry| text(entry, "/operation"))
            .collect();
        assert_eq!(managers, [operation], "{kind}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_changed_spec_reaches_the_deployment_and_ready_waits_for_the_rollout() {
    let env = shared().await;
    let ns = env.cluster.namespace("propagation").await;
    env.apply_control_plane(
        &ns,
        "coder",
        &json!({ "extraEnv": [{ "name": "A", "value": "1" }, { "name": "B", "value": "2" }] }),
    )
    .await;
    env.ready(&ns, "coder").await;
    env.apply_control_plane(
        &ns,
        "coder",
        &json!({ "replicas": 2, "extraEnv": [{ "name": "B", "value": "3" }] }),
    )
    .await;
    env.ready(&ns, "coder").await;
    let deployment = env.get("deployment", &ns, "coder").await.unwrap();
    assert_eq!(deployment["spec"]["replicas"], 2);
    let variables = deployment.pointer("/spec/template/spec/containers/0/env").unwrap().as_array().unwrap();
    let value = |name: &str| variables.iter().find(|one| one["name"] == name).map(|one| one["value"].clone());
    assert_eq!((value("A"), value("B")), (None, Some(json!("3"))), "what was removed is gone");
    assert_eq!(deployment["status"]["updatedReplicas"], 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_changed_secret_rolls_out_and_a_restart_by_hand_is_respected() {
    let env = shared().await;
    let ns = env.cluster.namespace("checksum").await;
    // Made by another controller, as cert-manager and External Secrets do.
    let maker = json!({ "apiVersion": "example.com/v1", "kind": "Vault", "name": "vault", "controller": true,
        "uid": "11111111-2222-4333-8444-555555555555" });
    let secret = |value: &str| {
        json!({ "apiVersion": "v1", "kind": "Secret", "stringData": { "CODER_EXTRA": value },
            "metadata": { "name": "settings", "namespace": ns, "ownerReferences": [maker] } })
    };
    env.apply_control_plane(&ns, "coder", &json!({ "envFrom": [{ "secretRef": { "name": "settings" } }] }))
        .await;
    let waiting = env
        .until(&ns, "coder", "waiting for the Secret", |plane| {
            condition(plane, "Ready")["reason"] == "ReferenceMissing"
        })
        .await;
    assert!(
        text(condition(&waiting, "Ready"), "/message")
            .contains("settings does not exist; create it or correct spec.envFrom")
    );
    env.apply(&secret("one")).await;
    env.ready(&ns, "coder").await;
    let template = async || {
        env.get("deployment", &ns, "coder").await.unwrap()["spec"]["template"]["metadata"]["annotations"]
            .clone()
    };
    let before = template().await;
    env.apply(&secret("two")).await;
    env.until_object("deployment", &ns, "coder", "another checksum", |deployment| {
        deployment["spec"]["template"]["metadata"]["annotations"] != before && deployment["spec"].is_object()
    })
    .await;
    env.cluster.kubectl(&format!("rollout restart deployment/coder -n {ns}")).await.expect_ok();
    env.reconcile(&ns, "coder", "now").await;
    assert!(template().await["kubectl.kubernetes.io/restartedAt"].is_string());
    let rolled = template().await;
    env.cluster.kubectl(&format!("delete secret settings -n {ns}")).await.expect_ok();
    env.until(&ns, "coder", "the loss to be told", |plane| {
        condition(plane, "Ready")["reason"] == "ReferenceMissing"
    })
    .await;
    assert_eq!(template().await, rolled, "running pods are not rolled into a Secret that is not there");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_object_of_our_name_that_is_not_ours_is_left_alone_and_named() {
    let env = shared().await;
    let ns = env.cluster.namespace("conflict").await;
    let foreign = json!({ "apiVersion": "v1", "kind": "Service", "metadata": { "name": "coder", "namespace": ns },
        "spec": { "ports": [{ "port": 81 }] } });
    env.apply(&foreign).await;
    env.apply_control_plane(&ns, "coder", &json!({})).await;
    let plane =
        env.until(&ns, "coder", "Stalled", |plane| condition(plane, "Stalled")["status"] == "True").await;
    assert_eq!(condition(&plane, "Stalled")["reason"], "ChildConflict");
    assert!(
        text(condition(&plane, "Ready"), "/message")
            .contains("Service coder exists and was not created for this object")
    );
    assert_eq!(
        condition(&plane, "CoderdReachable")["reason"],
        "ServiceNotOurs",
        "a stranger is told nothing"
    );
    let service = env.get("service", &ns, "coder").await.unwrap();
    assert_eq!(service["spec"]["ports"][0]["port"], 81);
    assert!(service["metadata"]["ownerReferences"].is_null());
    assert!(
        env.get("deployment", &ns, "coder").await.is_some(),
        "one conflict keeps nothing else from its place"
    );
    env.cluster.kubectl(&format!("delete service coder -n {ns}")).await.expect_ok();
    // Nobody tells of an object that is not ours: it is looked at every minute.
    support::until("the conflict to heal", Duration::from_secs(75), async || {
        let plane = env.get("codercontrolplane", &ns, "coder").await.unwrap_or_default();
        holds(is_ready(&plane), condition(&plane, "Ready").to_string())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_workspace_namespace_must_agree_and_is_cleaned_up_at_the_end() {
    let env = shared().await;
    let ns = env.cluster.namespace("home").await;
    let team = env.cluster.namespace("team").await;
    let spec = json!({ "rbac": { "workspaceNamespaces": [team, "not-there"] } });
    env.apply_control_plane(&ns, "coder", &spec).await;
    let plane = env.ready(&ns, "coder").await;
    let rbac = condition(&plane, "WorkspaceRBACReady");
    assert_eq!(rbac["status"], "False");
    let message = text(rbac, "/message");
    assert!(
        message.contains(&format!("kubectl label namespace {team} coder.com/workspaces-from={ns}")),
        "{message}"
    );
    assert!(message.contains("namespace not-there does not exist"), "{message}");
    let roles = async || {
        let words = format!("get role,rolebinding -n {team} -o name -l coder.com/control-plane=coder");
        env.cluster.kubectl(&words).await.expect_ok().lines().count()
    };
    assert_eq!(roles().await, 0);
    env.cluster.kubectl(&format!("label namespace {team} coder.com/workspaces-from={ns}")).await.expect_ok();
    env.apply_control_plane(&ns, "coder", &json!({ "rbac": { "workspaceNamespaces": [team] } })).await;
    let plane = env
        .until(&ns, "coder", "the grant", |plane| {
            condition(plane, "WorkspaceRBACReady")["status"] == "True" && is_ready(plane)
        })
        .await;
    assert_eq!(roles().await, 2);
    assert_eq!(plane["metadata"]["finalizers"], json!(["coder.com/workspace-rbac-cleanup"]));
    env.cluster.kubectl(&format!("delete ccp coder -n {ns} --wait=true --timeout=60s")).await.expect_ok();
    assert_eq!(roles().await, 0, "nothing stays behind in another namespace");
    env.until_gone("deployment", &ns, "coder").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn exposure_follows_the_spec_from_ingress_to_gateway_to_none() {
    let env = shared().await;
    let ns = env.cluster.namespace("exposure").await;
    env.apply_control_plane(
        &ns,
        "coder",
        &json!({ "expose": { "ingress": { "host": "coder.example.com" } } }),
    )
    .await;
    let plane = env.ready(&ns, "coder").await;
    assert_eq!(condition(&plane, "Exposed")["status"], "True");
    let ingress = env.get("ingress", &ns, "coder").await.unwrap();
    assert_eq!(ingress["spec"]["rules"][0]["host"], "coder.example.com");
    let gateway = json!({ "expose": { "gateway": { "host": "coder.example.com", "parentRefs": [{ "name": "edge" }] } } });
    env.apply_control_plane(&ns, "coder", &gateway).await;
    env.until_object("httproute", &ns, "coder", "to exist", |route| {
        route["spec"]["parentRefs"][0]["name"] == "edge"
    })
    .await;
    env.until_gone("ingress", &ns, "coder").await;
    env.apply_control_plane(&ns, "coder", &json!({})).await;
    env.until_gone("httproute", &ns, "coder").await;
    let plane = env.ready(&ns, "coder").await;
    assert_eq!(condition(&plane, "Exposed")["reason"], "NotRequested");
}

#[tokio::test(flavor = "multi_thread")]
async fn zero_replicas_are_ready_and_a_suspended_object_is_left_alone() {
    let env = shared().await;
    let ns = env.cluster.namespace("zero").await;
    env.apply_control_plane(&ns, "coder", &json!({ "replicas": 0 })).await;
    let plane = env.ready(&ns, "coder").await;
    assert_eq!(condition(&plane, "Ready")["reason"], "ScaledToZero");
    env.apply_control_plane(&ns, "coder", &json!({ "replicas": 1, "suspend": true })).await;
    let plane =
        env.until(&ns, "coder", "Suspended", |plane| condition(plane, "Suspended")["status"] == "True").await;
    assert_eq!(plane["status"]["observedGeneration"], plane["metadata"]["generation"]);
    assert_eq!(condition(&plane, "Ready")["status"], "True", "it keeps what it said");
    assert_eq!(env.get("deployment", &ns, "coder").await.unwrap()["spec"]["replicas"], 0);
    env.apply_control_plane(&ns, "coder", &json!({ "replicas": 1, "suspend": false })).await;
    let plane = env.ready(&ns, "coder").await;
    assert_eq!(plane["status"]["readyReplicas"], 1);
    assert!(condition(&plane, "Suspended").is_null(), "{plane}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pass_that_changes_nothing_writes_nothing() {
    let env = shared().await;
    let ns = env.cluster.namespace("still").await;
    env.apply_control_plane(
        &ns,
        "coder",
        &json!({ "resources": { "requests": { "cpu": "1000m", "memory": "1024Mi" } } }),
    )
    .await;
    env.ready(&ns, "coder").await;
    // The last word about what just happened; nothing is written after it.
    env.until_event(&ns, "coder", "CoderdReachable", "Answered").await;
    let user =
        format!("system:serviceaccount:{}:{}", env.installation.namespace, env.installation.service_account);
    let writes = || -> Vec<Value> {
        let log = env.cluster.audit_log();
        let events = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        events
            .filter(|event| {
                event["user"]["username"] == user.as_str()
                    && event["objectRef"]["namespace"] == ns.as_str()
                    && !["get", "list", "watch"].contains(&text(event, "/verb"))
            })
            .collect()
    };
    let first = writes().len();
    assert!(first >= 6, "the audit log sees what the operator writes: {first}");
    // The echo of the request is the one write a reconcile that was asked for makes.
    env.reconcile(&ns, "coder", "again").await;
    let after = writes();
    let subresources: Vec<&str> =
        after[first..].iter().map(|event| text(event, "/objectRef/subresource")).collect();
    assert_eq!(subresources, ["status"], "{:#?}", &after[first..]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_child_that_somebody_changes_or_deletes_comes_back() {
    let env = shared().await;
    let ns = env.cluster.namespace("drift").await;
    env.apply_control_plane(&ns, "coder", &json!({ "replicas": 1 })).await;
    env.ready(&ns, "coder").await;
    env.cluster.kubectl(&format!("scale deployment/coder -n {ns} --replicas=3")).await.expect_ok();
    env.until_object("deployment", &ns, "coder", "its replicas", |object| object["spec"]["replicas"] == 1)
        .await;
    env.cluster.kubectl(&format!("delete service coder -n {ns}")).await.expect_ok();
    env.until_object("service", &ns, "coder", "to be back", |object| object["spec"].is_object()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn ready_says_when_coderd_does_not_answer() {
    let env = shared().await;
    let ns = env.cluster.namespace("silent").await;
    // No name below this domain leads to the stand-in: TLS is not spoken there.
    let secret = json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "tls", "namespace": ns }, "type": "Opaque", "stringData": { "tls.crt": "", "tls.key": "" } });
    env.apply(&secret).await;
    env.apply_control_plane(&ns, "coder", &json!({ "tls": { "secretNames": ["tls"] } })).await;
    let plane = env
        .until(&ns, "coder", "unreachable", |plane| condition(plane, "CoderdReachable")["status"] == "False")
        .await;
    assert_eq!(condition(&plane, "Ready")["reason"], "CoderdUnreachable");
    assert_eq!(plane["status"]["phase"], "Pending");
    assert_eq!(plane["status"]["url"], format!("https://coder.{ns}.svc.cluster.local:443"));
    env.apply_control_plane(&ns, "coder", &json!({})).await;
    env.ready(&ns, "coder").await;
    assert!(env.coderd().addr().port() > 0);
}
