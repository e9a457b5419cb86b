//! The children of control planes on a real API server: it takes every manifest as it is, a second apply writes
//! nothing, and what others write into them stays.

use coder_k8s::controller::children::Presence;
use coder_k8s::controller::control_plane::build::{Children, build};
use coder_k8s::controller::control_plane::resolve::{Facts, resolve};
use crds::CoderControlPlane;
use serde_json::{Value, json};
use support::installation::repository;
use support::{Cluster, Installation};
use webhooks::{Config, Kind, resolved};

/// A sample as it is stored.
async fn stored(cluster: &Cluster, namespace: &str, sample: &str) -> CoderControlPlane {
    let text = std::fs::read_to_string(repository().join("kustomize/samples").join(sample)).unwrap();
    let words = format!("apply --server-side -o json -n {namespace} -f -");
    let stored = cluster.kubectl_with_input(&words, &text).await.expect_ok();
    let stored: Value = serde_json::from_str(&stored).unwrap();
    serde_json::from_value(resolved(Kind::ControlPlane, &stored, &Config::default())).unwrap()
}

fn made_from(control_plane: &CoderControlPlane, checksum: &str) -> Children {
    let facts = Facts {
        consumed_checksum: Some(checksum),
        access_url_from_env_from: false,
        cluster_domain: "cluster.local",
    };
    build(&resolve(control_plane, facts))
}

/// Applies what the cluster knows and gives it back as it is stored then.
async fn apply(cluster: &Cluster, children: &Children) -> Vec<(Value, Value)> {
    let cache: Vec<Value> = children
        .all()
        // The test cluster knows no other kinds.
        .filter(|child| child.kind.presence() == Presence::Always)
        .map(|child| child.manifest.clone())
        .collect();
    let list = json!({"apiVersion": "v1", "kind": "List", "items": cache}).to_string();
    let words = "apply --server-side --field-manager=coder-k8s --validate=strict -o json -f -";
    let answer = cluster.kubectl_with_input(words, &list).await;
    assert_eq!(answer.stderr, "", "no warnings");
    let applied: Value = serde_json::from_str(&answer.expect_ok()).unwrap();
    cache.into_iter().zip(applied["items"].as_array().unwrap().clone()).collect()
}

/// Every path whose value was not stored as it was given.
fn changed(path: &str, given: &Value, stored: &Value, found: &mut Vec<String>) {
    match (given, stored) {
        (Value::Object(given), Value::Object(stored)) => {
            for (key, value) in given {
                changed(&format!("{path}.{key}"), value, stored.get(key).unwrap_or(&Value::Null), found);
            }
        }
        (Value::Array(given), Value::Array(stored)) if given.len() == stored.len() => {
            for (index, (given, stored)) in given.iter().zip(stored).enumerate() {
                changed(&format!("{path}[{index}]"), given, stored, found);
            }
        }
        _ if given != stored => found.push(format!("{path}: {given} became {stored}")),
        _ => {}
    }
}

fn versions(applied: &[(Value, Value)]) -> Vec<&Value> {
    applied.iter().map(|(_, stored)| &stored["metadata"]["resourceVersion"]).collect()
}

#[tokio::test]
async fn the_api_server_takes_every_child_as_it_is_and_a_second_time_writes_nothing() {
    let cluster = Cluster::shared().await;
    let namespace = Installation::new(cluster, "children").await.namespace;
    cluster.kubectl("create namespace coder-workspaces").await.expect_ok();
    for sample in [
        "codercontrolplane-minimal.yaml",
        "codercontrolplane-everything.yaml",
        "codercontrolplane-everything-gateway.yaml",
    ] {
        let control_plane = stored(cluster, &namespace, sample).await;
        let children = made_from(&control_plane, "abc");
        let first = apply(cluster, &children).await;
        let mut found = Vec::new();
        for (given, stored) in &first {
            changed(given["kind"].as_str().unwrap(), given, stored, &mut found);
        }
        assert_eq!(found, Vec::<String>::new(), "{sample}");
        assert_eq!(versions(&first), versions(&apply(cluster, &children).await), "{sample}");
    }
}

