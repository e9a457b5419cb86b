//! How a workspace proxy leaves whose control plane was deleted and made anew in front of the same database.

use crate::site::{NAME, Site, wait};
use serde_json::{Value, json};
use support::coderd::{Fault, Occurrence};
use support::objects::{condition, is_ready};
use support::wait::holds;

/// Deletes the control plane, and makes it anew.
async fn make_anew(site: &Site) {
    site.remove("codercontrolplane", "coder").await;
    site.until_gone("codercontrolplane", "coder").await;
    site.apply_control_plane("coder", &site.double).await;
}

async fn suspended(purpose: &str) -> Site {
    let site = Site::with_proxy(purpose).await;
    site.apply(&json!({ "suspend": true })).await;
    site.until_reason("Suspended", "Suspended").await;
    make_anew(&site).await;
    wait("the control plane", async || {
        let plane = site.get("codercontrolplane", "coder").await.unwrap_or_default();
        holds(is_ready(&plane), plane["status"].to_string())
    })
    .await;
    site
}

#[tokio::test(flavor = "multi_thread")]
async fn a_registration_goes_though_its_control_plane_was_made_anew() {
    let site = suspended("anew").await;
    site.remove("coderworkspaceproxy", NAME).await;
    site.until_gone("coderworkspaceproxy", NAME).await;
    assert!(site.names().is_empty(), "its coderd is the same, and answers: {:?}", site.names());
}

/// That both say the same of themselves proves nothing: any coderd can say what another one says.
#[tokio::test(flavor = "multi_thread")]
async fn a_registration_stays_that_no_token_proves_to_be_of_the_new_control_plane() {
    let site = suspended("anew-claimed").await;
    site.coderd().replace_proxy_token(NAME);
    site.remove("coderworkspaceproxy", NAME).await;
    site.until_gone("coderworkspaceproxy", NAME).await;
    site.until_event("ProxyLeftBehind").await;
    assert_eq!(site.names(), [NAME]);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_end_is_held_while_the_control_plane_that_was_made_anew_is_away() {
    let site = Site::with_proxy("anew-away").await;
    site.coderd().inject("*", Occurrence::Every, Fault::cut_before_processing());
    make_anew(&site).await;
    wait("the control plane", async || {
        let plane = site.get("codercontrolplane", "coder").await.unwrap_or_default();
        holds(!plane["status"].is_null(), "not yet".to_owned())
    })
    .await;
    site.remove("coderworkspaceproxy", NAME).await;
    let is_held = |object: &Value| condition(object, "CleanedUp")["reason"] == "CleanupFailed";
    site.until("it is held", is_held).await;
    site.coderd().clear_faults();
    site.until_gone("coderworkspaceproxy", NAME).await;
    assert!(site.names().is_empty());
}
