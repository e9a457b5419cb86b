//! The ways that lead a workspace proxy to its coderd: an address, a Service, a control plane; from one to another, and before there
//! is one at the end of it.

use crate::site::{NAME, SECRET, Site};
use serde_json::{Value, json};
use support::objects::{condition, is_observed, is_ready, text};

/// Whether it is ready, and recorded behind this control plane.
fn is_behind(object: &Value, plane: &Value) -> bool {
    let uid = &object["status"]["registration"]["current"]["controlPlaneUID"];
    is_ready(object) && *uid == plane["metadata"]["uid"]
}

#[tokio::test(flavor = "multi_thread")]
async fn a_registration_stays_when_an_address_becomes_the_control_plane_of_the_same_coderd() {
    let (site, url) = Site::outside("moved-in").await;
    site.apply_spec(NAME, &Site::bootstrap(&url)).await;
    let token = site.comes().await;
    site.ready().await;
    let id = site.only().id;
    site.apply_control_plane("coder", &site.double).await;
    let plane = site.until_object("codercontrolplane", "coder", "Ready", is_ready).await;
    site.apply(&json!({})).await;
    site.until("behind the control plane", |object| is_behind(object, &plane)).await;
    let proxy = site.only();
    assert_eq!((proxy.id, proxy.regenerations, site.token(SECRET).await), (id, 0, Some(token)));
    site.remove("coderworkspaceproxy", NAME).await;
    site.until_gone("coderworkspaceproxy", NAME).await;
    assert!(site.names().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_short_name_of_the_service_is_that_of_the_control_plane() {
    let site = Site::new("short").await;
    let url = format!("http://coder.{}.svc:{}", site.ns, site.double.port);
    site.apply_spec(NAME, &Site::bootstrap(&url)).await;
    site.comes().await;
    let plane = site.get("codercontrolplane", "coder").await.unwrap();
    site.until("behind the control plane", |object| is_behind(object, &plane)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_proxy_that_is_applied_before_its_control_plane_waits_for_it() {
    let site = Site::empty("early").await;
    let url = format!("http://coder.{}.svc:{}", site.ns, site.double.port);
    for spec in [Site::bootstrap(&url), json!({ "controlPlaneRef": { "name": "coder" } })] {
        site.apply_spec(NAME, &spec).await;
        let waits = |object: &Value| {
            is_observed(object) && condition(object, "ControlPlaneReady")["status"] == "False"
        };
        let waiting = site.until("it waits for the control plane", waits).await;
        assert_eq!(condition(&waiting, "Stalled")["status"], "False", "{spec}: {waiting}");
        assert_eq!(condition(&waiting, "Reconciling")["status"], "True", "{spec}: {waiting}");
    }
    site.apply_control_plane("coder", &site.double).await;
    site.comes().await;
    site.ready().await;
    assert_eq!(site.only().regenerations, 0);
}

/// A coderd that Helm installed in the namespace is no control plane to come, and none that is gone: its Service is there.
#[tokio::test(flavor = "multi_thread")]
async fn a_coderd_of_others_in_the_namespace_is_neither_awaited_nor_taken_for_gone() {
    let site = Site::empty("helm").await;
    let port = site.double.port;
    site.put(
        &json!({ "apiVersion": "v1", "kind": "Service", "metadata": { "name": "coder", "namespace": site.ns },
        "spec": { "selector": { "app.kubernetes.io/name": "coder" }, "ports": [{ "port": port }] } }),
    )
    .await;
    let token = site.coderd().add_workspace_proxy(NAME);
    let mut spec = Site::bootstrap(&format!("http://coder.{}.svc.cluster.local:{port}", site.ns));
    spec["suspend"] = json!(true);
    site.apply_spec(NAME, &spec).await;
    site.until_reason("Suspended", "Suspended").await;
    site.create_token(&token).await;
    spec["suspend"] = json!(false);
    site.apply_spec(NAME, &spec).await;
    let stalled = site.until_reason("Stalled", "URLNotAllowed").await;
    let way_out = format!("--allow-url=http://coder.{}.svc.cluster.local:{port}", site.ns);
    let message = text(condition(&stalled, "Stalled"), "/message");
    assert!(message.contains(&way_out), "{message}");

    site.remove("coderworkspaceproxy", NAME).await;
    let is_held = |object: &Value| condition(object, "CleanedUp")["reason"] == "CleanupFailed";
    let held = site.until("it is held", is_held).await;
    let message = text(condition(&held, "CleanedUp"), "/message");
    assert!(message.contains(&way_out), "{message}");
    assert_eq!((site.names(), site.coderd().token_of_proxy(NAME)), (vec![NAME.to_owned()], Some(token)));
    // What led there is gone, and nobody's control plane is awaited.
    site.remove("service", "coder").await;
    site.until_gone("coderworkspaceproxy", NAME).await;
    site.until_event("ProxyLeftBehind").await;
}
