//! What others store in a cluster does not end the operator: it reads their objects one after the other, and of each only
//! what it looks at. How much memory that takes is measured by `make footprint`.

use futures::{StreamExt, stream};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, PostParams};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::Duration;
use support::memory::peak;
use support::wait::holds;
use support::{Cluster, Fault, FaultProxy, Installation, Operator, OperatorOptions, until};

const BINARY: &str = env!("CARGO_BIN_EXE_coder-k8s");
const LIMIT: Duration = Duration::from_secs(60);
/// The API server compares 50,000 annotations in each write of a status: several at once keep a busy machine for minutes.
const ANNOTATED_LIMIT: Duration = Duration::from_secs(300);
/// ConfigMaps of others.
const COUNT: usize = 120;
/// Bytes of annotations of each; the API server takes 262,144.
const ANNOTATION: usize = 250_000;
/// The API server sends all of them in one list if it is asked for one: they would be in memory at the same time.
const MEGABYTES: f64 = (COUNT * ANNOTATION) as f64 / 1_000_000.0;

#[tokio::test(flavor = "multi_thread")]
async fn the_annotations_of_others_are_never_in_memory_together() {
    let cluster = Cluster::start(Default::default()).await;
    let installation = Installation::new(&cluster, "operator").await;
    let options = installation.operator("controller").await;
    let namespace = cluster.namespace("others").await;
    wait_for_a_config_map(&cluster, &namespace).await;
    let without = peak_of_a_start(&cluster, &options, &namespace, "first").await;

    let maps = Api::<ConfigMap>::namespaced(cluster.client().await, &namespace);
    let creations = (0..COUNT).map(|number| {
        let (maps, mut map) = (maps.clone(), ConfigMap::default());
        map.metadata.name = Some(format!("of-others-{number}"));
        map.metadata.annotations = Some([("theirs".to_owned(), "x".repeat(ANNOTATION))].into());
        async move { maps.create(&PostParams::default(), &map).await.map(drop) }
    });
    let created: Vec<_> = stream::iter(creations).buffer_unordered(8).collect().await;
    created.into_iter().collect::<Result<Vec<()>, _>>().expect("the ConfigMaps can be created");
    let among = peak_of_a_start(&cluster, &options, &namespace, "second").await;
    println!("peak without them {without:.1} MB, among {MEGABYTES:.1} MB of annotations {among:.1} MB");
    assert!(
        among - without < MEGABYTES / 2.0,
        "{without:.1} MB before, {among:.1} MB among {MEGABYTES:.1} MB"
    );
}

