//! A workspace proxy from its registration on: what it consists of, a lost Secret, another token, another name, another home.

use crate::site::{NAME, SECRET, Site, WORKLOAD, wait};
use serde_json::{Value, json};
use support::objects::{condition, is_ready};
use support::wait::holds;

#[tokio::test(flavor = "multi_thread")]
async fn a_proxy_registers_starts_and_becomes_ready() {
    let site = Site::new("life").await;
    site.apply(&json!({ "registration": { "displayName": "Europe" } })).await;
    let token = site.comes().await;
    let ready = site.ready().await;
    let proxy = site.only();
    assert_eq!((&*proxy.name, &*proxy.display_name), (NAME, "Europe"));
    assert!(!proxy.icon.is_empty() && proxy.regenerations == 0);
    let status = &ready["status"];
    assert_eq!(status["registered"], true);
    assert_eq!(status["registration"]["current"]["id"], json!(proxy.id.to_string()));
    assert_eq!(status["proxyTokenSecretRef"], json!({ "name": SECRET, "key": "token" }));
    for name in [
        "ControlPlaneReady",
        "OperatorAccessReady",
        "WorkspaceProxiesEntitled",
        "ProxyRegistered",
        "ProxyTokenSecretReady",
        "DeploymentReady",
        "ProxyHealthy",
        "SpecAccepted",
    ] {
        assert_eq!(condition(&ready, name)["status"], "True", "{name}: {status}");
    }
    assert!(!ready.to_string().contains(&token), "the token is in the Secret alone");

    let deployment = site.get("deployment", WORKLOAD).await.unwrap();
    let pod = &deployment["spec"]["template"]["spec"];
    let container = &pod["containers"][0];
    assert_eq!(container["command"], json!(["coder"]));
    assert_eq!(container["args"], json!(["wsproxy", "server", "--http-address=0.0.0.0:3001"]));
    let plane = site.get("deployment", "coder").await.unwrap();
    assert_eq!(container["image"], plane["spec"]["template"]["spec"]["containers"][0]["image"]);
    assert_eq!(
        (&pod["automountServiceAccountToken"], &pod["serviceAccountName"]),
        (&json!(false), &json!("eu-wsproxy"))
    );
    let service = site.get("service", WORKLOAD).await.unwrap();
    assert_eq!(service["spec"]["ports"][0]["targetPort"], 3001);
    let object = site.get("coderworkspaceproxy", NAME).await.unwrap();
    assert!(object["spec"].get("image").is_none(), "the image follows the control plane");

    site.apply(&json!({ "registration": { "displayName": "Frankfurt", "icon": "/icon/x.png" } })).await;
    wait("the new appearance", async || {
        let proxy = site.only();
        holds(proxy.display_name == "Frankfurt" && proxy.icon == "/icon/x.png", format!("{proxy:?}"))
    })
    .await;
    site.coderd().assert_no_violations();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_secret_has_its_token_replaced_once_and_pods_roll() {
    let site = Site::with_proxy("lost").await;
    let (before, revision) = (site.comes().await, site.revision().await);
    site.remove("secret", SECRET).await;
    wait("another token", async || {
        let token = site.token(SECRET).await;
        holds(token.is_some_and(|token| token != before), "not yet".to_owned())
    })
    .await;
    site.comes().await;
    wait("pods to roll", async || {
        let now = site.revision().await;
        holds(now == revision + 1, format!("{now}"))
    })
    .await;
    site.ready().await;
    assert_eq!(site.only().regenerations, 1);
    site.until_event("TokenReplaced").await;
    // Somebody removes it in coderd: the next verification registers it again.
    site.coderd().remove_workspace_proxy(NAME);
    wait("the proxy to be there again", async || {
        holds(site.names() == [NAME], format!("{:?}", site.names()))
    })
    .await;
    site.comes().await;
    site.ready().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn another_value_of_the_annotation_replaces_the_token_once() {
    let site = Site::with_proxy("rotate").await;
    site.annotate("coder.com/rotate-token", "2026-11").await;
    let is_done = |object: &Value| object["status"]["registration"]["rotatedFor"] == "2026-11";
    site.until("the rotation to be recorded", is_done).await;
    site.comes().await;
    site.until("ready again", |object| is_ready(object) && is_done(object)).await;
    assert_eq!(site.only().regenerations, 1);
    site.annotate("coder.com/reconcile-at", "now").await;
    site.until("reconciled", |object| object["status"]["lastHandledReconcileAt"] == "now").await;
    assert_eq!(site.only().regenerations, 1, "the annotation may stand");
}

#[tokio::test(flavor = "multi_thread")]
async fn another_name_renames_the_same_proxy_and_a_taken_one_does_not() {
    let site = Site::with_proxy("rename").await;
    let (id, token) = (site.only().id, site.comes().await);
    site.apply(&json!({ "registration": { "proxyName": "frankfurt" } })).await;
    wait("the new name", async || holds(site.names() == ["frankfurt"], format!("{:?}", site.names()))).await;
    assert_eq!((site.only().id, site.only().regenerations), (id, 0));
    assert_eq!(site.token(SECRET).await, Some(token));
    site.until_event("ProxyRenamed").await;
    site.coderd().add_workspace_proxy("taken");
    site.apply(&json!({ "registration": { "proxyName": "taken" } })).await;
    let stalled = site.until_reason("Stalled", "ProxyNameConflict").await;
    assert_eq!(stalled["status"]["registration"]["current"]["name"], "frankfurt", "everything stays");
}

#[tokio::test(flavor = "multi_thread")]
async fn in_another_control_plane_it_registers_first_and_leaves_the_former_after_the_rollout() {
    let site = Site::with_proxy("move").await;
    let other = site.another_double();
    let token = other.coderd.token_for(&[support::coderd::Role::Owner]);
    site.put(&support::objects::secret(&site.ns, "other-token", &json!({ "token": token }))).await;
    let spec = json!({ "service": { "port": other.port },
        "operatorAccess": { "tokenSecretRef": { "name": "other-token" } } });
    site.put(&support::objects::control_plane(&site.ns, "other", &spec)).await;
    site.apply(&json!({ "controlPlaneRef": { "name": "other" } })).await;
    wait("the former registration to be gone", async || {
        let (here, there) = (site.names(), other.coderd.workspace_proxies().len());
        holds(here.is_empty() && there == 1, format!("{here:?} {there}"))
    })
    .await;
    let token = site.token(SECRET).await.unwrap();
    other.coderd.proxy_comes(&token, "http://wsproxy-eu").unwrap();
    site.ready().await;
    site.until_event("ProxyRemoved").await;
}