#[tokio::test]
async fn a_restart_stays_and_a_new_checksum_changes_the_pods() {
    let cluster = Cluster::shared().await;
    let namespace = Installation::new(cluster, "restart").await.namespace;
    let control_plane = stored(cluster, &namespace, "codercontrolplane-minimal.yaml").await;
    let name = control_plane.metadata.name.clone().unwrap();
    let annotations = |applied: Vec<(Value, Value)>| {
        let deployment = applied.into_iter().find(|(given, _)| given["kind"] == "Deployment").unwrap().1;
        deployment["spec"]["template"]["metadata"]["annotations"].clone()
    };
    apply(cluster, &made_from(&control_plane, "abc")).await;
    let restart = format!("rollout restart deployment/{name} -n {namespace}");
    cluster.kubectl(&restart).await.expect_ok();
    let after = annotations(apply(cluster, &made_from(&control_plane, "def")).await);
    assert_eq!(after["coder.com/checksum"], "def");
    assert!(after["kubectl.kubernetes.io/restartedAt"].is_string(), "{after}");
}

/// The operations by which our name stands in `managedFields`.
fn operations(live: &Value) -> Vec<String> {
    let managers = live["metadata"]["managedFields"].as_array().unwrap().iter();
    let ours = managers.filter(|entry| entry["manager"] == "coder-k8s");
    ours.map(|entry| entry["operation"].as_str().unwrap().to_owned()).collect()
}

/// An account that somebody makes while we look at ours is not taken over, whatever we saw a moment before.
#[tokio::test(flavor = "multi_thread")]
async fn an_account_that_is_replaced_meanwhile_does_not_become_ours() {
    use coder_k8s::controller::children::apply::{Applier, ChildState};
    use coder_k8s::controller::children::{Child, ChildCache, ChildKind};
    use coder_k8s::controller::identity::ObjectKey;
    use coder_k8s::kubernetes::Kube;
    use std::sync::Arc;
    let cluster: &'static Cluster = Cluster::shared().await;
    let namespace = cluster.namespace("replaced").await;
    let kube = Kube::connect(Some(&cluster.kubeconfig()), namespace.clone(), String::new()).await.unwrap();
    let owner = json!([{ "apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "controller": true,
        "uid": "11111111-2222-4333-8444-555555555555" }]);
    let manifest = |value: &str| {
        json!({ "apiVersion": "v1", "kind": "ServiceAccount", "metadata": { "name": "coder",
            "namespace": namespace, "labels": { "a": value }, "ownerReferences": owner } })
    };
    let child = |manifest| Child::new(ChildKind::ServiceAccount, &namespace, "coder", manifest);
    let cache = ChildCache::of("CoderControlPlane", Arc::default());
    let key = ObjectKey { namespace: namespace.clone(), name: "coder".to_owned() };
    let applier = Applier { kube: &kube, cache: &cache, owner: &key, snapshot: None };
    let made = applier.create_or_apply(&child(manifest("1")), |_| true).await;
    let ChildState::InPlace(made) = made else { panic!("{made:?}") };
    assert_eq!(
        (&made["metadata"]["labels"]["a"], &made["metadata"]["ownerReferences"]),
        (&json!("1"), &owner)
    );
    assert_eq!(operations(&made), ["Update"], "one write makes it");
    let again = applier.create_or_apply(&child(manifest("1")), |_| true).await;
    let ChildState::InPlace(again) = again else { panic!("{again:?}") };
    assert_eq!(
        again["metadata"]["resourceVersion"], made["metadata"]["resourceVersion"],
        "nothing is written"
    );

    // With the first change it becomes ours to apply, so that a field that is no longer wanted goes.
    let mut bare = manifest("1");
    bare["metadata"].as_object_mut().unwrap().remove("labels");
    let changed = applier.create_or_apply(&child(bare), |_| true).await;
    let ChildState::InPlace(changed) = changed else { panic!("{changed:?}") };
    assert_eq!(
        (operations(&changed), &changed["metadata"]["labels"]),
        (vec!["Apply".to_owned()], &Value::Null)
    );

    // Between our look and our apply it is deleted and made by somebody else.
    let replace = |_: &Value| {
        tokio::task::block_in_place(|| {
            tokio::runtime::Handle::current().block_on(async {
                for words in ["delete", "create"] {
                    let words = format!("{words} serviceaccount coder -n {namespace}");
                    cluster.kubectl(&words).await.expect_ok();
                }
            });
        });
        true
    };
    let settled = applier.create_or_apply(&child(manifest("2")), replace).await;
    assert!(matches!(settled, ChildState::Failed(..)), "{settled:?}");
    let theirs =
        cluster.kubectl(&format!("get serviceaccount coder -n {namespace} -o json")).await.expect_ok();
    let theirs: Value = serde_json::from_str(&theirs).unwrap();
    assert!(theirs["metadata"]["ownerReferences"].is_null(), "{theirs}");
    assert!(theirs["metadata"]["labels"].is_null(), "{theirs}");
}
