//! Whoever may write the status of one workspace proxy stops no other: what is recorded of a registration is read however long the
//! rest is, and as long as the schema lets it be.

use crate::site::{NAME, Site};
use serde_json::{Value, json};
use support::objects::is_ready;

/// An entry as long as the schema allows.
fn entry(number: usize) -> Value {
    let text = |length: usize| "\u{1F30D}".repeat(length);
    json!({ "name": format!("{number}{}", text(255)), "id": text(64), "controlPlaneUID": text(64), "address": text(300),
        "deploymentID": text(64), "since": "2026-01-01T00:00:00Z", "attempted": true, "seal": text(128) })
}

/// A namespace with a proxy whose status somebody writes. It is suspended: the operator does not write it.
async fn with_status(purpose: &str, status: Value) -> Site {
    let site = Site::new(purpose).await;
    site.apply(&json!({ "suspend": true })).await;
    site.until_reason("Suspended", "Suspended").await;
    site.patch_status(&json!({ "status": status })).await;
    site
}

/// Another proxy there comes and goes, and one elsewhere is taken over.
async fn assert_stops_nobody(site: &Site, elsewhere: &str) {
    site.apply_spec("us", &json!({ "controlPlaneRef": { "name": "coder" } })).await;
    site.until_named("us", "registered", |object| !object["status"]["registration"]["current"].is_null())
        .await;
    site.remove("coderworkspaceproxy", "us").await;
    site.until_gone("coderworkspaceproxy", "us").await;
    assert!(site.names().is_empty(), "{:?}", site.names());

    let other = Site::new(elsewhere).await;
    other.coderd().add_workspace_proxy(NAME);
    other.apply(&json!({})).await;
    other.until_reason("Stalled", "ProxyNameConflict").await;
    other.annotate("coder.com/adopt-proxy", NAME).await;
    other.comes().await;
    other.until("taken over", is_ready).await;
    site.remove("coderworkspaceproxy", NAME).await;
    site.until_gone("coderworkspaceproxy", NAME).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_record_as_long_as_the_schema_allows_stops_nobody() {
    let retiring: Vec<Value> = (0..6).map(entry).collect();
    let record = json!({ "current": entry(6), "pending": entry(7), "retiring": retiring });
    let site = with_status("long-record", json!({ "registration": record })).await;
    assert_stops_nobody(&site, "long-record-else").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_status_that_is_too_long_to_be_kept_stops_nobody() {
    let site = with_status("long-status", json!({ "url": "x".repeat(100_000) })).await;
    assert_stops_nobody(&site, "long-status-else").await;
}
