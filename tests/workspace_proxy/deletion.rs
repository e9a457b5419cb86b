//! How a workspace proxy leaves: its registration first, unless somebody says otherwise or nobody can be asked any more.

use crate::site::{NAME, Site, wait};
use serde_json::json;
use support::coderd::{Fault, Occurrence};
use support::objects::condition;
use support::wait::holds;

#[tokio::test(flavor = "multi_thread")]
async fn a_registration_goes_with_its_object() {
    let site = Site::with_proxy("goes").await;
    site.remove("coderworkspaceproxy", NAME).await;
    site.until_gone("coderworkspaceproxy", NAME).await;
    assert!(site.names().is_empty());
    site.until_event("ProxyRemoved").await;
    site.coderd().assert_no_violations();
}

#[tokio::test(flavor = "multi_thread")]
async fn it_is_held_while_coderd_is_away_and_let_go_on_request() {
    let site = Site::with_proxy("held").await;
    site.coderd().inject("*", Occurrence::Every, Fault::cut_before_processing());
    site.remove("coderworkspaceproxy", NAME).await;
    let is_held = |object: &serde_json::Value| condition(object, "CleanedUp")["reason"] == "CleanupFailed";
    let held = site.until("it is held", is_held).await;
    assert!(
        condition(&held, "CleanedUp")["message"].as_str().unwrap().contains("coder.com/release-external")
    );
    site.annotate("coder.com/release-external", "true").await;
    site.until_gone("coderworkspaceproxy", NAME).await;
    site.until_event("ProxyLeftBehind").await;
    site.coderd().clear_faults();
    assert_eq!(site.names(), [NAME]);
}

#[tokio::test(flavor = "multi_thread")]
async fn it_goes_when_coderd_comes_back() {
    let site = Site::with_proxy("back").await;
    site.coderd().inject("*", Occurrence::Every, Fault::status(500));
    site.remove("coderworkspaceproxy", NAME).await;
    let is_held = |object: &serde_json::Value| condition(object, "CleanedUp")["status"] == "False";
    site.until("it is held", is_held).await;
    site.coderd().clear_faults();
    site.until_gone("coderworkspaceproxy", NAME).await;
    assert!(site.names().is_empty());
}

/// The answer that told its id is lost, and what stands before coderd says that there is nothing of the name.
#[tokio::test(flavor = "multi_thread")]
async fn one_whose_id_is_not_known_is_looked_for_before_it_counts_as_gone() {
    let site = Site::new("no-id").await;
    let (show, list) = ("GET /api/v2/workspaceproxies/{proxy}", "GET /api/v2/workspaceproxies");
    let made = site.coderd().inject(
        "POST /api/v2/workspaceproxies",
        Occurrence::Next,
        Fault::hang_after_processing(),
    );
    site.coderd().inject(show, Occurrence::Every, Fault::status(404));
    site.apply(&json!({})).await;
    wait("it to be made", async || holds(made.hits() > 0, "not yet".to_owned())).await;
    let untold = site.coderd().inject(list, Occurrence::Every, Fault::status(500));
    let object = site.get("coderworkspaceproxy", NAME).await.unwrap();
    let pending = &object["status"]["registration"]["pending"];
    assert_eq!((&pending["attempted"], pending.get("id")), (&json!(true), None), "{object}");
    site.remove("coderworkspaceproxy", NAME).await;
    let is_held = |object: &serde_json::Value| condition(object, "CleanedUp")["status"] == "False";
    site.until("it is held", is_held).await;
    assert_eq!(site.names(), [NAME]);
    untold.withdraw();
    site.until_gone("coderworkspaceproxy", NAME).await;
    assert!(site.names().is_empty(), "{:?}", site.names());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_orphan_stays_and_is_named() {
    let site = Site::with_proxy("orphan").await;
    site.apply(&json!({ "deletionPolicy": "Orphan" })).await;
    site.remove("coderworkspaceproxy", NAME).await;
    site.until_gone("coderworkspaceproxy", NAME).await;
    assert_eq!(site.names(), [NAME]);
    let told = site.until_event("ProxyLeftBehind").await;
    assert!(told.contains("coder wsproxy delete eu"), "{told}");
}

/// Has a proxy registered in a coderd outside, and deletes the namespace. The credentials are there as long as the proxy is, which
/// the namespace does not promise.
async fn delete_namespace(purpose: &str, fault: Option<Fault>) -> Site {
    let (site, url) = Site::outside(purpose).await;
    site.apply_spec(NAME, &Site::bootstrap(&url)).await;
    site.comes().await;
    site.ready().await;
    let finalizers = |all: &[&str]| json!({ "metadata": { "finalizers": all } });
    site.patch("secret", "operator-token", &finalizers(&["example.com/stays"])).await;
    if let Some(fault) = fault {
        site.coderd().inject("*", Occurrence::Every, fault);
    }
    let path = format!("/api/v1/namespaces/{}", site.ns);
    let request = http::Request::delete(path).body(Vec::new()).unwrap();
    site.client.request::<serde_json::Value>(request).await.expect("a namespace can be deleted");
    site.until_gone("coderworkspaceproxy", NAME).await;
    site.patch("secret", "operator-token", &finalizers(&[])).await;
    site.coderd().clear_faults();
    site
}

#[tokio::test(flavor = "multi_thread")]
async fn a_registration_outside_goes_with_its_namespace() {
    let site = delete_namespace("ns-goes", None).await;
    assert!(site.names().is_empty(), "{:?}", site.names());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_coderd_outside_that_is_away_holds_no_namespace() {
    let site = delete_namespace("ns-held", Some(Fault::cut_before_processing())).await;
    assert_eq!(site.names(), [NAME], "it is left behind");
}

#[tokio::test(flavor = "multi_thread")]
async fn without_its_control_plane_or_a_license_nothing_holds_it() {
    let gone = Site::with_proxy("plane-gone").await;
    gone.remove("codercontrolplane", "coder").await;
    gone.until_gone("codercontrolplane", "coder").await;
    gone.remove("coderworkspaceproxy", NAME).await;
    gone.until_gone("coderworkspaceproxy", NAME).await;
    let site = Site::with_proxy("unlicensed").await;
    site.coderd().remove_license();
    site.remove("coderworkspaceproxy", NAME).await;
    site.until_gone("coderworkspaceproxy", NAME).await;
    site.until_event("ProxyLeftBehind").await;
}
