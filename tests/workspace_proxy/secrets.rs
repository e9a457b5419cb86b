//! What the Secret of a token holds besides, and what may be written to it: data of others stays, and nobody's token ends before
//! the next one can be kept with all that is written beside it.

use crate::site::{NAME, SECRET, Site};
use serde_json::{Value, json};
use support::objects::{self, condition, is_ready, text};

/// Has the Secret of the token, which nobody can change any more, hold a password as well.
async fn with_password(purpose: &str) -> Site {
    let site = Site::with_proxy(purpose).await;
    site.patch("secret", SECRET, &json!({ "stringData": { "db-password": "hunter2" }, "immutable": true }))
        .await;
    site
}

/// What is told of it.
async fn assert_left(site: &Site) {
    let told = site.until_event("SecretLeftBehind").await;
    assert!(told.contains(SECRET), "{told}");
    let secret = site.get("secret", SECRET).await.expect("others need what is in it");
    assert!(secret["data"]["db-password"].is_string() && secret["immutable"] == true, "{secret}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_secret_that_nobody_can_change_stays_with_what_others_keep_in_it() {
    let site = with_password("kept").await;
    site.apply(&json!({ "registration": { "tokenSecretName": "other" } })).await;
    site.until("at rest", |object| {
        is_ready(object) && object["status"]["proxyTokenSecretRef"]["name"] == "other"
    })
    .await;
    assert_eq!((site.token("other").await, site.only().regenerations), (site.token(SECRET).await, 0));
    assert_left(&site).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn it_stays_where_the_author_brings_a_token() {
    let site = with_password("kept-given").await;
    let theirs = site.coderd().add_workspace_proxy("theirs");
    site.put(&objects::secret(&site.ns, "mine", &json!({ "token": theirs }))).await;
    let url = format!("http://coder.{}.svc.cluster.local:{}", site.ns, site.double.port);
    let spec = json!({ "image": "ghcr.io/coder/coder:v2.36.1", "primaryAccessURL": url,
        "proxySessionTokenSecretRef": { "name": "mine" } });
    site.apply_spec(NAME, &spec).await;
    let is_free = |object: &Value| is_ready(object) && object["metadata"].get("finalizers").is_none();
    site.until("ready, and nothing left to remove", is_free).await;
    assert_eq!(site.names(), ["theirs"]);
    assert_left(&site).await;
}

/// A policy that refuses what is written beside the token of a proxy that is taken over.
#[tokio::test(flavor = "multi_thread")]
async fn a_proxy_of_others_keeps_its_token_where_the_secret_takes_not_all_that_is_written() {
    let site = Site::with_proxy("unmarked").await;
    site.apply(&json!({ "suspend": true })).await;
    site.until_reason("Suspended", "Suspended").await;
    site.coderd().remove_workspace_proxy(NAME);
    let theirs = site.coderd().add_workspace_proxy(NAME);
    let marks = "object.metadata.?annotations.orValue({})";
    site.refuse_writes(&format!("!('coder.com/adopted-proxy' in {marks}) && !('try' in {marks})")).await;
    // What it was tried with is refused as well.
    site.patch("secret", SECRET, &json!({ "metadata": { "annotations": { "try": null } } })).await;
    site.annotate("coder.com/adopt-proxy", NAME).await;
    site.apply(&json!({ "suspend": false })).await;
    let told = site.until_reason("ProxyTokenSecretReady", "SecretWriteFailed").await;
    assert!(text(condition(&told, "ProxyTokenSecretReady"), "/message").contains(SECRET), "{told}");
    assert_eq!((site.only().regenerations, site.coderd().token_of_proxy(NAME)), (0, Some(theirs)));
    site.allow_writes().await;
    site.comes().await;
    site.ready().await;
    assert_eq!(site.only().regenerations, 1);
}
