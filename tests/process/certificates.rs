//! Our own certificates against a real API server: made, injected where asked and nowhere else, repaired, and rotated
//! while the API server calls us without one failed call.

use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::APIService;
use kube::api::{Api, DynamicObject, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;
use support::balancer::Balancer;
use support::wait::holds;
use support::{Cluster, Installation, Operator, https, ports, until};

const BINARY: &str = env!("CARGO_BIN_EXE_coder-k8s");
const CA: &str = "coder-k8s-ca";
const LIMIT: Duration = Duration::from_secs(30);

/// A labelled webhook for ConfigMaps of one namespace and a labelled APIService, both answered by `port`.
async fn targets(cluster: &Cluster, namespace: &str, port: u16) {
    let group = format!("{namespace}.example.com");
    let service = serde_json::json!({ "namespace": namespace, "name": "hooks", "port": port });
    let label = serde_json::json!({ "coder.com/inject-ca": "true" });
    let own = serde_json::json!({ "matchLabels": { "kubernetes.io/metadata.name": namespace } });
    let rule = serde_json::json!({ "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"],
        "operations": ["CREATE"] });
    let webhook = serde_json::json!({ "name": "configmaps.example.com", "admissionReviewVersions": ["v1"],
        "sideEffects": "None", "clientConfig": { "service": service }, "rules": [rule], "namespaceSelector": own, "timeoutSeconds": 10 });
    let objects = [
        serde_json::json!({ "apiVersion": "v1", "kind": "Service", "metadata": { "name": "hooks", "namespace": namespace },
            "spec": { "type": "ExternalName", "externalName": "localhost" } }),
        serde_json::json!({ "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
            "metadata": { "name": namespace, "labels": label }, "webhooks": [webhook] }),
        serde_json::json!({ "apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService",
            "metadata": { "name": format!("v1.{group}"), "labels": label },
            "spec": { "group": group, "version": "v1", "groupPriorityMinimum": 100, "versionPriority": 100,
                "service": service } }),
    ];
    let list = serde_json::json!({ "apiVersion": "v1", "kind": "List", "items": objects });
    cluster.kubectl_with_input("apply --server-side -f -", &list.to_string()).await.expect_ok();
}

async fn bundle(client: &kube::Client, name: &str) -> Option<String> {
    let configuration = Api::<ValidatingWebhookConfiguration>::all(client.clone()).get(name).await.unwrap();
    let bytes = configuration.webhooks.unwrap()[0].client_config.ca_bundle.clone()?;
    Some(String::from_utf8(bytes.0).unwrap())
}

async fn authority(client: &kube::Client, namespace: &str) -> std::collections::BTreeMap<String, String> {
    let secret = Api::<Secret>::namespaced(client.clone(), namespace).get(CA).await.unwrap();
    secret.data.unwrap().into_iter().map(|(key, value)| (key, String::from_utf8(value.0).unwrap())).collect()
}

#[tokio::test]
async fn the_bundle_is_injected_into_labelled_targets_of_our_namespace_and_repaired() {
    let cluster = Cluster::shared().await;
    let installation = Installation::new(cluster, "inject").await;
    let (namespace, client) = (&installation.namespace, cluster.client().await);
    let operator = installation.start(BINARY, "webhooks").await;
    targets(cluster, namespace, operator.ports.webhooks).await;
    until("the bundle", LIMIT, async || holds(bundle(&client, namespace).await.is_some(), "no bundle yet"))
        .await;
    assert_eq!(bundle(&client, namespace).await.unwrap(), authority(&client, namespace).await["bundle.crt"]);

    let api = Api::<ValidatingWebhookConfiguration>::all(client.clone());
    let wiped =
        serde_json::json!([{ "op": "replace", "path": "/webhooks/0/clientConfig/caBundle", "value": "" }]);
    let wiped = Patch::<()>::Json(serde_json::from_value(wiped).unwrap());
    api.patch(namespace, &PatchParams::default(), &wiped).await.unwrap();
    until("the repair", LIMIT, async || {
        holds(bundle(&client, namespace).await.is_some_and(|bundle| !bundle.is_empty()), "still wiped")
    })
    .await;

    // Our manager owns that one field and nothing else.
    let managed = api.get(namespace).await.unwrap().metadata.managed_fields.unwrap();
    let ours: Vec<_> = managed.iter().filter(|entry| entry.manager.as_deref() == Some("coder-k8s")).collect();
    let fields = serde_json::to_string(&ours).unwrap();
    assert!(
        fields.contains("f:caBundle") && !fields.contains("f:rules") && !fields.contains("f:labels"),
        "{fields}"
    );
}

