//! A release of Coder's Helm chart beside a control plane: left alone unless an annotation names it, then taken over so that
//! at every instant somebody who is ready has the traffic.

use crate::is_controlled;
use crate::shared::shared;
use futures::{Stream, StreamExt};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::Api;
use kube::runtime::watcher::{self, Event, watcher};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::pin::pin;
use support::objects::{condition, text};
use support::test_env::LIMIT;
use support::wait::holds;
use support::{TestEnv, helm_release, until};
use tokio::task::JoinHandle;

const ADOPT: &str = "coder.com/adopt-helm-release";
/// What of a release has the name of a child.
const NAMED: [&str; 4] = ["serviceaccount", "service", "ingress", "deployment"];

/// A release that runs in a namespace of its own; returns the namespace.
async fn installed(env: &TestEnv, purpose: &str) -> String {
    let ns = env.cluster.namespace(purpose).await;
    let list = json!({ "apiVersion": "v1", "kind": "List", "items": helm_release::objects(&ns, "prod", 2) });
    let words = format!("create --field-manager={} -f -", helm_release::MANAGER);
    env.cluster.kubectl_with_input(&words, &list.to_string()).await.expect_ok();
    env.until_object("deployment", &ns, "coder", "available", |live| {
        live["status"]["availableReplicas"] == 2
    })
    .await;
    ns
}

fn spec() -> Value {
    json!({ "image": "ghcr.io/coder/coder:v2.36.1", "replicas": 2, "service": { "type": "LoadBalancer" },
        "serviceAccount": { "name": "coder" }, "expose": { "ingress": { "host": "coder.example.com" } } })
}

async fn annotate(env: &TestEnv, ns: &str, release: &str) {
    let words = format!("annotate ccp/coder -n {ns} --overwrite {ADOPT}={release}");
    env.cluster.kubectl(&words).await.expect_ok();
}

/// What is left of the objects of a release if nobody touches them: everything but what controllers of Kubernetes write.
async fn untouched(env: &TestEnv, ns: &str) -> Vec<Value> {
    let mut all = Vec::new();
    for kind in NAMED {
        let live = env.get(kind, ns, "coder").await.unwrap();
        let metadata = &live["metadata"];
        let managers = metadata["managedFields"].as_array().unwrap().iter();
        let managers: Vec<&Value> = managers.map(|entry| &entry["manager"]).collect();
        all.push(json!([
            metadata["uid"],
            metadata["ownerReferences"],
            metadata["labels"],
            live["spec"],
            managers.contains(&&json!("coder-k8s"))
        ]));
    }
    all
}

/// The pods of the Deployment that Helm made.
async fn pods(env: &TestEnv, ns: &str) -> BTreeSet<String> {
    let words = format!("get pods -n {ns} -l app.kubernetes.io/managed-by=Helm -o name");
    let names = env.cluster.kubectl(&words).await.expect_ok();
    names.lines().filter_map(|line| line.strip_prefix("pod/")).map(str::to_owned).collect()
}

/// What is wrong with what was seen, if something is.
type Seen = Result<(), String>;

/// Follows the slices of the Service until the task is aborted; ends earlier where at an instant nobody who is ready was in them.
async fn follow_traffic(env: &TestEnv, ns: &str) -> JoinHandle<Seen> {
    let slices = Api::<EndpointSlice>::namespaced(env.cluster.client().await, ns);
    let config = watcher::Config::default().labels("kubernetes.io/service-name=coder");
    tokio::spawn(never_empty(watcher(slices, config)))
}

async fn never_empty(events: impl Stream<Item = watcher::Result<Event<EndpointSlice>>>) -> Seen {
    let (mut events, mut slices) = (pin!(events), BTreeMap::new());
    let mut begun = false;
    while let Some(event) = events.next().await {
        let (name, ready) = match event.map_err(|error| error.to_string())? {
            Event::Apply(slice) | Event::InitApply(slice) => {
                let ready = slice.endpoints.iter();
                let ready =
                    ready.filter(|one| one.conditions.as_ref().is_some_and(|all| all.ready != Some(false)));
                (slice.metadata.name.clone(), ready.count())
            }
            Event::Delete(slice) => (slice.metadata.name, 0),
            Event::Init | Event::InitDone => continue,
        };
        slices.insert(name, ready);
        let all: usize = slices.values().sum();
        begun |= all > 0;
        holds(!begun || all > 0, format!("nobody is ready: {slices:?}"))?;
    }
    Err("the watch ended".to_owned())
}

/// Follows the pods of the release: whenever one begins to go, ours have to be available and led to.
async fn follow_pods(env: &'static TestEnv, ns: &str) -> JoinHandle<Seen> {
    let pods = Api::<Pod>::namespaced(env.cluster.client().await, ns);
    let config = watcher::Config::default().labels("app.kubernetes.io/managed-by=Helm");
    let (events, ns) = (watcher(pods, config), ns.to_owned());
    tokio::spawn(async move {
        let mut events = pin!(events);
        while let Some(event) = events.next().await {
            let goes = match event.map_err(|error| error.to_string())? {
                Event::Apply(pod) | Event::InitApply(pod) => pod.metadata.deletion_timestamp.is_some(),
                Event::Delete(_) => true,
                Event::Init | Event::InitDone => false,
            };
            if goes {
                let [deployment, service] =
                    [env.get("deployment", &ns, "coder").await, env.get("service", &ns, "coder").await];
                let [deployment, service] = [deployment.unwrap_or_default(), service.unwrap_or_default()];
                let leads = service["spec"]["selector"]["app.kubernetes.io/name"] == "coder-control-plane";
                let available = deployment["status"]["availableReplicas"] == 2;
                holds(
                    leads && available,
                    format!("too early: {} {}", service["spec"], deployment["status"]),
                )?;
            }
        }
        Err("the watch ended".to_owned())
    })
}

