//! A Secret that cannot be read is not one without a token: whatever the API server answers instead, the token stays.

use crate::site::{NAME, SECRET, WORKLOAD};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use support::coderd::Role;
use support::objects::{condition, is_ready, text, workspace_proxy};
use support::test_env::LIMIT;
use support::wait::until;
use support::{Cluster, ClusterOptions, Fault, TestEnv};

const BINARY: &str = env!("CARGO_BIN_EXE_coder-k8s");
const KIND: &str = "coderworkspaceproxy";

/// Waits until the Secret has a token that coderd accepts, with which the proxy comes.
async fn comes(env: &TestEnv, namespace: &str) -> String {
    until("the token to work", LIMIT, async || {
        let secret = env.get("secret", namespace, SECRET).await.ok_or("there is none")?;
        let token = STANDARD.decode(text(&secret, "/data/token")).map_err(|error| error.to_string())?;
        let token = String::from_utf8(token).map_err(|error| error.to_string())?;
        let came = env.coderd().proxy_comes(&token, "http://wsproxy-eu");
        came.map(|_| token).map_err(|refused| format!("{refused:?}"))
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_secret_that_cannot_be_read_never_costs_a_token() {
    let cluster = Cluster::start(ClusterOptions { nodes: 2, ..Default::default() }).await;
    let ns = cluster.namespace("unreadable").await;
    let builder = TestEnv::builder(BINARY).in_cluster(&cluster).through_fault_proxy(&[&ns]);
    let env = builder.flag("--verify-interval=1s").start().await;
    let token = env.coderd().token_for(&[Role::Owner]);
    env.apply_secret(&ns, "operator-token", &json!({ "token": token })).await;
    let access = json!({ "operatorAccess": { "tokenSecretRef": { "name": "operator-token" } } });
    env.apply_control_plane(&ns, "coder", &access).await;
    env.apply(&workspace_proxy(&ns, NAME, "coder")).await;
    let token = comes(&env, &ns).await;
    env.until_object(KIND, &ns, NAME, "Ready", is_ready).await;
    let template = env.get("deployment", &ns, WORKLOAD).await.unwrap()["spec"]["template"].clone();

    let path = format!("/api/v1/namespaces/{ns}/secrets/{SECRET}");
    // The last is never answered, until the operator gives up.
    for fault in [Fault::Answer(403), Fault::Answer(500), Fault::Hold] {
        let what = format!("{fault:?}");
        let path = path.clone();
        env.proxy().on(fault, move |method, url| method == "GET" && url.split('?').next() == Some(&path));
        let is_told = |object: &Value| condition(object, "ProxyRegistered")["reason"] == "RegistrationFailed";
        let told = env.until_object(KIND, &ns, NAME, &format!("told of {what}"), is_told).await;
        assert!(text(condition(&told, "ProxyRegistered"), "/message").contains(SECRET), "{what}: {told}");
        assert_eq!(condition(&told, "Stalled")["status"], "False", "{what}: it is tried again");
        env.proxy().release();
        env.until_object(KIND, &ns, NAME, &format!("healed of {what}"), is_ready).await;
        let proxies = env.coderd().workspace_proxies();
        let seen: Vec<_> = proxies.iter().map(|one| (one.name.as_str(), one.regenerations)).collect();
        assert_eq!(
            (seen, env.coderd().token_of_proxy(NAME)),
            (vec![(NAME, 0)], Some(token.clone())),
            "{what}"
        );
    }
    assert_eq!(env.get("deployment", &ns, WORKLOAD).await.unwrap()["spec"]["template"], template);
    env.coderd().assert_no_violations();
}