#[tokio::test]
async fn a_target_of_another_namespace_or_without_the_label_is_never_touched() {
    let cluster = Cluster::shared().await;
    let other = cluster.namespace("bystander").await;
    targets(cluster, &other, 1).await;
    let installation = Installation::new(cluster, "careful").await;
    let (namespace, client) = (&installation.namespace, cluster.client().await);
    let operator = installation.start(BINARY, "webhooks").await;
    targets(cluster, namespace, operator.ports.webhooks).await;
    until("our bundle", LIMIT, async || holds(bundle(&client, namespace).await.is_some(), "no bundle yet"))
        .await;
    assert_eq!(bundle(&client, &other).await, None, "labelled, but its Service is not ours");
}

#[tokio::test]
async fn ca_and_leaves_rotate_under_load_without_a_failed_call() {
    let cluster = Cluster::shared().await;
    let installation = Installation::new(cluster, "rotate").await;
    let (namespace, client) = (installation.namespace.clone(), cluster.client().await);
    let mut options = installation.operator("webhooks").await;
    options.flags =
        ["--leaf-lifetime=8s", "--ca-propagation=3s", "--ca-retirement-margin=1s"].map(str::to_owned).into();
    let mut replicas = [Operator::start(BINARY, &options).await, Operator::start(BINARY, &options).await];
    for replica in &mut replicas {
        replica.ready(LIMIT).await;
    }
    let backends = replicas.iter().map(|replica| ports::loopback(replica.ports.webhooks)).collect();
    let balancer = Balancer::start(backends).await;
    targets(cluster, &namespace, balancer.port()).await;
    installation.admit(balancer.port(), &[namespace.as_str()]).await;
    until("the first call", LIMIT, async || call_by_webhook(&client, &namespace).await).await;
    until("the aggregator's first call", LIMIT, async || aggregator_verified(&client, &namespace).await)
        .await;

    let load = Load::start(client.clone(), &namespace, &balancer);
    let before = authority(&client, &namespace).await;
    rotate(&client, &namespace).await;
    let after = authority(&client, &namespace).await;
    let (calls, failures) = load.stop().await;
    println!("{calls} calls by webhook and by fresh handshake during the rotation");
    assert_ne!(before["signer.crt"], after["signer.crt"]);
    assert_eq!(after["bundle.crt"].trim(), after["signer.crt"].trim(), "the old CA is gone");
    assert_eq!(failures, Vec::<String>::new());
    assert!(calls > 100, "only {calls} calls");
    let renewals: usize =
        replicas.iter().map(|replica| replica.logged("serving a new certificate").len()).sum();
    until("the aggregator's word after it", LIMIT, async || aggregator_verified(&client, &namespace).await)
        .await;
    assert!(
        renewals >= 8,
        "each replica renews its leaf every four seconds and for each new signer: {renewals}"
    );
}

/// Asks for a rotation and waits until the old CA is no longer trusted.
async fn rotate(client: &kube::Client, namespace: &str) {
    let secrets = Api::<Secret>::namespaced(client.clone(), namespace);
    let ask = serde_json::json!({ "metadata": { "annotations": { "coder.com/rotate-ca": "now" } } });
    secrets.patch(CA, &PatchParams::default(), &Patch::Merge(ask)).await.unwrap();
    for phase in ["distributing", "retiring", "stable"] {
        until(&format!("the phase {phase}"), LIMIT, async || {
            let state = authority(client, namespace).await["state"].clone();
            holds(state.contains(phase), state)
        })
        .await;
    }
}