fn is_stalled_with(plane: &Value, words: &str) -> bool {
    let stalled = condition(plane, "Stalled");
    stalled["status"] == "True" && text(stalled, "/message").contains(words)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_release_is_left_alone_until_an_annotation_names_it_and_then_taken_over_without_a_gap() {
    let env = shared().await;
    let ns = installed(env, "release").await;
    let (before, of_helm) = (untouched(env, &ns).await, pods(env, &ns).await);
    assert_eq!(of_helm.len(), 2);
    env.apply_control_plane(&ns, "coder", &spec()).await;
    let plane = env.until_reason(&ns, "coder", "Stalled", "ChildConflict").await;
    assert!(is_stalled_with(&plane, "coder.com/adopt-helm-release: prod"), "{plane}");
    annotate(env, &ns, "test").await;
    env.until(&ns, "coder", "to say why", |plane| {
        is_stalled_with(plane, "takes nothing over") && is_stalled_with(plane, "belongs to release prod")
    })
    .await;
    assert_eq!((untouched(env, &ns).await, pods(env, &ns).await), (before.clone(), of_helm.clone()));

    let (traffic, going) = (follow_traffic(env, &ns).await, follow_pods(env, &ns).await);
    annotate(env, &ns, "prod").await;
    let plane = env.ready(&ns, "coder").await;
    assert_eq!(plane["status"]["adoptedHelmRelease"], "prod");
    for (kind, old) in NAMED.into_iter().zip(&before) {
        let live = env.get(kind, &ns, "coder").await.unwrap();
        assert!(is_controlled(&live, &plane), "{kind}");
        assert_eq!(live["metadata"]["uid"] == old[0], kind != "deployment", "{kind}: the same object");
        let marks = live["metadata"].to_string();
        let left: Vec<&str> = ["meta.helm.sh", "helm.sh/chart", "part-of", "\"helm\"", "\"Helm\""]
            .into_iter()
            .filter(|mark| marks.contains(mark))
            .collect();
        assert_eq!(left, [""; 0], "{kind}: {marks}");
    }
    let service = env.get("service", &ns, "coder").await.unwrap();
    assert_eq!(service["spec"]["ports"][0]["targetPort"], 8080, "{}", service["spec"]);
    until("the pods of the release to be gone", LIMIT, async || {
        let left = pods(env, &ns).await;
        holds(left.is_empty(), format!("{left:?}"))
    })
    .await;
    for seen in [traffic, going] {
        assert!(!seen.is_finished(), "{:?}", seen.await);
        seen.abort();
    }
    for reason in ["AdoptingHelmRelease", "HelmReleaseAdopted"] {
        env.until_event(&ns, "coder", "AdoptHelmRelease", reason).await;
    }
    let sets = env.cluster.kubectl(&format!("get replicasets -n {ns} -o name")).await.expect_ok();
    assert_eq!(sets.lines().count(), 1, "{sets}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_pods_of_a_release_run_on_while_ours_cannot_start() {
    let env = shared().await;
    let ns = installed(env, "broken-release").await;
    let of_helm = pods(env, &ns).await;
    let traffic = follow_traffic(env, &ns).await;
    let mut nowhere = spec();
    nowhere["nodeSelector"] = json!({ "there-is": "none" });
    env.apply_control_plane(&ns, "coder", &nowhere).await;
    annotate(env, &ns, "prod").await;
    let plane = env.until_reason(&ns, "coder", "Reconciling", "AdoptingHelmRelease").await;
    let deployment =
        env.until_object("deployment", &ns, "coder", "ours", |live| is_controlled(live, &plane)).await;
    assert_ne!(deployment["spec"]["selector"]["matchLabels"]["app.kubernetes.io/name"], "coder");
    env.until(&ns, "coder", "the pods of the release to serve", |plane| {
        text(condition(plane, "Ready"), "/message").contains("its pods serve until")
    })
    .await;
    env.reconcile(&ns, "coder", "again").await;
    assert_eq!(pods(env, &ns).await, of_helm);
    let service = env.get("service", &ns, "coder").await.unwrap();
    assert_eq!(service["spec"]["selector"]["app.kubernetes.io/name"], "coder", "users are led to them");

    env.apply_control_plane(&ns, "coder", &spec()).await;
    env.ready(&ns, "coder").await;
    until("the pods of the release to be gone", LIMIT, async || {
        holds(pods(env, &ns).await.is_empty(), "they are there")
    })
    .await;
    assert!(!traffic.is_finished(), "{:?}", traffic.await);
    traffic.abort();
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_taken_over_for_an_object_that_is_suspended_or_asks_for_no_pods() {
    let env = shared().await;
    let ns = installed(env, "idle-release").await;
    let before = untouched(env, &ns).await;
    let mut idle = spec();
    idle["replicas"] = json!(0);
    idle["suspend"] = json!(true);
    env.apply_control_plane(&ns, "coder", &idle).await;
    annotate(env, &ns, "prod").await;
    env.until(&ns, "coder", "Suspended", |plane| condition(plane, "Suspended")["status"] == "True").await;
    assert_eq!(untouched(env, &ns).await, before);
    idle["suspend"] = json!(false);
    env.apply_control_plane(&ns, "coder", &idle).await;
    env.until(&ns, "coder", "to say why", |plane| is_stalled_with(plane, "spec.replicas is 0")).await;
    assert_eq!(untouched(env, &ns).await, before);
}
