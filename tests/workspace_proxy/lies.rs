//! What the security review found that a workspace proxy could be made to do, each as it was done: a coderd that says whatever
//! helps it, a token that opens a door but gives no right, a status that somebody else writes.

use crate::site::{Double, NAME, Site, wait};
use serde_json::{Value, json};
use support::coderd::{Fault, Occurrence};
use support::objects::{condition, control_plane, is_ready, secret, text};
use support::wait::holds;

/// A coderd that claims to have this database, and a proxy `eu` of this id.
fn lies(evil: &Double, deployment: &str, id: &str) {
    let at = "2026-01-01T00:00:00Z";
    let proxy = json!({ "id": id, "name": NAME, "display_name": NAME, "icon_url": "/emojis/1f30d.png", "healthy": true,
        "path_app_url": "http://wsproxy-eu", "created_at": at, "updated_at": at, "deleted": false, "version": "v2.36.1",
        "status": { "status": "ok", "report": { "errors": [], "warnings": [] }, "checked_at": at } });
    let token = format!("{id}:{}", "e".repeat(64));
    let says = |route: &str, body: &Value| {
        drop(evil.coderd.inject(route, Occurrence::Every, Fault::answer(200, body)))
    };
    says(
        "GET /buildinfo",
        &json!({ "external_url": "https://github.com/coder/coder", "version": "v2.36.1",
        "dashboard_url": "", "telemetry": false, "workspace_proxy": false, "agent_api_version": "1.0",
        "provisioner_api_version": "1.18", "upgrade_message": "", "deployment_id": deployment }),
    );
    says("GET /workspaceproxies/{proxy}", &proxy);
    says("PATCH /workspaceproxies/{proxy}", &json!({ "proxy": proxy, "proxy_token": token }));
    says("GET /workspaceagents/connection", &json!({ "derp_map": {} }));
}

async fn apply_adopting(site: &Site, name: &str, control_plane: &str) {
    site.put(&json!({ "apiVersion": "coder.com/v1alpha1", "kind": "CoderWorkspaceProxy",
        "metadata": { "name": name, "namespace": site.ns, "annotations": { "coder.com/adopt-proxy": NAME } },
        "spec": { "controlPlaneRef": { "name": control_plane }, "registration": { "proxyName": NAME } } }))
        .await;
}

/// A proxy moves away from a coderd that lied. What it said must take nothing from the coderd that the proxy moves to.
#[tokio::test(flavor = "multi_thread")]
async fn what_a_former_coderd_said_takes_no_proxy_of_another_one() {
    let site = Site::new("liar").await;
    // Of a person, or of another cluster: no object here has recorded it.
    let token = Some(site.coderd().add_workspace_proxy("honest"));
    let theirs = site.only();
    let evil = site.another_double();
    let given = evil.coderd.token_for(&[support::coderd::Role::Owner]);
    site.put(&secret(&site.ns, "evil-token", &json!({ "token": given }))).await;
    lies(&evil, &site.coderd().deployment_id().to_string(), &theirs.id.to_string());
    let spec = json!({ "service": { "port": evil.port },
        "operatorAccess": { "tokenSecretRef": { "name": "evil-token" } } });
    site.put(&control_plane(&site.ns, "evil", &spec)).await;
    apply_adopting(&site, NAME, "evil").await;
    site.until("used there", |object| {
        object["status"]["registration"]["current"]["id"] == json!(theirs.id.to_string()) && is_ready(object)
    })
    .await;
    // Its author has had enough of it.
    site.apply_spec(NAME, &json!({ "controlPlaneRef": { "name": "coder" } })).await;
    let plane = site.get("codercontrolplane", "coder").await.unwrap();
    // What the former one does not delete stays on the list, and is told.
    site.until("moved", |object| {
        let told = text(condition(object, "ProxyRegistered"), "/message");
        let current = &object["status"]["registration"]["current"];
        told.contains("cannot be removed yet: control plane evil")
            && current["controlPlaneUID"] == plane["metadata"]["uid"]
    })
    .await;
    let still = site
        .coderd()
        .workspace_proxies()
        .into_iter()
        .find(|one| one.id == theirs.id)
        .expect("it is not deleted");
    assert_eq!((still.name.as_str(), still.regenerations), ("honest", 0));
    assert_eq!(site.coderd().token_of_proxy("honest"), token);
}

/// What the coderd of one namespace says stops nobody in another.
#[tokio::test(flavor = "multi_thread")]
async fn an_id_that_a_coderd_of_another_namespace_claims_keeps_nobody_from_his_own_proxy() {
    let site = Site::new("squatted").await;
    // It is to be taken over, and an annotation says so.
    site.coderd().add_workspace_proxy(NAME);
    let id = site.only().id.to_string();
    let other = Site::new("squatter").await;
    lies(&other.double, &other.coderd().deployment_id().to_string(), &id);
    apply_adopting(&other, NAME, "coder").await;
    other.until("claimed", |object| object["status"]["registration"]["current"]["id"] == json!(id)).await;
    apply_adopting(&site, NAME, "coder").await;
    site.until("taken over", |object| object["status"]["registration"]["current"]["id"] == json!(id)).await;
}

/// Whoever has a token of a proxy has no right to rename or delete it, and gets none from the operator.
#[tokio::test(flavor = "multi_thread")]
async fn a_token_of_a_proxy_of_another_name_makes_it_nobodys_own() {
    let site = Site::new("lent").await;
    let token = site.coderd().add_workspace_proxy("theirs");
    site.apply(&json!({ "suspend": true })).await;
    site.until_reason("Suspended", "Suspended").await;
    site.create_token(&token).await;
    site.apply(&json!({ "suspend": false })).await;
    wait("a proxy of its own", async || {
        let names = site.names();
        let has = |name: &str| names.iter().any(|one| one == name);
        holds(has(NAME) && has("theirs"), format!("{names:?}"))
    })
    .await;
    site.remove("coderworkspaceproxy", NAME).await;
    site.until_gone("coderworkspaceproxy", NAME).await;
    assert_eq!(site.names(), ["theirs"], "deleted");
}

/// Whoever may write a status writes nothing that makes the operator delete the registration in use.
#[tokio::test(flavor = "multi_thread")]
async fn an_entry_that_is_copied_within_a_status_deletes_nothing() {
    let site = Site::with_proxy("copied").await;
    let before = site.only();
    let object = site.get("coderworkspaceproxy", NAME).await.unwrap();
    let current = object["status"]["registration"]["current"].clone();
    site.patch_status(&json!({ "status": { "registration": { "retiring": [current] } } })).await;
    for time in ["once", "twice"] {
        site.annotate("coder.com/reconcile-at", time).await;
        site.until("looked at", |object| object["status"]["lastHandledReconcileAt"] == *time).await;
    }
    let seen: Vec<_> = site.coderd().workspace_proxies().into_iter().map(|one| (one.name, one.id)).collect();
    assert_eq!(seen, [(before.name, before.id)]);
}