/// The API server calls the shipped mutating and validating webhooks: a dry run that comes back with defaults.
async fn call_by_webhook(client: &kube::Client, namespace: &str) -> Result<(), String> {
    let kind = ApiResource::from_gvk(&GroupVersionKind::gvk("coder.com", "v1alpha1", "CoderControlPlane"));
    let planes = Api::<DynamicObject>::namespaced_with(client.clone(), namespace, &kind);
    let plane = DynamicObject::new("probe", &kind).data(serde_json::json!({ "spec": {} }));
    let dry = PostParams { dry_run: true, ..PostParams::default() };
    let created = planes.create(&dry, &plane).await.map_err(|error| format!("webhook: {error}"))?;
    holds(created.data["spec"]["image"].is_string(), "webhook: not defaulted")
}

/// The aggregator asks us for discovery; it finds 404 only after it verified our certificate.
async fn aggregator_verified(client: &kube::Client, namespace: &str) -> Result<(), String> {
    let name = format!("v1.{namespace}.example.com");
    let conditions =
        Api::<APIService>::all(client.clone()).get(&name).await.unwrap().status.unwrap().conditions;
    let said = serde_json::to_string(&conditions).unwrap();
    holds(said.contains("bad status") && said.contains("404"), said)
}

/// A fresh handshake, verified with nothing but the bundle the target carries at this moment.
async fn handshake(client: &kube::Client, namespace: &str, port: u16) -> Result<(), String> {
    let bundle = bundle(client, namespace).await.ok_or("no bundle")?;
    https::connect(port, &bundle, &format!("hooks.{namespace}.svc")).await.map(drop)
}

/// Three loops of calls until told to stop.
struct Load {
    enough: Arc<AtomicBool>,
    calls: Arc<AtomicUsize>,
    loops: tokio::task::JoinSet<Vec<String>>,
}

impl Load {
    fn start(client: kube::Client, namespace: &str, balancer: &Balancer) -> Self {
        let mut load =
            Self { enough: Arc::default(), calls: Arc::default(), loops: tokio::task::JoinSet::new() };
        let (namespace, port) = (namespace.to_owned(), balancer.port());
        for by_webhook in [true, true, false] {
            let (client, namespace) = (client.clone(), namespace.clone());
            let (enough, calls) = (load.enough.clone(), load.calls.clone());
            load.loops.spawn(async move {
                let mut failures = Vec::new();
                while !enough.load(Ordering::Relaxed) {
                    let outcome = if by_webhook {
                        call_by_webhook(&client, &namespace).await
                    } else {
                        handshake(&client, &namespace, port).await
                    };
                    calls.fetch_add(1, Ordering::Relaxed);
                    failures.extend(outcome.err());
                }
                failures
            });
        }
        load
    }

    async fn stop(mut self) -> (usize, Vec<String>) {
        self.enough.store(true, Ordering::Relaxed);
        let mut failures = Vec::new();
        while let Some(ended) = self.loops.join_next().await {
            failures.extend(ended.unwrap());
        }
        (self.calls.load(Ordering::Relaxed), failures)
    }
}

#[tokio::test]
async fn external_certificates_are_served_from_a_folder_and_reloaded() {
    let cluster = Cluster::shared().await;
    let installation = Installation::new(cluster, "external").await;
    let folder = cluster.folder().join("external-tls");
    std::fs::create_dir_all(&folder).unwrap();
    let ca = support::cluster::pki::Ca::new("somebody else");
    let place = |name: &str| {
        let pair = ca.server(&[name]);
        std::fs::write(folder.join("tls.key"), pair.key).unwrap();
        std::fs::write(folder.join("tls.crt"), pair.certificate).unwrap();
    };
    place("first.example.com");
    let mut options = installation.operator("webhooks").await;
    options.flags = vec!["--webhook-ca=external".to_owned(), format!("--tls-dir={}", folder.display())];
    let mut operator = Operator::start(BINARY, &options).await;
    operator.ready(LIMIT).await;
    https::connect(operator.ports.webhooks, &ca.certificate, "first.example.com").await.unwrap();
    place("second.example.com");
    until("the new certificate", LIMIT, async || {
        https::connect(operator.ports.webhooks, &ca.certificate, "second.example.com").await
    })
    .await;
    let secrets = Api::<Secret>::namespaced(cluster.client().await, &installation.namespace);
    assert!(secrets.get_opt(CA).await.unwrap().is_none(), "nobody asked us for a CA");
}
