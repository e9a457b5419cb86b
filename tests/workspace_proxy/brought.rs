//! What becomes of a registration whose author brings a token instead.

use crate::site::{NAME, Site};
use serde_json::json;
use support::objects::{is_observed, secret};

/// Gives the proxy a token of its author.
async fn bring(site: &Site) {
    let theirs = site.coderd().add_workspace_proxy("theirs");
    site.put(&secret(&site.ns, "mine", &json!({ "token": theirs }))).await;
    let url = format!("http://coder.{}.svc.cluster.local:{}", site.ns, site.double.port);
    let spec = json!({ "image": "ghcr.io/coder/coder:v2.36.1", "primaryAccessURL": url,
        "proxySessionTokenSecretRef": { "name": "mine" } });
    site.apply_spec(NAME, &spec).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_record_that_nobody_can_prove_goes_with_a_token_of_the_author_and_is_told() {
    let site = Site::with_proxy("unsealed").await;
    site.apply(&json!({ "suspend": true })).await;
    site.until_reason("Suspended", "Suspended").await;
    site.patch_status(&json!({ "status": { "registration": { "current": { "seal": "0000" } } } })).await;
    bring(&site).await;
    site.until("forgotten", |object| {
        is_observed(object)
            && object["status"]["registration"].is_null()
            && object["status"]["registered"] == json!(false)
    })
    .await;
    site.until_event("ProxyLeftBehind").await;
    assert_eq!(site.names(), [NAME, "theirs"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_orphan_stays_when_its_author_brings_a_token() {
    let site = Site::with_proxy("orphaned").await;
    site.annotate("coder.com/release-external", "true").await;
    bring(&site).await;
    site.until("forgotten", |object| object["status"]["registration"].is_null()).await;
    site.until_event("ProxyLeftBehind").await;
    assert_eq!(site.names(), [NAME, "theirs"]);
}
