//! What somebody changes by hand in a child is put right, lists included, and what tools add to lists that are theirs as
//! well stays.

use crate::shared::shared;
use crds::names::control_plane::{workspace_role, workspace_role_binding};
use serde_json::{Value, json};
use support::objects::condition;
use support::test_env::LIMIT;
use support::wait::holds;
use support::{TestEnv, until};

/// What should become of an edit.
enum Then {
    /// The object is as it was.
    Undone,
    /// What is ours is there again, and so is this text of the stranger's.
    Kept(&'static str),
}

use Then::{Kept, Undone};

/// An edit: what it is about, the patch, and what should become of it. `{coder}` and the like stand for the index of the
/// item of that name.
type Edit = (&'static str, Value, Then);

fn replace(path: &str, value: Value) -> Value {
    json!([{ "op": "replace", "path": path, "value": value }])
}

fn add(path: &str, value: Value) -> Value {
    json!([{ "op": "add", "path": path, "value": value }])
}

fn everything() -> Value {
    json!({
        "replicas": 1, "image": "ghcr.io/coder/coder:v2.36.1", "service": { "type": "LoadBalancer" },
        "extraEnv": [{ "name": "A", "value": "1" }, { "name": "B", "value": "2" }],
        "volumes": [{ "name": "cache", "emptyDir": {} }],
        "volumeMounts": [{ "name": "cache", "mountPath": "/cache" }],
        "imagePullSecrets": [{ "name": "registry" }],
        "hostAliases": [{ "ip": "192.0.2.1", "hostnames": ["git"] }],
        "tolerations": [{ "key": "a", "operator": "Exists" }],
        "topologySpreadConstraints": [{ "maxSkew": 1, "topologyKey": "kubernetes.io/hostname",
            "whenUnsatisfiable": "ScheduleAnyway", "labelSelector": { "matchLabels": { "a": "b" } } }],
        "initContainers": [{ "name": "before", "image": "busybox:1.36", "args": ["true"] }],
        "podDisruptionBudget": {}, "metrics": { "serviceMonitor": {} },
        "expose": { "ingress": { "host": "a.example.com", "tls": { "secretName": "tls" } } },
    })
}

const POD: &str = "/spec/template/spec";

/// Edits of the Deployment, one after the other.
fn of_the_deployment() -> Vec<Edit> {
    let coder = |rest: &str| format!("{POD}/containers/0/{rest}");
    let from = json!({ "fieldRef": { "fieldPath": "metadata.name" } });
    let sidecar = json!({ "name": "sidecar", "image": "proxy:1", "ports": [{ "containerPort": 15000 }] });
    let port = json!({ "name": "debug", "containerPort": 6060, "protocol": "TCP" });
    vec![
        ("deployment", replace(&coder("ports/0/containerPort"), json!(8081)), Undone),
        ("deployment", add(&coder("ports/-"), port), Undone),
        ("deployment", replace(&coder("env/{A}/name"), json!("RENAMED")), Kept("RENAMED")),
        ("deployment", add(&coder("env/-"), json!({ "name": "ADDED", "value": "1" })), Kept("ADDED")),
        (
            "deployment",
            json!([{ "op": "remove", "path": coder("env/{B}/value") },
                { "op": "add", "path": coder("env/{B}/valueFrom"), "value": from }]),
            Undone,
        ),
        (
            "deployment",
            replace(&format!("{POD}/volumes/0"), json!({ "name": "cache", "hostPath": { "path": "/" } })),
            Undone,
        ),
        ("deployment", replace(&coder("volumeMounts/0/mountPath"), json!("/moved")), Kept("/moved")),
        ("deployment", replace(&format!("{POD}/imagePullSecrets/0/name"), json!("mirror")), Kept("mirror")),
        ("deployment", replace(&format!("{POD}/hostAliases/0/ip"), json!("192.0.2.9")), Undone),
        (
            "deployment",
            replace(&format!("{POD}/topologySpreadConstraints/0/whenUnsatisfiable"), json!("DoNotSchedule")),
            Undone,
        ),
        ("deployment", add(&format!("{POD}/tolerations/-"), json!({ "operator": "Exists" })), Undone),
        ("deployment", replace(&coder("args"), json!(["--help"])), Undone),
        ("deployment", replace(&format!("{POD}/initContainers/0/name"), json!("renamed")), Undone),
        ("deployment", replace(&coder("name"), json!("renamed")), Undone),
        (
            "deployment",
            json!([{ "op": "remove", "path": coder("readinessProbe/httpGet") },
                { "op": "add", "path": coder("readinessProbe/exec"), "value": { "command": ["true"] } }]),
            Undone,
        ),
        ("deployment", add(&format!("{POD}/containers/-"), sidecar), Kept("sidecar")),
        (
            "deployment",
            add(&format!("{POD}/volumes/-"), json!({ "name": "mesh", "emptyDir": {} })),
            Kept("mesh"),
        ),
    ]
}

/// Edits of everything else.
fn of_the_others() -> Vec<Edit> {
    let port = json!({ "name": "debug", "port": 6060, "protocol": "TCP", "targetPort": 6060 });
    let rule = json!({ "host": "b.example.com" });
    let subject = json!({ "kind": "ServiceAccount", "name": "default", "namespace": "default" });
    let backend = json!({ "service": { "name": "solver", "port": { "number": 8089 } } });
    let challenge = json!({ "path": "/.well-known/acme-challenge/x", "pathType": "ImplementationSpecific", "backend": backend });
    let grant = json!({ "apiGroups": [""], "resources": ["secrets"], "verbs": ["get"] });
    vec![
        ("service", replace("/spec/ports/0/port", json!(99)), Undone),
        ("service", add("/spec/ports/-", port), Undone),
        ("service", replace("/spec/ports/0/name", json!("web")), Undone),
        ("service", replace("/spec/ports/0/targetPort", json!(99)), Undone),
        ("service", add("/spec/selector/track", json!("canary")), Undone),
        ("service", add("/spec/externalName", json!("elsewhere.example.com")), Undone),
        // Clusters that guard owner references let only those give one to an object who may delete it.
        ("ingress", json!([{ "op": "remove", "path": "/metadata/ownerReferences" }]), Undone),
        // Made by one create, which leaves another entry in managedFields.
        ("serviceaccount", json!([{ "op": "remove", "path": "/metadata/ownerReferences" }]), Undone),
        ("ingress", add("/spec/rules/-", rule), Undone),
        ("ingress", add("/spec/tls/0/hosts/-", json!("b.example.com")), Undone),
        ("ingress", add("/spec/tls/-", json!({ "hosts": ["b.example.com"] })), Undone),
        ("ingress", add("/spec/rules/0/http/paths/0", challenge), Kept("acme-challenge")),
        ("rolebinding", add("/subjects/-", subject), Undone),
        ("role", add("/rules/-", grant), Undone),
        (
            "poddisruptionbudget",
            json!([{ "op": "remove", "path": "/spec/maxUnavailable" },
                { "op": "add", "path": "/spec/minAvailable", "value": 1 }]),
            Undone,
        ),
        ("servicemonitor", add("/spec/endpoints/-", json!({ "port": "debug" })), Undone),
        ("httproute", add("/spec/parentRefs/-", json!({ "name": "other" })), Undone),
        ("httproute", replace("/spec/rules/0/backendRefs/0/port", json!(99)), Undone),
    ]
}

/// What of an object an edit may change: all but what the API server and other controllers write.
fn content(object: &Value) -> Value {
    let mut content = object.clone();
    let map = content.as_object_mut().unwrap();
    map.remove("status");
    let metadata = map["metadata"].as_object_mut().unwrap();
    for field in ["managedFields", "resourceVersion", "generation"] {
        metadata.remove(field);
    }
    if let Some(annotations) = metadata["annotations"].as_object_mut() {
        annotations.remove("deployment.kubernetes.io/revision");
    }
    content
}

/// Whether everything of `ours` is in `live`: items of a list by any item.
fn is_within(ours: &Value, live: &Value) -> bool {
    match (ours, live) {
        (Value::Object(ours), Value::Object(live)) => {
            ours.iter().all(|(key, ours)| live.get(key).is_some_and(|live| is_within(ours, live)))
        }
        (Value::Array(ours), Value::Array(live)) => {
            ours.iter().all(|ours| live.iter().any(|live| is_within(ours, live)))
        }
        (ours, live) => ours == live,
    }
}

/// The patch with the index of a variable in the place of its name.
fn located(patch: &Value, live: &Value) -> String {
    let mut text = patch.to_string();
    let variables = live.pointer("/spec/template/spec/containers/0/env").and_then(Value::as_array);
    for (index, variable) in variables.into_iter().flatten().enumerate() {
        text = text.replace(&format!("{{{}}}", variable["name"].as_str().unwrap()), &index.to_string());
    }
    text
}

/// Makes each edit as a stranger and waits until it is put right.
async fn put_right(env: &TestEnv, ns: &str, plane: &str, edits: Vec<Edit>) {
    for (round, (kind, patch, then)) in edits.into_iter().enumerate() {
        let name = match kind {
            "role" => workspace_role(ns, plane, plane),
            "rolebinding" => workspace_role_binding(ns, plane, plane),
            _ => plane.to_owned(),
        };
        let before = env.get(kind, ns, &name).await.unwrap();
        let words = format!(
            "patch {kind} {name} -n {ns} --type=json --field-manager=stranger -p {}",
            located(&patch, &before)
        );
        env.cluster.kubectl(&words).await.expect_ok();
        let status = env.reconcile(ns, plane, &format!("{kind}-{round}")).await["status"].clone();
        let before = content(&before);
        until(&format!("{kind}: {patch}"), LIMIT, async || {
            let live = content(&env.get(kind, ns, &name).await.unwrap());
            let right = match then {
                Undone => live == before,
                Kept(text) => is_within(&before, &live) && live.to_string().contains(text),
            };
            holds(right, format!("{live}\nbefore: {before}\nafter the edit: {status}"))
        })
        .await;
        let status = env.get("codercontrolplane", ns, plane).await.unwrap();
        assert_eq!(condition(&status, "Stalled")["status"], "False", "{kind} {patch}: {}", status["status"]);
    }
    env.ready(ns, plane).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_stranger_changes_in_a_list_is_put_right() {
    let env = shared().await;
    let ns = env.cluster.namespace("lists").await;
    env.apply_control_plane(&ns, "coder", &everything()).await;
    let gateway = json!({ "host": "b.example.com", "parentRefs": [{ "name": "edge" }] });
    env.apply_control_plane(&ns, "route", &json!({ "expose": { "gateway": gateway } })).await;
    env.ready(&ns, "coder").await;
    env.ready(&ns, "route").await;
    let (routes, others): (Vec<Edit>, Vec<Edit>) =
        of_the_others().into_iter().partition(|(kind, ..)| *kind == "httproute");
    let all = of_the_deployment().into_iter().chain(others).collect();
    tokio::join!(put_right(env, &ns, "coder", all), put_right(env, &ns, "route", routes));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_of_the_spec_rolls_coderd_once() {
    let env = shared().await;
    let ns = env.cluster.namespace("once").await;
    let secret = json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "tls", "namespace": ns },
        "stringData": { "tls.crt": "", "tls.key": "" } });
    env.apply(&secret).await;
    let before = json!({ "image": "ghcr.io/coder/coder:v2.36.0", "tls": { "secretNames": ["tls"] },
        "metrics": { "enabled": true }, "initContainers": [{ "name": "a", "image": "busybox:1.36" }] });
    env.apply_control_plane(&ns, "coder", &before).await;
    // Nobody speaks TLS there.
    let seen = |plane: &Value| condition(plane, "CoderdReachable")["status"] == "False";
    env.until(&ns, "coder", "to be rolled out", seen).await;
    let deployment = env.get("deployment", &ns, "coder").await.unwrap();
    assert_eq!(deployment["metadata"]["generation"], 1);
    let ports = |deployment: &Value| {
        deployment.pointer("/spec/template/spec/containers/0/ports").unwrap().as_array().unwrap().len()
    };
    assert_eq!(ports(&deployment), 3);
    let after = json!({ "image": "ghcr.io/coder/coder:v2.36.1", "initContainers": [{ "name": "b", "image": "busybox:1.36" }] });
    env.apply_control_plane(&ns, "coder", &after).await;
    env.ready(&ns, "coder").await;
    let deployment = env.get("deployment", &ns, "coder").await.unwrap();
    assert_eq!((ports(&deployment), &deployment["metadata"]["generation"]), (1, &json!(2)));
    let sets = env.cluster.kubectl(&format!("get replicaset -n {ns} -o name")).await.expect_ok();
    assert_eq!(sets.lines().count(), 2, "{sets}");
    let ports = env.get("service", &ns, "coder").await.unwrap()["spec"]["ports"].clone();
    assert_eq!(ports.as_array().unwrap().len(), 1, "{ports}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_service_that_leads_elsewhere_by_name_leads_to_coderd_again() {
    let env = shared().await;
    let ns = env.cluster.namespace("elsewhere").await;
    env.apply_control_plane(&ns, "coder", &json!({ "service": { "type": "ClusterIP" } })).await;
    env.ready(&ns, "coder").await;
    let patch = r#"{"spec":{"type":"ExternalName","externalName":"elsewhere.example.com","clusterIP":null,"clusterIPs":null}}"#;
    env.cluster.kubectl(&format!("patch service coder -n {ns} --type=merge -p {patch}")).await.expect_ok();
    env.until_object("service", &ns, "coder", "to be ours again", |service| {
        service["spec"]["type"] == "ClusterIP" && service["spec"]["externalName"].is_null()
    })
    .await;
    env.ready(&ns, "coder").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_service_port_changed_by_hand_comes_back_with_its_node_port() {
    let env = shared().await;
    let ns = env.cluster.namespace("ports").await;
    env.apply_control_plane(&ns, "coder", &json!({ "service": { "type": "NodePort" } })).await;
    env.ready(&ns, "coder").await;
    let before = env.get("service", &ns, "coder").await.unwrap()["spec"]["ports"].clone();
    assert!(before[0]["nodePort"].is_number());
    let patch = r#"[{"op":"replace","path":"/spec/ports/0/port","value":99}]"#;
    env.cluster.kubectl(&format!("patch service coder -n {ns} --type=json -p {patch}")).await.expect_ok();
    env.until_object("service", &ns, "coder", "its ports", |service| service["spec"]["ports"] == before)
        .await;
    env.ready(&ns, "coder").await;
    // A reconcile that finds all well writes nothing.
    let service = env.get("service", &ns, "coder").await.unwrap();
    env.reconcile(&ns, "coder", "again").await;
    assert_eq!(env.get("service", &ns, "coder").await.unwrap(), service);
}
