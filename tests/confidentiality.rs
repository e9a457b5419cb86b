//! Secret values stay secret: canaries in every Secret, in the token and in the CA itself never show up in what the
//! operator says, at the loudest log level and while things go wrong.

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{Api, DynamicObject, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use std::collections::BTreeMap;
use std::time::Duration;
use support::canary::Canary;
use support::wait::holds;
use support::{Cluster, Installation, Operator, until};

const BINARY: &str = env!("CARGO_BIN_EXE_coder-k8s");
const LIMIT: Duration = Duration::from_secs(30);

/// Everything a reader without rights on Secrets could see: logs, Events, the status of our kinds, and each object that
/// carries our annotations.
async fn visible(client: &kube::Client, operator: &Operator, namespace: &str) -> String {
    let mut text = operator.log();
    let events = ApiResource::from_gvk(&GroupVersionKind::gvk("events.k8s.io", "v1", "Event"));
    let events = Api::<DynamicObject>::namespaced_with(client.clone(), namespace, &events);
    text.push_str(&serde_json::to_string(&events.list(&Default::default()).await.unwrap().items).unwrap());
    for (kind, plural) in [
        ("CoderControlPlane", "codercontrolplanes"),
        ("CoderProvisioner", "coderprovisioners"),
        ("CoderWorkspaceProxy", "coderworkspaceproxies"),
    ] {
        let kind =
            ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk("coder.com", "v1alpha1", kind), plural);
        let objects = Api::<DynamicObject>::all_with(client.clone(), &kind);
        let items = objects.list(&Default::default()).await.unwrap().items;
        text.extend(items.iter().map(|item| item.data["status"].to_string()));
    }
    text
}

async fn plant(client: &kube::Client, namespace: &str, name: &str, canary: &Canary) {
    let mut secret = Secret::default();
    secret.metadata.name = Some(name.to_owned());
    secret.data =
        Some(BTreeMap::from([("token".to_owned(), ByteString(canary.value().as_bytes().to_vec()))]));
    let secrets = Api::<Secret>::namespaced(client.clone(), namespace);
    secrets.create(&PostParams::default(), &secret).await.unwrap();
}

#[tokio::test]
async fn no_canary_of_any_secret_is_ever_seen() {
    let cluster = Cluster::shared().await;
    let installation = Installation::new(cluster, "canary").await;
    let (namespace, client) = (&installation.namespace, cluster.client().await);
    let canary = Canary::new("secret");
    plant(&client, namespace, "coder-database", &canary).await;
    plant(&client, namespace, "licence", &canary).await;
    let mut options = installation.operator("all").await;
    options.flags = vec!["--log-level=trace".to_owned(), format!("--coder-session-token={}", canary.value())];
    let mut operator = Operator::start(BINARY, &options);
    operator.ready(LIMIT).await;

    // The CA Secret itself, filled with the canary: unreadable material makes errors, and errors must not quote it.
    let garbage = serde_json::json!({ "stringData": {
        "signer.key": canary.value(), "signer.crt": canary.value(), "state": canary.value(),
        "bundle.crt": canary.value(), "unrelated": canary.value(),
    }, "metadata": { "annotations": { "note": canary.value() } } });
    let secrets = Api::<Secret>::namespaced(client.clone(), namespace);
    secrets.patch("coder-k8s-ca", &PatchParams::default(), &Patch::Merge(garbage)).await.unwrap();
    until("the unusable CA to be replaced", LIMIT, async || {
        let secret = secrets.get("coder-k8s-ca").await.unwrap().data.unwrap();
        let state = String::from_utf8(secret["state"].0.clone()).unwrap();
        holds(state.contains("stable"), "still garbage")
    })
    .await;
    operator.process().signal("TERM");
    operator.ended(LIMIT).await;

    let seen = visible(&client, &operator, namespace).await;
    assert!(seen.contains("the CA Secret is unusable"), "it did complain");
    assert_eq!(canary.found_in(&seen), Vec::<&str>::new());
    let kubeconfig = std::fs::read_to_string(&options.kubeconfig).unwrap();
    let kubeconfig: serde_json::Value = serde_json::from_str(&kubeconfig).unwrap();
    let token = kubeconfig["users"][0]["user"]["token"].as_str().unwrap();
    assert!(!seen.contains(token), "our own token is a secret too");
}

#[tokio::test]
async fn the_scan_finds_a_canary_that_was_planted_where_it_looks() {
    let cluster = Cluster::shared().await;
    let installation = Installation::new(cluster, "planted").await;
    let (namespace, client) = (&installation.namespace, cluster.client().await);
    let canary = Canary::new("planted");
    let operator = installation.start(BINARY, "controller").await;
    assert!(canary.found_in(&visible(&client, &operator, namespace).await).is_empty());

    let event = serde_json::json!({
        "apiVersion": "events.k8s.io/v1", "kind": "Event", "metadata": { "name": "leak" }, "action": "Leak",
        "eventTime": "2026-01-01T00:00:00.000000Z", "reason": "Leak", "type": "Normal", "note": canary.value(),
        "reportingController": "test", "reportingInstance": "test",
        "regarding": { "kind": "Secret", "namespace": namespace, "name": "x" },
    });
    let words = format!("create -n {namespace} -f -");
    cluster.kubectl_with_input(&words, &event.to_string()).await.expect_ok();
    assert!(canary.found_in(&visible(&client, &operator, namespace).await).contains(&"raw"));
}