/// Admission does not hear of annotations that are not ours, and the API server takes 256 kB of them.
#[tokio::test(flavor = "multi_thread")]
async fn a_control_plane_is_read_without_the_annotations_of_others() {
    let cluster = Cluster::start(Default::default()).await;
    let installation = Installation::new(&cluster, "operator").await;
    let options = installation.operator("controller").await;
    create(&cluster, "plain", &BTreeMap::new()).await;
    let without = peak_when_looked_at(&options, 2).await;
    let annotations = (0..50_000).map(|number| (format!("{number:05}"), "")).collect();
    for place in 0..4 {
        create(&cluster, &format!("annotated-{place}"), &annotations).await;
    }
    let among = peak_when_looked_at(&options, 10).await;
    println!("peak without them {without:.1} MB, among eight annotated control planes {among:.1} MB");
    assert!(among - without < 40.0, "{without:.1} MB before, {among:.1} MB among eight annotated ones");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_api_server_that_does_not_stream_lists_is_asked_for_pages() {
    let cluster = Cluster::shared().await;
    let installation = Installation::new(cluster, "paged").await;
    let proxy = FaultProxy::start(cluster).await;
    proxy.on(Fault::Answer(422), |_, path| path.contains("sendInitialEvents"));
    let options = installation.operator_through("controller", &proxy.url()).await;
    let namespace = cluster.namespace("paged").await;
    wait_for_a_config_map(cluster, &namespace).await;
    peak_of_a_start(cluster, &options, &namespace, "found").await;
    let lists: Vec<String> =
        proxy.seen().into_iter().map(|seen| seen.path).filter(|path| path.contains("limit=")).collect();
    assert!(lists.iter().any(|path| path.contains("/configmaps?") && path.contains("limit=4")), "{lists:?}");
}

/// Two control planes with these annotations, in a namespace of their own.
async fn create(cluster: &Cluster, purpose: &str, annotations: &BTreeMap<String, &str>) {
    let namespace = cluster.namespace(purpose).await;
    for name in ["one", "two"] {
        let plane = json!({ "apiVersion": "coder.com/v1alpha1", "kind": "CoderControlPlane",
            "metadata": { "name": name, "namespace": namespace, "annotations": annotations },
            "spec": { "operatorAccess": { "disabled": true } } });
        cluster.kubectl_with_input("create -f -", &plane.to_string()).await.expect_ok();
    }
}

/// The most that was ever resident of an operator that has looked at that many control planes. Its log tells: the API server
/// would send all annotations with every answer, which takes a busy machine longer than anybody waits.
async fn peak_when_looked_at(options: &OperatorOptions, count: usize) -> f64 {
    let mut options = options.clone();
    // At this level the end of every reconcile is told.
    options.flags.push("--log-level=debug".to_owned());
    let mut operator = Operator::start(BINARY, &options).await;
    operator.ready(LIMIT).await;
    until("every control plane to be looked at", ANNOTATED_LIMIT, async || {
        let looked_at = operator.reconciles();
        holds(looked_at.len() == count, format!("{looked_at:?}"))
    })
    .await;
    let peak = peak(operator.id());
    operator.process().signal("TERM");
    let status = operator.ended(LIMIT).await;
    assert!(status.success(), "{status}");
    peak
}

/// A control plane that waits for ConfigMaps: when its status names one no more, the operator has seen it come, and with it
/// everything that was there before.
async fn wait_for_a_config_map(cluster: &Cluster, namespace: &str) {
    let sources = ["first", "second", "found"].map(|name| json!({ "configMapRef": { "name": name } }));
    let plane = json!({ "apiVersion": "coder.com/v1alpha1", "kind": "CoderControlPlane",
        "metadata": { "name": "coder", "namespace": namespace },
        "spec": { "operatorAccess": { "disabled": true }, "envFrom": sources } });
    cluster.kubectl_with_input("apply --server-side -f -", &plane.to_string()).await.expect_ok();
}

/// The most that was ever resident of an operator that has listed everything.
async fn peak_of_a_start(cluster: &Cluster, options: &OperatorOptions, namespace: &str, name: &str) -> f64 {
    let mut operator = Operator::start(BINARY, options).await;
    operator.ready(LIMIT).await;
    let missing = format!("ConfigMap {namespace}/{name} does not exist");
    let said = async || -> String {
        let words = format!("get ccp coder -n {namespace} -o json");
        let plane: Value = serde_json::from_str(&cluster.kubectl(&words).await.expect_ok()).unwrap();
        plane["status"]["conditions"].to_string()
    };
    until("the ConfigMap to be missed", LIMIT, async || {
        let said = said().await;
        holds(said.contains(&missing), said)
    })
    .await;
    let mut found = ConfigMap::default();
    found.metadata.name = Some(name.to_owned());
    let maps = Api::<ConfigMap>::namespaced(cluster.client().await, namespace);
    maps.create(&PostParams::default(), &found).await.expect("the ConfigMap can be created");
    until("the ConfigMap to be seen", LIMIT, async || {
        let said = said().await;
        holds(!said.contains(&missing), said)
    })
    .await;
    let peak = peak(operator.id());
    operator.process().signal("TERM");
    let status = operator.ended(LIMIT).await;
    assert!(status.success(), "{status}");
    peak
}
