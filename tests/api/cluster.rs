//! The harness itself: a cluster starts, nodes roll out a Deployment, the proxy breaks what it is told to, and
//! nothing outlives the process that started it.

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, PostParams};
use std::time::{Duration, Instant};
use support::wait::holds;
use support::{Cluster, ClusterOptions, Fault, FaultProxy, until};

#[tokio::test]
async fn the_api_server_is_the_supported_version_and_asks_for_identity() {
    let cluster = Cluster::shared().await;
    let version = cluster.client().await.apiserver_version().await.unwrap();
    assert_eq!((version.major.as_str(), version.minor.as_str()), ("1", "36"), "{version:?}");

    let anonymous = cluster
        .kubectl(&format!(
            "--kubeconfig=/dev/null --server={} --token=none --insecure-skip-tls-verify get namespaces",
            cluster.url()
        ))
        .await;
    let refused = anonymous.expect_refused();
    assert!(refused.contains("Unauthorized") || refused.contains("must be logged in"), "{refused}");
}

#[tokio::test]
async fn a_deployment_rolls_out_on_simulated_nodes() {
    let cluster = Cluster::start(ClusterOptions { nodes: 2, ..Default::default() }).await;
    let namespace = cluster.namespace("rollout").await;
    let manifest = serde_json::json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "name": "web" },
        "spec": {
            "replicas": 2, "selector": { "matchLabels": { "app": "web" } },
            "template": {
                "metadata": { "labels": { "app": "web" } },
                "spec": { "containers": [{ "name": "web", "image": "none:1" }] },
            },
        },
    });
    let deployments = Api::<Deployment>::namespaced(cluster.client().await, &namespace);
    let deployment = serde_json::from_value(manifest).unwrap();
    deployments.create(&PostParams::default(), &deployment).await.unwrap();
    until("two available replicas", Duration::from_secs(60), async || {
        let status = deployments.get_status("web").await.map_err(|error| error.to_string())?.status;
        let available = status.and_then(|status| status.available_replicas);
        holds(available == Some(2), format!("{available:?} are available"))
    })
    .await;
}

#[tokio::test]
async fn the_proxy_delays_refuses_cuts_and_freezes() {
    let cluster = Cluster::shared().await;
    let namespace = cluster.namespace("proxy").await;
    let (proxy, client) = proxied(cluster, &namespace).await;
    let maps = Api::<ConfigMap>::namespaced(client, &namespace);
    maps.list(&Default::default()).await.expect("without rules everything passes");

    proxy.on(Fault::Answer(503), |method, path| method == "GET" && path.contains("configmaps"));
    assert!(maps.list(&Default::default()).await.unwrap_err().to_string().contains("fault proxy"));
    proxy.release();

    proxy.on(Fault::CutAfter, |method, _| method == "POST");
    let mut map = ConfigMap::default();
    map.metadata.name = Some("written".to_owned());
    maps.create(&PostParams::default(), &map).await.expect_err("the answer is lost");
    proxy.release();
    maps.get("written").await.expect("the write took effect");

    proxy.freeze();
    let frozen = tokio::time::timeout(Duration::from_millis(300), maps.get("written")).await;
    assert!(frozen.is_err(), "nothing moves while frozen");
    proxy.thaw();
    maps.get("written").await.expect("and everything does again");

    proxy.on(Fault::Delay(Duration::from_millis(200)), |_, _| true);
    let before = Instant::now();
    maps.get("written").await.expect("late, but answered");
    assert!(before.elapsed() >= Duration::from_millis(200));
}

async fn proxied(cluster: &Cluster, namespace: &str) -> (FaultProxy, kube::Client) {
    cluster.kubectl(&format!("-n {namespace} create serviceaccount caller")).await.expect_ok();
    let binding = format!("create clusterrolebinding {namespace} --clusterrole=cluster-admin");
    cluster.kubectl(&format!("{binding} --serviceaccount={namespace}:caller")).await.expect_ok();
    let proxy = FaultProxy::start(cluster).await;
    let kubeconfig = cluster.kubeconfig_for(namespace, "caller", &proxy.url()).await;
    let client = cluster.client_of(&kubeconfig).await;
    (proxy, client)
}
