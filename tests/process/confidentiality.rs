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
use support::{Cluster, Installation, Operator, https, until};

const BINARY: &str = env!("CARGO_BIN_EXE_coder-k8s");
const LIMIT: Duration = Duration::from_secs(30);

/// Everything a reader without rights on Secrets could see: logs, metrics, Events and the status of our kinds.
async fn visible(client: &kube::Client, operator: &Operator, metrics: &str, namespace: &str) -> String {
    let mut text = format!("{}\n{metrics}", operator.log());
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

/// The metrics as an allowed scraper gets them.
async fn scrape(installation: &Installation, operator: &Operator, token: &str) -> String {
    let request = http::Request::get("/metrics").header("authorization", format!("Bearer {token}"));
    let (ca, port) = (installation.ca().await, operator.ports.metrics);
    let (status, text) = https::ask(port, &ca, "metrics.example.com", request, "").await.unwrap();
    assert_eq!(status, 200, "{text}");
    text
}

fn flags(canary: &Canary) -> Vec<String> {
    let token = format!("--coder-session-token={}", canary.value());
    vec!["--log-level=trace".to_owned(), "--serving-name=metrics.example.com".to_owned(), token]
}

/// The lines of every private key the CA Secret ever held, in the forms in which they could leak.
fn key_material(secret: &Secret) -> Vec<String> {
    let data = secret.data.iter().flatten().filter(|(name, _)| name.ends_with(".key"));
    let pems: Vec<String> = data.map(|(_, value)| String::from_utf8(value.0.clone()).unwrap()).collect();
    let lines =
        pems.iter().flat_map(|pem| pem.lines()).filter(|line| line.len() > 20 && !line.starts_with('-'));
    let encoded = pems.iter().map(|pem| serde_json::to_string(&ByteString(pem.as_bytes().to_vec())).unwrap());
    lines.map(str::to_owned).chain(encoded.map(|text| text.trim_matches('"')[40..80].to_owned())).collect()
}

#[tokio::test]
async fn no_canary_of_any_secret_is_ever_seen() {
    let cluster = Cluster::shared().await;
    let installation = Installation::new(cluster, "canary").await;
    let (namespace, client) = (&installation.namespace, cluster.client().await);
    let canary = Canary::new("secret");
    plant(&client, namespace, "coder-database", &canary).await;
    plant(&client, namespace, "license", &canary).await;
    let mut options = installation.operator("all").await;
    options.flags = flags(&canary);
    let mut operator = Operator::start(BINARY, &options).await;
    operator.ready(LIMIT).await;
    let scraper = installation.caller("scraper", "get", "/metrics").await;
    let secrets = Api::<Secret>::namespaced(client.clone(), namespace);
    let mut keys = key_material(&secrets.get("coder-k8s-ca").await.unwrap());

    // The CA Secret itself, filled with the canary: unreadable material makes errors, and errors must not quote it.
    let garbage = serde_json::json!({ "stringData": {
        "signer.key": canary.value(), "signer.crt": canary.value(), "state": canary.value(),
        "bundle.crt": canary.value(), "unrelated": canary.value(),
    }, "metadata": { "annotations": { "note": canary.value() } } });
    secrets.patch("coder-k8s-ca", &PatchParams::default(), &Patch::Merge(garbage)).await.unwrap();
    until("the unusable CA to be replaced", LIMIT, async || {
        let secret = secrets.get("coder-k8s-ca").await.unwrap().data.unwrap();
        let state = String::from_utf8(secret["state"].0.clone()).unwrap();
        holds(state.contains("retiring"), "still garbage")
    })
    .await;
    keys.extend(key_material(&secrets.get("coder-k8s-ca").await.unwrap()));
    let metrics = until("the new certificate", LIMIT, async || {
        let ca = installation.ca().await;
        https::connect(operator.ports.metrics, &ca, "metrics.example.com").await?;
        Ok::<_, String>(scrape(&installation, &operator, &scraper).await)
    })
    .await;
    operator.process().signal("TERM");
    operator.ended(LIMIT).await;

    let seen = visible(&client, &operator, &metrics, namespace).await;
    assert!(seen.contains("the CA Secret is unusable"), "it did complain");
    assert!(seen.contains("coder_k8s_ready"), "the metrics were read");
    assert_eq!(canary.found_in(&seen), Vec::<&str>::new());
    assert!(keys.len() >= 6, "{}", keys.len());
    assert_eq!(keys.iter().filter(|key| seen.contains(*key)).count(), 0, "a private key was shown");
    let kubeconfig = std::fs::read_to_string(&options.kubeconfig).unwrap();
    let kubeconfig: serde_json::Value = serde_json::from_str(&kubeconfig).unwrap();
    let token = kubeconfig["users"][0]["user"]["token"].as_str().unwrap();
    assert!(!seen.contains(token) && !seen.contains(&scraper), "tokens are secrets too");
}

#[tokio::test]
async fn the_scan_finds_a_canary_planted_in_every_place_it_looks_at() {
    let cluster = Cluster::shared().await;
    let installation = Installation::new(cluster, "planted").await;
    let (namespace, client) = (&installation.namespace, cluster.client().await);
    let (in_event, in_status, in_log, in_metrics) =
        (Canary::new("event"), Canary::new("status"), Canary::new("log"), Canary::new("metrics"));
    let operator = installation.start(BINARY, "controller").await;
    let event = serde_json::json!({
        "apiVersion": "events.k8s.io/v1", "kind": "Event", "metadata": { "name": "leak" }, "action": "Leak",
        "eventTime": "2026-01-01T00:00:00.000000Z", "reason": "Leak", "type": "Normal", "note": in_event.value(),
        "reportingController": "test", "reportingInstance": "test",
        "regarding": { "kind": "Secret", "namespace": namespace, "name": "x" },
    });
    let object = serde_json::json!({ "apiVersion": "coder.com/v1alpha1", "kind": "CoderControlPlane",
        "metadata": { "name": "leak" } });
    for manifest in [event, object] {
        let words = format!("create -n {namespace} -f -");
        cluster.kubectl_with_input(&words, &manifest.to_string()).await.expect_ok();
    }
    let status = serde_json::json!({ "status": { "url": in_status.value() } });
    let words = format!("patch ccp leak -n {namespace} --subresource=status --type=merge -p {status}");
    cluster.kubectl(&words).await.expect_ok();
    std::fs::OpenOptions::new()
        .append(true)
        .open(operator.log_path())
        .and_then(|mut log| std::io::Write::write_all(&mut log, in_log.value().as_bytes()))
        .unwrap();

    let seen = visible(&client, &operator, in_metrics.value(), namespace).await;
    for canary in [in_event, in_status, in_log, in_metrics] {
        assert!(canary.found_in(&seen).contains(&"raw"), "{}", canary.value());
    }
}
